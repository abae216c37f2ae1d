// Tensors from numbers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

void full(Context context, Integers shape, Scalar value, Dtype dtype, Output y) {
  fill(context, context.allocate(y, to_uhal(dtype), shape.data(), shape.size()), value);
}

// Graphs give the value as a tensor of one element.
void full_with_tensor(Context context, Input value, Integers shape, Dtype dtype, Output y) {
  const View number = flat(value.view());
  copy_or_cast(context, number, context.allocate(y, to_uhal(dtype), shape.data(), shape.size()));
}

// The numbers as one row of T.
template <class T>
std::vector<char> packed(const Scalars& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = std::is_integral_v<T> ? static_cast<T>(values[i].integer()) : static_cast<T>(values[i].number());
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class Part>
std::vector<char> packed_complex(const Scalars& values) {
  std::vector<char> bytes(values.size() * 2 * sizeof(Part));
  for (size_t i = 0; i < values.size(); ++i) {
    const Part parts[] = {static_cast<Part>(values[i].number()), static_cast<Part>(values[i].imaginary())};
    std::memcpy(bytes.data() + i * sizeof parts, parts, sizeof parts);
  }
  return bytes;
}

std::vector<char> packed(const Scalars& values, uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_BOOL:
      return packed<bool>(values);
    case UHAL_INT8:
      return packed<int8_t>(values);
    case UHAL_UINT8:
      return packed<uint8_t>(values);
    case UHAL_INT16:
      return packed<int16_t>(values);
    case UHAL_INT32:
      return packed<int32_t>(values);
    case UHAL_INT64:
      return packed<int64_t>(values);
    case UHAL_FLOAT64:
      return packed<double>(values);
    case UHAL_COMPLEX64:
      return packed_complex<float>(values);
    case UHAL_COMPLEX128:
      return packed_complex<double>(values);
    default:
      return packed<float>(values);
  }
}

// A graph's constant: numbers of the program, copied to the device each time.
void assign_value(Context context, Span<int> shape, Dtype type, Scalars values, Output y) {
  int64_t dims[UHAL_MAX_RANK];
  const int rank = shape.size();
  if (rank > UHAL_MAX_RANK) unsupported(context, "a constant of rank " + std::to_string(rank));
  std::copy(shape.begin(), shape.end(), dims);
  const uhal_dtype dtype = to_uhal(type);
  const View out = context.allocate(y, dtype, dims, rank);
  if (values.size() == 0) return;
  if (values.size() == 1) return fill(context, out, values[0]);
  if (dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16) {
    const Scratch wide(context, UHAL_FLOAT32, out);
    upload(context, packed(values, UHAL_FLOAT32), wide);
    return copy_or_cast(context, wide, out);
  }
  upload(context, packed(values, dtype), out);
}

// Without a dtype, of the operand's.
void full_like(Context context, Input x, Scalar value, Dtype dtype, Output y) {
  fill(context, context.allocate(y, dtype == kUndefined ? x.uhal() : to_uhal(dtype)), value);
}

void full_batch_size_like(Context context, Input x, Span<int> shape, Scalar value, Dtype dtype, int from, int to,
                          Output y) {
  fill(context, allocate_with_length_of(context, x, from, shape, to, to_uhal(dtype), y), value);
}

constexpr double kMaxLength = 1e18;

void arange(Context context, double start, double end, double step, uhal_dtype dtype, Output y) {
  if (step == 0) raise(UHAL_INVALID_ARGUMENT, "(unihal) arange: the step is 0; it must not be");
  // Of float32 the quotient is rounded as the CPU's: 1 / 0.0001f is 10000.0003.
  const bool is_wide = dtype == UHAL_FLOAT64 || dtype == UHAL_INT64 || dtype == UHAL_INT32;
  const double length =
      is_wide ? (end - start) / step
              : static_cast<double>((static_cast<float>(end) - static_cast<float>(start)) / static_cast<float>(step));
  if (!(length < kMaxLength)) {
    raise(UHAL_FAILED_PRECONDITION, "(unihal) arange: from " + std::to_string(start) + " to " + std::to_string(end) +
                                        " by " + std::to_string(step) + " is not a number of elements");
  }
  const int64_t count = length > 0 ? static_cast<int64_t>(__builtin_ceil(length)) : 0;
  count_up(context, context.allocate(y, dtype, &count, 1), start, step);
}

void arange_scalar(Context context, Scalar start, Scalar end, Scalar step, Output y) {
  arange(context, start.number(), end.number(), step.number(), y.uhal(), y);
}

// Where a range begins and ends: Paddle makes these tensors in host memory, and copied them only for the kernel to
// read.
constexpr uint32_t kFirstThree = 0b111;
constexpr uint32_t kFirstFour = 0b1111;

void arange_tensor(Context context, Input start, Input end, Input step, Output y) {
  arange(context, read_number(context, start), read_number(context, end), read_number(context, step), start.uhal(), y);
}

// paddle.range, whose end is in it.
void range(const Context& context, double start, double end, double step, uhal_dtype dtype, Output y) {
  if (step == 0) invalid(context, "the step is 0; it must not be");
  if ((start < end && step < 0) || (start > end && step > 0)) {
    raise(UHAL_FAILED_PRECONDITION, "(unihal) range: from " + std::to_string(start) + " steps of " +
                                        std::to_string(step) + " do not lead to " + std::to_string(end));
  }
  const double length = std::floor((end - start) / step) + 1;
  if (!(length < kMaxLength)) invalid(context, "a range without an end");
  const auto count = static_cast<int64_t>(length);
  count_up(context, context.allocate(y, dtype, &count, 1), start, step);
}
// What range_tensor becomes in graphs whose bounds are known.
void range_scalar(Context context, Scalar start, Scalar end, Scalar step, Output y) {
  range(context, start.number(), end.number(), step.number(), y.uhal(), y);
}
void range_tensor(Context context, Input start, Input end, Input step, Output y) {
  range(context, read_number(context, start), read_number(context, end), read_number(context, step), start.uhal(), y);
}

