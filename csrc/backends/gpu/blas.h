// Matrix products by a vendor's library: cuBLASLt or, where that is missing, cuBLAS; hipBLASLt and rocBLAS.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "csrc/backends/common/matmul_problem.h"
#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/library.h"
#include "csrc/kernels/libraries.h"
#include "unihal/status.h"

namespace unihal::gpu {

// Workspace that a library is given for a product.
constexpr size_t kBlasWorkspace = size_t{32} << 20;

// What a library keeps for a stream. The device is current in all calls. Threads: as submissions, one at a time.
class BlasStream {
 public:
  virtual ~BlasStream() = default;

  // Submits a product that the library takes, with kBlasWorkspace bytes, by an algorithm or, if it cannot, the best
  // one. UHAL_UNIMPLEMENTED, with nothing submitted and without a report, if the library refuses it.
  virtual uhal_status run(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm, void* workspace) = 0;
};

// A library on a device. All functions from any thread.
class Blas {
 public:
  virtual ~Blas() = default;

  // "cuBLASLt 12.4".
  virtual const std::string& name() const = 0;

  // As kernels::GemmLibrary::takes().
  virtual bool takes(const MatmulProblem& problem) const = 0;

  // As kernels::GemmLibrary::line_bytes().
  virtual int64_t line_bytes(const MatmulProblem& /*problem*/) const { return 1; }

  // As kernels::GemmLibrary::algorithms(); the device is current.
  virtual int algorithms(const MatmulProblem& /*problem*/, kernels::LibraryAlgorithm* /*numbers*/) const { return 0; }

  // Whether its products need no other workspace than the one that they are given; else they cannot be in a graph,
  // which may outlive the stream.
  virtual bool uses_given_workspace() const { return true; }

  // Nothing of the device is touched before the first product. Throws std::bad_alloc.
  virtual std::unique_ptr<BlasStream> open_stream(NativeStream stream) = 0;
};

// The libraries of a device, the better ones first; the device is current. Those that are missing or that lack this
// card are left out; `notes` gets a line for each.
class BlasLibraries final : public kernels::GemmLibrary {
 public:
  void open(const LibraryDevice& device, LibraryNotes* notes);

  bool is_empty() const { return libraries_.empty(); }

  const char* name() const override { return name_.c_str(); }
  bool is_preferred() const override { return true; }
  bool takes(const MatmulProblem& problem) const override;
  size_t workspace_bytes() const override { return kBlasWorkspace; }
  int64_t line_bytes(const MatmulProblem& problem) const override;
  int algorithms(const MatmulProblem& problem, kernels::LibraryAlgorithm* numbers) const override;

 private:
  friend class BlasQueue;

  const Blas* first_for(const MatmulProblem& problem) const;

  std::function<void()> make_current_;

  std::vector<std::unique_ptr<Blas>> libraries_;
  std::string name_;
};

// What they keep for a stream.
class BlasQueue {
 public:
  // Throws std::bad_alloc.
  BlasQueue(const BlasLibraries& libraries, NativeStream stream);

  // As BlasStream::run, by the first library that does not refuse. Algorithms are those of the first that takes it.
  uhal_status run(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm, void* workspace,
                  bool is_captured = false);

 private:
  struct Entry {
    const Blas* library;
    std::unique_ptr<BlasStream> stream;
  };
  std::vector<Entry> entries_;
};

// Openers of each; nullptr, with the reason, where it cannot be used. blas_lt.cc, blas_cublas.cc, blas_rocblas.cc
std::unique_ptr<Blas> open_cublaslt(const LibraryDevice& device, std::string* refusal);
std::unique_ptr<Blas> open_cublas(const LibraryDevice& device, std::string* refusal);
std::unique_ptr<Blas> open_hipblaslt(const LibraryDevice& device, std::string* refusal);
std::unique_ptr<Blas> open_rocblas(const LibraryDevice& device, std::string* refusal);

}  // namespace unihal::gpu
