// Rows of an operand: its elements along one axis, for ops that work row by row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stub/common/blocks.h"
#include "stub/common/kernels.h"

namespace unihal::stub {

// An operand's row: the elements along the axis from one position of the other axes on.
struct Row {
  char* data;
  int64_t length;
  int64_t stride;  // in elements
  uhal_dtype dtype;

  Row(const uhal_tensor& view, int axis, int64_t offset)
      : data(static_cast<char*>(view.data) + offset * dtype_size(view.dtype)),
        length(view.shape[axis]),
        stride(view.strides[axis]),
        dtype(view.dtype) {}

  char* at(int64_t index) const { return data + index * stride * dtype_size(dtype); }
};

// Reads a row in blocks of a compute type: body(first index, count, values).
template <class T, class Body>
void read_row(const Row& row, ComputeType type, const Body& body) {
  const LoadLoop load = vectors().load[row.dtype][type];
  const bool in_place = row.dtype == compute_dtype(type) && row.stride == 1;
  BlockBuffer buffer;
  for (int64_t begin = 0; begin < row.length; begin += kBlock) {
    const int64_t count = std::min(kBlock, row.length - begin);
    if (!in_place) load(count, row.at(begin), row.stride, buffer.bytes);
    body(begin, count, reinterpret_cast<const T*>(in_place ? row.at(begin) : buffer.bytes));
  }
}

inline void store_index(const Row& row, int64_t at, int64_t index) {
  if (row.dtype == UHAL_INT64) {
    *reinterpret_cast<int64_t*>(row.at(at)) = index;
  } else {
    *reinterpret_cast<int32_t*>(row.at(at)) = static_cast<int32_t>(index);
  }
}

// The same row from its other end.
inline Row reversed(Row row) {
  row.data = row.at(row.length - 1);
  row.stride = -row.stride;
  return row;
}

// The refusal of an op that orders its operand's elements; nullptr for real dtypes.
const char* refuse_unordered(const char* name, const uhal_op& op);

}  // namespace unihal::stub
