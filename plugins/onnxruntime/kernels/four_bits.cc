#include "plugins/onnxruntime/kernels/four_bits.h"

namespace unihal::onnxruntime {

View widened_input(Call& call, int index) {
  const RawTensor raw = call.raw_input(index);
  if (!is_four_bits(raw.type)) return call.input(index);
  const uhal_dtype dtype = widened(raw.type);
  const int64_t count = elements_of(raw.shape), bytes = (count + 1) / 2;
  const View result = call.scratch(Shape{2 * bytes}, dtype);
  if (count != 0) {
    // Shifts of the result's dtype carry the sign.
    const View packed(raw.data, UHAL_UINT8, {bytes}), high_halves(raw.data, dtype, {bytes});
    const View low = result.sliced(0, 0, bytes, 2), high = result.sliced(0, 1, bytes, 2);
    const View four = call.constant(4, UHAL_UINT8), by_four = call.constant(4, dtype);
    const View raised = call.scratch(Shape{bytes}, UHAL_UINT8);
    call.map(uhal_map_shift_left, {&packed, &four}, {&raised});
    const View low_halves(raised.data, dtype, {bytes});
    call.map(uhal_map_shift_right, {&low_halves, &by_four}, {&low});
    call.map(uhal_map_shift_right, {&high_halves, &by_four}, {&high});
  }
  return View(result.data, dtype, raw.shape);
}

WidenedOutput::WidenedOutput(Call& call, int index, const Shape& shape, int32_t type) {
  if (!is_four_bits(type)) {
    view = call.output(index, shape);
    return;
  }
  const RawTensor raw = call.raw_output(index, shape);
  const int64_t count = elements_of(shape), bytes = (count + 1) / 2;
  packed_ = View(raw.data, UHAL_UINT8, {bytes});
  const View whole = call.scratch(Shape{2 * bytes}, widened(type));
  if (count % 2 != 0) call.fill(whole.sliced(0, count, 1), 0);
  view = View(whole.data, whole.dtype, shape);
}

void WidenedOutput::finish(Call& call) const {
  if (packed_.dtype == UHAL_DTYPE_INVALID || packed_.elements() == 0) return;
  const int64_t bytes = packed_.shape[0];
  const View numbers(view.data, UHAL_UINT8, {2 * bytes});
  const View low = numbers.sliced(0, 0, bytes, 2), high = numbers.sliced(0, 1, bytes, 2);
  const View mask = call.constant(15, UHAL_UINT8), four = call.constant(4, UHAL_UINT8);
  const View first = call.scratch(Shape{bytes}, UHAL_UINT8), second = call.scratch(Shape{bytes}, UHAL_UINT8);
  call.map(uhal_map_bitwise_and, {&low, &mask}, {&first});
  call.map(uhal_map_shift_left, {&high, &four}, {&second});
  call.map(uhal_map_bitwise_or, {&first, &second}, {&packed_});
}

}  // namespace unihal::onnxruntime
