// What kernels of sparse tensors share: their parts, and the row of each element of compressed rows.
#pragma once

#include <string>
#include <vector>

#include "plugins/paddle/kernels/row_groups.h"
#include "plugins/paddle/sparse_tensors.h"

namespace unihal::paddle {

using Dims = std::vector<int64_t>;

inline Dims dims_of(const View& view) { return {view.shape, view.shape + view.rank}; }

inline View allocate(const Context& context, const Tensor& part, uhal_dtype dtype, const Dims& dims) {
  return context.allocate(Output{part}, dtype, dims.data(), static_cast<int>(dims.size()));
}
inline View allocate(const Context& context, Output y, uhal_dtype dtype, const Dims& dims) {
  return context.allocate(y, dtype, dims.data(), static_cast<int>(dims.size()));
}

inline void copy(const Context& context, const View& x, const View& y) {
  if (x.elements() > 0) copy_or_cast(context, x, y);
}

// -- the same places with other values

inline View values_like(const Context& context, const CooTensor& x, const CooTensor& y, uhal_dtype dtype) {
  return allocate(context, y.values(), dtype, dims_of(x.values().shape_only()));
}
inline View values_like(const Context& context, const CsrTensor& x, const CsrTensor& y, uhal_dtype dtype) {
  return allocate(context, y.values(), dtype, dims_of(x.values().shape_only()));
}
inline void share_places(const CooTensor& x, const CooTensor& y) {
  y.set(x.indices(), y.values(), x.dims(), x.is_coalesced());
}
inline void share_places(const CsrTensor& x, const CsrTensor& y) { y.set(x.crows(), x.cols(), y.values(), x.dims()); }

inline void require_matrix(const Context& context, const Dims& dims) {
  if (dims.size() != 2) unsupported(context, "compressed rows of " + std::to_string(dims.size()) + " axes, not 2");
}

// The row of each element.
inline void expand(const Context& context, const View& crows, const View& rows) {
  if (rows.elements() == 0) return;
  const Scratch number(context, crows.dtype, rows);
  count_up(context, number);
  uhal_search_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.right = 1;
  context.run(UHAL_OP_SEARCH_SORTED, {&crows, &number}, {&rows}, &attributes);
  context.map(uhal_map_scale, {&rows}, {&rows}, {1, -1});
}

}  // namespace unihal::paddle
