// Work along one axis: the positions of all other axes, for several views at once.
#pragma once

#include "stub/parallel.h"
#include "csrc/backends/common/space.h"

namespace unihal::stub {

// A view of the first element along an axis.
inline uhal_tensor first_along(const uhal_tensor& view, int axis) {
  uhal_tensor result = view;
  result.shape[axis] = 1;
  return result;
}

// The view with an axis of length 1 put in before `axis`.
inline uhal_tensor with_axis(const uhal_tensor& view, int axis) {
  uhal_tensor result = view;
  for (int i = view.rank; i > axis; --i) {
    result.shape[i] = view.shape[i - 1];
    result.strides[i] = view.strides[i - 1];
  }
  result.shape[axis] = 1;
  result.strides[axis] = 0;
  ++result.rank;
  return result;
}

// Calls body(cursor) for every position of a space, in parallel; an item is `work` units.
template <class Body>
void for_each_position(const Space& space, int64_t work, const Body& body) {
  parallel_for(space.count, work, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    for (; begin < end; ++begin, cursor.advance(1)) body(static_cast<const Cursor&>(cursor));
  });
}

}  // namespace unihal::stub
