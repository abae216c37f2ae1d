#include <cmath>

#include "csrc/backends/common/implementation_note.h"
#include "stub/onednn/primitive.h"
#include "stub/ops/convolution.h"

namespace unihal::stub {

#if !defined(UNIHAL_STUB_ONEDNN)

bool convolution_with_onednn(const ConvolutionProblem&, uhal_status*) { return false; }

#else

namespace {

// The problem's layouts and windows as oneDNN wants them.
struct Described {
  explicit Described(const ConvolutionProblem& problem) : problem(problem) {
    const uhal_tensor& w = *problem.w;
    const int64_t groups = problem.attributes.groups;
    int64_t shape[UHAL_MAX_RANK];
    int64_t strides[UHAL_MAX_RANK];
    int rank = 0;
    if (groups > 1) {  // (O, I/groups, ...) is (groups, O/groups, I/groups, ...) there
      shape[rank] = groups;
      strides[rank++] = w.shape[0] / groups * w.strides[0];
    }
    for (int i = 0; i < w.rank; ++i) {
      shape[rank] = i == 0 ? w.shape[0] / groups : w.shape[i];
      strides[rank++] = w.strides[i];
    }
    filter = onednn_layout(rank, shape, strides);
    any_filter = onednn_any_layout(rank, shape);
    x = onednn_layout(problem.x->rank, problem.x->shape, problem.x->strides);
    y = onednn_layout(problem.y->rank, problem.y->shape, problem.y->strides);
    any_x = onednn_any_layout(problem.x->rank, problem.x->shape);
    any_y = onednn_any_layout(problem.y->rank, problem.y->shape);
    if (problem.bias != nullptr) {
      const int64_t stride = 1;
      bias = onednn_layout(1, problem.bias->shape, &stride);
    }
    for (int i = 0; i < problem.spatial(); ++i) {
      dilation[i] = problem.attributes.dilation[i] - 1;  // oneDNN counts the gaps
    }
  }

