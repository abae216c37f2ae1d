// The rules of each op kind (op.h): one sound example of every kind, and what each refuses.
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

// Operands of a call of uhal_supports, which needs no memory.
struct Call {
  uhal_op_kind kind = UHAL_OP_INVALID;
  std::vector<uhal_tensor> inputs;  // dtype UHAL_DTYPE_INVALID: absent
  std::vector<uhal_tensor> outputs;
  std::function<const void*()> attributes = [] { return nullptr; };
};

// A dense view; short, since the tables below consist of it.
uhal_tensor t(std::initializer_list<int64_t> shape, uhal_dtype dtype = UHAL_FLOAT32) {
  uhal_tensor t = {sizeof t, nullptr, dtype, 0, {}, {}};
  for (int64_t length : shape) t.shape[t.rank++] = length;
  int64_t stride = 1;
  for (int i = t.rank - 1; i >= 0; stride *= t.shape[i--]) t.strides[i] = stride;
  return t;
}

const uhal_tensor kAbsent = {};

// Attributes that live as long as the call: with(attributes) makes the function that Call wants.
template <class Attributes>
std::function<const void*()> with(Attributes attributes) {
  return [attributes]() -> const void* { return &attributes; };
}

uhal_status supports(uhal_device* device, const Call& call) {
  std::vector<const uhal_tensor*> inputs, outputs;
  for (const uhal_tensor& t : call.inputs) inputs.push_back(t.dtype != UHAL_DTYPE_INVALID ? &t : nullptr);
  for (const uhal_tensor& t : call.outputs) outputs.push_back(t.dtype != UHAL_DTYPE_INVALID ? &t : nullptr);
  uhal_op op = {sizeof op,
                call.kind,
                static_cast<int32_t>(inputs.size()),
                static_cast<int32_t>(outputs.size()),
                0,
                inputs.data(),
                outputs.data(),
                call.attributes(),
                nullptr};
  return uhal_supports(device, &op);
}

// -- attributes of the examples -------------------------------------------------------------------------

uhal_convolution_attributes convolution(int64_t stride = 1, int64_t pad = 0, int64_t dilation = 1, int64_t groups = 1) {
  return {sizeof(uhal_convolution_attributes),
          {stride, stride, stride},
          {dilation, dilation, dilation},
          {pad, pad, pad},
          {pad, pad, pad},
          groups,
          UHAL_ACTIVATION_NONE,
          0};
}
uhal_convolution_attributes in_math_mode(uhal_math_mode math_mode) {
  uhal_convolution_attributes attributes = convolution();
  attributes.math_mode = math_mode;
  return attributes;
}
uhal_pool_attributes pool(uhal_pool_mode mode, int64_t window, int64_t stride, int64_t pad = 0, int32_t adaptive = 0) {
  return {sizeof(uhal_pool_attributes),
          mode,
          adaptive,
          {window, window, window},
          {stride, stride, stride},
          {pad, pad, pad},
          {pad, pad, pad}};
}
uhal_norm_attributes norm(int32_t axis, int64_t groups = 1, int32_t inference = 0) {
  return {sizeof(uhal_norm_attributes), 1e-5, 0.9, inference, 0, axis, UHAL_ACTIVATION_NONE, groups};
}
uhal_index_attributes indexing(int32_t axis, int32_t batch = 0, uhal_reduction reduction = UHAL_REDUCE_NONE) {
  return {sizeof(uhal_index_attributes), axis, batch, reduction, 0, 0, 0};
}
uhal_segment_attributes segments(uhal_reduction reduction, uhal_segment_form form) {
  return {sizeof(uhal_segment_attributes), reduction, form, 0, 0, 0, 0};
}
uhal_random_attributes random(uhal_distribution distribution, double a, double b) {
  return {sizeof(uhal_random_attributes), distribution, 0, 1, {0, 0}, a, b};
}
uhal_matmul_quantized_attributes quantized(int32_t bits, int64_t block_size) {
  return {sizeof(uhal_matmul_quantized_attributes), bits, UHAL_ACTIVATION_NONE, block_size, 0};
}
uhal_random_distribution_attributes distribution(uhal_parameter_distribution which) {
  return {sizeof(uhal_random_distribution_attributes), which, 0, 1, {0, 0}};
}
uhal_resize_attributes resize(double scale) {
  return {sizeof(uhal_resize_attributes), UHAL_RESIZE_NEAREST, 0, 0, 0, {scale, scale, scale}};
}
uhal_axis_attributes along(int32_t axis) { return {sizeof(uhal_axis_attributes), axis, 0}; }
uhal_scan_attributes scan(int32_t axis, uhal_reduction reduction) {
  return {sizeof(uhal_scan_attributes), axis, reduction, 0, 0};
}
uhal_fft_attributes fft(std::vector<int32_t> axes, uhal_fft_normalization normalization = UHAL_FFT_UNSCALED) {
  uhal_fft_attributes attributes = {sizeof attributes, UHAL_FFT_INVERSE, normalization, 0, {}};
  for (int32_t axis : axes) attributes.axes[attributes.axis_count++] = axis;
  return attributes;
}
// relu(x0 + x1), and the sum
uhal_map_chain_attributes chain() {
  uhal_map_chain_attributes attributes = {sizeof attributes, 2, {3, 2}, {}, {{0, 1}, {2}}, 0, {}};
  attributes.functions[0] = uhal_map_function_find("add");
  attributes.functions[1] = uhal_map_function_find("relu");
  return attributes;
}
uhal_ctc_attributes ctc(int32_t blank) { return {sizeof(uhal_ctc_attributes), blank, 0}; }
uhal_rnn_attributes rnn(uhal_rnn_mode mode, int32_t reverse = 0, double clip = 0) {
  return {sizeof(uhal_rnn_attributes), mode, reverse, clip, UHAL_MATH_STRICT, 0};
}
uhal_softmax_attributes softmax(int32_t axis) { return {sizeof(uhal_softmax_attributes), axis, 0}; }

// -- sound examples, by kind ------------------------------------------------------------------------------

const auto I64 = UHAL_INT64;
const auto C64 = UHAL_COMPLEX64;

