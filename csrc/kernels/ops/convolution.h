// A convolution between an op and the kernels that run it (convolution*.cc).
#ifndef UNIHAL_KERNELS_OPS_CONVOLUTION_H_
#define UNIHAL_KERNELS_OPS_CONVOLUTION_H_

#include "csrc/backends/common/convolution_problem.h"
#include "csrc/backends/common/matmul_problem.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/queue.h"
#include "csrc/kernels/tuning_choice.h"

namespace unihal::kernels {

inline constexpr int kSpatial = UHAL_MAX_SPATIAL;

// Multiplications that a GPU does while it moves a byte: 8 (H100) to 12 (RX 580).
inline constexpr double kProductsPerByte = 8;

// Which of the three ops.
enum class Pass : uint8_t { kForward, kBackwardData, kBackwardFilter };
Pass pass_of(const uhal_op& op);

// Strides are in elements. Axes: images, or filters of a group; channels of a group; three spatial ones (leading ones
// of length 1).
struct ConvolutionOperand {
  void* data = nullptr;  // NULL: absent
  uhal_dtype dtype = UHAL_FLOAT32;
  int64_t strides[2 + kSpatial] = {};
  int64_t group_stride = 0;  // from one group to the next
};

// Any of the three ops, told as a forward convolution:
//
//   result[n, row, i] = activation(bias[row] + sum over channels c and taps t of
//                                  source[n, c, first + i * stride + t * step] * filter[row, c, t])
//
// for each group, where pixels outside the source are zero. The gradient of the input is one too, or some (see
// for_each_phase), with the gradient of y as its source. The gradient of the filter has this geometry, and other
// operands as input and output.
struct Convolution {
  int64_t images, groups;
  int64_t channels, rows;  // of the source and of the result, per group
  int64_t input[kSpatial], window[kSpatial], output[kSpatial];
  int64_t first[kSpatial], stride[kSpatial], step[kSpatial];
  ConvolutionOperand source, filter, bias, result;  // bias: one stride, per row of all groups
  uhal_activation activation = UHAL_ACTIVATION_NONE;
  uhal_math_mode math_mode = UHAL_MATH_STRICT;  // another one only where source and filter are float32
  Compute compute = Compute::kFloat;

  int64_t taps() const { return window[0] * window[1] * window[2]; }
  int64_t pixels() const { return images * output[0] * output[1] * output[2]; }  // of the result
};

// What a library is asked for: a convolution as convolution_of() makes it, of the gradient of the input transposed. For
// the gradient of the filter it is written to convolution.filter.
struct ConvolutionTask {
  const Convolution& convolution;
  Pass pass;
  LibraryAlgorithm algorithm = kBestAlgorithm;  // where that cannot run it: the best one
};

// The convolution whose operands have these roles; `transposed`: its result and source have changed places, as in the
// gradient of the input, while window, stride and padding are still the forward ones.
Convolution convolution_of(const ConvolutionOperands& operands, const uhal_convolution_attributes& attributes,
                           bool transposed);

// The convolution that an op is on a device, which may not have its math mode.
Convolution convolution_of(const DeviceTraits& traits, const uhal_op& op, bool transposed);

// Whether neighbouring channels lie nearer in memory than neighbouring pixels (NHWC).
bool channels_last(const ConvolutionOperand& image, int64_t channels);

// Whether all offsets and counts of a convolution need 64 bits.
bool needs_wide_index(const Convolution& convolution);

// The gradient of the input of a convolution with stride: pixels whose coordinates leave the same remainders by the
// strides meet the same taps, and are a convolution of stride 1 of their own. Calls body(const Convolution&) for each
// until one fails.
template <class Body>
uhal_status for_each_phase(const Convolution& transposed, const Body& body);

// The number of phases; where there are more than kMostPhases, one that is larger. Each phase is a launch.
inline constexpr int64_t kMostPhases = 64;
int64_t phase_count(const Convolution& transposed);

// The phase with these remainders.
inline constexpr int64_t kNoRemainders[kSpatial] = {};
Convolution phase_of(const Convolution& transposed, const int64_t remainders[kSpatial]);

template <class Body>
uhal_status for_each_phase(const Convolution& transposed, const Body& body) {
  int64_t at[kSpatial];
  const auto end = [&](int axis) { return std::min(transposed.stride[axis], transposed.output[axis]); };
  for (at[0] = 0; at[0] < end(0); ++at[0]) {
    for (at[1] = 0; at[1] < end(1); ++at[1]) {
      for (at[2] = 0; at[2] < end(2); ++at[2]) {
        const uhal_status status = body(phase_of(transposed, at));
        if (status != UHAL_OK) return status;
      }
    }
  }
  return UHAL_OK;
}

// The members of a struct of the dialect's INDEX, one after the other.
class Members {
 public:
  Members& add(int64_t value) {
    values_[count_++] = value;
    return *this;
  }
  Members& add(const int64_t* values, int count) {
    for (int i = 0; i < count; ++i) add(values[i]);
    return *this;
  }
  int64_t* take(int count) {
    count_ += count;
    return values_ + count_ - count;
  }
  void append(Arguments& arguments, bool wide) const { append_indices(arguments, values_, count_, wide); }

