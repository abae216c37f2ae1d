// What is made of given LU factors, and least squares. Pivots are read by the host, which waits for them: what each
// exchange of rows makes of the others is a sequence.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/matrices.h"

namespace unihal::paddle {
namespace {

std::vector<int32_t> read_pivots(const Context& context, const View& pivots) {
  std::vector<int32_t> numbers(static_cast<size_t>(pivots.elements()));
  const Scratch dense(context, UHAL_INT32, pivots);
  copy_or_cast(context, pivots, dense);
  uhal_stream* stream = context.stream()->handle;
  context.check(
      uhal_copy(stream, numbers.data(), dense.data, numbers.size() * sizeof(int32_t), UHAL_COPY_DEVICE_TO_HOST));
  context.check(uhal_stream_synchronize(stream));
  return numbers;
}

// The permutations that pivots (..., k; counted from 1) make of `rows` rows: row i of l u is row order[i] of a. Or what
// undoes them.
class Order : public Scratch {
 public:
  Order(const Context& context, const View& pivots, int64_t rows, bool inverse)
      : Scratch(context, UHAL_INT32, dims_of(pivots, rows).data(), pivots.rank) {
    if (elements() == 0) return;
    if (pivots.dtype != UHAL_INT32) invalid(context, "the pivots must be of type int32");
    const std::vector<int32_t> steps = read_pivots(context, pivots);
    const size_t length = static_cast<size_t>(rows), count = static_cast<size_t>(elements() / rows);
    const size_t exchanges = steps.size() / count;
    std::vector<int32_t> orders(count * length), one(length);
    for (size_t i = 0; i < count; ++i) {
      std::iota(one.begin(), one.end(), 0);
      for (size_t step = 0; step < exchanges; ++step) {
        const int64_t other = int64_t{steps[i * exchanges + step]} - 1;
        if (other < 0 || other >= rows) {
          invalid(context, "a pivot is " + std::to_string(other + 1) + ", expected 1 to " + std::to_string(rows));
        }
        std::swap(one[step], one[static_cast<size_t>(other)]);
      }
      int32_t* const to = orders.data() + i * length;
      for (size_t row = 0; row < length; ++row) {
        (inverse ? to[one[row]] : to[row]) = inverse ? static_cast<int32_t>(row) : one[row];
      }
    }
    const char* const bytes = reinterpret_cast<const char*>(orders.data());
    upload(context, std::vector<char>(bytes, bytes + orders.size() * sizeof(int32_t)), *this);
  }

 private:
  static std::vector<int64_t> dims_of(const View& pivots, int64_t rows) {
    std::vector<int64_t> dims(pivots.shape, pivots.shape + pivots.rank);
    dims.back() = rows;
    return dims;
  }
};

// y := the rows of x (..., m, n) in an order (..., m).
void reorder_rows(const Context& context, const View& x, const View& order, const View& y) {
  if (y.elements() == 0) return;
  View places = order.unsqueezed(order.rank);
  places.shape[places.rank - 1] = y.shape[y.rank - 1];
  places.strides[places.rank - 1] = 0;
  const auto rows = index_attributes(y.rank - 2);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&x, &places}, {&y}, &rows);
}

// Shapes are said, as Paddle 3.0 infers those of factors of another height.
void lu_unpack(Context context, Input x, Input pivots, bool data, bool permutation, Output p, Output l, Output u) {
  const View a = x.view();
  require_matrices(context, a, false);
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
  if (data) {
    const View left = a.sliced(a.rank - 1, 0, k), top = a.sliced(a.rank - 2, 0, k);
    const View lower = context.allocate(l, a.dtype, left.shape, a.rank);
    const View upper = context.allocate(u, a.dtype, top.shape, a.rank);
    if (a.elements() > 0) {
      copy_or_cast(context, left, lower);
      keep_triangle(context, lower, false, -1);
      fill(context, diagonal_of(lower), 1, 1);
      copy_or_cast(context, top, upper);
      keep_triangle(context, upper, true);
    }
  }
  if (!permutation) return;
  View square = a;
  square.shape[a.rank - 1] = m;
  const View target = context.allocate(p, a.dtype, square.shape, a.rank);
  if (target.elements() == 0) return;
  const View steps = pivots.view();
  fill_zero(context, target);
  if (steps.elements() == 0) return fill(context, diagonal_of(target), 1, 1);
  // Column i has its one in row order[i].
  const Order order(context, steps, m, false);
  const View rows = order.unsqueezed(order.rank - 1);
  const Scratch ones(context, a.dtype, rows);
  fill(context, ones, 1, 1);
  const auto along = index_attributes(target.rank - 2);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&rows, &ones}, {&target}, &along);
}

// -- solutions by given factors

enum class Turn { kNone, kTransposed, kAdjoint, kConjugated };

Turn turn_of(const Context& context, Text trans) {
  const std::string name = trans.value;
  if (name == "N") return Turn::kNone;
  if (name == "T") return Turn::kTransposed;
  if (name == "C") return Turn::kAdjoint;
  invalid(context, "trans is \"" + name + "\", expected N, T or C");
}