// start + i * (stop - start) / (number - 1)
void linspace(Context context, Input start, Input stop, Input number, Dtype dtype, Output y) {
  const double from = read_number(context, start), to = read_number(context, stop);
  const auto count = static_cast<int64_t>(read_number(context, number));
  if (count < 0)
    raise(UHAL_INVALID_ARGUMENT, "(unihal) linspace: num is " + std::to_string(count) + "; expected at least 0");
  const View out = context.allocate(y, to_uhal(dtype), &count, 1);
  const Scratch numbers(context, UHAL_FLOAT64, &count, 1);
  count_up(context, numbers, from, count > 1 ? (to - from) / static_cast<double>(count - 1) : 0);
  copy_or_cast(context, numbers, out);
}

// base to the powers of a linspace
void logspace(Context context, Input start, Input stop, Input number, Input base, Dtype dtype, Output y) {
  const double from = read_number(context, start), to = read_number(context, stop);
  const auto count = static_cast<int64_t>(read_number(context, number));
  if (count < 1) {
    raise(UHAL_INVALID_ARGUMENT, "(unihal) logspace: num is " + std::to_string(count) + "; expected at least 1");
  }
  const View out = context.allocate(y, to_uhal(dtype), &count, 1);
  const Scratch powers(context, UHAL_FLOAT64, &count, 1), root(context, UHAL_FLOAT64, nullptr, 0);
  count_up(context, powers, from, count > 1 ? (to - from) / static_cast<double>(count - 1) : 0);
  fill(context, root, read_number(context, base), 0);
  context.map(uhal_map_power, {&root, &powers}, {&powers});
  copy_or_cast(context, powers, out);
}

void eye(Context context, Scalar rows, Scalar columns, Dtype dtype, Output y) {
  const int64_t height = rows.integer(), width = columns.integer() < 0 ? height : columns.integer();
  const int64_t dims[] = {height, width};
  const View out = context.allocate(y, to_uhal(dtype), dims, 2);
  fill_zero(context, out);
  // The diagonal is a view whose step is one row and one column.
  View diagonal = out.sliced(0, 0, height < width ? height : width);
  diagonal.strides[0] += diagonal.strides[1];
  diagonal.rank = 1;
  fill(context, diagonal, 1, 1);
}

void increment(Context context, Input x, float step, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  context.map(uhal_map_scale, {&in}, {&out}, {1, static_cast<double>(step)});
}

void numel(Context context, Input x, Output y) { fill(context, context.allocate(y, UHAL_INT64), 0, x.elements()); }

void triangle_of(const Context& context, Input x, int diagonal, bool upper, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  uhal_triangular_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = upper;
  attributes.diagonal = diagonal;
  context.run(UHAL_OP_TRIANGULAR, {&in}, {&out}, &attributes);
}

template <bool upper>
void triangle(Context context, Input x, int diagonal, Output y) {
  triangle_of(context, x, diagonal, upper, y);
}
// In programs of the old intermediate representation.
void tril_triu(Context context, Input x, int diagonal, bool lower, Output y) {
  triangle_of(context, x, diagonal, !lower, y);
}

}  // namespace

KernelTable creation_kernels() {
  return {
      UNIHAL_KERNEL("full", kEvery, full),
      UNIHAL_KERNEL("full_with_tensor", kEvery, full_with_tensor),
      UNIHAL_KERNEL("assign_value", kEvery, assign_value),
      UNIHAL_KERNEL("full_like", kEvery, full_like),
      UNIHAL_KERNEL("arange", kNumbers, arange_scalar),
      UNIHAL_KERNEL_ANYWHERE("arange_tensor", kFloats | kInt32And64, kFirstThree, 0, arange_tensor),
      UNIHAL_KERNEL_ANYWHERE("linspace", kFloats | kInt32And64, kFirstThree, 0, linspace),
      UNIHAL_KERNEL_ANYWHERE("logspace", kFloats | kInt32And64, kFirstFour, 0, logspace),
      UNIHAL_KERNEL("full_batch_size_like", kWideFloats | kInt32And64 | kBoolOnly, full_batch_size_like),
      UNIHAL_KERNEL("range", kWideFloats | kInt32And64, range_scalar),
      UNIHAL_KERNEL_ANYWHERE("range_tensor", kWideFloats | kInt32And64, kFirstThree, 0, range_tensor),
      UNIHAL_KERNEL("eye", kEvery, eye),
      UNIHAL_KERNEL("increment", kNumbers, increment),
      UNIHAL_KERNEL("numel", kEvery, numel),
      UNIHAL_KERNEL("tril", kEvery, triangle<false>),
      UNIHAL_KERNEL("triu", kEvery, triangle<true>),
      UNIHAL_KERNEL("tril_grad", kEvery, triangle<false>),
      UNIHAL_KERNEL("triu_grad", kEvery, triangle<true>),
      UNIHAL_KERNEL("tril_triu", kEvery, tril_triu),
      UNIHAL_KERNEL("tril_triu_grad", kEvery, tril_triu),
  };
}

}  // namespace unihal::paddle