  const ConvolutionProblem& problem;
  OneDnnLayout x, y, filter, bias, any_x, any_y, any_filter;
  int64_t dilation[UHAL_MAX_SPATIAL];
};

OneDnnDescriptor forward_descriptor(const Described& described, const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t y,
                                    const_dnnl_memory_desc_t filter, dnnl_prop_kind_t propagation) {
  const uhal_convolution_attributes& window = described.problem.attributes;
  const OneDnnAttributes attributes = onednn_attributes(1, 0);
  dnnl_primitive_desc_t descriptor = nullptr;
  onednn()->dnnl_convolution_forward_primitive_desc_create(
      &descriptor, onednn()->engine, propagation, dnnl_convolution_direct, x, filter, described.bias.get(), y,
      window.stride, described.dilation, window.pad_before, window.pad_after, attributes.get());
  return OneDnnDescriptor(descriptor);
}

// Whether the filter may stay as it is, with the output channels innermost beside images with theirs innermost, rather
// than be copied into oneDNN's blocks in each run. Measured over ResNet-50: as fast as blocks, but for the few input
// channels of a first layer and strides under one tap.
bool keeps_filter(const ConvolutionProblem& problem) {
  constexpr int64_t kFewChannels = 16;
  const uhal_tensor& w = *problem.w;
  if (problem.attributes.groups != 1 || w.shape[1] < kFewChannels || !channels_last(image_order(*problem.x)) ||
      !channels_last(image_order(*problem.y))) {
    return false;
  }
  AxisOrder order;
  order.rank = w.rank;
  int64_t taps = 1;
  bool dense = true;
  for (int i = 2; i < w.rank; ++i) {
    order.axes[i - 2] = i;
    taps *= w.shape[i];
    dense &= problem.attributes.stride[i - 2] == 1;
  }
  order.axes[w.rank - 2] = 1;
  order.axes[w.rank - 1] = 0;
  return is_packed(w, order) && (taps > 1 || dense);
}

// Only oneDNN's newer kernels take a filter so without loss.
bool is_fast_with_plain_filter(const OneDnnDescriptor& descriptor) {
  const char* implementation = "";
  if (descriptor == nullptr) return false;
  onednn()->dnnl_primitive_desc_query(descriptor.get(), dnnl_query_impl_info_str, 0, &implementation);
  return std::strncmp(implementation, "brgconv", 7) == 0;
}

OneDnnDescriptor descriptor_of(const Described& described, bool blocked) {
  const_dnnl_memory_desc_t x = (blocked ? described.any_x : described.x).get();
  const_dnnl_memory_desc_t y = (blocked ? described.any_y : described.y).get();
  if (described.problem.kind == UHAL_OP_CONVOLUTION) {
    if (!blocked && keeps_filter(described.problem)) {
      OneDnnDescriptor kept = forward_descriptor(described, x, y, described.filter.get(), dnnl_forward_inference);
      if (is_fast_with_plain_filter(kept)) return kept;
    }
    return forward_descriptor(described, x, y, described.any_filter.get(), dnnl_forward_inference);
  }
  const OneDnnDescriptor hint = forward_descriptor(described, x, y, described.any_filter.get(), dnnl_forward_training);
  if (hint == nullptr) return nullptr;
  const uhal_convolution_attributes& window = described.problem.attributes;
  const OneDnnAttributes attributes = onednn_attributes(1, 0);
  dnnl_primitive_desc_t descriptor = nullptr;
  if (described.problem.kind == UHAL_OP_CONVOLUTION_BACKWARD_DATA) {
    onednn()->dnnl_convolution_backward_data_primitive_desc_create(
        &descriptor, onednn()->engine, dnnl_convolution_direct, x, described.any_filter.get(), y, window.stride,
        described.dilation, window.pad_before, window.pad_after, hint.get(), attributes.get());
  } else {
    onednn()->dnnl_convolution_backward_weights_primitive_desc_create(
        &descriptor, onednn()->engine, dnnl_convolution_direct, x, described.any_filter.get(), described.bias.get(), y,
        window.stride, described.dilation, window.pad_before, window.pad_after, hint.get(), attributes.get());
  }
  return OneDnnDescriptor(descriptor);
}

// In the order of data_of().
std::vector<OneDnnArgument> arguments_of(Described& described) {
  std::vector<OneDnnArgument> arguments;
  const bool has_bias = described.bias != nullptr;
  switch (described.problem.kind) {
    case UHAL_OP_CONVOLUTION:
      arguments.push_back({DNNL_ARG_SRC, std::move(described.x), false});
      arguments.push_back({DNNL_ARG_WEIGHTS, std::move(described.filter), false});
      arguments.push_back({DNNL_ARG_DST, std::move(described.y), true});
      if (has_bias) arguments.push_back({DNNL_ARG_BIAS, std::move(described.bias), false});
      break;
    case UHAL_OP_CONVOLUTION_BACKWARD_DATA:
      arguments.push_back({DNNL_ARG_DIFF_SRC, std::move(described.x), true});
      arguments.push_back({DNNL_ARG_WEIGHTS, std::move(described.filter), false});
      arguments.push_back({DNNL_ARG_DIFF_DST, std::move(described.y), false});
      break;
    default:
      arguments.push_back({DNNL_ARG_SRC, std::move(described.x), false});
      arguments.push_back({DNNL_ARG_DIFF_WEIGHTS, std::move(described.filter), true});
      arguments.push_back({DNNL_ARG_DIFF_DST, std::move(described.y), false});
      if (has_bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, std::move(described.bias), true});
  }
  return arguments;
}

int64_t multiplications(const ConvolutionProblem& problem) {
  int64_t count = element_count(*problem.y);
  for (int axis = 1; axis < problem.w->rank; ++axis) count *= problem.w->shape[axis];
  return count;
}

// Whether oneDNN runs kernels for AVX-512, which it may be told not to.
bool has_avx512() {
  static const bool has =
      (onednn()->dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  return has;
}

// What a convolution of images with channels outermost costs, in the time of a multiplication in a large product.
// Measured with AVX-512 over 80 shapes of one to three dimensions, with one and with two threads, and over ResNet-18's
// of 1x1 to 8x8 pixels.
struct Costs {
  double plain;    // a matrix product over unfolded images
  double blocked;  // oneDNN's blocks of 16 channels, into and out of which everything is copied
};

Costs costs_of(const ConvolutionProblem& problem) {
  constexpr double kBlock = 16;
  constexpr double kCopied = 50;  // an element
  const bool to_filter = problem.kind == UHAL_OP_CONVOLUTION_BACKWARD_FILTER;
  const double unfolded = to_filter ? 100 : 54;       // an element of an unfolded image
  const double narrow = to_filter ? 2 : 16;           // a product for each image, of as many columns as it has pixels
  const double multiplied = to_filter ? 0.95 : 0.82;  // a multiplication in blocks
  const auto groups = static_cast<double>(problem.attributes.groups);
  const auto into = static_cast<double>(problem.w->shape[1]);
  const double out_of = static_cast<double>(problem.w->shape[0]) / groups;
  const auto filled = [](double channels) { return std::ceil(channels / kBlock) * kBlock / channels; };
  // Of up to 3 channels oneDNN reads images as they are, and writes them in blocks.
  const bool first_layer = groups == 1 && into <= 3 && problem.kind != UHAL_OP_CONVOLUTION_BACKWARD_DATA;
  const auto count = static_cast<double>(multiplications(problem));
  double pixels = 1;
  for (int i = 2; i < problem.y->rank; ++i) pixels *= static_cast<double>(problem.y->shape[i]);
  const auto elements =
      static_cast<double>(element_count(*problem.x) + element_count(*problem.w) + element_count(*problem.y));
  return {count * (1 + unfolded / out_of) * (1 + narrow / pixels),
          count * multiplied * filled(out_of) * (first_layer ? 1 : filled(into)) + elements * kCopied};
}

// Whether images are worth copying into the blocked layout that oneDNN likes best. Measured over ResNet-50: layouts
// with channels innermost never are, nor are filters of one tap, of which a product needs no unfolding; with channels
// outermost and AVX2, large images gain a quarter to a half.
bool wants_blocked_images(const ConvolutionProblem& problem) {
  constexpr int64_t kLargeImage = 2048;  // pixels
  constexpr int64_t kFewChannels = 16;
  constexpr double kGain = 0.9;
  const bool channels_outermost = problem.x->shape[1] > 1 && problem.x->strides[1] != 1;
  int64_t pixels = 1;
  int64_t taps = 1;
  bool dense = true;
  for (int i = 0; i < problem.spatial(); ++i) {
    pixels *= problem.x->shape[2 + i];
    taps *= problem.w->shape[2 + i];
    dense &= problem.attributes.stride[i] == 1;
  }
  if (!channels_outermost || taps == 1) return false;
  // A filter of one channel for each is no product at all: vectors are made of channels, which lie side by side in
  // blocks.
  if (problem.attributes.groups > 1 && problem.w->shape[1] == 1) return true;
  if (has_avx512()) {
    const Costs costs = costs_of(problem);
    return costs.blocked < kGain * costs.plain;
  }
  if (pixels < kLargeImage) return false;
  return problem.kind != UHAL_OP_CONVOLUTION_BACKWARD_DATA || (dense && problem.x->shape[1] >= kFewChannels);
}

std::unique_ptr<OneDnnPrimitive> build(const void* context) {
  const ConvolutionProblem& problem = *static_cast<const ConvolutionProblem*>(context);
  Described described(problem);
  OneDnnDescriptor descriptor = descriptor_of(described, wants_blocked_images(problem));
  return OneDnnPrimitive::create(std::move(descriptor), arguments_of(described));
}

OneDnnSignature signature_of(const ConvolutionProblem& problem) {
  const uhal_convolution_attributes& window = problem.attributes;
  OneDnnSignature signature(problem.kind);
  signature.add(problem.x);
  signature.add(problem.w);
  signature.add(problem.y);
  signature.add(problem.bias != nullptr);
  signature.add(window.groups);
  for (const int64_t* numbers : {window.stride, window.dilation, window.pad_before, window.pad_after}) {
    signature.add(numbers, problem.spatial());
  }
  return signature;
}

}  // namespace

bool convolution_with_onednn(const ConvolutionProblem& problem, uhal_status* status) {
  if (onednn() == nullptr) return false;
  const OneDnnThreads threads(multiplications(problem));
  const OneDnnPrimitive* primitive = onednn_primitive(signature_of(problem), build, &problem);
  if (primitive == nullptr) return false;
  void* const data[] = {problem.x->data, problem.w->data, problem.y->data,
                        problem.bias != nullptr ? problem.bias->data : nullptr};
  note_implementation(host(), "%s", onednn_description());
  *status = primitive->execute(data);
  if (*status == UHAL_OK && problem.kind == UHAL_OP_CONVOLUTION) {
    *status = activate_in_place(problem.attributes.activation, *problem.y);
  }
  return true;
}

#endif  // UNIHAL_STUB_ONEDNN

}  // namespace unihal::stub