// x := the solution of op(p l u) x = b; all operands have one batch.
void solve_factored(const Context& context, const View& lu, const View& pivots, const View& b, Turn turn,
                    const View& x) {
  const int64_t n = lu.shape[lu.rank - 1];
  const bool conjugate = is_complex(lu.dtype) && (turn == Turn::kAdjoint || turn == Turn::kConjugated);
  const Scratch half(context, x.dtype, x);
  if (turn == Turn::kNone || turn == Turn::kConjugated) {
    const Order order(context, pivots, n, false);
    reorder_rows(context, b, order, half);
    solve_triangle(context, lu, half, half, {false, true, conjugate});
    solve_triangle(context, lu, half, x, {true, false, conjugate});
  } else {
    const Order order(context, pivots, n, true);
    const View turned = lu.transposed();
    solve_triangle(context, turned, b, half, {false, false, conjugate});
    solve_triangle(context, turned, half, half, {true, true, conjugate});
    reorder_rows(context, half, order, x);
  }
}

void lu_solve(Context context, Input b, Input lu, Input pivots, Text trans, Output out) {
  const View right = b.view(), factors = lu.view();
  require_matrices(context, factors, true);
  const View target = context.allocate(out, right.dtype);
  if (target.elements() == 0) return;
  solve_factored(context, factors, pivots.view(), right, turn_of(context, trans), target);
}

// Of op(a) x = b with a = p l u: db = op(a)^-H dx. With da = -db x^H, or what of that op makes, and m = p^T da:
// dl = below(m u^H), du = upper(l^H m).
void lu_solve_grad(Context context, Input b, Input lu, Input pivots, Input out, Input dout, Text trans, Output db,
                   Output dlu) {
  const View factors = lu.view(), x = out.view(), dx = dout.view(), steps = pivots.view();
  const Turn turn = turn_of(context, trans);
  const Turn back = turn == Turn::kNone ? Turn::kAdjoint : turn == Turn::kTransposed ? Turn::kConjugated : Turn::kNone;
  const Scratch given(context, dx.dtype, dx);
  if (dx.elements() > 0) solve_factored(context, factors, steps, dx, back, given);
  if (db) copy_or_cast(context, given, context.allocate(db, b.uhal()));
  if (!dlu) return;
  const View target = context.allocate(dlu, factors.dtype);
  if (target.elements() == 0) return;
  if (dx.elements() == 0) return fill_zero(context, target);
  const Scratch da(context, factors.dtype, factors), ordered(context, factors.dtype, factors);
  const Scratch l(context, factors.dtype, factors), u(context, factors.dtype, factors);
  if (turn == Turn::kNone) {
    multiply(context, given, Adjoint(context, x), -1, da);
  } else if (turn == Turn::kAdjoint) {
    multiply(context, x, Adjoint(context, given), -1, da);
  } else {
    multiply(context, Adjoint(context, x).transposed(), given.transposed(), -1, da);
  }
  const Order order(context, steps, factors.shape[factors.rank - 1], false);
  reorder_rows(context, da, order, ordered);
  copy_or_cast(context, factors, l);
  keep_triangle(context, l, false, -1);
  fill(context, diagonal_of(l), 1, 1);
  copy_or_cast(context, factors, u);
  keep_triangle(context, u, true);
  multiply(context, Adjoint(context, l), ordered, 1, target);
  keep_triangle(context, target, true);
  multiply(context, ordered, Adjoint(context, u), 1, da);
  keep_triangle(context, da, false, -1);
  context.map(uhal_map_add, {&target, &da}, {&target});
}

// -- least squares

// x = v diag(1 / s) u^H b of the singular values above a part of the largest; `rank` counts them.
void solve_by_values(const Context& context, const View& a, const View& b, double part, const View& x,
                     const View& values, const View& rank) {
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
  std::vector<int64_t> dims(a.shape, a.shape + a.rank);
  const auto matrices = [&](int64_t rows, int64_t columns) {
    dims[dims.size() - 2] = rows;
    dims.back() = columns;
    return dims.data();
  };
  const Scratch u(context, a.dtype, matrices(m, k), a.rank), vh(context, a.dtype, matrices(k, n), a.rank);
  const Scratch inner(context, a.dtype, matrices(k, b.shape[b.rank - 1]), a.rank);
  const Info info(context, a);
  context.run(UHAL_OP_SVD, {&a}, {&values, &u, &vh, &info});
  info.require_converged("singular values", UHAL_INVALID_ARGUMENT);
  const View largest = values.sliced(values.rank - 1, 0, 1);
  const Scratch limit(context, values.dtype, largest), counts(context, UHAL_BOOL, values);
  const Scratch factors(context, values.dtype, values), zero(context, values.dtype, nullptr, 0);
  context.map(uhal_map_scale, {&largest}, {&limit}, {part, 0});
  context.map(uhal_map_greater, {&values, &limit}, {&counts});
  context.map(uhal_map_reciprocal, {&values}, {&factors});
  fill_zero(context, zero);
  context.map(uhal_map_select, {&counts, &factors, &zero}, {&factors});
  const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
  const View numbers = rank.unsqueezed(rank.rank);
  context.run(UHAL_OP_REDUCE, {&counts}, {&numbers}, &sum);
  multiply(context, Adjoint(context, u), b, 1, inner);
  const View column = factors.unsqueezed(factors.rank);
  context.map(uhal_map_multiply, {&inner, &column}, {&inner});
  multiply(context, Adjoint(context, vh), inner, 1, x);
}

