#include "plugins/paddle/kernels/common.h"
#include "plugins/common/chain.h"

#include <utility>

#include "plugins/paddle/host_tensor.h"

namespace unihal::paddle {

bool same_shape(const View& a, const View& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
  }
  return true;
}

bool is_dense(const View& view) {
  int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    if (view.shape[i] != 1 && view.strides[i] != stride) return false;
    stride *= view.shape[i];
  }
  return true;
}

View with_rank(const View& view, int rank) {
  View result = view;
  while (result.rank < rank) result = result.unsqueezed(0);
  return result;
}

View flat(const View& view) { return view.reshaped({view.elements()}); }

void sum_to_shape(const Context& context, const View& source, const View& target) {
  if (source.elements() == 0) return fill_zero(context, target);
  if (same_shape(source, target)) return copy_or_cast(context, source, target);
  const View padded = with_rank(target, source.rank);
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&source}, {&padded}, &attributes);
}

void copy_or_cast(const Context& context, const View& x, const View& y) {
  if (x.data == y.data && x.dtype == y.dtype && same_shape(x, y)) return;
  // Of complex numbers any part counts, while a cast looks at the real one.
  if (is_complex(x.dtype) && y.dtype == UHAL_BOOL) return context.map(uhal_map_logical_or, {&x, &x}, {&y});
  context.run(x.dtype == y.dtype ? UHAL_OP_COPY : UHAL_OP_CAST, {&x}, {&y});
}

void fill(const Context& context, const View& y, double value, int64_t integer) {
  uhal_fill_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.value = value;
  attributes.integer_value = y.dtype == UHAL_BOOL ? value != 0 || integer != 0 : integer;  // 0.5 is true
  context.run(UHAL_OP_FILL, {}, {&y}, &attributes);
}

void fill(const Context& context, const View& y, const Scalar& value) {
  const double imaginary = value.imaginary();
  if (!is_complex(y.dtype) || imaginary == 0) return fill(context, y, value.number(), value.integer());
  const uhal_dtype part = real_of(y.dtype);
  const Scratch first(context, part, nullptr, 0), second(context, part, nullptr, 0);
  fill(context, first, value.number(), 0);
  fill(context, second, imaginary, 0);
  context.map(uhal_map_complex, {&first, &second}, {&y});
}

void gather_rows(const Context& context, const View& x, const View& places, const View& y) {
  const auto attributes = index_attributes(0);
  if (y.elements() > 0) context.run(UHAL_OP_GATHER, {&x, &places}, {&y}, &attributes);
}

uhal_index_attributes wrapping(int axis, uhal_reduction reduction) {
  auto attributes = index_attributes(axis);
  attributes.reduction = reduction;
  attributes.negative_wraps = 1;
  return attributes;
}

void count_up(const Context& context, const View& y, double start, double step) {
  uhal_iota_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  if (is_integer(y.dtype)) {
    attributes.integer_start = static_cast<int64_t>(start);
    attributes.integer_step = static_cast<int64_t>(step);
  } else {
    attributes.start = start;
    attributes.step = step;
  }
  context.run(UHAL_OP_IOTA, {}, {&y}, &attributes);
}

View allocate_with_length_of(const Context& context, Input x, int from, const Span<int>& shape, int to,
                             uhal_dtype dtype, Output y) {
  const View in = x.layout();
  if (shape.size() > UHAL_MAX_RANK) unsupported(context, "a tensor of rank " + std::to_string(shape.size()));
  if (from < 0 || from >= in.rank || to < 0 || to >= shape.size()) invalid(context, "there is no such axis");
  int64_t dims[UHAL_MAX_RANK];
  std::copy(shape.begin(), shape.end(), dims);
  dims[to] = in.shape[from];
  return context.allocate(y, dtype, dims, shape.size());
}

void multiply_by_equality(const Context& context, const View& a, const View& b, const View& y) {
  Chain product(3);
  product.step(uhal_map_multiply, {2, product.step(uhal_map_equal, {0, 1})});
  context.run(UHAL_OP_MAP_CHAIN, {&a, &b, &y}, {&y}, product.program());
}

void as_test(const Context& context, const View& x, const View& y) {
  const Scratch zero(context, x.dtype, nullptr, 0);
  fill_zero(context, zero);
  context.map(uhal_map_not_equal, {&x, &zero}, {&y});
}

namespace {

void read(const Context& context, const View& x, void* to) {
  uhal_stream* stream = context.stream()->handle;
  const size_t bytes = static_cast<size_t>(x.elements()) * uhal_dtype_size(x.dtype);
  context.check(uhal_copy(stream, to, x.data, bytes, UHAL_COPY_DEVICE_TO_HOST));
  context.check(uhal_stream_synchronize(stream));
}

}  // namespace