std::vector<Call> sound_calls() {
  return {
      {UHAL_OP_MAP,
       {t({4, 6}), t({6}, UHAL_FLOAT16)},
       {t({4, 6})},
       with(uhal_map_attributes{sizeof(uhal_map_attributes), uhal_map_function_find("add")})},
      {UHAL_OP_MAP_CHAIN, {t({4, 6}), t({6}, UHAL_FLOAT16)}, {t({4, 6}), t({4, 6}, UHAL_BOOL)}, with(chain())},
      {UHAL_OP_COPY, {t({1, 6}, I64)}, {t({4, 6}, I64)}},
      {UHAL_OP_CAST, {t({4, 6}, UHAL_COMPLEX64)}, {t({4, 6})}},
      {UHAL_OP_FILL, {}, {t({}, UHAL_BOOL)}},
      {UHAL_OP_IOTA, {}, {t({2, 3}, I64)}},
      {UHAL_OP_TRIANGULAR, {t({2, 3, 4})}, {t({2, 3, 4})}},
      {UHAL_OP_GATHER, {t({5, 6, 7}), t({2, 3}, I64)}, {t({5, 2, 3, 7})}, with(indexing(1))},
      {UHAL_OP_GATHER, {t({5, 6, 7}), t({5, 3}, UHAL_INT32)}, {t({5, 3, 7})}, with(indexing(1, 1))},
      {UHAL_OP_SCATTER, {t({3}, I64), t({5, 3, 7})}, {t({5, 6, 7})}, with(indexing(1, 0, UHAL_REDUCE_SUM))},
      {UHAL_OP_GATHER_ND, {t({5, 6, 7}), t({4, 2}, I64)}, {t({4, 7})}},
      {UHAL_OP_SCATTER_ND, {t({4, 3}, I64), t({4})}, {t({5, 6, 7})}},
      {UHAL_OP_GATHER_ELEMENTS, {t({5, 6}), t({5, 9}, I64)}, {t({5, 9})}, with(indexing(1))},
      {UHAL_OP_SCATTER_ELEMENTS, {t({4, 9}, I64), t({4, 9})}, {t({5, 6})}, with(indexing(1))},
      {UHAL_OP_ONE_HOT, {t({4, 5}, I64)}, {t({4, 10, 5})}, with(indexing(1))},
      {UHAL_OP_SEGMENT_REDUCE, {t({5, 6}), t({5}, I64)}, {t({3, 6}), t({3}, I64)}},
      {UHAL_OP_SEGMENT_REDUCE, {t({5, 6}), t({4}, I64), t({4}, UHAL_INT32), t({4})}, {t({3, 6})}},
      {UHAL_OP_SEGMENT_REDUCE,
       {t({5}), t({4}, I64), t({9}, I64), kAbsent},
       {t({3}), t({3}, UHAL_INT32)},
       with(segments(UHAL_REDUCE_MEAN, UHAL_SEGMENT_OFFSETS))},
      {UHAL_OP_REDUCE, {t({4, 5, 6})}, {t({4, 1, 6})}},
      {UHAL_OP_ARG_REDUCE, {t({4, 5})}, {t({4, 1}, I64)}, with(along(1))},
      {UHAL_OP_SCAN, {t({4, 5})}, {t({4, 5})}, with(scan(1, UHAL_REDUCE_PRODUCT))},
      {UHAL_OP_SCAN, {t({4, 5})}, {t({4, 5})}, with(scan(1, UHAL_REDUCE_LOG_SUM_EXP))},
      {UHAL_OP_SCAN, {t({4, 5})}, {t({4, 5}), t({4, 5}, I64)}, with(scan(1, UHAL_REDUCE_MAXIMUM))},
      {UHAL_OP_TOP_K, {t({4, 5})}, {t({4, 3}), t({4, 3}, UHAL_INT32)}, with(along(1))},
      {UHAL_OP_MATMUL, {t({2, 1, 3, 4}), t({5, 4, 6}), t({6})}, {t({2, 5, 3, 6})}},
      {UHAL_OP_TRIANGULAR_SOLVE,
       {t({3, 4, 4}), t({2, 1, 4, 5})},
       {t({2, 3, 4, 5}), t({3}, UHAL_INT32)},
       with(uhal_triangular_solve_attributes{sizeof(uhal_triangular_solve_attributes), 1, 1, 1, 0})},
      {UHAL_OP_CHOLESKY, {t({2, 4, 4}, C64)}, {t({2, 4, 4}, C64), t({2}, UHAL_INT32)}},
      {UHAL_OP_LU, {t({2, 4, 6})}, {t({2, 4, 6}), t({2, 4}, UHAL_INT32), t({2, 4}, UHAL_INT32), t({2}, UHAL_INT32)}},
      {UHAL_OP_LU, {t({6, 4})}, {t({6, 4}), t({4}, UHAL_INT32), t({6}, UHAL_INT32), t({}, UHAL_INT32)}},
      {UHAL_OP_QR, {t({2, 6, 4})}, {t({2, 4, 4}), t({2, 6, 4})}},
      {UHAL_OP_QR, {t({6, 4})}, {t({6, 4}), t({6, 6})}},
      {UHAL_OP_EIGEN_SYMMETRIC, {t({2, 4, 4}, C64)}, {t({2, 4}), t({2, 4, 4}, C64), t({2}, UHAL_INT32)}},
      {UHAL_OP_SVD, {t({2, 6, 4}, C64)}, {t({2, 4}), t({2, 6, 4}, C64), t({2, 4, 4}, C64), t({2}, UHAL_INT32)}},
      {UHAL_OP_SVD, {t({4, 6})}, {t({4}), t({4, 4}), t({6, 6})}},
      {UHAL_OP_SVD, {t({4, 6})}, {t({4}), kAbsent, kAbsent, t({}, UHAL_INT32)}},
      {UHAL_OP_EIGEN, {t({2, 4, 4})}, {t({2, 4}, C64), t({2, 4, 4}, C64), t({2}, UHAL_INT32)}},
      {UHAL_OP_CONVOLUTION,
       {t({8, 6, 32, 31}), t({4, 3, 3, 3}), t({4})},
       {t({8, 4, 16, 16})},
       with(convolution(2, 1, 1, 2))},
      {UHAL_OP_MATMUL,
       {t({3, 4}), t({4, 6})},
       {t({3, 6})},
       with(uhal_matmul_attributes{sizeof(uhal_matmul_attributes), 1, 1, UHAL_ACTIVATION_NONE, UHAL_MATH_ALLOW_TF32})},
      {UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3})}, {t({2, 4, 6})}, with(in_math_mode(UHAL_MATH_ALLOW_TF32))},
      {UHAL_OP_CONVOLUTION, {t({8, 6, 32}), t({4, 6, 3}), kAbsent}, {t({8, 4, 28})}, with(convolution(1, 0, 2))},
      {UHAL_OP_CONVOLUTION_BACKWARD_DATA, {t({8, 4, 30, 30}), t({4, 3, 3, 3})}, {t({8, 3, 32, 32})}},
      {UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {t({8, 3, 32, 32}), t({8, 4, 30, 30})}, {t({4, 3, 3, 3}), t({4})}},
      {UHAL_OP_POOL, {t({2, 3, 7, 7})}, {t({2, 3, 3, 3}), t({2, 3, 3, 3}, I64)}, with(pool(UHAL_POOL_MAXIMUM, 2, 2))},
      {UHAL_OP_POOL, {t({2, 3, 7, 7})}, {t({2, 3, 4, 4})}, with(pool(UHAL_POOL_AVERAGE_EXCLUDE_PADDING, 2, 2))},
      {UHAL_OP_POOL, {t({2, 3, 7, 7})}, {t({2, 3, 1, 5})}, with(pool(UHAL_POOL_AVERAGE_EXCLUDE_PADDING, 0, 0, 0, 1))},
      {UHAL_OP_POOL_BACKWARD,
       {t({2, 3, 3}), t({2, 3, 7}), t({2, 3, 3})},
       {t({2, 3, 7})},
       with(pool(UHAL_POOL_MAXIMUM, 2, 2))},
      {UHAL_OP_SOFTMAX, {t({4, 5})}, {t({4, 5})}},
      {UHAL_OP_SOFTMAX_BACKWARD, {t({4, 5}), t({4, 5})}, {t({4, 5})}, with(softmax(0))},
      {UHAL_OP_CROSS_ENTROPY, {t({4, 5}), t({4, 1}, I64), t({5})}, {t({4, 1}), t({4, 5}), t({4, 5})}},
      {UHAL_OP_CROSS_ENTROPY_BACKWARD, {t({4, 5}), t({4, 5}), t({4, 1})}, {t({4, 5})}},
      {UHAL_OP_BATCH_NORM,
       {t({2, 3, 4}, UHAL_FLOAT16), t({3}), t({3}), t({3}), t({3})},
       {t({2, 3, 4}, UHAL_FLOAT16), t({3}), t({3}), t({3}), t({3})}},
      {UHAL_OP_BATCH_NORM, {t({2, 3, 4}), kAbsent, kAbsent, t({3}), t({3})}, {t({2, 3, 4})}, with(norm(-1, 1, 1))},
      {UHAL_OP_BATCH_NORM_BACKWARD, {t({2, 3}), t({2, 3}), kAbsent, t({3}), t({3})}, {t({2, 3}), t({3}), t({3})}},
      {UHAL_OP_LAYER_NORM,
       {t({2, 3, 4}), t({3, 4}), t({3, 4})},
       {t({2, 3, 4}), t({2, 1, 1}), t({2, 1, 1})},
       with(norm(1))},
      {UHAL_OP_LAYER_NORM_BACKWARD, {t({2, 4}), t({2, 4}), t({4}), t({2, 1}), t({2, 1})}, {t({2, 4}), t({4}), t({4})}},
      {UHAL_OP_GROUP_NORM, {t({2, 6, 4}), t({6}), t({6})}, {t({2, 6, 4}), t({2, 3}), t({2, 3})}, with(norm(-1, 3))},
      {UHAL_OP_GROUP_NORM_BACKWARD,
       {t({2, 6}), t({2, 6}), t({6}), t({2, 3}), t({2, 3})},
       {t({2, 6}), t({6}), t({6})},
       with(norm(-1, 3))},
      {UHAL_OP_RMS_NORM,
       {t({2, 4}, UHAL_FLOAT64), t({4}, UHAL_FLOAT64)},
       {t({2, 4}, UHAL_FLOAT64), t({2, 1}, UHAL_FLOAT64)}},
      {UHAL_OP_RMS_NORM_BACKWARD, {t({2, 4}), t({2, 4}), t({4}), t({2, 1})}, {t({2, 4}), t({4})}},
      {UHAL_OP_ATTENTION,
       {t({2, 3, 4, 5}), t({2, 3, 6, 5}), t({2, 3, 6, 7}), t({4, 6})},
       {t({2, 3, 4, 7}), t({2, 3, 4})}},
      {UHAL_OP_ATTENTION_BACKWARD,
       {t({2, 3, 4, 5}), t({2, 3, 6, 5}), t({2, 3, 6, 7}), kAbsent, t({2, 3, 4, 7}), t({2, 3, 4}), t({2, 3, 4, 7})},
       {t({2, 3, 4, 5}), t({2, 3, 6, 5}), t({2, 3, 6, 7})}},
      {UHAL_OP_RANDOM, {}, {t({7}, UHAL_UINT32)}, with(random(UHAL_RANDOM_BITS, 0, 1))},
      {UHAL_OP_DROPOUT, {t({4, 5})}, {t({4, 5}), t({4, 5}, UHAL_UINT8)}, with(random(UHAL_RANDOM_UNIFORM, 0.5, 1))},
      {UHAL_OP_RESIZE, {t({2, 3, 4, 5})}, {t({2, 3, 8, 7})}},
      {UHAL_OP_RESIZE_BACKWARD, {t({2, 3, 8, 7})}, {t({2, 3, 4, 5})}},
      {UHAL_OP_GRID_SAMPLE, {t({2, 3, 4, 5}), t({2, 6, 7, 2})}, {t({2, 3, 6, 7})}},
      {UHAL_OP_MATMUL_QUANTIZED, {t({2, 3, 40}), t({40, 5}, UHAL_INT8), t({1, 5})}, {t({2, 3, 5})}},
      {UHAL_OP_MATMUL_QUANTIZED,
       {t({3, 41}, UHAL_FLOAT16), t({21, 5}, UHAL_UINT8), t({3, 5}), t({2, 5}, UHAL_UINT8), t({5})},
       {t({3, 5}, UHAL_BFLOAT16)},
       with(quantized(4, 16))},
      {UHAL_OP_RANDOM_DISTRIBUTION, {t({4, 1})}, {t({4, 6}, UHAL_FLOAT64)}},
      {UHAL_OP_RANDOM_DISTRIBUTION, {t({4, 1}), t({6})}, {t({4, 6}, I64)}, with(distribution(UHAL_RANDOM_BINOMIAL))},
      {UHAL_OP_GRID_SAMPLE, {t({2, 3, 4, 5, 6}), t({2, 7, 8, 9, 3})}, {t({2, 3, 7, 8, 9})}},
      {UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, {t({2, 3, 6, 7}), t({2, 6, 7, 2})}, {t({2, 3, 4, 5})}},
      {UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, {t({2, 3, 6, 7}), t({2, 3, 4, 5}), t({2, 6, 7, 2})}, {t({2, 6, 7, 2})}},
      {UHAL_OP_GRID_SAMPLE, {t({2, 3, 4, 5}), t({7, 6, 7, 2}), t({7}, UHAL_INT32)}, {t({7, 3, 6, 7})}},
      {UHAL_OP_ROI_ALIGN, {t({2, 3, 4, 5}), t({7, 4}), t({7}, UHAL_INT32)}, {t({7, 3, 2, 2})}},
      {UHAL_OP_NON_MAX_SUPPRESSION, {t({7, 4})}, {t({7}, UHAL_BOOL)}},
      {UHAL_OP_ROI_POOL,
       {t({2, 3, 4, 5}), t({7, 4}), t({7}, UHAL_INT32)},
       {t({7, 3, 2, 2}), t({7, 3, 2, 2}, UHAL_INT64)}},
      {UHAL_OP_ROI_POOL_BACKWARD,
       {t({7, 3, 2, 2}), t({7, 4}), t({7}, UHAL_INT32), t({7, 3, 2, 2}, UHAL_INT32)},
       {t({2, 3, 4, 5})}},
      {UHAL_OP_ROI_ALIGN_BACKWARD, {t({7, 3, 2, 2}), t({7, 4}), t({7}, UHAL_INT32)}, {t({2, 3, 4, 5})}},
      {UHAL_OP_RESAMPLE, {t({2, 3, 4}), t({5}, UHAL_INT32), t({5, 2})}, {t({5, 3, 4})}},
      {UHAL_OP_FFT, {t({4, 5}, C64)}, {t({4, 5}, C64)}},
      {UHAL_OP_FFT, {t({4, 5}, UHAL_FLOAT64)}, {t({4, 3}, UHAL_COMPLEX128)}, with(fft({0, 1}))},
      {UHAL_OP_FFT, {t({3, 5}, C64)}, {t({4, 5})}, with(fft({1, 0}))},
      {UHAL_OP_FFT, {t({3, 5}, C64)}, {t({5, 5})}, with(fft({1, 0}))},
      {UHAL_OP_NONZERO, {t({2, 3}, UHAL_BOOL)}, {t({1}, I64), t({4, 2}, UHAL_INT32)}},
      {UHAL_OP_NONZERO, {t({})}, {t({}, I64), t({9}, I64)}},
      {UHAL_OP_NONZERO, {t({2, 3})}, {t({1}, UHAL_INT32)}},
      {UHAL_OP_COMPACT, {t({2, 3}), t({2, 3}, UHAL_BOOL)}, {t({4}), t({1}, I64)}},
      {UHAL_OP_COMPACT, {t({}, C64), t({})}, {t({9}, C64)}},
      {UHAL_OP_SEARCH_SORTED, {t({5}), t({2, 3})}, {t({2, 3}, I64)}},
      {UHAL_OP_SEARCH_SORTED, {t({2, 5}), t({2, 3})}, {t({2, 3}, UHAL_INT32)}},
      {UHAL_OP_RNN, {t({2, 5, 3, 16}), t({2, 16, 4})}, {t({2, 5, 3, 4})}},
      {UHAL_OP_RNN,
       {t({2, 5, 3, 16}), t({2, 16, 4}), t({2, 3, 4}), t({2, 3, 4}), t({2, 16}), t({3}, I64)},
       {t({2, 5, 3, 4}), t({2, 3, 4}), t({2, 5, 3, 20})},
       with(rnn(UHAL_RNN_LSTM, 2))},
      {UHAL_OP_RNN,
       {t({1, 5, 3, 12}), t({1, 12, 4}), t({1, 3, 4}), kAbsent, t({1, 12}), t({3}, UHAL_INT32)},
       {t({1, 5, 3, 4}), kAbsent, t({1, 5, 3, 16})},
       with(rnn(UHAL_RNN_GRU))},
      {UHAL_OP_RNN, {t({1, 5, 3, 4}), t({1, 4, 4})}, {t({1, 5, 3, 4})}, with(rnn(UHAL_RNN_RELU))},
      {UHAL_OP_CTC_LOSS, {t({5, 3, 7}), t({3, 2}, I64)}, {t({3}), t({5, 3, 7})}},
      {UHAL_OP_CTC_LOSS, {t({5, 3, 7}), t({3, 2}, UHAL_INT32), t({3}, UHAL_INT32), t({3}, I64)}, {t({3})}},
      {UHAL_OP_RNN_BACKWARD,
       {t({2, 5, 3, 4}), t({2, 16, 4}), t({2, 5, 3, 4}), t({2, 5, 3, 20}), t({2, 3, 4}), t({3}, I64), t({2, 3, 4}),
        t({2, 3, 4})},
       {t({2, 5, 3, 16}), kAbsent, t({2, 3, 4}), t({2, 3, 4})}},
      {UHAL_OP_RNN_BACKWARD,
       {t({1, 5, 3, 4}), t({1, 12, 4}), t({1, 5, 3, 4}), t({1, 5, 3, 16})},
       {t({1, 5, 3, 12}), t({1, 5, 3, 12})},
       with(rnn(UHAL_RNN_GRU))},
      {UHAL_OP_RNN_BACKWARD,
       {t({1, 5, 3, 4}), t({1, 4, 4}), t({1, 5, 3, 4})},
       {t({1, 5, 3, 4})},
       with(rnn(UHAL_RNN_TANH))},
  };
}