// Of matrices of full rank: of tall ones a = q r and x = r^-1 q^H b; of wide ones a^H = q r and x = q r^-H b.
void solve_by_columns(const Context& context, const View& a, const View& b, const View& x) {
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
  const Adjoint turned(context, a);
  const View& tall = m >= n ? a : static_cast<const View&>(turned);
  std::vector<int64_t> dims(a.shape, a.shape + a.rank);
  dims[dims.size() - 2] = dims.back() = k;
  const Scratch r(context, a.dtype, dims.data(), a.rank), q(context, a.dtype, tall);
  dims.back() = b.shape[b.rank - 1];
  const Scratch inner(context, a.dtype, dims.data(), a.rank);
  context.run(UHAL_OP_QR, {&tall}, {&r, &q});
  if (m >= n) {
    multiply(context, Adjoint(context, q), b, 1, inner);
    return solve_triangle(context, r, inner, x, {true, false, false});
  }
  solve_triangle(context, r.transposed(), b, inner, {false, false, is_complex(a.dtype)});
  multiply(context, q, inner, 1, x);
}

// Residuals are the sums of squares of a x - b, of tall matrices of full rank only; else there are none.
void lstsq(Context context, Input x, Input y, Scalar rcond, Text driver, Output solution, Output residuals, Output rank,
           Output values) {
  const View a = x.view(), b = y.view();
  require_matrices(context, a, false);
  const std::string how = driver.value;
  if (how != "gels" && how != "gelsy" && how != "gelsd" && how != "gelss") {
    invalid(context, "the driver is \"" + how + "\", expected gels, gelsy, gelsd or gelss");
  }
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
  std::vector<int64_t> batch(a.shape, a.shape + a.rank - 2);
  const int rank_of_batch = static_cast<int>(batch.size());
  std::vector<int64_t> dims = batch;
  dims.insert(dims.end(), {n, b.shape[b.rank - 1]});
  const View target = context.allocate(solution, a.dtype, dims.data(), a.rank);
  dims = batch;
  dims.push_back(k);
  const View spectrum = context.allocate(values, real_of(a.dtype), dims.data(), rank_of_batch + 1);
  const View ranks = context.allocate(rank, UHAL_INT32, batch.data(), rank_of_batch);
  bool is_full = m > n && how != "gelsy";
  if (a.elements() == 0) {
    fill_zero(context, target);
    fill_zero(context, spectrum);
    fill_zero(context, ranks);
  } else if (how == "gels") {
    solve_by_columns(context, a, b, target);
    fill(context, ranks, static_cast<double>(k), k);
    fill_zero(context, spectrum);
  } else {
    solve_by_values(context, a, b, rcond.number(), target, spectrum, ranks);
    if (is_full) {
      const Scratch least(context, UHAL_INT32, nullptr, 0);
      const auto minimum = reduce_attributes(UHAL_REDUCE_MINIMUM);
      const View all = ranks.reshaped({ranks.elements()}), one = least.unsqueezed(0);
      context.run(UHAL_OP_REDUCE, {&all}, {&one}, &minimum);
      is_full = read_number(context, least) == static_cast<double>(n);
    }
  }
  if (!is_full) {
    const int64_t none[] = {0};
    context.allocate(residuals, real_of(a.dtype), none, 1);
    return;
  }
  dims = batch;
  dims.push_back(b.shape[b.rank - 1]);
  const View rest = context.allocate(residuals, real_of(a.dtype), dims.data(), rank_of_batch + 1);
  if (rest.elements() == 0) return;
  const Scratch difference(context, a.dtype, b);
  multiply(context, a, target, 1, difference);
  context.map(uhal_map_subtract, {&difference, &b}, {&difference});
  const auto squares = reduce_attributes(UHAL_REDUCE_SUM_OF_SQUARES);
  const View sums = rest.unsqueezed(rest.rank - 1);
  context.run(UHAL_OP_REDUCE, {&difference}, {&sums}, &squares);
}

}  // namespace

KernelTable lu_solution_kernels() {
  return {
      UNIHAL_KERNEL("lstsq", kWideFloats, lstsq),
      UNIHAL_KERNEL("lu_solve", kMatrices, lu_solve),
      UNIHAL_KERNEL("lu_solve_grad", kMatrices, lu_solve_grad),
      UNIHAL_KERNEL("lu_unpack", kMatrices, lu_unpack),
  };
}

}  // namespace unihal::paddle
