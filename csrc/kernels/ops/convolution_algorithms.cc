// The ways to run a convolution, and which one is taken: what `unihal tune` chose, or what is expected to be fastest.
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "csrc/kernels/tuning.h"

namespace unihal::kernels {
namespace {

// -- as suits a convolution ------------------------------------------------------------------------------------

// A forward convolution, or a phase of the gradient of the input.
uhal_status convolve_by_products(Queue& queue, const Convolution& convolution) {
  MatmulProblem product;
  if (pointwise_product(convolution, &product) && suits_pointwise(convolution, product))
    return run_gemm(queue, product);
  return suits_winograd(queue.traits(), convolution) ? convolve_by_winograd(queue, convolution)
                                                     : convolve_by_gemm(queue, convolution);
}

uhal_status convolve_as_suits(Queue& queue, const Convolution& convolution, Pass pass) {
  const DeviceTraits& traits = queue.traits();
  if (suits_depthwise(traits, convolution, pass)) return convolve_depthwise(queue, convolution, pass);
  if (pass == Pass::kBackwardFilter) {
    MatmulProblem product;
    if (!suits_gemm(traits, convolution)) return filter_gradient_directly(queue, convolution);
    if (pointwise_filter_product(convolution, &product)) return run_gemm(queue, product);
    if (suits_winograd_filter(convolution)) return filter_gradient_by_winograd(queue, convolution);
    return filter_gradient_by_gemm(queue, convolution);
  }
  const bool is_transposed = pass == Pass::kBackwardData;
  if (!suits_gemm(traits, convolution) || (is_transposed && phase_count(convolution) > kMostPhases)) {
    return convolve_directly(queue, convolution, is_transposed);
  }
  if (!is_transposed) return convolve_by_products(queue, convolution);
  return for_each_phase(convolution, [&](const Convolution& phase) { return convolve_by_products(queue, phase); });
}

// -- the algorithms --------------------------------------------------------------------------------------------

// Whether one forward convolution makes the result, which `single` becomes. The gradient of the filter is none.
bool is_single_convolution(const Convolution& convolution, Pass pass, Convolution* single) {
  if (pass == Pass::kBackwardFilter || (pass == Pass::kBackwardData && phase_count(convolution) != 1)) return false;
  *single = pass == Pass::kForward ? convolution : phase_of(convolution, kNoRemainders);
  return true;
}

bool takes_direct(const DeviceTraits&, const Convolution&, Pass) { return true; }

uhal_status run_direct(Queue& queue, const Convolution& convolution, Pass pass) {
  return pass == Pass::kBackwardFilter ? filter_gradient_directly(queue, convolution)
                                       : convolve_directly(queue, convolution, pass == Pass::kBackwardData);
}

bool find_product(const Convolution& convolution, Pass pass, MatmulProblem* product) {
  if (pass == Pass::kBackwardFilter) return pointwise_filter_product(convolution, product);
  Convolution single;
  return is_single_convolution(convolution, pass, &single) && pointwise_product(single, product);
}

bool takes_pointwise(const DeviceTraits&, const Convolution& convolution, Pass pass) {
  MatmulProblem product;
  return find_product(convolution, pass, &product);
}

uhal_status run_pointwise(Queue& queue, const Convolution& convolution, Pass pass) {
  MatmulProblem product;
  find_product(convolution, pass, &product);
  return run_gemm(queue, product);
}

bool takes_subsampled(const DeviceTraits&, const Convolution& convolution, Pass pass) {
  MatmulProblem product;
  return subsampled_product(convolution, pass, &product);
}

bool takes_winograd_pass(const DeviceTraits& traits, const Convolution& convolution, Pass pass) {
  if (pass == Pass::kBackwardFilter) return takes_winograd_filter(convolution);
  Convolution single;
  return is_single_convolution(convolution, pass, &single) && takes_winograd(traits, single);
}

uhal_status run_winograd(Queue& queue, const Convolution& convolution, Pass pass) {
  if (pass == Pass::kBackwardFilter) return filter_gradient_by_winograd(queue, convolution);
  Convolution single;
  is_single_convolution(convolution, pass, &single);
  return convolve_by_winograd(queue, single);
}

template <int32_t kTile>
bool takes_gemm_tile(const DeviceTraits& traits, const Convolution& convolution, Pass pass) {
  static_assert(kTile < kConvolutionTileCount);
  return takes_tile(traits, convolution, kTile) &&
         (pass != Pass::kBackwardData || phase_count(convolution) <= kMostPhases);
}

template <int32_t kTile>
uhal_status run_gemm_tile(Queue& queue, const Convolution& convolution, Pass pass) {
  const auto run = [&](const Convolution& c) { return convolve_by_gemm(queue, c, Splitting::kAllowed, kTile); };
  if (pass == Pass::kBackwardFilter) return filter_gradient_by_gemm(queue, convolution, kTile);
  return pass == Pass::kForward ? run(convolution) : for_each_phase(convolution, run);
}

uhal_status run_library(Queue& queue, const Convolution& convolution, Pass pass) {
  return convolve_by_library(queue, convolution, pass, kBestAlgorithm);
}

}  // namespace

const ConvolutionAlgorithm kConvolutionAlgorithms[] = {
    {"direct", takes_direct, run_direct},
    {"pointwise", takes_pointwise, run_pointwise},
    {"winograd", takes_winograd_pass, run_winograd},
    {"gemm 128x128x8", takes_gemm_tile<0>, run_gemm_tile<0>},
    {"gemm 64x128x8", takes_gemm_tile<1>, run_gemm_tile<1>},
    {"gemm 128x64x8", takes_gemm_tile<2>, run_gemm_tile<2>},
    {"gemm 64x64x16", takes_gemm_tile<3>, run_gemm_tile<3>},
    {"gemm 64x64x8", takes_gemm_tile<4>, run_gemm_tile<4>},
    {"gemm 128x32x64", takes_gemm_tile<5>, run_gemm_tile<5>},
    {"gemm 64x32x32", takes_gemm_tile<6>, run_gemm_tile<6>},
    {"vendor library", takes_library, run_library},
    {"subsampled", takes_subsampled, convolve_subsampled},
    {"depthwise", takes_depthwise, convolve_depthwise},
};
const int32_t kConvolutionAlgorithmCount = sizeof kConvolutionAlgorithms / sizeof *kConvolutionAlgorithms;

namespace {

constexpr int32_t kPointwiseAlgorithm = 1;
constexpr int32_t kLibraryAlgorithm = 10;
constexpr int32_t kSubsampledAlgorithm = 11;

// Whether a convolution is a product that a library of products takes as readily as one of convolutions does, whose
// functions have the product to find besides: of ResNet-50's in bfloat16 (NHWC, 64 images, H100) cuDNN 9's took 140 to
// 310 us whatever their size, where the work is one of 10 to 50.
bool suits_library_product(const DeviceTraits& traits, const Convolution& convolution, Pass pass) {
  MatmulProblem product;
  return traits.gemm_library != nullptr && convolution.groups == 1 && find_product(convolution, pass, &product) &&
         (pass == Pass::kBackwardFilter || suits_pointwise(convolution, product)) &&
         Gemm(traits, product).is_by_library_at_once();
}

// The same of a gradient of one pixel with a stride: cuDNN 9.14 took 5.1 ms for one of 256 channels of 56x56 in TF32
// (NCHW, 64 images, H100), where the bytes take 0.1.
bool suits_library_product_of_a_part(const DeviceTraits& traits, const Convolution& convolution, Pass pass) {
  MatmulProblem product;
  return traits.gemm_library != nullptr && pass != Pass::kForward && convolution.groups == 1 &&
         subsampled_product(convolution, pass, &product) && Gemm(traits, product).is_by_library_at_once();
}

bool takes(const DeviceTraits& traits, const Convolution& convolution, Pass pass, int32_t algorithm) {
  return algorithm >= 0 && algorithm < kConvolutionAlgorithmCount &&
         kConvolutionAlgorithms[algorithm].takes(traits, convolution, pass);
}

}  // namespace

uhal_status convolve(Queue& queue, const Convolution& convolution, Pass pass, TuningChoice choice) {
  const DeviceTraits& traits = queue.traits();
  if (!takes(traits, convolution, pass, choice.candidate)) choice = {};
  if (choice.candidate < 0 && suits_library_product(traits, convolution, pass)) choice = kPointwiseAlgorithm;
  if (choice.candidate < 0 && suits_library_product_of_a_part(traits, convolution, pass)) choice = kSubsampledAlgorithm;
  if (choice.candidate >= 0 && choice.candidate != kLibraryAlgorithm) {
    return kConvolutionAlgorithms[choice.candidate].run(queue, convolution, pass);
  }
  if (choice.candidate == kLibraryAlgorithm || suits_library(traits, convolution, pass)) {
    const uhal_status status = convolve_by_library(queue, convolution, pass, choice.algorithm);
    if (status != UHAL_UNIMPLEMENTED) return status;
  }
  return convolve_as_suits(queue, convolution, pass);
}

TuningChoice chosen_algorithm(const DeviceTraits& traits, const uhal_op& op) {
  if (traits.tuning == nullptr || traits.tuning->is_empty()) return {};
  return traits.tuning->find(TuningKey::convolution(pass_of(op), convolution_of(traits, op, false)));
}

Tunable tunable_convolution(const DeviceTraits& traits, const uhal_op& op) {
  if (refuse_convolution(traits, op) != nullptr) return {};
  const ConvolutionOperands operands = convolution_operands(op);
  for (const uhal_tensor* view : {operands.x, operands.w, operands.y}) {
    for (int i = 0; i < view->rank; ++i) {
      if (view->shape[i] == 0) return {};
    }
  }
  Tunable tunable;
  tunable.key = TuningKey::convolution(pass_of(op), convolution_of(traits, op, false));
  if (tunable.key.is_none()) return {};
  tunable.candidates = kConvolutionAlgorithmCount + kMostConvolutionAlgorithms - 1;
  tunable.name = [](const DeviceTraits& device, int32_t number) -> std::string {
    const bool is_library = number >= kConvolutionAlgorithmCount || number == kLibraryAlgorithm;
    if (!is_library) return kConvolutionAlgorithms[number].name;
    const ConvolutionLibrary* const library = device.convolution_library;
    const std::string name = library != nullptr ? library->name() : kConvolutionAlgorithms[kLibraryAlgorithm].name;
    return number == kLibraryAlgorithm ? name : name + " #" + std::to_string(number - kConvolutionAlgorithmCount + 2);
  };
  tunable.find = [](const DeviceTraits& device, const uhal_op& given, int32_t number, TuningChoice* choice) {
    const Pass pass = pass_of(given);
    const Convolution convolution = convolution_of(device, given, pass == Pass::kBackwardData);
    const int32_t place = number - kConvolutionAlgorithmCount + 1;  // of the library's algorithms; the first is its way
    *choice = place > 0 ? kLibraryAlgorithm : number;
    if (!takes(device, convolution, pass, choice->candidate)) return false;
    if (place <= 0) return true;
    LibraryAlgorithm algorithms[kMostConvolutionAlgorithms];
    if (place >= library_algorithms(device, convolution, pass, algorithms)) return false;
    choice->algorithm = algorithms[place];
    return true;
  };
  return tunable;
}

}  // namespace unihal::kernels