double read_number(const Context& context, const View& x) {
  const View first(x.data, x.dtype, {1});
  alignas(16) char number[16];
  if (is_plain_number(x.dtype)) {
    read(context, first, number);
    return plain_number(number, x.dtype);
  }
  const Scratch wide(context, UHAL_FLOAT64, {1});
  copy_or_cast(context, first, wide);
  read(context, wide, number);
  return plain_number(number, UHAL_FLOAT64);
}

std::vector<double> read_numbers(const Context& context, const View& x) {
  const size_t size = uhal_dtype_size(x.dtype);
  std::vector<double> bytes(static_cast<size_t>(x.elements())), result(bytes.size());  // no number is longer
  read(context, x, bytes.data());
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = plain_number(reinterpret_cast<const char*>(bytes.data()) + i * size, x.dtype);
  }
  return result;
}

double read_number(const Context& context, const Tensor& x) {
  return is_on_host(x) ? host_number(x) : read_number(context, x.view());
}

double read_extreme(const Context& context, uhal_reduction reduction, const View& x) {
  const Scratch found(context, x.dtype, {1});
  const View all = flat(x);
  const auto attributes = reduce_attributes(reduction);
  context.run(UHAL_OP_REDUCE, {&all}, {&found}, &attributes);
  return read_number(context, found);
}

std::vector<int64_t> read_integers(const Context& context, const View& x) {
  std::vector<int64_t> result(static_cast<size_t>(x.elements()));
  if (result.empty()) return result;
  if (x.dtype == UHAL_INT64 && is_dense(x)) {
    read(context, x, result.data());
  } else {
    const Scratch wide(context, UHAL_INT64, x);
    copy_or_cast(context, x, wide);
    read(context, wide, result.data());
  }
  return result;
}

void require_same_dtype(const Context& context, const View& a, const View& b) {
  if (a.dtype == b.dtype) return;
  invalid(context, std::string("the operands have the dtypes ") + uhal_dtype_name(a.dtype) + " and " +
                       uhal_dtype_name(b.dtype) + ", expected one");
}

void invalid(const Context& context, const std::string& message) {
  raise(UHAL_INVALID_ARGUMENT, std::string("(unihal) ") + context.kernel() + ": " + message);
}

Uploads::~Uploads() {
  uhal_stream* stream = context_.stream()->handle;
  const auto forget = [](void* argument) { delete static_cast<std::vector<char>*>(argument); };
  if (uhal_stream_host_callback(stream, forget, bytes_) == UHAL_OK) return;
  uhal_stream_synchronize(stream);
  delete bytes_;
}

void Uploads::copy(const void* from, const View& y) const {
  const size_t bytes = static_cast<size_t>(y.elements()) * uhal_dtype_size(y.dtype);
  if (bytes == 0) return;
  context_.check(uhal_copy(context_.stream()->handle, y.data, from, bytes, UHAL_COPY_HOST_TO_DEVICE));
}

void upload(const Context& context, std::vector<char> bytes, const View& y) {
  const size_t wanted = static_cast<size_t>(y.elements()) * uhal_dtype_size(y.dtype);
  if (bytes.size() != wanted) {
    raise(UHAL_INVALID_ARGUMENT, std::string("(unihal) ") + context.kernel() + ": " + std::to_string(bytes.size()) +
                                     " bytes of numbers were given for a tensor of " + std::to_string(wanted));
  }
  const Uploads kept(context, std::move(bytes));
  kept.copy(kept.at<char>(0), y);
}

void add_rows(const Context& context, const View& indices, const View& values, const View& target) {
  auto attributes = index_attributes(0);
  attributes.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCATTER, {&indices, &values}, {&target}, &attributes);
}

DeviceIntegers::DeviceIntegers(const Context& context, const std::vector<int64_t>& values)
    : Scratch(context, UHAL_INT64, View(nullptr, UHAL_INT64, {static_cast<int64_t>(values.size())})) {
  if (values.empty()) return;
  uhal_stream* stream = context.stream()->handle;
  const size_t bytes = values.size() * sizeof(int64_t);
  context.check(uhal_copy(stream, data, values.data(), bytes, UHAL_COPY_HOST_TO_DEVICE));
  context.check(uhal_stream_synchronize(stream));
}

void unsupported(const Context& context, const std::string& what) {
  raise(UHAL_UNIMPLEMENTED, std::string("(unihal) ") + context.kernel() + ": " + what + " is not supported");
}

}  // namespace unihal::paddle
