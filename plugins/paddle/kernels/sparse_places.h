// Coordinates of the elements of sparse tensors, in either layout, as operands of ops.
#pragma once

#include "plugins/paddle/kernels/sparse_parts.h"

namespace unihal::paddle {

inline int64_t count_of(const SparseTensor&, const Tensor& values) { return values.dim(0); }
inline int64_t count_of(const CooTensor& x) { return count_of(x, x.values()); }
inline int64_t count_of(const CsrTensor& x) { return count_of(x, x.values()); }
inline int64_t axes_of(const CooTensor& x) { return x.indices().dim(0); }
inline int64_t axes_of(const CsrTensor&) { return 2; }
inline uhal_dtype dtype_of_places(const CooTensor& x) { return x.indices().uhal(); }
inline uhal_dtype dtype_of_places(const CsrTensor& x) { return x.cols().uhal(); }

// The coordinates of all elements: int64 (elements, axes).
class Coordinates : public Scratch {
 public:
  template <class X>
  Coordinates(const Context& context, const X& x) : Coordinates(context, {count_of(x), axes_of(x)}) {
    write(context, x);
  }
  // A column of them, one number an element.
  View column(int64_t axis) const {
    View result = sliced(1, axis, 1);
    result.rank = 1;
    return result;
  }

 private:
  Coordinates(const Context& context, std::initializer_list<int64_t> dims)
      : Scratch(context, UHAL_INT64, dims.begin(), 2) {}
  void write(const Context& context, const CooTensor& x) { copy(context, rows_of(x.indices().view()), *this); }
  void write(const Context& context, const CsrTensor& x) {
    require_matrix(context, x.dims());
    write_places(context, x, *this);
  }
};

// Column `axis` of coordinates as an operand of its own: ops take indices that lie one behind the other.
class Column : public Scratch {
 public:
  Column(const Context& context, const Coordinates& rows, int64_t axis) : Scratch(context, UHAL_INT64, rows.shape, 1) {
    copy(context, rows.column(axis), *this);
  }
};

// Everything as a dense tensor.
class Dense : public Scratch {
 public:
  template <class X>
  Dense(const Context& context, const X& x, const View& values)
      : Scratch(context, values.dtype, x.dims().data(), static_cast<int>(x.dims().size())) {
    const Coordinates rows(context, x);
    scatter_elements(context, rows, values, *this);
  }
};

// Gives y these places, which lie in the order of rows and in them of columns.
inline void set_places(const Context& context, const View& rows, uhal_dtype dtype, const Dims& dims,
                       const CooTensor& y) {
  copy(context, rows, rows_of(allocate(context, y.indices(), dtype, {rows.shape[1], rows.shape[0]})));
  y.set(y.indices(), y.values(), dims, true);
}
inline void set_places(const Context& context, const View& rows, uhal_dtype dtype, const Dims& dims,
                       const CsrTensor& y) {
  View first = rows.sliced(1, 0, 1), second = rows.sliced(1, 1, 1);
  first.rank = second.rank = 1;
  const Scratch sorted(context, dtype, first);
  copy(context, first, sorted);
  compress(context, sorted, allocate(context, y.crows(), dtype, {dims[0] + 1}));
  copy(context, second, allocate(context, y.cols(), dtype, {rows.shape[0]}));
  y.set(y.crows(), y.cols(), y.values(), dims);
}

}  // namespace unihal::paddle
