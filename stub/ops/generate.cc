// UHAL_OP_FILL, UHAL_OP_IOTA, UHAL_OP_TRIANGULAR and UHAL_OP_ONE_HOT.

#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "stub/common/blocks.h"
#include "stub/common/indices.h"
#include "stub/common/kernels.h"
#include "stub/common/rows.h"
#include "stub/ops/copy.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

void fill(const uhal_op& op) {
  const auto attributes = attributes_or(op, uhal_fill_attributes{sizeof(uhal_fill_attributes), 0, 0});
  fill_view(attributes.value, attributes.integer_value, *op.outputs[0]);
}

// Unsigned: wraps beyond the range. By sums, for few machines multiply 64 bits in vectors.
template <class Whole>
UNIHAL_VECTORIZED void count_up(int64_t count, Whole value, Whole step, Whole* values) {
  for (int64_t i = 0; i < count; ++i, value += step) values[i] = value;
}

void iota(const uhal_op& op) {
  const auto attributes = attributes_or(op, uhal_iota_attributes{sizeof(uhal_iota_attributes), 0, 1, 0, 1});
  uhal_tensor y = *op.outputs[0];
  if (y.rank == 0) y = with_axis(y, 0);
  const int axis = y.rank - 1;
  const int64_t length = y.shape[axis];
  const int64_t stride = y.strides[axis];
  const int64_t size = dtype_size(y.dtype);
  const ComputeType type = is_integer(y.dtype) ? kInt64 : kDouble;
  const StoreLoop store = vectors().store[type][y.dtype];
  const uhal_tensor first = first_along(y, axis);
  const uhal_tensor* views[] = {&first};
  for_each_position(make_space(views, 1), length, [&](const Cursor& cursor) {
    char* row = static_cast<char*>(y.data) + cursor.offset(0) * size;
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t count = std::min(kBlock, length - begin);
      BlockBuffer buffer;
      if (type == kInt64) {
        const auto step = static_cast<uint64_t>(attributes.integer_step);
        const uint64_t start = static_cast<uint64_t>(attributes.integer_start) + static_cast<uint64_t>(begin) * step;
        count_up(count, start, step, reinterpret_cast<uint64_t*>(buffer.bytes));
      } else {
        double* values = reinterpret_cast<double*>(buffer.bytes);
        for (int64_t i = 0; i < count; ++i) {
          values[i] = attributes.start + static_cast<double>(begin + i) * attributes.step;
        }
      }
      store(count, buffer.bytes, row + begin * stride * size, stride);
    }
  });
}

void triangular(const uhal_op& op) {
  const auto attributes = attributes_or(op, uhal_triangular_attributes{sizeof(uhal_triangular_attributes), 0, 0, 0});
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const int column_axis = y.rank - 1;
  const int row_axis = y.rank - 2;
  const int64_t columns = y.shape[column_axis];
  const int64_t size = dtype_size(y.dtype);
  // Part of a row of all matrices at a time: columns [begin, end) of row r.
  const auto part = [&](const uhal_tensor& view, int64_t r, int64_t begin, int64_t end) {
    uhal_tensor result = view;
    result.data =
        static_cast<char*>(view.data) + (r * view.strides[row_axis] + begin * view.strides[column_axis]) * size;
    result.shape[row_axis] = 1;
    result.shape[column_axis] = end - begin;
    return result;
  };
  for (int64_t r = 0; r < y.shape[row_axis]; ++r) {
    // The kept columns are [first, last): up to the diagonal, or from it on.
    const int64_t diagonal = std::clamp<int64_t>(r + attributes.diagonal + (attributes.upper ? 0 : 1), 0, columns);
    const int64_t first = attributes.upper ? diagonal : 0;
    const int64_t last = attributes.upper ? columns : diagonal;
    if (x.data != y.data) copy_views(part(x, r, first, last), part(y, r, first, last));
    fill_view(0, 0, attributes.upper ? part(y, r, 0, first) : part(y, r, last, columns));
  }
}

void one_hot(const uhal_op& op) {
  const auto attributes = attributes_or(op, uhal_index_attributes{sizeof(uhal_index_attributes)});
  const uhal_tensor& y = *op.outputs[0];
  const int axis = attributes.axis;
  fill_view(0, 0, y);
  const uhal_tensor indices = with_axis(*op.inputs[0], axis);
  const uhal_tensor first = first_along(y, axis);
  const IndexReader read(indices);
  const uhal_tensor* views[] = {&first, &indices};
  const int64_t size = dtype_size(y.dtype);
  for_each_position(make_space(views, 2), 1, [&](const Cursor& cursor) {
    const int64_t index = read(cursor.offset(1));
    if (index < 0 || index >= y.shape[axis]) return;
    uhal_tensor one = y;
    one.rank = 0;
    one.data = static_cast<char*>(y.data) + (cursor.offset(0) + index * y.strides[axis]) * size;
    fill_view(1, 1, one);
  });
}

}  // namespace

const char* refuse_generate(const uhal_op& op) {
  const uhal_dtype dtype = op.outputs[0]->dtype;
  if (op.kind == UHAL_OP_IOTA && !is_real(dtype)) {
    return refusal("iota: dtype %s is not supported; generate real numbers and cast them", dtype_name(dtype));
  }
  return nullptr;
}

uhal_status run_generate(const Launch& launch) {
  switch (launch.op.kind) {
    case UHAL_OP_FILL:
      fill(launch.op);
      break;
    case UHAL_OP_IOTA:
      iota(launch.op);
      break;
    case UHAL_OP_TRIANGULAR:
      triangular(launch.op);
      break;
    default:
      one_hot(launch.op);
      break;
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
