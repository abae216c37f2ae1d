// Views of complex numbers as views of their parts: ops that treat both parts alike are ops on real numbers.
#pragma once

#include "csrc/backends/common/dtype.h"
#include "unihal/op.h"

namespace unihal {

// The real dtype of a complex dtype's parts, else the dtype itself.
inline uhal_dtype part_dtype(uhal_dtype dtype) {
  return dtype == UHAL_COMPLEX64 ? UHAL_FLOAT32 : dtype == UHAL_COMPLEX128 ? UHAL_FLOAT64 : dtype;
}

// The real or imaginary parts of a complex view; a real view itself.
inline uhal_tensor part(const uhal_tensor& view, bool imaginary) {
  if (!is_complex(view.dtype)) return view;
  uhal_tensor result = view;
  result.dtype = part_dtype(view.dtype);
  if (view.data != nullptr) result.data = static_cast<char*>(view.data) + (imaginary ? dtype_size(result.dtype) : 0);
  for (int i = 0; i < view.rank; ++i) result.strides[i] = 2 * view.strides[i];
  return result;
}

// Both parts of a complex view with less than UHAL_MAX_RANK axes: along one more axis, the last.
inline uhal_tensor pairs(const uhal_tensor& view) {
  uhal_tensor result = part(view, false);
  result.shape[result.rank] = 2;
  result.strides[result.rank] = 1;
  ++result.rank;
  return result;
}

// Whether a dtype is, or has parts of, float64.
inline bool has_float64_parts(uhal_dtype dtype) { return part_dtype(dtype) == UHAL_FLOAT64; }

// Runs a linear op on x and y of one rank, of which one at least is complex, as one or two on real numbers: run(x, y)
// on real views, with the axis of pairs() last where both have one, and zero(view) for imaginary parts that are 0.
template <class Run, class Zero>
uhal_status run_on_parts(const uhal_tensor& x, const uhal_tensor& y, const Run& run, const Zero& zero) {
  if (!is_complex(y.dtype)) return run(part(x, false), y);
  if (is_complex(x.dtype) && x.rank < UHAL_MAX_RANK) return run(pairs(x), pairs(y));
  const uhal_status status = run(part(x, false), part(y, false));
  if (status != UHAL_OK) return status;
  return is_complex(x.dtype) ? run(part(x, true), part(y, true)) : zero(part(y, true));
}

}  // namespace unihal