class OpRulesTest : public CoreTest {
 protected:
  void expect_refused(const Call& call, const std::string& text) {
    EXPECT_STATUS(UHAL_INVALID_ARGUMENT, supports(device, call));
    EXPECT_MESSAGE(text);
  }
};

TEST_F(OpRulesTest, SoundOpsOfEveryKindAreAccepted) {
  std::set<uhal_op_kind> seen = {UHAL_OP_SORT};  // the fake cannot sort: see launch_test.cc
  for (const Call& call : sound_calls()) {
    EXPECT_OK(supports(device, call)) << uhal_op_kind_name(call.kind);
    seen.insert(call.kind);
  }
  for (uhal_op_kind kind = 0; kind < UHAL_OP_KIND_LIMIT; ++kind) {
    bool exists = std::string("invalid") != uhal_op_kind_name(kind);
    EXPECT_EQ(exists, seen.count(kind) == 1) << uhal_op_kind_name(kind) << " has no sound example";
  }
}

TEST_F(OpRulesTest, ProgramsOfChainsNameTheStepThatIsWrong) {
  const auto refuse = [&](const std::string& text, void (*spoil)(uhal_map_chain_attributes&)) {
    uhal_map_chain_attributes attributes = chain();
    spoil(attributes);
    expect_refused({UHAL_OP_MAP_CHAIN, {t({4}), t({4})}, {t({4}), t({4})}, with(attributes)}, text);
  };
  refuse("step_count", [](uhal_map_chain_attributes& a) { a.step_count = 0; });
  refuse("step_count", [](uhal_map_chain_attributes& a) { a.step_count = UHAL_MAP_CHAIN_MAX_STEPS + 1; });
  refuse("step 1 has function 100000", [](uhal_map_chain_attributes& a) { a.functions[1] = 100000; });
  refuse("operand 1 of step 0 (add) is value 2", [](uhal_map_chain_attributes& a) { a.operands[0][1] = 2; });
  refuse("operand 0 of step 1 (relu) is value -1", [](uhal_map_chain_attributes& a) { a.operands[1][0] = -1; });
  refuse("output 1 is value 4", [](uhal_map_chain_attributes& a) { a.results[1] = 4; });
  expect_refused({UHAL_OP_MAP_CHAIN, {t({4}), t({4}, C64)}, {t({4}), t({4})}, with(chain())}, "relu of step 1");
  expect_refused({UHAL_OP_MAP_CHAIN, {t({4}), t({3})}, {t({4}), t({4})}, with(chain())}, "map_chain: ");
}

