// UHAL_OP_SEARCH_SORTED: a bisection for each value.

#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/common/rows.h"
#include "stub/common/scratch.h"
#include "stub/ops/copy.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int kY = 0;
constexpr int kValues = 1;
constexpr int kSorted = 2;

// A value's share of the work, in units of parallel_for: a bisection waits for memory again and again.
constexpr int64_t kWork = 32;

// So many values are looked up side by side, since each step of a bisection waits for the one before.
constexpr int64_t kTogether = 32;

// How many elements of a row, of which there is one in `row[i * stride]`, go before each of `count` values; NaN counts
// as the largest. Without a branch that depends on them: which way it goes cannot be foretold. All values halve alike.
template <bool right, class T>
UNIHAL_INLINE void bisect(const T* row, int64_t length, int64_t stride, int64_t count, const T* values,
                          int64_t* __restrict before) {
  std::fill_n(before, count, 0);
  for (int64_t left = length; left > 0;) {
    const int64_t half = (left + 1) / 2;  // of what is left, so many go before if the last of them does
    const T* middle = row + (half - 1) * stride;
    for (int64_t i = 0; i < count; ++i) {
      const T element = middle[before[i] * stride], value = values[i];
      const bool is_nan = value != value;
      const bool goes_before =
          right ? (element <= value) | is_nan : (element < value) | (is_nan & (element == element));
      before[i] += half & -static_cast<int64_t>(goes_before);
    }
    left -= half;
  }
}

template <bool right, class T>
UNIHAL_VECTORIZED void elements_before(const T* row, int64_t length, int64_t stride, int64_t count, const T* values,
                                       int64_t* before) {
  if (stride == 1) {
    bisect<right>(row, length, 1, count, values, before);
  } else {
    bisect<right>(row, length, stride, count, values, before);
  }
}

// `sorted` is of the type T itself.
template <class T>
void search(const uhal_tensor& sorted, const uhal_tensor& values, const uhal_tensor& y, bool right) {
  const ComputeType type = compute_type_of(values.dtype);
  const LoadLoop load = vectors().load[values.dtype][type];
  const uhal_tensor rows = rows_to_search(sorted, values);
  const uhal_tensor* views[] = {&y, &values, &rows};
  const int64_t length = sorted.shape[sorted.rank - 1];
  const int64_t stride = sorted.strides[sorted.rank - 1];
  const int64_t size = dtype_size(values.dtype);
  const Space space = make_space(views, 3);
  const int last = space.rank - 1;
  // One row for all values of a run.
  const int64_t most = space.strides[kSorted][last] == 0 ? kTogether : 1;
  const auto look_up = right ? elements_before<true, T> : elements_before<false, T>;
  parallel_for(space.count, kWork, [&](int64_t begin, int64_t end) {
    T given[kTogether];
    int64_t before[kTogether];
    Cursor cursor(space, begin);
    while (begin < end) {
      const int64_t count = std::min({end - begin, cursor.run(), most});
      load(count, static_cast<const char*>(values.data) + cursor.offset(kValues) * size, space.strides[kValues][last],
           given);
      look_up(static_cast<const T*>(sorted.data) + cursor.offset(kSorted), length, stride, count, given, before);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = cursor.offset(kY) + i * space.strides[kY][last];
        if (y.dtype == UHAL_INT64) {
          static_cast<int64_t*>(y.data)[at] = before[i];
        } else {
          static_cast<int32_t*>(y.data)[at] = static_cast<int32_t>(before[i]);
        }
      }
      cursor.advance(count);
      begin += count;
    }
  });
}

}  // namespace

const char* refuse_search(const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_real(dtype)) return nullptr;
  return refusal("search_sorted: dtype %s is not supported; complex numbers have no order", dtype_name(dtype));
}

uhal_status run_search(const Launch& launch) {
  const uhal_tensor& values = *launch.op.inputs[1];
  const uhal_tensor& y = *launch.op.outputs[0];
  const auto attributes = attributes_or(launch.op, uhal_search_attributes{sizeof(uhal_search_attributes), 0, 0});
  const bool right = attributes.right != 0;
  const ComputeType type = compute_type_of(values.dtype);
  uhal_tensor sorted = *launch.op.inputs[0];
  ScratchFrame frame;
  if (sorted.dtype != compute_dtype(type)) {
    // As a dense copy in the type that is compared in: each element may be looked at for many values.
    int64_t count = 1;
    for (int i = sorted.rank - 1; i >= 0; count *= sorted.shape[i--]) sorted.strides[i] = count;
    sorted.dtype = compute_dtype(type);
    sorted.data = frame.take(static_cast<size_t>(count * compute_size(type)));
    if (sorted.data == nullptr) {
      return fail(UHAL_RESOURCE_EXHAUSTED, "search_sorted: the host has no memory left for a copy of sorted");
    }
    cast_views(*launch.op.inputs[0], sorted);
  }
  switch (type) {
    case kFloat:
      search<float>(sorted, values, y, right);
      break;
    case kDouble:
      search<double>(sorted, values, y, right);
      break;
    case kInt64:
      search<int64_t>(sorted, values, y, right);
      break;
    default:
      search<uint64_t>(sorted, values, y, right);
      break;
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
