#include "plugins/tensorflow/kernels/number.h"

namespace unihal::tensorflow {

Shape read_numbers(Context& context, const View& numbers) {
  const int64_t count[] = {numbers.elements()};
  if (!context.ok() || count[0] == 0) return {};
  const View wide = context.temporary(UHAL_INT64, count, 1);
  if (!context.ok() || !context.cast(View(numbers.data, numbers.dtype, count, 1), wide)) return {};
  Shape result(static_cast<size_t>(count[0]));
  uhal_status status =
      uhal_copy(context.stream(), result.data(), wide.data, result.size() * sizeof(int64_t), UHAL_COPY_DEVICE_TO_HOST);
  if (status == UHAL_OK) status = uhal_stream_synchronize(context.stream());
  return context.check(status) ? result : Shape();
}

int64_t read_number(Context& context, const View& number) {
  const Shape values = read_numbers(context, View(number.data, number.dtype, {1}));
  return values.empty() ? 0 : values[0];
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