// Whatever single operand has one element more along one axis, or another rank, the op is refused, or means something
// else that is sound as well (listed).
TEST_F(OpRulesTest, WrongShapesAreRefused) {
  // kind -> operands (inputs, then outputs) whose lengths are free along some axis
  const std::set<uhal_op_kind> free_lengths = {
      UHAL_OP_FILL, UHAL_OP_IOTA, UHAL_OP_RANDOM, UHAL_OP_RESIZE, UHAL_OP_RESIZE_BACKWARD, UHAL_OP_NONZERO};
  for (const Call& call : sound_calls()) {
    if (free_lengths.count(call.kind) == 1) continue;
    for (bool output : {false, true}) {
      const std::vector<uhal_tensor>& side = output ? call.outputs : call.inputs;
      for (size_t i = 0; i < side.size(); ++i) {
        if (side[i].dtype == UHAL_DTYPE_INVALID || side[i].rank == UHAL_MAX_RANK) continue;
        Call changed = call;
        uhal_tensor& t = (output ? changed.outputs : changed.inputs)[i];
        t.shape[t.rank] = 97;  // an axis more, of a length that fits nothing
        t.strides[t.rank++] = 1;
        EXPECT_STATUS(UHAL_INVALID_ARGUMENT, supports(device, changed))
            << uhal_op_kind_name(call.kind) << (output ? " output " : " input ") << i;
        EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string(uhal_op_kind_name(call.kind)) + ": ", last_message());
      }
    }
  }
}

TEST_F(OpRulesTest, RequiredOperandsMustBePresent) {
  for (const Call& call : sound_calls()) {
    if (call.inputs.empty()) continue;
    Call changed = call;
    changed.inputs[0] = kAbsent;
    expect_refused(changed, call.kind == UHAL_OP_MAP ? "takes 2 inputs" : "(number 0) is missing, but it is required");
    changed = call;
    changed.outputs.clear();
    expect_refused(changed, "(number 0) is missing, but it is required");
  }
}

struct RefusedCall {
  Call call;
  const char* text;
};

