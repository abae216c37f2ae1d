#include "plugins/tensorflow/kernels/strided_slice.h"

#include <algorithm>

namespace unihal::tensorflow {

StridedSlice::StridedSlice(Construction& construction)
    : begin_mask_(construction.integer("begin_mask")),
      end_mask_(construction.integer("end_mask")),
      ellipsis_mask_(construction.integer("ellipsis_mask")),
      new_axis_mask_(construction.integer("new_axis_mask")),
      shrink_axis_mask_(construction.integer("shrink_axis_mask")) {}

bool StridedSlice::select(Context& context, int first_input, const View& whole, View* part, Shape* shape) const {
  const Shape begin = context.host_vector(first_input);
  const Shape end = context.host_vector(first_input + 1);
  const Shape strides = context.host_vector(first_input + 2);
  if (!context.ok()) return false;
  const int entries = static_cast<int>(begin.size());
  if (end.size() != begin.size() || strides.size() != begin.size() || entries > 32) {
    context.fail_invalid("StridedSlice: begin, end and strides must have one length of at most 32");
    return false;
  }
  const auto is_set = [](int64_t mask, int bit) { return (mask >> bit & 1) != 0; };
  if ((ellipsis_mask_ & (ellipsis_mask_ - 1)) != 0) {
    context.fail_invalid("StridedSlice: Multiple ellipses in slice spec not allowed");
    return false;
  }
  // An ellipsis takes all the axes that the other entries leave over; without one, it stands at the end.
  int named_axes = 0;
  for (int i = 0; i < entries; ++i) named_axes += !is_set(ellipsis_mask_, i) && !is_set(new_axis_mask_, i);
  if (named_axes > whole.rank) {
    context.fail_invalid("StridedSlice: too many indices for a tensor of shape " + to_text(whole));
    return false;
  }
  *part = whole;
  shape->clear();
  int axis = 0;
  const auto skip_axes = [&](int count) {
    for (; count > 0; --count) shape->push_back(whole.shape[axis++]);
  };
  for (int i = 0; i < entries; ++i) {
    if (is_set(ellipsis_mask_, i)) {
      skip_axes(whole.rank - named_axes);
      continue;
    }
    if (is_set(new_axis_mask_, i)) {
      shape->push_back(1);
      continue;
    }
    const size_t entry = static_cast<size_t>(i);
    const int64_t length = whole.shape[axis];
    const int64_t step = strides[entry];
    if (is_set(shrink_axis_mask_, i)) {
      const int64_t index = begin[entry] < 0 ? begin[entry] + length : begin[entry];
      if (index < 0 || index >= length || step <= 0) {
        context.fail_invalid("slice index " + std::to_string(begin[entry]) + " of dimension " + std::to_string(axis) +
                             " out of bounds");
        return false;
      }
      *part = part->sliced(axis++, index, 1);
      continue;
    }
    if (step == 0) {
      context.fail_invalid("strides[" + std::to_string(i) + "] must be non-zero");
      return false;
    }
    // The positions before the first and after the last, in the direction of the step.
    const int64_t lowest = step > 0 ? 0 : -1;
    const int64_t highest = step > 0 ? length : length - 1;
    const auto resolve = [&](int64_t value) { return std::clamp(value < 0 ? value + length : value, lowest, highest); };
    const int64_t start = is_set(begin_mask_, i) ? (step > 0 ? lowest : highest) : resolve(begin[entry]);
    const int64_t stop = is_set(end_mask_, i) ? (step > 0 ? highest : lowest) : resolve(end[entry]);
    const int64_t span = step > 0 ? stop - start : start - stop;
    const int64_t magnitude = step > 0 ? step : -step;
    const int64_t count = span <= 0 ? 0 : (span + magnitude - 1) / magnitude;
    *part = part->sliced(axis++, count > 0 ? start : 0, count, step);
    shape->push_back(count);
  }
  skip_axes(whole.rank - axis);
  return true;
}

}  // namespace unihal::tensorflow
