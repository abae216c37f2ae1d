// What kernels of matrices share: dtypes, triangular systems, products, the conjugated transpose, LU factors.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

constexpr DtypeSet kMatrices = kWideFloats | kComplex;

inline void require_matrices(const Context& context, const View& a, bool square) {
  if (a.rank < 2 || (square && a.shape[a.rank - 1] != a.shape[a.rank - 2])) {
    invalid(context, square ? "the operand must have square matrices" : "the operand must have two axes or more");
  }
}

// An op's info: a number for each matrix.
class Info : public Scratch {
 public:
  Info(const Context& context, const View& a) : Scratch(context, UHAL_INT32, a.shape, a.rank - 2), context_(context) {}

  // Whether any is not 0; waits for the stream.
  bool is_bad() const {
    const int64_t count = elements();
    if (count == 0) return false;
    const int64_t one[] = {1};
    const Scratch largest(context_, UHAL_INT32, one, 1);
    uhal_reduce_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.reduction = UHAL_REDUCE_MAXIMUM;
    const View numbers = reshaped({count});
    context_.run(UHAL_OP_REDUCE, {&numbers}, {&largest}, &attributes);
    return read_number(context_, largest) != 0;
  }
  void require_regular() const {
    if (is_bad()) invalid(context_, "a matrix is singular, so that it has no inverse");
  }
  // The class of error that Paddle's CPU has for `what`.
  void require_converged(const char* what, uhal_status status) const {
    if (is_bad()) {
      raise(status, std::string("(unihal) ") + context_.kernel() + ": the " + what +
                        " of a matrix were not found: it has infinity or NaN, or the iteration did not converge");
    }
  }

 private:
  const Context& context_;
};

struct Triangle {
  bool upper = false;
  bool unit_diagonal = false;
  bool conjugate = false;
};

inline void solve_triangle(const Context& context, const View& a, const View& b, const View& x,
                           const Triangle& triangle) {
  if (x.elements() == 0) return;
  uhal_triangular_solve_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = triangle.upper;
  attributes.unit_diagonal = triangle.unit_diagonal;
  attributes.conjugate = triangle.conjugate;
  context.run(UHAL_OP_TRIANGULAR_SOLVE, {&a, &b}, {&x}, &attributes);
}

// `to` = a reduction of `from` along its last axis, which `to` has not.
inline void reduce_last(const Context& context, uhal_reduction reduction, const View& from, const View& to) {
  View target = to;
  target.rank = from.rank;
  target.shape[target.rank - 1] = target.strides[target.rank - 1] = 1;
  const auto attributes = reduce_attributes(reduction);
  context.run(UHAL_OP_REDUCE, {&from}, {&target}, &attributes);
}

inline void multiply(const Context& context, const View& a, const View& b, double alpha, const View& y) {
  uhal_matmul_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.alpha = alpha;
  context.run(UHAL_OP_MATMUL, {&a, &b}, {&y}, &attributes);
}

inline void keep_triangle(const Context& context, const View& a, bool upper, int64_t diagonal = 0) {
  uhal_triangular_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = upper;
  attributes.diagonal = diagonal;
  context.run(UHAL_OP_TRIANGULAR, {&a}, {&a}, &attributes);
}

inline View diagonal_of(const View& a) {
  View diagonal = a;
  diagonal.rank -= 1;
  diagonal.shape[diagonal.rank - 1] = std::min(a.shape[a.rank - 2], a.shape[a.rank - 1]);
  diagonal.strides[diagonal.rank - 1] = a.strides[a.rank - 2] + a.strides[a.rank - 1];
  return diagonal;
}

// The conjugated transpose: of real matrices a view.
class Adjoint : public View {
 public:
  Adjoint(const Context& context, const View& a) : View(a.transposed()) {
    if (!is_complex(a.dtype)) return;
    conjugated_.emplace(context, a.dtype, *this);
    context.map(uhal_map_conjugate, {this}, {&*conjugated_});
    static_cast<View&>(*this) = *conjugated_;
  }

 private:
  std::optional<Scratch> conjugated_;
};

// The factors of square matrices, with the order of their rows.
class Factors {
 public:
  Factors(const Context& context, const View& a)
      : info(context, a),
        lu(context, a.dtype, a),
        pivots(context, UHAL_INT32, a.shape, a.rank - 1),
        order_(context, UHAL_INT32, a.shape, a.rank - 1),
        context_(context) {
    context.run(UHAL_OP_LU, {&a}, {&lu, &pivots, &order_, &info});
  }

  // x := the solution for the right-hand sides b, whose leading axes broadcast as a's do.
  void solve(const View& b, const View& x) const {
    View places = order_.unsqueezed(order_.rank);
    const View rows = broadcast_to(b, x), order = broadcast_to(places, x);
    const Scratch moved(context_, x.dtype, x);
    uhal_index_attributes at = {};
    at.struct_size = sizeof at;
    at.axis = x.rank - 2;
    context_.run(UHAL_OP_GATHER_ELEMENTS, {&rows, &order}, {&moved}, &at);
    solve_triangle(context_, lu, moved, moved, {false, true, false});
    solve_triangle(context_, lu, moved, x, {true, false, false});
  }

  // Row i of l @ u is row order()[i].
  const View& order() const { return order_; }

  Info info;
  Scratch lu, pivots;

 private:
  // A view repeated along axes of length 1, to another's shape.
  static View broadcast_to(const View& view, const View& like) {
    View result = with_rank(view, like.rank);
    for (int i = 0; i < like.rank; ++i) {
      if (result.shape[i] == 1) result.strides[i] = 0;
      result.shape[i] = like.shape[i];
    }
    return result;
  }

  Scratch order_;
  const Context& context_;
};

inline void inverse_of(const Context& context, const View& a, const View& target) {
  const Factors factors(context, a);
  const int64_t n = a.shape[a.rank - 1], dims[] = {n, n};
  const Scratch identity(context, a.dtype, dims, 2);
  fill_zero(context, identity);
  fill(context, diagonal_of(identity), 1, 1);
  factors.solve(identity, target);
  factors.info.require_regular();
}

// A right-hand side of Paddle's solve: a vector counts as a column.
inline View columns_of(const View& a, const View& b) {
  return b.rank == 1 || (b.rank == a.rank - 1 && std::equal(b.shape, b.shape + b.rank, a.shape)) ? b.unsqueezed(b.rank)
                                                                                                 : b;
}

}  // namespace unihal::paddle
