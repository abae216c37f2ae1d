#include "plugins/tensorflow/kernels/number.h"

#include <cstring>

#include "plugins/tensorflow/reduced_float.h"

namespace unihal::tensorflow {
namespace {

template <class T>
T element_at(const char* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

double real_at(const char* element, uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_INT32:
      return element_at<int32_t>(element);
    case UHAL_INT64:
      return static_cast<double>(element_at<int64_t>(element));
    case UHAL_FLOAT32:
      return element_at<float>(element);
    case UHAL_FLOAT16:
    case UHAL_BFLOAT16:
      return reduced_float(element_at<uint16_t>(element), dtype == UHAL_FLOAT16);
    default:
      return element_at<double>(element);
  }
}

int64_t integer_at(const char* element, uhal_dtype dtype) {
  return dtype == UHAL_INT32 ? element_at<int32_t>(element) : element_at<int64_t>(element);
}

// All elements of dense views, each as `at` reads it; waits for the stream once.
template <class T>
std::vector<T> read_elements(Context& context, const std::vector<View>& views, T (*at)(const char*, uhal_dtype)) {
  size_t bytes = 0;
  for (const View& view : views) bytes += static_cast<size_t>(view.elements()) * uhal_dtype_size(view.dtype);
  uhal_stream* stream = context.ok() && bytes > 0 ? context.stream() : nullptr;
  if (stream == nullptr) return {};
  std::vector<char> elements(bytes);
  char* next = elements.data();
  uhal_status status = UHAL_OK;
  for (const View& view : views) {
    const size_t size = static_cast<size_t>(view.elements()) * uhal_dtype_size(view.dtype);
    if (size > 0 && status == UHAL_OK) status = uhal_copy(stream, next, view.data, size, UHAL_COPY_DEVICE_TO_HOST);
    next += size;
  }
  const uhal_status waited = uhal_stream_synchronize(stream);  // also for copies before one that failed
  if (!context.check(status) || !context.check(waited)) return {};
  std::vector<T> result;
  next = elements.data();
  for (const View& view : views) {
    for (int64_t i = 0; i < view.elements(); ++i, next += uhal_dtype_size(view.dtype)) {
      result.push_back(at(next, view.dtype));
    }
  }
  return result;
}

}  // namespace

HostNumbers::HostNumbers(Context& context, const View& view) {
  const int64_t count[] = {view.elements()};
  if (!context.ok() || count[0] == 0) return;
  View wide(view.data, view.dtype, count, 1);
  if (view.dtype != UHAL_INT64) {
    const View given = wide;
    wide = context.temporary(UHAL_INT64, count, 1);
    if (!context.ok() || !context.cast(given, wide)) return;
  }
  const auto size = static_cast<size_t>(count[0]);
  const bool copies = !context.computes_at_once();
  uhal_status status = UHAL_OK;
  if (copies) {
    copy_.resize(size);
    status = uhal_copy(context.stream(), copy_.data(), wide.data, size * sizeof(int64_t), UHAL_COPY_DEVICE_TO_HOST);
  }
  if (status == UHAL_OK) status = uhal_stream_synchronize(context.stream());
  if (!context.check(status)) return;
  first_ = copies ? copy_.data() : static_cast<const int64_t*>(wide.data);
  size_ = size;
}

Shape read_numbers(Context& context, const View& numbers) {
  const HostNumbers read(context, numbers);
  return Shape(read.begin(), read.end());
}

int64_t read_number(Context& context, const View& number) {
  const Shape values = read_numbers(context, View(number.data, number.dtype, {1}));
  return values.empty() ? 0 : values[0];
}

std::vector<double> read_reals(Context& context, const std::vector<View>& views) {
  return read_elements(context, views, real_at);
}

Shape read_integers(Context& context, const std::vector<View>& views) {
  return read_elements(context, views, integer_at);
}

std::vector<double> read_scalars(Context& context, int first, int count) {
  std::vector<View> views;
  for (int i = first; i < first + count; ++i) {
    const View view = context.input(i);
    if (!context.ok()) return {};
    if (view.rank != 0) {
      context.fail_invalid("input " + std::to_string(i) + " must be a scalar, not of shape " + to_text(view));
      return {};
    }
    views.push_back(view);
  }
  return read_reals(context, views);
}

// In ascending order equal numbers are neighbours, in the order in which they came: how far one is from the first.
View occurrences(Context& context, const View& numbers) {
  const int64_t count[] = {numbers.elements()};
  const View result = context.temporary(UHAL_INT64, count, 1);
  const View sorted = context.temporary(numbers.dtype, count, 1);
  const View places = context.temporary(UHAL_INT64, count, 1);
  const View order = context.temporary(UHAL_INT64, count, 1);
  if (!context.ok() || count[0] == 0) return result;
  const uhal_axis_attributes ascending = axis_attributes(0, false);
  context.launch(UHAL_OP_SORT, {&numbers}, {&sorted, &places}, &ascending);
  uhal_iota_attributes iota = {};
  iota.struct_size = sizeof iota;
  iota.integer_step = 1;
  context.launch(UHAL_OP_IOTA, {}, {&order}, &iota);
  const View first = context.temporary(UHAL_INT64, count, 1);
  uhal_search_attributes search = {};
  search.struct_size = sizeof search;
  context.launch(UHAL_OP_SEARCH_SORTED, {&sorted, &sorted}, {&first}, &search);
  context.map(uhal_map_subtract, {&order, &first}, {&order});
  const uhal_index_attributes scatter = index_attributes(0);
  context.launch(UHAL_OP_SCATTER, {&places, &order}, {&result}, &scatter);
  return result;
}

}  // namespace unihal::tensorflow