 private:
  int count_ = 0;
  int64_t values_[64];
};

// -- convolution_algorithms.cc: the ways to run a convolution --------------------------------------------------
//
// In what follows, takes_...() says whether a device can run a convolution so, whatever data it is given (also NULL),
// and suits_...(), which implies it, whether that is expected to be the fastest way.

struct ConvolutionAlgorithm {
  const char* name;  // "winograd", for people
  bool (*takes)(const DeviceTraits& traits, const Convolution& convolution, Pass pass);
  uhal_status (*run)(Queue& queue, const Convolution& convolution, Pass pass);
};

// All of them. Their numbers are kept in the store of `unihal tune`: append only.
extern const ConvolutionAlgorithm kConvolutionAlgorithms[];
extern const int32_t kConvolutionAlgorithmCount;

// Runs a convolution with elements as it was chosen, if that takes it, else as suits it: by the vendor's library, if
// there is one that is expected to be the fastest way, or by our own kernels.
uhal_status convolve(Queue& queue, const Convolution& convolution, Pass pass, TuningChoice choice);

// What was chosen for an op: an algorithm that takes it or not.
TuningChoice chosen_algorithm(const DeviceTraits& traits, const uhal_op& op);

// -- convolution_gemm.cc: matrix products that gather the source -------------------------------------------

// The sizes of tile that there are kernels for.
inline constexpr int32_t kConvolutionTileCount = 7;
inline constexpr int32_t kFastestTile = -1;

bool takes_gemm(const DeviceTraits& traits);
bool takes_tile(const DeviceTraits& traits, const Convolution& convolution, int32_t tile);
bool suits_gemm(const DeviceTraits& traits, const Convolution& convolution);

// Whether a product with few tiles and many terms may be cut along the terms, through the workspace.
enum class Splitting : bool { kNever, kAllowed };

// Also a phase of the gradient of the input. `tile`: one that the device takes.
uhal_status convolve_by_gemm(Queue& queue, const Convolution& convolution, Splitting splitting = Splitting::kAllowed,
                             int32_t tile = kFastestTile);

// Writes convolution.filter from its source and result.
uhal_status filter_gradient_by_gemm(Queue& queue, const Convolution& convolution, int32_t tile = kFastestTile);

// -- convolution_pointwise.cc: windows of one pixel ---------------------------------------------------------

// The product of matrices that a convolution, also a phase, or the gradient of its filter is: false if it is none.
bool pointwise_product(const Convolution& convolution, MatmulProblem* problem);
bool pointwise_filter_product(const Convolution& convolution, MatmulProblem* problem);

// Whether the product is expected to be faster than one that gathers the source.
bool suits_pointwise(const Convolution& convolution, const MatmulProblem& product);

// The product that a convolution of one pixel with a stride, without padding, or one of its gradients is once the
// pixels that take part lie together: false if it is none. convolve_subsampled() moves them and runs it.
bool subsampled_product(const Convolution& convolution, Pass pass, MatmulProblem* product);
uhal_status convolve_subsampled(Queue& queue, const Convolution& convolution, Pass pass);

// Submits such a product, with workspace of its own.
uhal_status run_gemm(Queue& queue, const MatmulProblem& problem);

// -- convolution_winograd.cc: windows of 3 x 3 with stride 1, in float ------------------------------------

bool takes_winograd(const DeviceTraits& traits, const Convolution& convolution);
bool suits_winograd(const DeviceTraits& traits, const Convolution& convolution);

// Also a phase of the gradient of the input.
uhal_status convolve_by_winograd(Queue& queue, const Convolution& convolution);

// Of the gradient of the filter. What it takes has sums so long that the transforms cost no digits that matter.
bool takes_winograd_filter(const Convolution& convolution);
bool suits_winograd_filter(const Convolution& convolution);

// Writes convolution.filter from its source and result.
uhal_status filter_gradient_by_winograd(Queue& queue, const Convolution& convolution);

// -- convolution_direct.cc: no workspace, any geometry ---------------------------------------------------------

// What a kernel that writes the result without workspace is compiled for, and its first arguments: the filter, the
// source, the bias and the result.
void define_operands(KernelSpec& spec, const Convolution& convolution, bool wide);
Arguments operand_pointers(const Convolution& convolution);

uhal_status convolve_directly(Queue& queue, const Convolution& convolution, bool transposed);
uhal_status filter_gradient_directly(Queue& queue, const Convolution& convolution);

// -- convolution_depthwise.cc: each channel by a small window of its own ---------------------------------------

bool takes_depthwise(const DeviceTraits& traits, const Convolution& convolution, Pass pass);
bool suits_depthwise(const DeviceTraits& traits, const Convolution& convolution, Pass pass);
uhal_status convolve_depthwise(Queue& queue, const Convolution& convolution, Pass pass);

// -- convolution_library.cc: a vendor's library --------------------------------------------------------------

bool takes_library(const DeviceTraits& traits, const Convolution& convolution, Pass pass);
bool suits_library(const DeviceTraits& traits, const Convolution& convolution, Pass pass);

// Any pass. UHAL_UNIMPLEMENTED, without a report, where the library refuses it after all: what is to be written is then
// to be written anew.
uhal_status convolve_by_library(Queue& queue, const Convolution& convolution, Pass pass, LibraryAlgorithm algorithm);

// As ConvolutionLibrary::algorithms.
int library_algorithms(const DeviceTraits& traits, const Convolution& convolution, Pass pass,
                       LibraryAlgorithm* numbers);

// -- convolution_walk.cc: the struct Walk of prelude/convolution_walk.h ---------------------------------------

// Its members, in order: count, length[5], source_stride[5], other_stride[5], first[3], step[3].
inline constexpr int kWalkMembers = 22;

// Over the pixels of the result; the other operand is the result.
void walk_pixels(const Convolution& convolution, int64_t* members);

// Over the taps of all channels of a group; the other operand is the filter. Channels innermost or outermost.
void walk_taps(const Convolution& convolution, bool channels_innermost, int64_t* members);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_OPS_CONVOLUTION_H_
