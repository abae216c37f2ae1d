// Matrix products on a queue: what matmul, convolution and attention are made of.
//
//   MatmulProblem problem = ...;                 // device addresses, dtypes, strides: matmul_problem.h
//   Gemm gemm(queue.traits(), problem);          // chooses the kernel; nothing is submitted
//   queue.workspace(own_bytes + gemm.workspace_bytes(), &block);
//   gemm.run(queue, block + own_bytes);
//
// Operands: any strides, any dtype of real numbers, also mixed. c is read only if beta is not 0; a bias is a c of row
// or column stride 0, and c may be d itself. k may be 0: d = activation(beta * c). Products without elements launch
// nothing. Arithmetic as op.h says: in float64 if an operand is float64, else in float32 if one is floating, else in
// wrapping 64-bit integers.
#ifndef UNIHAL_KERNELS_GEMM_H_
#define UNIHAL_KERNELS_GEMM_H_

#include <optional>

#include "csrc/backends/common/matmul_problem.h"
#include "csrc/kernels/gemm_padding.h"
#include "csrc/kernels/gemm_tile.h"
#include "csrc/kernels/queue.h"
#include "csrc/kernels/tuning_choice.h"
#include "csrc/kernels/tuning_key.h"

namespace unihal::kernels {

// A place for the temporaries of a product that is planned before there is one, aligned as a workspace is.
inline void* const kSomewhere = reinterpret_cast<void*>(size_t{1} << 20);

class Gemm {
 public:
  // Whether a library may be given padded copies of the operands where that is faster; they take workspace.
  enum class Padding : uint8_t { kNever, kWhereFaster };

  // Simplifies the problem (batch axes joined, transposed where that is faster) and chooses how to run it.
  Gemm(const DeviceTraits& traits, const MatmulProblem& problem, Padding padding = Padding::kNever);

  // Device memory that run needs, a multiple of 256; 0 for most problems.
  size_t workspace_bytes() const;

  // Submits the product. `workspace` is workspace_bytes() of device memory aligned to 256, or NULL if that is 0.
  uhal_status run(Queue& queue, void* workspace) const;

  // Whether it takes a workspace for padded copies.
  bool is_padded() const { return padding_.has_value(); }

  // Whether a library runs it, with nothing of ours before it.
  bool is_by_library_at_once() const { return method_ == Method::kLibrary && !share_.copies_c && !is_padded(); }

  // What traits.tuning has choices of, by tuning_key(): products large enough for tiles, and those with a vector where
  // there is a library. Candidate 0 is the vendor's library, which our own kernels stand in for where it refuses; then
  // come kGemmTiles, in order, the kernel for vectors, and the library's algorithms from the second on.
  bool is_tunable() const { return is_tunable_; }
  TuningKey tuning_key() const;
  static int32_t candidate_count() { return way_count() + kMostGemmAlgorithms - 1; }
  static std::string candidate_name(const DeviceTraits& traits, int32_t number);
  bool find_choice(const DeviceTraits& traits, int32_t number, TuningChoice* choice) const;  // as Tunable::find

 private:
  enum class Method : uint8_t {
    kNothing,
    kPlain,    // gemm_plain.cl: element by element
    kVector,   // gemm_vector.cl: n is 1
    kBlock,    // gemm_block.cl: CPUs
    kTile,     // gemm_tile.cl
    kLibrary,  // Queue::library_gemm
  };

  // What a library leaves to kernels of ours: c, copied into d beforehand or added in a pass behind it, and the
  // activation of d, in the same pass.
  struct LibraryShare {
    bool copies_c = false;
    bool adds_c = false;
    bool activates = false;
  };

  static int32_t way_count() { return 2 + kGemmTileCount; }
  void plan_vector(const DeviceTraits& traits);
  void plan_large(const DeviceTraits& traits, Padding padding);
  TuningChoice chosen(const DeviceTraits& traits) const;
  bool is_usable(const DeviceTraits& traits, int32_t way) const;  // false also for one that does not exist
  void plan_own(const DeviceTraits& traits, int32_t tile);
  bool find_library_share(const DeviceTraits& traits, LibraryShare* share) const;
  MatmulProblem library_problem(const LibraryShare& share) const;
  size_t own_workspace_bytes() const;
  uhal_status run_own(Queue& queue, Method method, void* workspace) const;
  uhal_status run_library(Queue& queue, void* workspace) const;
  uhal_status run_padded(Queue& queue, void* workspace) const;
  uhal_status finish_library(Queue& queue) const;
  uhal_status run_plain(Queue& queue) const;
  uhal_status run_vector(Queue& queue, void* workspace) const;
  uhal_status run_block(Queue& queue) const;
  uhal_status run_tile(Queue& queue, void* workspace) const;
  uhal_status join_splits(Queue& queue, const void* workspace) const;
  KernelSpec spec(const Source& source) const;
  void append_operands(Arguments& arguments) const;

  MatmulProblem problem_;
  Compute compute_;
  Method method_;
  Method own_method_ = Method::kNothing;         // kLibrary: how it runs where the library refuses
  LibraryShare share_;                           // kLibrary
  std::optional<GemmPadding> padding_;           // kLibrary, where it is needed
  LibraryAlgorithm algorithm_ = kBestAlgorithm;  // kLibrary
  size_t library_workspace_ = 0;                 // kLibrary
  bool is_vector_ = false;                       // n is 1, and kVector takes it
  bool is_tunable_ = false;
  bool wide_;  // 64-bit indices
  int32_t group_size_;
  int32_t splits_ = 1;    // parts of k, each summed by groups of its own into the workspace
  int32_t tile_ = -1;     // kTile: a number of kGemmTiles
  bool along_k_ = false;  // kVector: the macros of gemm_vector.cl
  int32_t lanes_m_ = 1;
  int32_t lanes_k_ = 1;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_GEMM_H_
