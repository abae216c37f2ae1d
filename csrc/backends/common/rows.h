// Views of rows: the elements along one axis, for each position of the other axes.
#pragma once

#include "unihal/tensor.h"

namespace unihal {

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

// What UHAL_OP_SEARCH_SORTED searches for each value: a view of the shape of `values` over the beginnings of rows.
inline uhal_tensor rows_to_search(const uhal_tensor& sorted, const uhal_tensor& values) {
  uhal_tensor rows = values;
  rows.data = sorted.data;
  for (int i = 0; i < rows.rank; ++i) rows.strides[i] = sorted.rank > 1 && i + 1 < rows.rank ? sorted.strides[i] : 0;
  return rows;
}

}  // namespace unihal
