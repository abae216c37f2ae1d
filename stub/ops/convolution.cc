#include "stub/ops/convolution.h"

#include <algorithm>

#include "csrc/backends/common/convolution_problem.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/implementation_note.h"
#include "stub/ops/matmul.h"

namespace unihal::stub {
namespace {

// The staged view, packed in an order, with strides that say so even along axes of length 1.
uhal_tensor packed(Staging& staging, const uhal_tensor& view, uhal_dtype dtype, const AxisOrder& order, bool result) {
  const uhal_tensor* staged = result ? staging.write(&view, dtype, &order) : staging.read(&view, dtype, &order);
  uhal_tensor described = staged != nullptr ? *staged : view;
  set_packed_strides(described, order);
  return described;
}

// Whether channels innermost and channels outermost are the same in memory: of one channel, or of one pixel.
bool lies_alike(const uhal_tensor& view) {
  return view.shape[1] == 1 || std::all_of(view.shape + 2, view.shape + view.rank, [](int64_t n) { return n == 1; });
}

// The order of a view of images that meets `other` in a convolution, which is fastest where both sides agree; oneDNN
// has no fast one where they do not.
AxisOrder image_order_beside(const uhal_tensor& view, const uhal_tensor& other) {
  const AxisOrder own = image_order(view);
  if (view.rank != other.rank || !lies_alike(view)) return own;
  const AxisOrder of_other = image_order(other);
  return lies_alike(other) ? row_major(view.rank) : of_other;
}

uhal_status set_to_zero(const Launch& launch, const uhal_tensor* view) {
  if (view == nullptr) return UHAL_OK;
  uhal_op fill = {};
  fill.struct_size = sizeof fill;
  fill.kind = UHAL_OP_FILL;
  fill.output_count = 1;
  fill.outputs = &view;
  return run_generate({fill, launch.stream});
}

// dbias where there is nothing to multiply: the sum of dy over all axes but that of the channels.
uhal_status sum_per_channel(const Launch& launch, const uhal_tensor& dy, const uhal_tensor* dbias) {
  if (dbias == nullptr) return UHAL_OK;
  uhal_tensor sums = *dbias;
  sums.rank = dy.rank;
  for (int i = 0; i < dy.rank; ++i) {
    sums.shape[i] = i == 1 ? dbias->shape[0] : 1;
    sums.strides[i] = i == 1 ? dbias->strides[0] : 0;
  }
  const uhal_tensor* inputs[] = {&dy};
  const uhal_tensor* outputs[] = {&sums};
  uhal_op reduce = {};
  reduce.struct_size = sizeof reduce;
  reduce.kind = UHAL_OP_REDUCE;
  reduce.input_count = reduce.output_count = 1;
  reduce.inputs = inputs;
  reduce.outputs = outputs;
  return run_reduce({reduce, launch.stream});
}

// Leaves out the taps that meet nothing but padding, which an image of few pixels has under most of a window. False,
// with nothing changed, where all of them meet a pixel, or none does.
bool crop_taps(const uhal_tensor& x, const uhal_tensor& y, uhal_tensor* w, uhal_convolution_attributes* window) {
  uhal_tensor part = *w;
  uhal_convolution_attributes attributes = *window;
  bool crops = false;
  for (int axis = 2; axis < x.rank; ++axis) {
    const int i = axis - 2;
    const int64_t taps = w->shape[axis], step = window->dilation[i];
    const auto meets = [&](int64_t tap) {
      for (int64_t place = 0; place < y.shape[axis]; ++place) {
        const int64_t pixel = place * window->stride[i] - window->pad_before[i] + tap * step;
        if (pixel >= 0 && pixel < x.shape[axis]) return true;
      }
      return false;
    };
    int64_t first = 0, last = taps - 1;
    while (first < last && !meets(first)) ++first;
    while (last > first && !meets(last)) --last;
    if (!meets(first)) return false;
    attributes.pad_before[i] -= first * step;
    attributes.pad_after[i] -= (taps - 1 - last) * step;
    if (attributes.pad_before[i] < 0 || attributes.pad_after[i] < 0) return false;
    part.data = static_cast<char*>(part.data) + first * w->strides[axis] * dtype_size(w->dtype);
    part.shape[axis] = last - first + 1;
    crops |= part.shape[axis] < taps;
  }
  if (!crops) return false;
  *w = part;
  *window = attributes;
  return true;
}

// The gradient of images with channels outermost through a filter of one tap is the product of the filter's transpose
// and each image of dy, of which matrix products know faster ways.
bool is_product_with_transposed_filter(const ConvolutionProblem& problem) {
  const uhal_convolution_attributes& attributes = problem.attributes;
  if (problem.kind != UHAL_OP_CONVOLUTION_BACKWARD_DATA || attributes.groups != 1 || lies_alike(*problem.x))
    return false;
  for (int i = 0; i < problem.spatial(); ++i) {
    if (problem.w->shape[2 + i] != 1 || attributes.stride[i] != 1 || attributes.pad_before[i] != 0 ||
        attributes.pad_after[i] != 0) {
      return false;
    }
  }
  return is_packed(*problem.x, row_major(problem.x->rank)) && is_packed(*problem.y, row_major(problem.y->rank));
}

uhal_status multiply_with_transposed_filter(const ConvolutionProblem& problem) {
  const uhal_tensor &x = *problem.x, &w = *problem.w, &y = *problem.y;
  MatmulProblem product;
  product.m = x.shape[1];
  product.k = y.shape[1];
  product.n = 1;
  for (int i = 0; i < problem.spatial(); ++i) product.n *= x.shape[2 + i];
  product.batch_rank = 1;
  product.batch[0] = x.shape[0];
  product.operands[kMatmulA] = {w.data, w.dtype, w.strides[1], w.strides[0], {0}};
  product.operands[kMatmulB] = {y.data, y.dtype, product.n, 1, {product.k * product.n}};
  product.operands[kMatmulD] = {x.data, x.dtype, product.n, 1, {product.m * product.n}};
  return matmul_float32(product);
}

// A convolution of bytes as such. False, with *status untouched, if it is to run on wider numbers.
bool run_on_bytes(const Launch& launch, const ConvolutionOperands& given, ConvolutionProblem problem,
                  uhal_status* status) {
  Staging staging(launch);
  const uhal_tensor x = packed(staging, *given.x, given.x->dtype, image_order_beside(*given.x, *given.y), false);
  const uhal_tensor y = packed(staging, *given.y, UHAL_INT32, image_order_beside(*given.y, *given.x), true);
  uhal_tensor bias;
  if (given.bias != nullptr) bias = packed(staging, *given.bias, UHAL_INT32, row_major(1), false);
  if (staging.status() != UHAL_OK) {
    *status = staging.status();
    return true;
  }
  problem.x = &x;
  problem.w = given.w;
  problem.y = &y;
  problem.bias = given.bias != nullptr ? &bias : nullptr;
  if (!convolution_of_bytes(staging, problem, status)) return false;
  if (*status == UHAL_OK) *status = staging.finish();
  return true;
}

}  // namespace

const char* refuse_convolution(const uhal_op& op) { return refuse_convolution_operands(op); }

uhal_status run_convolution(const Launch& launch) {
  const uhal_op& op = launch.op;
  ConvolutionOperands given = convolution_operands(op);
  ConvolutionProblem problem;
  problem.kind = op.kind;
  problem.attributes = convolution_attributes(op);
  const bool forward = op.kind == UHAL_OP_CONVOLUTION;
  const bool to_x = op.kind == UHAL_OP_CONVOLUTION_BACKWARD_DATA;
  const bool to_filter = op.kind == UHAL_OP_CONVOLUTION_BACKWARD_FILTER;
  const bool empty = element_count(*given.x) == 0 || element_count(*given.w) == 0 || element_count(*given.y) == 0;
  if (empty && !forward) {  // sums over nothing
    const uhal_status status = set_to_zero(launch, to_x ? given.x : given.w);
    return status == UHAL_OK && to_filter ? sum_per_channel(launch, *given.y, given.bias) : status;
  }
  if (element_count(*given.y) == 0) return UHAL_OK;
  uhal_status status = UHAL_OK;
  if (!empty && is_integer_convolution(given) && run_on_bytes(launch, given, problem, &status)) return status;

  uhal_tensor part = *given.w;
  if (!empty && is_floating(part.dtype) && crop_taps(*given.x, *given.y, &part, &problem.attributes)) {
    if (to_filter && (status = set_to_zero(launch, given.w)) != UHAL_OK) return status;
    given.w = &part;
  }
  const uhal_dtype dtype = !is_integer_convolution(given) ? arithmetic_dtype(op)
                           : is_exact_in_float32(given)   ? UHAL_FLOAT32
                                                          : UHAL_FLOAT64;
  Staging staging(launch);
  const uhal_tensor x = packed(staging, *given.x, dtype, image_order_beside(*given.x, *given.y), to_x);
  const uhal_tensor w = packed(staging, *given.w, dtype, memory_order(*given.w), to_filter);
  const uhal_tensor y = packed(staging, *given.y, dtype, image_order_beside(*given.y, *given.x), forward);
  uhal_tensor bias;
  if (given.bias != nullptr) bias = packed(staging, *given.bias, dtype, row_major(1), to_filter);
  if (staging.status() != UHAL_OK) return staging.status();
  problem.x = &x;
  problem.w = &w;
  problem.y = &y;
  problem.bias = given.bias != nullptr ? &bias : nullptr;

  if (dtype == UHAL_FLOAT64) {
    note_implementation(host(), "built-in gemm");
    status = convolution_with_gemm<double>(staging, problem);
  } else if (!empty && convolution_of_little(problem)) {
    status = UHAL_OK;
  } else if (!empty && is_product_with_transposed_filter(problem)) {
    status = multiply_with_transposed_filter(problem);
  } else if (empty || !convolution_with_onednn(problem, &status)) {
    note_implementation(host(), "built-in gemm");
    status = convolution_with_gemm<float>(staging, problem);
  }
  return status == UHAL_OK ? staging.finish() : status;
}

}  // namespace unihal::stub