TEST_F(OpRulesTest, EachKindSaysWhatItWants) {
  const RefusedCall refused[] = {
      {{UHAL_OP_GRID_SAMPLE, {t({2, 3, 4, 5}), t({2, 6, 7, 3})}, {t({2, 3, 6, 7})}},
       "grid_sample: grid has shape (2, 6, 7, 3), expected (2, 6, 7, 2)"},
      {{UHAL_OP_GRID_SAMPLE, {t({2, 3, 0, 5}), t({2, 6, 7, 2})}, {t({2, 3, 6, 7})}}, "has nothing to sample from"},
      {{UHAL_OP_GRID_SAMPLE,
        {t({2, 3, 4, 5, 6}), t({2, 6, 7, 8, 3})},
        {t({2, 3, 6, 7, 8})},
        with(uhal_grid_sample_attributes{sizeof(uhal_grid_sample_attributes), UHAL_GRID_SAMPLE_CUBIC, 0, 0, 0, 0, 0})},
       "2 spatial axes"},
      {{UHAL_OP_RNN, {t({2, 5, 3, 15}), t({2, 16, 4})}, {t({2, 5, 3, 4})}},
       "rnn: x has shape (2, 5, 3, 15), expected (2, 5, 3, 16)"},
      {{UHAL_OP_RNN, {t({1, 5, 3, 16}), t({1, 16, 4})}, {t({1, 5, 3, 4})}, with(rnn(UHAL_RNN_LSTM, 2))},
       "reverse is 2, expected 0 to 1"},
      {{UHAL_OP_RNN, {t({1, 5, 3, 16}), t({1, 16, 4})}, {t({1, 5, 3, 4})}, with(rnn(UHAL_RNN_LSTM, 0, -1))},
       "cell_clip is -1"},
      {{UHAL_OP_RNN, {t({9, 5, 3, 4}), t({9, 4, 4})}, {t({9, 5, 3, 4})}, with(rnn(UHAL_RNN_TANH))},
       "there are 9 directions, expected 1 to 8"},
      {{UHAL_OP_RNN,
        {t({1, 5, 3, 4}), t({1, 4, 4}), kAbsent, t({1, 3, 4})},
        {t({1, 5, 3, 4})},
        with(rnn(UHAL_RNN_TANH))},
       "c0 was given, which is an LSTM's only"},
      {{UHAL_OP_RNN, {t({1, 5, 3, 16}), t({1, 16, 4}, UHAL_FLOAT64)}, {t({1, 5, 3, 4})}},
       "y has dtype float32, expected float64, the dtype of r"},
      {{UHAL_OP_RNN_BACKWARD, {t({1, 5, 3, 4}), t({1, 16, 4}), t({1, 5, 3, 4})}, {t({1, 5, 3, 16})}},
       "reserve is NULL, but is required for an LSTM or a GRU"},
      {{UHAL_OP_RNN_BACKWARD,
        {t({1, 5, 3, 4}), t({1, 12, 4}), t({1, 5, 3, 4}), t({1, 5, 3, 16})},
        {t({1, 5, 3, 12})},
        with(rnn(UHAL_RNN_GRU))},
       "dproduct is NULL, but is required for a GRU"},
      {{UHAL_OP_GRID_SAMPLE, {t({2, 3, 4, 5}), t({7, 6, 7, 2}), t({6}, UHAL_INT32)}, {t({7, 3, 6, 7})}},
       "grid_sample: images has shape (6,), expected (7,)"},
      {{UHAL_OP_NON_MAX_SUPPRESSION, {t({7, 4})}, {t({7})}},
       "non_max_suppression: keep has dtype float32, expected bool or uint8"},
      {{UHAL_OP_NON_MAX_SUPPRESSION, {t({2, 7, 4})}, {t({7}, UHAL_BOOL)}},
       "non_max_suppression: keep has shape (7,), expected (2, 7)"},
      {{UHAL_OP_NON_MAX_SUPPRESSION,
        {t({7, 4})},
        {t({7}, UHAL_BOOL)},
        with(uhal_non_max_suppression_attributes{sizeof(uhal_non_max_suppression_attributes), 0.5, 2, 0, 0, 0})},
       "non_max_suppression: decay is 2, expected more than 0 and at most 1"},
      {{UHAL_OP_ROI_POOL_BACKWARD, {t({7, 3, 2, 2}), t({7, 4}), t({7}, UHAL_INT32)}, {t({2, 3, 4, 5})}},
       "needs the forward's indices"},
      {{UHAL_OP_ROI_POOL,
        {t({2, 3, 4, 5}), t({7, 4}), t({7}, UHAL_INT32)},
        {t({7, 3, 2, 2})},
        with(uhal_roi_pool_attributes{sizeof(uhal_roi_pool_attributes), 1, UHAL_ROI_POOL_AVERAGE_BY_POSITION, 0})},
       "roi_pool: x has shape (2, 3, 4, 5), expected (2, 12, 4, 5)"},
      {{UHAL_OP_ROI_ALIGN, {t({2, 3, 4, 5}), t({7, 5}), t({7}, UHAL_INT32)}, {t({7, 3, 2, 2})}},
       "roi_align: boxes has shape (7, 5), expected (7, 4)"},
      {{UHAL_OP_ROI_ALIGN, {t({2, 3, 4, 5}), t({7, 4}), t({7})}, {t({7, 3, 2, 2})}},
       "roi_align: images has dtype float32, expected int32"},
      {{UHAL_OP_ROI_ALIGN, {t({2, 3, 4, 5}), t({7, 4}), t({7}, UHAL_INT32)}, {t({7, 4, 2, 2})}},
       "roi_align: y has shape (7, 4, 2, 2), expected (7, 3, 2, 2)"},
      {{UHAL_OP_RESAMPLE, {t({2, 3}), t({5}, I64), t({5, 2})}, {t({5, 3})}},
       "resample: first has dtype int64, expected int32"},
      {{UHAL_OP_RESAMPLE, {t({2, 3}), t({4}, UHAL_INT32), t({5, 2})}, {t({5, 3})}},
       "resample: first has shape (4,), expected (5,)"},
      {{UHAL_OP_RESAMPLE, {t({2, 3}), t({5}, UHAL_INT32), t({5, 2})}, {t({2, 3})}},
       "resample: y has shape (2, 3), expected (5, 3)"},
      {{UHAL_OP_CTC_LOSS, {t({5, 3, 7}), t({3, 2})}, {t({3})}},
       "ctc_loss: labels has dtype float32, expected int32 or int64"},
      {{UHAL_OP_CTC_LOSS, {t({5, 3, 7}), t({3, 2}, I64)}, {t({3})}, with(ctc(7))}, "blank is 7, expected 0 to 6"},
      {{UHAL_OP_CTC_LOSS, {t({5, 3, 7}), t({3, 2}, I64), t({2}, I64)}, {t({3})}},
       "logit_lengths has shape (2,), expected (3,)"},
      {{UHAL_OP_COPY, {t({4}, I64)}, {t({4})}}, "copy: y has dtype float32, expected int64, the dtype of x"},
      {{UHAL_OP_IOTA, {}, {t({4}, UHAL_BOOL)}}, "iota: y has dtype bool"},
      {{UHAL_OP_TRIANGULAR, {t({4})}, {t({4})}}, "triangular: x has rank 1 (shape (4,)), expected 2 to 10"},
      {{UHAL_OP_GATHER, {t({5, 6}), t({2})}, {t({2, 6})}}, "indices has dtype float32, expected int32 or int64"},
      {{UHAL_OP_GATHER, {t({5, 6}), t({2}, I64)}, {t({3, 6})}}, "gather: y has shape (3, 6), expected (2, 6)"},
      {{UHAL_OP_GATHER, {t({5, 6}), t({2}, I64)}, {t({2, 6})}, with(indexing(2))},
       "attribute axis is 2, expected 0 to 1"},
      {{UHAL_OP_GATHER, {t({5, 6}), t({4, 2}, I64)}, {t({5, 2})}, with(indexing(1, 1))},
       "indices has shape (4, 2), expected (5, 2)"},
      {{UHAL_OP_GATHER, {t({5, 6}), t({5, 2}, I64)}, {t({5, 2})}, with(indexing(1, 2))}, "batch_dimensions is 2"},
      {{UHAL_OP_SCATTER, {t({3}, I64), t({3, 6})}, {t({5, 6})}, with(indexing(0, 0, 6))}, "attribute reduction is 6"},
      {{UHAL_OP_GATHER_ND, {t({5, 6}), t({4, 3}, I64)}, {t({4})}}, "last axis of indices has length 3"},
      {{UHAL_OP_GATHER_ELEMENTS, {t({5, 6}), t({6, 6}, I64)}, {t({6, 6})}, with(indexing(1))},
       "at most the indexed operand's length"},
      {{UHAL_OP_ONE_HOT, {t({4}, I64)}, {t({4})}}, "one axis more than indices"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5, 6}), t({5})}, {t({3, 6})}}, "ids has dtype float32, expected int32 or int64"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5, 6}), t({4}, I64)}, {t({3, 6})}}, "ids has shape (4,), expected (5,)"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5, 6}), t({4}, I64), t({5}, I64)}, {t({3, 6})}},
       "ids has shape (4,), expected (5,)"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5, 6}), t({5}, I64)}, {t({3, 7})}}, "y has shape (3, 7), expected (3, 6)"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({}), t({5}, I64)}, {t({3})}}, "segment_reduce: x has rank 0"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64)}, {t({})}}, "segment_reduce: y has rank 0"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64), kAbsent, t({5}, UHAL_FLOAT16)}, {t({3})}},
       "weights has dtype float16, expected float32"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64), kAbsent, t({4})}, {t({3})}},
       "weights has shape (4,), expected (5,)"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64)}, {t({3}), t({3})}}, "counts has dtype float32"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64)}, {t({3}), t({4}, I64)}}, "counts has shape (4,), expected (3,)"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64)}, {t({3})}, with(segments(UHAL_REDUCE_SUM, UHAL_SEGMENT_OFFSETS))},
       "ids has shape (5,), expected (4,)"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64)}, {t({3})}, with(segments(UHAL_REDUCE_ALL, 0))},
       "attribute reduction is 6, expected 1 to 5"},
      {{UHAL_OP_SEGMENT_REDUCE, {t({5}), t({5}, I64)}, {t({3})}, with(segments(UHAL_REDUCE_SUM, 3))},
       "attribute form is 3, expected 0 to 2"},
      {{UHAL_OP_REDUCE, {t({4, 5})}, {t({4, 2})}}, "reduce: y has shape (4, 2), expected (4, 1)"},
      {{UHAL_OP_REDUCE, {t({4, 5})}, {t({4})}}, "reduce: y has rank 1"},
      {{UHAL_OP_REDUCE, {t({4})}, {t({1})}, with(uhal_reduce_attributes{sizeof(uhal_reduce_attributes), 12, 0})},
       "reduction is 12, expected 1 to 11"},
      {{UHAL_OP_ARG_REDUCE, {t({4, 5})}, {t({1, 5})}}, "arg_reduce: y has dtype float32, expected int32 or int64"},
      {{UHAL_OP_ARG_REDUCE, {t({0, 5})}, {t({1, 5}, I64)}}, "no element along axis 0"},
      {{UHAL_OP_FFT, {t({4}, UHAL_FLOAT16)}, {t({3}, C64)}},
       "fft: x has dtype float16, expected float32, float64, complex64"},
      {{UHAL_OP_FFT, {t({4})}, {t({3}, UHAL_COMPLEX128)}},
       "y has dtype complex128, expected complex numbers of x's precision"},
      {{UHAL_OP_FFT, {t({4}, C64)}, {t({6}, UHAL_FLOAT64)}},
       "y has dtype float64, expected real or complex numbers of x's"},
      {{UHAL_OP_FFT, {t({4}, C64)}, {t({5}, C64)}}, "fft: y has shape (5,), expected (4,)"},
      {{UHAL_OP_FFT, {t({4})}, {t({4}, C64)}}, "fft: y has shape (4,), expected (3,)"},
      {{UHAL_OP_FFT, {t({4}, C64)}, {t({8})}}, "fft: y has shape (8,)"},
      {{UHAL_OP_FFT, {t({}, C64)}, {t({}, C64)}}, "fft: x has rank 0"},
      {{UHAL_OP_FFT, {t({4}, C64)}, {t({4}, C64)}, with(fft({1}))}, "attribute axis is 1, expected 0 to 0"},
      {{UHAL_OP_FFT, {t({4, 4}, C64)}, {t({4, 4}, C64)}, with(fft({1, -1}))}, "names axis 1 twice"},
      {{UHAL_OP_FFT, {t({4}, C64)}, {t({4}, C64)}, with(fft({}))}, "axis_count is 0, expected 1 to 3"},
      {{UHAL_OP_FFT, {t({4}, C64)}, {t({4}, C64)}, with(fft({0}, 3))}, "normalization is 3, expected 0 to 2"},
      {{UHAL_OP_SCAN, {t({4})}, {t({4})}, with(scan(0, UHAL_REDUCE_MEAN))}, "reduction is 2 (mean)"},
      {{UHAL_OP_SCAN, {t({4}, I64)}, {t({4}, I64)}, with(scan(0, UHAL_REDUCE_LOG_SUM_EXP))},
       "x has dtype int64, expected a floating dtype for log_sum_exp"},
      {{UHAL_OP_SCAN, {t({4})}, {t({4})}, with(scan(-1, UHAL_REDUCE_SUM))}, "axis is -1, expected 0 to 0"},
      {{UHAL_OP_SCAN, {t({4})}, {t({4}), t({4})}, with(scan(0, UHAL_REDUCE_MAXIMUM))}, "indices has dtype float32"},
      {{UHAL_OP_SCAN, {t({4})}, {t({4}), t({3}, I64)}, with(scan(0, UHAL_REDUCE_MAXIMUM))}, "indices has shape (3,)"},
      {{UHAL_OP_SCAN, {t({4})}, {t({4}), t({4}, I64)}, with(scan(0, UHAL_REDUCE_SUM))}, "reduction is 1, expected 4"},
      {{UHAL_OP_SCAN,
        {t({4})},
        {t({4}), t({4}, I64)},
        with(uhal_scan_attributes{sizeof(uhal_scan_attributes), 0, UHAL_REDUCE_MINIMUM, 1, 0})},
       "exclusive is 1, expected 0 to 0"},
      {{UHAL_OP_SORT, {t({4})}, {t({4}), t({4})}}, "sort: indices has dtype float32"},
      {{UHAL_OP_TOP_K, {t({4})}, {t({5}), t({5}, I64)}}, "top_k: values has shape (5,), expected (4,)"},
      {{UHAL_OP_MATMUL, {t({3, 4}), t({5, 6})}, {t({3, 6})}}, "matmul: b has shape (5, 6), expected (4, 6)"},
      {{UHAL_OP_MATMUL, {t({3, 4}), t({4, 6})}, {t({3, 5})}}, "matmul: d has shape (3, 5), expected (3, 6)"},
      {{UHAL_OP_MATMUL, {t({4}), t({4, 6})}, {t({1, 6})}}, "matmul: a has rank 1"},
      {{UHAL_OP_MATMUL_QUANTIZED, {t({3, 40}), t({40, 5}, UHAL_INT8), t({2, 5})}, {t({3, 5})}},
       "scales has shape (2, 5), which does not broadcast"},
      {{UHAL_OP_MATMUL_QUANTIZED, {t({3, 40}), t({40, 5}, UHAL_INT8), t({5})}, {t({3, 5})}, with(quantized(4, 0))},
       "b has shape (40, 5), expected (20, 5)"},
      {{UHAL_OP_MATMUL_QUANTIZED, {t({3, 40}), t({40, 5}, UHAL_INT8), t({5})}, {t({3, 5})}, with(quantized(3, 0))},
       "the attribute bits is 3, expected 8 or 4"},
      {{UHAL_OP_MATMUL_QUANTIZED, {t({3, 40}), t({40, 5}, UHAL_INT8), t({5})}, {t({3, 5})}, with(quantized(8, 24))},
       "the attribute block_size is 24, expected a power of two from 16"},
      {{UHAL_OP_MATMUL_QUANTIZED, {t({3, 40}, UHAL_FLOAT64), t({40, 5}, UHAL_INT8), t({5})}, {t({3, 5})}},
       "a has dtype float64, expected float32, float16 or bfloat16; cast it first"},
      {{UHAL_OP_MATMUL_QUANTIZED, {t({3, 40}), t({40, 5}, UHAL_INT8), t({5}), t({5}, UHAL_UINT8)}, {t({3, 5})}},
       "zero_points has dtype uint8, expected b's dtype"},
      {{UHAL_OP_RANDOM_DISTRIBUTION, {t({4})}, {t({4})}, with(distribution(UHAL_RANDOM_BINOMIAL))},
       "q is NULL, but is required for the binomial distribution"},
      {{UHAL_OP_RANDOM_DISTRIBUTION, {t({4}), t({4})}, {t({4})}}, "q is given"},
      {{UHAL_OP_RANDOM_DISTRIBUTION, {t({4})}, {t({4}, I64)}}, "a floating dtype for a gamma distribution"},
      {{UHAL_OP_RANDOM_DISTRIBUTION, {t({4}, I64)}, {t({4}, I64)}, with(distribution(UHAL_RANDOM_POISSON))},
       "p has dtype int64, expected a floating dtype"},
      {{UHAL_OP_SOFTMAX, {t({4}, UHAL_FLOAT8_E5M2)}, {t({4})}}, "x has dtype float8_e5m2, which is for storage"},
      {{UHAL_OP_SCATTER, {t({3}, I64), t({3}, UHAL_FLOAT8_E4M3FN)}, {t({5}, UHAL_FLOAT8_E4M3FN)}},
       "updates has dtype float8_e4m3fn, which is for storage (copy, cast, fill, gather, compact); cast it first"},
      {{UHAL_OP_MATMUL, {t({7, 3, 4}), t({4, 6})}, {t({2, 3, 6})}}, "a has shape (7, 3, 4), which does not broadcast"},
      {{UHAL_OP_MATMUL, {t({3, 4}), t({4, 6}), t({3})}, {t({3, 6})}}, "c has shape (3,), which does not broadcast"},
      {{UHAL_OP_TRIANGULAR_SOLVE, {t({3, 4}), t({3, 2})}, {t({3, 2})}}, "a has shape (3, 4), expected (3, 3)"},
      {{UHAL_OP_TRIANGULAR_SOLVE, {t({3, 3}), t({4, 2})}, {t({4, 2})}}, "b has shape (4, 2), expected (3, 2)"},
      {{UHAL_OP_TRIANGULAR_SOLVE, {t({3, 3}), t({3, 2})}, {t({3, 4})}}, "x has shape (3, 4), expected (3, 2)"},
      {{UHAL_OP_TRIANGULAR_SOLVE, {t({2, 3, 3}), t({5, 3, 2})}, {t({5, 3, 2})}}, "a has shape (2, 3, 3)"},
      {{UHAL_OP_TRIANGULAR_SOLVE, {t({3, 3}), t({3, 2}, C64)}, {t({3, 2})}}, "b has dtype complex64, expected float32"},
      {{UHAL_OP_TRIANGULAR_SOLVE,
        {t({3, 3}), t({3, 2})},
        {t({3, 2})},
        with(uhal_triangular_solve_attributes{sizeof(uhal_triangular_solve_attributes), 0, 2, 0, 0})},
       "unit_diagonal is 2, expected 0 to 1"},
      {{UHAL_OP_CHOLESKY, {t({3, 3}, UHAL_FLOAT16)}, {t({3, 3}, UHAL_FLOAT16)}},
       "a has dtype float16, expected float32, float64"},
      {{UHAL_OP_CHOLESKY, {t({3})}, {t({3})}}, "cholesky: a has rank 1"},
      {{UHAL_OP_CHOLESKY, {t({2, 3, 3})}, {t({2, 3, 3}), t({3}, UHAL_INT32)}}, "info has shape (3,), expected (2,)"},
      {{UHAL_OP_CHOLESKY, {t({2, 3, 3})}, {t({2, 3, 3}), t({2}, I64)}}, "info has dtype int64, expected int32"},
      {{UHAL_OP_LU, {t({3, 5})}, {t({3, 5}), t({5}, UHAL_INT32)}}, "pivots has shape (5,), expected (3,)"},
      {{UHAL_OP_LU, {t({3, 5})}, {t({3, 5}), t({3}, UHAL_INT32), t({5}, UHAL_INT32)}},
       "permutation has shape (5,), expected (3,)"},
      {{UHAL_OP_QR, {t({5, 3})}, {t({4, 3})}}, "r has shape (4, 3), expected (3, 3)"},
      {{UHAL_OP_QR, {t({5, 3})}, {t({5, 3}), t({5, 3})}}, "q has shape (5, 3), expected (5, 5)"},
      {{UHAL_OP_EIGEN_SYMMETRIC, {t({3, 3}, C64)}, {t({3}, C64)}}, "values has dtype complex64, expected real numbers"},
      {{UHAL_OP_SVD, {t({5, 3})}, {t({3}), t({5, 3})}}, "vh is NULL, but is required where u is given"},
      {{UHAL_OP_SVD, {t({5, 3})}, {t({5}), t({5, 3}), t({3, 3})}}, "s has shape (5,), expected (3,)"},
      {{UHAL_OP_SVD, {t({5, 3})}, {t({3}), t({5, 4}), t({3, 3})}}, "u has shape (5, 4), expected (5, 3)"},
      {{UHAL_OP_EIGEN, {t({3, 3})}, {t({3})}}, "values has dtype float32, expected complex numbers of a's precision"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8, 8}), t({4, 2, 3, 3})}, {t({2, 4, 6, 6})}},
       "w has shape (4, 2, 3, 3), expected (4, 3, 3, 3)"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8, 8}), t({4, 3, 3, 3})}, {t({2, 4, 6, 7})}},
       "y has shape (2, 4, 6, 7), expected (2, 4, 6, 6)"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3})}, {t({2, 4, 6})}, with(convolution(0))},
       "attribute stride is 0"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3})}, {t({2, 4, 6})}, with(convolution(1, -1))},
       "pad_before is -1"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3})}, {t({2, 4, 6})}, with(convolution(1, 0, 0))},
       "dilation is 0"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3})}, {t({2, 4, 6})}, with(convolution(1, 0, 1, 2))},
       "2 groups do not divide 3 input and 4 output channels"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3})}, {t({2, 4, 6})}, with(convolution(1, 0, 1, 0))},
       "groups is 0"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3}), t({3})}, {t({2, 4, 6})}},
       "bias has shape (3,), expected (4,)"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3}), t({4, 3})}, {t({2, 4})}}, "convolution: x has rank 2"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 1, 1, 1, 1}), t({4, 3, 1, 1, 1, 1})}, {t({2, 4, 1, 1, 1, 1})}},
       "expected 3 to 5"},
      {{UHAL_OP_MATMUL,
        {t({3, 4}), t({4, 6})},
        {t({3, 6})},
        with(uhal_matmul_attributes{sizeof(uhal_matmul_attributes), 1, 1, UHAL_ACTIVATION_NONE, 2})},
       "matmul: the attribute math_mode is 2, expected 0 to 1"},
      {{UHAL_OP_CONVOLUTION, {t({2, 3, 8}), t({4, 3, 3})}, {t({2, 4, 6})}, with(in_math_mode(-1))},
       "convolution: the attribute math_mode is -1, expected 0 to 1"},
      {{UHAL_OP_CONVOLUTION_BACKWARD_DATA, {t({2, 4, 6}), t({4, 3, 3})}, {t({2, 3, 8})}, with(in_math_mode(7))},
       "convolution_backward_data: the attribute math_mode is 7"},
      {{UHAL_OP_ATTENTION,
        {t({2, 3, 4, 5}), t({2, 3, 6, 5}), t({2, 3, 6, 7})},
        {t({2, 3, 4, 7})},
        with(uhal_attention_attributes{sizeof(uhal_attention_attributes), 0, 0, 3})},
       "attention: the attribute math_mode is 3"},
      {{UHAL_OP_POOL, {t({2, 3, 7})}, {t({2, 3, 5})}, with(pool(UHAL_POOL_MAXIMUM, 2, 2))},
       "pool: y has shape (2, 3, 5), expected (2, 3, 3)"},
      {{UHAL_OP_POOL, {t({2, 3, 7})}, {t({2, 3, 3})}, with(pool(3, 2, 2))}, "attribute mode is 3"},
      {{UHAL_OP_POOL, {t({2, 3, 7})}, {t({2, 3, 3})}, with(pool(UHAL_POOL_MAXIMUM, 0, 2))}, "attribute window is 0"},
      {{UHAL_OP_POOL,
        {t({2, 3, 7})},
        {t({2, 3, 3}), t({2, 3, 3}, I64)},
        with(pool(UHAL_POOL_AVERAGE_INCLUDE_PADDING, 2, 2))},
       "only for maximum pooling"},
      {{UHAL_OP_POOL, {t({2, 3, 7})}, {t({2, 3, 3})}}, "pool: the attributes are NULL"},
      {{UHAL_OP_POOL_BACKWARD, {t({2, 3, 3})}, {t({2, 3, 7})}, with(pool(UHAL_POOL_MAXIMUM, 2, 2))},
       "x is NULL, but is required for maximum pooling"},
      {{UHAL_OP_SOFTMAX, {t({4, 5})}, {t({4, 5})}, with(softmax(2))},
       "axis is 2, expected 0 to 1 for rank 2 (or -1 for the last)"},
      {{UHAL_OP_SOFTMAX, {t({})}, {t({})}}, "softmax: the attribute axis is -1"},
      {{UHAL_OP_CROSS_ENTROPY, {t({4, 5}), t({4}, I64)}, {t({4, 1})}}, "labels has shape (4,), expected (4, 1)"},
      {{UHAL_OP_CROSS_ENTROPY, {t({4, 5}), t({4, 1})}, {t({4, 1})}}, "labels has shape (4, 1), expected (4, 5)"},
      {{UHAL_OP_CROSS_ENTROPY, {t({4, 5}), t({4, 1}, UHAL_UINT8)}, {t({4, 1})}}, "labels has dtype uint8"},
      {{UHAL_OP_CROSS_ENTROPY, {t({4, 5}), t({4, 1}, I64), t({4})}, {t({4, 1})}},
       "weights has shape (4,), expected (5,)"},
      {{UHAL_OP_BATCH_NORM, {t({2, 3}), t({3}), t({3})}, {t({2, 3})}}, "mean is NULL, but is required for training"},
      {{UHAL_OP_BATCH_NORM, {t({2, 3})}, {t({2, 3})}, with(norm(-1, 1, 1))},
       "running_mean is NULL, but is required for inference"},
      {{UHAL_OP_BATCH_NORM, {t({2, 3}), t({3}, UHAL_FLOAT16)}, {t({2, 3}), t({3}), t({3})}},
       "scale has dtype float16, expected float32"},
      {{UHAL_OP_LAYER_NORM, {t({2, 4}, UHAL_FLOAT64), t({4})}, {t({2, 4}, UHAL_FLOAT64)}}, "expected float64, as x is"},
      {{UHAL_OP_LAYER_NORM, {t({2, 4}), t({2, 4})}, {t({2, 4})}}, "scale has shape (2, 4), expected (4,)"},
      {{UHAL_OP_GROUP_NORM, {t({2, 6})}, {t({2, 6})}, with(norm(-1, 4))}, "4 groups do not divide the 6 channels"},
      {{UHAL_OP_ATTENTION, {t({2, 3, 4, 5}), t({2, 3, 6, 4}), t({2, 3, 6, 7})}, {t({2, 3, 4, 7})}},
       "k has shape (2, 3, 6, 4), expected (2, 3, 6, 5)"},
      {{UHAL_OP_ATTENTION, {t({2, 3, 4, 5}), t({2, 3, 6, 5}), t({2, 3, 6, 7}), t({5, 6})}, {t({2, 3, 4, 7})}},
       "mask has shape (5, 6)"},
      {{UHAL_OP_RANDOM, {}, {t({4})}, with(random(9, 0, 1))}, "attribute distribution is 9"},
      {{UHAL_OP_RANDOM, {}, {t({4}, I64)}, with(random(UHAL_RANDOM_NORMAL, 0, 1))},
       "a floating dtype for a normal distribution"},
      {{UHAL_OP_RANDOM, {}, {t({4})}, with(random(UHAL_RANDOM_BITS, 0, 1))}, "an integer dtype for raw bits"},
      {{UHAL_OP_RANDOM, {}, {t({4}, I64)}, with(random(UHAL_RANDOM_UNIFORM, 3, 3))}, "b must be above a"},
      {{UHAL_OP_RANDOM, {}, {t({4}, I64)}, with(random(UHAL_RANDOM_UNIFORM, 0, 1e300))}, "more than 64 bits"},
      {{UHAL_OP_RANDOM, {}, {t({4}, I64)}, with(random(UHAL_RANDOM_UNIFORM, -1e19, 0))}, "at least -2^63"},
      {{UHAL_OP_RANDOM, {}, {t({4})}, with(random(UHAL_RANDOM_BERNOULLI, 1.5, 0))}, "probability a is 1.5"},
      {{UHAL_OP_DROPOUT, {t({4})}, {t({4}), t({4}, UHAL_BOOL)}, with(random(0, -0.1, 0))}, "rate a is -0.1"},
      {{UHAL_OP_DROPOUT, {t({4})}, {t({4}), t({4})}}, "mask has dtype float32, expected uint8 or bool"},
      {{UHAL_OP_RESIZE, {t({2, 3, 4})}, {t({2, 4, 8})}}, "resize: y has shape (2, 4, 8), expected (2, 3, 8)"},
      {{UHAL_OP_RESIZE, {t({2, 3, 0})}, {t({2, 3, 8})}}, "nothing to sample from"},
      {{UHAL_OP_RESIZE, {t({2, 3, 4})}, {t({2, 3, 8})}, with(resize(-1))}, "the attribute scale is -1"},
      {{UHAL_OP_RESIZE, {t({2, 3, 4})}, {t({2, 3, 8})}, with(resize(INFINITY))}, "the attribute scale is inf"},
      {{UHAL_OP_NONZERO, {t({4})}, {t({2}, I64)}}, "nonzero: count has shape (2,), expected (1,)"},
      {{UHAL_OP_NONZERO, {t({4})}, {t({1})}}, "nonzero: count has dtype float32, expected int32 or int64"},
      {{UHAL_OP_NONZERO, {t({4})}, {t({1}, I64), t({4})}}, "nonzero: indices has dtype float32"},
      {{UHAL_OP_NONZERO, {t({4, 5})}, {t({1}, I64), t({4, 3}, I64)}}, "indices has shape (4, 3), expected (4, 2)"},
      {{UHAL_OP_COMPACT, {t({4}), t({3})}, {t({4})}}, "compact: mask has shape (3,), expected (4,)"},
      {{UHAL_OP_COMPACT, {t({4}), t({4})}, {t({4}, I64)}}, "compact: values has dtype int64"},
      {{UHAL_OP_COMPACT, {t({4}), t({4})}, {t({4, 1})}}, "compact: values has rank 2"},
      {{UHAL_OP_COMPACT, {t({4}), t({4})}, {t({4}), t({1})}}, "compact: count has dtype float32"},
      {{UHAL_OP_NONZERO, {t({1 << 20, 1 << 20})}, {t({1}, I64), t({4}, UHAL_INT32)}},
       "int32 does not hold the numbers of 1099511627776 elements"},
      {{UHAL_OP_SEARCH_SORTED, {t({5}), t({3}, I64)}, {t({3}, I64)}}, "values has dtype int64, expected float32"},
      {{UHAL_OP_SEARCH_SORTED, {t({5}), t({3})}, {t({3})}},
       "search_sorted: y has dtype float32, expected int32 or int64"},
      {{UHAL_OP_SEARCH_SORTED, {t({}), t({3})}, {t({3}, I64)}}, "search_sorted: sorted has rank 0"},
      {{UHAL_OP_SEARCH_SORTED, {t({2, 5}), t({3, 4})}, {t({3, 4}, I64)}}, "values has shape (3, 4), expected (2, 4)"},
      {{UHAL_OP_SEARCH_SORTED, {t({2, 5}), t({4})}, {t({4}, I64)}}, "values has rank 1"},
      {{UHAL_OP_SEARCH_SORTED,
        {t({5}), t({3})},
        {t({3}, I64)},
        with(uhal_search_attributes{sizeof(uhal_search_attributes), 2, 0})},
       "search_sorted: the attribute right is 2"},
  };
  for (const RefusedCall& row : refused) expect_refused(row.call, row.text);
}

}  // namespace
}  // namespace core_test
