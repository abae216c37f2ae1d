// What the kernels of sparse tensors share: their parts, their places in dense tensors, and rows that are compressed.
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

// -- dense tensors

// Coordinates as the ops take them: a row for each element.
inline View rows_of(const View& indices) { return indices.transposed(0, 1); }

inline void scatter_elements(const Context& context, const View& rows, const View& values, const View& y) {
  fill_zero(context, y);
  if (values.elements() == 0) return;
  const auto attributes = index_attributes(0);
  context.run(UHAL_OP_SCATTER_ND, {&rows, &values}, {&y}, &attributes);
}

inline void take_at(const Context& context, const View& x, const View& rows, const View& values) {
  if (values.elements() == 0) return;
  const auto attributes = index_attributes(0);
  context.run(UHAL_OP_GATHER_ND, {&x, &rows}, {&values}, &attributes);
}

// -- compressed rows

inline void require_matrix(const Context& context, const Dims& dims) {
  if (dims.size() != 2) unsupported(context, "compressed rows of " + std::to_string(dims.size()) + " axes, not 2");
}

// Where each row begins among the rows of sorted elements.
inline void compress(const Context& context, const View& rows, const View& crows) {
  const Scratch number(context, rows.dtype, crows);
  count_up(context, number);
  uhal_search_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  if (rows.shape[0] == 0) return fill_zero(context, crows);
  context.run(UHAL_OP_SEARCH_SORTED, {&rows, &number}, {&crows}, &attributes);
}

// The row of each element.
inline void rows_from_crows(const Context& context, const View& crows, const View& rows) {
  if (rows.elements() == 0) return;
  const Scratch number(context, crows.dtype, rows);
  count_up(context, number);
  uhal_search_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.right = 1;
  context.run(UHAL_OP_SEARCH_SORTED, {&crows, &number}, {&rows}, &attributes);
  context.map(uhal_map_scale, {&rows}, {&rows}, {1, -1});
}

// Writes (elements, 2) coordinates.
inline void write_places(const Context& context, const CsrTensor& x, const View& rows) {
  if (rows.elements() == 0) return;
  const View cols = x.cols().view();
  const Scratch row(context, cols.dtype, cols);
  rows_from_crows(context, x.crows().view(), row);
  copy_or_cast(context, row.unsqueezed(1), rows.sliced(1, 0, 1));
  copy_or_cast(context, cols.unsqueezed(1), rows.sliced(1, 1, 1));
}

// -- sums

inline uhal_segment_attributes summed() {
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  return sum;
}

// Elements at the same place become one, their sum, in the order of places.
inline void coalesce_into(const Context& context, const View& rows, const View& values, const Dims& dims,
                          const CooTensor& y) {
  const int64_t count = rows.shape[0], axes = rows.shape[1];
  const Scratch sorted(context, rows.dtype, rows), order(context, UHAL_INT64, &count, 1);
  const Scratch moved(context, values.dtype, values), group(context, UHAL_INT64, &count, 1);
  if (count > 0) sort_rows(context, rows, order);
  take(context, rows, order, sorted);
  take(context, values, order, moved);
  Groups groups(context, sorted);
  const View starts = groups.starts(context);
  groups.number(context, group);
  const int64_t kept = starts.shape[0];
  Dims shape = dims_of(values);
  shape[0] = kept;
  const View out = allocate(context, y.values(), values.dtype, shape);
  const View indices = allocate(context, y.indices(), rows.dtype, {axes, kept});
  if (kept > 0) {
    const int64_t of_kept[] = {kept, axes};
    const Scratch chosen(context, rows.dtype, of_kept, 2);
    take(context, sorted, starts, chosen);
    copy_or_cast(context, chosen, rows_of(indices));
    const auto sum = summed();
    context.run(UHAL_OP_SEGMENT_REDUCE, {&moved, &group}, {&out}, &sum);
  }
  y.set(y.indices(), y.values(), dims, true);
}

// The gradient at x's places. The sum has an element at each of them.
inline void take_gradient(const Context& context, const CooTensor& x, const CooTensor& dz, double factor,
                          const CooTensor& dx) {
  const View gradient = dz.values().view(), places = dz.indices().view();
  const View out = values_like(context, x, dx, gradient.dtype);
  const Dims all = dz.dims();
  const Scratch dense(context, gradient.dtype, all.data(), static_cast<int>(all.size()));
  scatter_elements(context, rows_of(places), gradient, dense);
  take_at(context, dense, rows_of(x.indices().view()), out);
  if (factor != 1 && out.elements() > 0) context.map(uhal_map_scale, {&out}, {&out}, {factor, 0});
  share_places(x, dx);
}

}  // namespace unihal::paddle
