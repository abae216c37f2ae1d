// Factorizations of matrices, and what follows from them. Where TensorFlow's CPU raises an error for a matrix (one that
// is singular, or of which an iteration does not converge), the host waits for one number.
#include <limits>
#include <string>

#include "plugins/common/chain.h"
#include "plugins/tensorflow/kernels/matrices.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// A view whose leading axes are repeated to those of `batches`.
View broadcast_batches(const View& view, const Shape& batches) {
  View result = view;
  const int missing = static_cast<int>(batches.size()) + 2 - view.rank;
  result.rank = view.rank + missing;
  for (int i = 0; i < result.rank; ++i) {
    const int from = i - missing;
    result.shape[i] = i + 2 < result.rank ? batches[i] : view.shape[from];
    result.strides[i] = from < 0 || (i + 2 < result.rank && view.shape[from] == 1) ? 0 : view.strides[from];
  }
  return result;
}

// MatrixTriangularSolve(matrix, rhs), whose leading axes broadcast.
class MatrixTriangularSolve : public Kernel {
 public:
  explicit MatrixTriangularSolve(Construction& construction)
      : Kernel(construction), lower_(construction.boolean("lower")), adjoint_(construction.boolean("adjoint")) {}
  void compute(Context& context) const override {
    const View matrix = context.input(0);
    const View rhs = context.input(1);
    if (!context.ok()) return;
    Shape batches;
    if (matrix.rank < 2 || rhs.rank < 2 || !broadcast_shape(batches_and(matrix, {}), batches_and(rhs, {}), &batches)) {
      return context.fail_invalid("In[0] and In[1] must have compatible batch dimensions: " + to_text(matrix) +
                                  " vs. " + to_text(rhs));
    }
    const int64_t n = matrix.shape[matrix.rank - 1];
    if (matrix.shape[matrix.rank - 2] != n) {
      return context.fail_invalid("In[0] matrices in the last dimensions must be square (" + std::to_string(n) +
                                  " =/= " + std::to_string(matrix.shape[matrix.rank - 2]) + ")");
    }
    if (rhs.shape[rhs.rank - 2] != n) {
      return context.fail_invalid("In[0] mismatch In[1] shape: " + std::to_string(n) + " vs. " +
                                  std::to_string(rhs.shape[rhs.rank - 2]) + ": " + to_text(matrix) + " " +
                                  to_text(rhs));
    }
    Shape shape = batches;
    shape.insert(shape.end(), {n, rhs.shape[rhs.rank - 1]});
    const View output = context.output(0, matrix.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const View a = adjoint_ ? matrix.transposed() : matrix;
    solve_triangle(context, a, rhs, output, lower_ == adjoint_, false, adjoint_);
  }

 private:
  bool lower_;
  bool adjoint_;
};

// Cholesky(input): NaN where it is not positive definite, as on TensorFlow's CPU.
class Cholesky : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View a = context.input(0);
    if (!check_matrices(context, a, 0, true)) return;
    const View l = context.output_like(0, a);
    if (context.ok() && l.elements() > 0) context.launch(UHAL_OP_CHOLESKY, {&a}, {&l});
  }
};

// Fails the context if a matrix is singular, or has NaN for its first pivot: TensorFlow's CPU looks for the least
// pivot, and comparisons pass over NaN behind the first one. Waits for the stream.
void check_regular(Context& context, const View& lu, Info& info, const char* message) {
  View first = lu.sliced(lu.rank - 2, 0, 1).sliced(lu.rank - 1, 0, 1);
  first.rank -= 2;
  View imaginary = first;
  if (real_of(lu.dtype) != lu.dtype) {  // both parts by themselves
    first.dtype = imaginary.dtype = real_of(lu.dtype);
    for (int i = 0; i < first.rank; ++i) first.strides[i] = imaginary.strides[i] = 2 * first.strides[i];
    imaginary.data = static_cast<char*>(first.data) + uhal_dtype_size(first.dtype);
  }
  Chain chain(3);
  const int is_bad = chain.step(uhal_map_maximum, {chain.step(uhal_map_is_nan, {0}), chain.step(uhal_map_is_nan, {1})});
  chain.step(uhal_map_maximum, {is_bad, 2});
  const View& numbers = info.view();
  if (context.launch(UHAL_OP_MAP_CHAIN, {&first, &imaginary, &numbers}, {&numbers}, chain.program())) {
    info.check(message);
  }
}

// Lu(input) -> lu, p: lu's row i is the input's row p[i].
class Lu : public Kernel {
 public:
  explicit Lu(Construction& construction) : Kernel(construction), type_(construction.dtype("output_idx_type")) {}
  void compute(Context& context) const override {
    const View a = context.input(0);
    if (!check_matrices(context, a, 0, true)) return;
    const Shape rows = batches_and(a, {a.shape[a.rank - 1]});
    const View lu = context.output_like(0, a);
    const View p = context.output(1, type_, rows);
    if (!context.ok() || lu.elements() == 0) return;
    const View pivots = context.temporary(UHAL_INT32, rows);
    const View order = type_ == UHAL_INT32 ? p : context.temporary(UHAL_INT32, rows);
    Info info(context, a);
    if (!context.ok() || !context.launch(UHAL_OP_LU, {&a}, {&lu, &pivots, &order, &info.view()})) return;
    if (type_ != UHAL_INT32) context.cast(order, p);
    check_regular(context, lu, info, "Input is not invertible.");
  }

 private:
  uhal_dtype type_;
};

// The factors of square matrices in temporary memory.
struct Factors {
  View lu, pivots, order;
  Info info;

  Factors(Context& context, const View& a) : info(context, a) {
    const Shape rows = batches_and(a, {a.shape[a.rank - 1]});
    lu = context.temporary_like(a);
    pivots = context.temporary(UHAL_INT32, rows);
    order = context.temporary(UHAL_INT32, rows);
    if (context.ok()) context.launch(UHAL_OP_LU, {&a}, {&lu, &pivots, &order, &info.view()});
  }

  // x := the solution for the right-hand sides b, of x's shape. The rows of b are put in order in x.
  void solve(Context& context, const View& b, const View& x) const {
    View places = order.unsqueezed(order.rank);
    places.shape[places.rank - 1] = x.shape[x.rank - 1];
    places.strides[places.rank - 1] = 0;
    uhal_index_attributes rows = {};
    rows.struct_size = sizeof rows;
    rows.axis = x.rank - 2;
    context.launch(UHAL_OP_GATHER_ELEMENTS, {&b, &places}, {&x}, &rows);
    solve_triangle(context, lu, x, x, false, true);
    solve_triangle(context, lu, x, x, true, false);
  }
};

class MatrixInverse : public Kernel {
 public:
  explicit MatrixInverse(Construction& construction)
      : Kernel(construction), adjoint_(construction.boolean("adjoint")) {}
  void compute(Context& context) const override {
    const View given = context.input(0);
    if (!check_matrices(context, given, 0, true)) return;
    const View output = context.output_like(0, given);
    if (!context.ok() || output.elements() == 0) return;
    const View a = adjoint_of(context, given, adjoint_);
    Factors factors(context, a);
    // The identity: a diagonal of ones, which is a strided view.
    const int64_t n = a.shape[a.rank - 1];
    const int64_t dims[] = {n, n};
    const View identity = context.temporary(a.dtype, dims, 2);
    if (!context.ok() || !context.zero(identity)) return;
    View diagonal = identity;
    diagonal.rank = 1;
    diagonal.strides[0] = n + 1;
    if (!context.fill(diagonal, 1, 1)) return;
    factors.solve(context, broadcast_batches(identity, batches_and(a, {})), output);
    check_regular(context, factors.lu, factors.info, "Input is not invertible.");
  }

 private:
  bool adjoint_;
};

class MatrixSolve : public Kernel {
 public:
  explicit MatrixSolve(Construction& construction) : Kernel(construction), adjoint_(construction.boolean("adjoint")) {}
  void compute(Context& context) const override {
    const View matrix = context.input(0);
    const View rhs = context.input(1);
    if (!check_systems(context, matrix, rhs)) return;
    const int64_t n = matrix.shape[matrix.rank - 1];
    if (matrix.shape[matrix.rank - 2] != n) {
      return context.fail_invalid("First input (lhs) must be a square matrix.");
    }
    if (rhs.shape[rhs.rank - 2] != n) {
      return context.fail_invalid("Input matrix and rhs are incompatible.");
    }
    const View output = context.output_like(0, rhs);
    if (!context.ok() || output.elements() == 0) return;
    Factors factors(context, adjoint_of(context, matrix, adjoint_));
    if (!context.ok()) return;
    factors.solve(context, rhs, output);
    check_regular(context, factors.lu, factors.info, "Input matrix is not invertible.");
  }

 private:
  bool adjoint_;
};

// MatrixDeterminant(input), and LogMatrixDeterminant(input) -> sign, log of the modulus.
template <bool kLogarithm>
class Determinant : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View a = context.input(0);
    if (!check_matrices(context, a, 0, true)) return;
    const uhal_dtype real = real_of(a.dtype);
    const View sign = context.output(0, a.dtype, batches_and(a, {}));
    // TensorFlow has the logarithm in the matrix' own dtype, its imaginary part 0.
    const View logarithm = kLogarithm ? context.output(1, a.dtype, batches_and(a, {})) : View();
    if (!context.ok() || sign.elements() == 0) return;
    if (a.elements() == 0) {  // the product of nothing
      context.fill(sign, 1, 1);
      if (kLogarithm) context.zero(logarithm);
      return;
    }
    const Factors factors(context, a);
    const Shape numbers = batches_and(a, {a.shape[a.rank - 1]});
    const View terms = context.temporary(a.dtype, numbers), signs = context.temporary(real, numbers);
    if (!context.ok()) return;
    View diagonal = factors.lu;
    diagonal.rank -= 1;
    diagonal.strides[diagonal.rank - 1] += factors.lu.strides[diagonal.rank];
    // -1 for each exchange of rows: 1 - 2 (pivots != place).
    const View places = context.temporary(UHAL_INT32, Shape{numbers.back()});
    const View exchanged = context.temporary(UHAL_BOOL, numbers);
    if (!context.ok()) return;
    uhal_iota_attributes count = {};
    count.struct_size = sizeof count;
    count.integer_step = 1;
    context.launch(UHAL_OP_IOTA, {}, {&places}, &count);
    context.map(uhal_map_not_equal, {&factors.pivots, &places}, {&exchanged});
    context.map(uhal_map_scale, {&exchanged}, {&signs}, {-2, 1});
    if (kLogarithm) {
      context.map(uhal_map_sign, {&diagonal}, {&terms});
      context.map(uhal_map_multiply, {&terms, &signs}, {&terms});
    } else {
      context.map(uhal_map_multiply, {&diagonal, &signs}, {&terms});
    }
    reduce(context, UHAL_REDUCE_PRODUCT, terms, sign);
    if (!kLogarithm) return;
    context.map(uhal_map_absolute, {&diagonal}, {&signs});
    context.map(uhal_map_log, {&signs}, {&signs});
    if (real == a.dtype) {
      reduce(context, UHAL_REDUCE_SUM, signs, logarithm);
    } else {
      const Shape batches = batches_and(a, {});
      const View sums = context.temporary(real, batches);
      if (!context.ok()) return;
      reduce(context, UHAL_REDUCE_SUM, signs, sums);
      context.cast(sums, logarithm);
    }
  }

 private:
  // Along the last axis, which `to` has not.
  static void reduce(Context& context, uhal_reduction reduction, const View& from, const View& to) {
    uhal_reduce_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.reduction = reduction;
    const View target = to.unsqueezed(to.rank);
    context.launch(UHAL_OP_REDUCE, {&from}, {&target}, &attributes);
  }
};

// Qr(input) -> q, r
class Qr : public Kernel {
 public:
  explicit Qr(Construction& construction) : Kernel(construction), full_(construction.boolean("full_matrices")) {}
  void compute(Context& context) const override {
    const View a = context.input(0);
    if (!check_matrices(context, a, 0, false)) return;
    const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = full_ ? m : std::min(m, n);
    const View q = context.output(0, a.dtype, batches_and(a, {m, k}));
    const View r = context.output(1, a.dtype, batches_and(a, {k, n}));
    if (context.ok() && q.elements() + r.elements() > 0) context.launch(UHAL_OP_QR, {&a}, {&r, &q});
  }

 private:
  bool full_;
};

// SelfAdjointEigV2(input) -> values (of the matrix' own dtype), vectors
class SelfAdjointEig : public Kernel {
 public:
  explicit SelfAdjointEig(Construction& construction)
      : Kernel(construction), vectors_(construction.boolean("compute_v")) {}
  void compute(Context& context) const override {
    const View a = context.input(0);
    if (!check_matrices(context, a, 0, true)) return;
    const Shape numbers = batches_and(a, {a.shape[a.rank - 1]});
    const View values = context.output(0, a.dtype, numbers);
    const View vectors = vectors_ ? context.output_like(1, a) : context.output(1, a.dtype, Shape{0});
    if (!context.ok() || values.elements() == 0) return;
    const bool is_real = real_of(a.dtype) == a.dtype;
    const View found = is_real ? values : context.temporary(real_of(a.dtype), numbers);
    Info info(context, a);
    if (!context.ok()) return;
    const View* wanted = vectors_ ? &vectors : nullptr;
    if (!context.launch(UHAL_OP_EIGEN_SYMMETRIC, {&a}, {&found, wanted, &info.view()})) return;
    if (!is_real) context.cast(found, values);
    info.check("Self-adjoint eigen decomposition was not successful. The input might not be valid.");
  }

 private:
  bool vectors_;
};

// Svd(input) -> s (of the matrix' own dtype), u, v, of which a = u diag(s) v^H. What does not converge is NaN, as on
// TensorFlow's CPU.
class Svd : public Kernel {
 public:
  explicit Svd(Construction& construction)
      : Kernel(construction),
        vectors_(construction.boolean("compute_uv")),
        full_(construction.boolean("full_matrices")) {}
  void compute(Context& context) const override {
    const View a = context.input(0);
    if (!check_matrices(context, a, 0, false)) return;
    const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
    const Shape numbers = batches_and(a, {k});
    const View s = context.output(0, a.dtype, numbers);
    const View u = context.output(1, a.dtype, vectors_ ? batches_and(a, {m, full_ ? m : k}) : Shape{0});
    const View v = context.output(2, a.dtype, vectors_ ? batches_and(a, {n, full_ ? n : k}) : Shape{0});
    if (!context.ok() || s.elements() + u.elements() + v.elements() == 0) return;
    const bool is_real = real_of(a.dtype) == a.dtype;
    const View found = is_real ? s : context.temporary(real_of(a.dtype), numbers);
    if (!context.ok()) return;
    if (!vectors_) {
      context.launch(UHAL_OP_SVD, {&a}, {&found});
    } else {
      const View vh = v.transposed();
      context.launch(UHAL_OP_SVD, {&a}, {&found, &u, &vh});
      if (!is_real) context.map(uhal_map_conjugate, {&v}, {&v});
    }
    if (!is_real) context.cast(found, s);
  }

 private:
  bool vectors_;
  bool full_;
};

// Eig(input) -> values, vectors, complex
class Eig : public Kernel {
 public:
  explicit Eig(Construction& construction)
      : Kernel(construction), type_(construction.dtype("Tout")), vectors_(construction.boolean("compute_v")) {}
  void compute(Context& context) const override {
    const View a = context.input(0);
    if (!check_matrices(context, a, 0, true)) return;
    const View values = context.output(0, type_, batches_and(a, {a.shape[a.rank - 1]}));
    const View vectors = vectors_ ? context.output(1, type_, shape_of(a)) : context.output(1, type_, Shape{0});
    if (!context.ok() || values.elements() == 0) return;
    Info info(context, a);
    const View* wanted = vectors_ ? &vectors : nullptr;
    if (!context.ok() || !context.launch(UHAL_OP_EIGEN, {&a}, {&values, wanted, &info.view()})) return;
    info.check("eigen decomposition was not successful. The input might not be valid.");
  }

 private:
  uhal_dtype type_;
  bool vectors_;
};

// TridiagonalMatMul(superdiagonal, diagonal, subdiagonal (..., 1, n), rhs (..., n, k))
class TridiagonalMatMul : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    View diagonals[3];
    for (int i = 0; i < 3; ++i) diagonals[i] = context.input(i);
    const View rhs = context.input(3);
    if (!context.ok()) return;
    Shape expected = shape_of(rhs);
    if (rhs.rank >= 2) {
      expected[expected.size() - 2] = 1;
      expected.back() = rhs.shape[rhs.rank - 2];
    }
    for (View& diagonal : diagonals) {
      if (rhs.rank < 2 || shape_of(diagonal) != expected) {
        return context.fail_invalid(
            "TridiagonalMatMul: diagonals must have shape (..., 1, n) and the right-hand side "
            "(..., n, k), got " +
            to_text(diagonal) + " and " + to_text(rhs));
      }
      diagonal = diagonal.transposed();
    }
    const View output = context.output_like(0, rhs);
    if (!context.ok() || output.elements() == 0) return;
    const int axis = rhs.rank - 2;
    const int64_t n = rhs.shape[axis];
    context.map(uhal_map_multiply, {&diagonals[1], &rhs}, {&output});
    if (n < 2) return;
    // `first` is where the rows of the product begin, and 1 - first where those of the factor do.
    const auto add = [&](const View& diagonal, int64_t first) {
      const View to = output.sliced(axis, first, n - 1);
      const View weight = diagonal.sliced(axis, first, n - 1);
      const View factor = rhs.sliced(axis, 1 - first, n - 1);
      context.map(uhal_map_multiply_add, {&weight, &factor, &to}, {&to});
    };
    add(diagonals[0], 0);
    add(diagonals[2], 1);
  }
};

// TridiagonalSolve(diagonals (..., 3, n): above, on and below the main one; rhs (..., n, k)), as a dense system.
class TridiagonalSolve : public Kernel {
 public:
  explicit TridiagonalSolve(Construction& construction) : Kernel(construction) {
    if (construction.has("perturb_singular") && construction.boolean("perturb_singular")) {
      construction.refuse("perturb_singular");
    }
  }
  void compute(Context& context) const override {
    const View diagonals = context.input(0);
    const View rhs = context.input(1);
    if (!context.ok()) return;
    const int64_t n = diagonals.rank < 2 ? 0 : diagonals.shape[diagonals.rank - 1];
    Shape expected = shape_of(diagonals);
    if (expected.size() >= 2) {
      expected[expected.size() - 2] = n;
      expected.back() = rhs.rank == diagonals.rank ? rhs.shape[rhs.rank - 1] : -1;
    }
    if (diagonals.rank < 2 || diagonals.shape[diagonals.rank - 2] != 3 || shape_of(rhs) != expected) {
      return context.fail_invalid("Expected diagonals (..., 3, n) and a right-hand side (..., n, k), got " +
                                  to_text(diagonals) + " and " + to_text(rhs));
    }
    constexpr int64_t kLargest = 2048;
    if (n > kLargest) return context.refuse("a tridiagonal system of more than 2048 unknowns");
    const View output = context.output_like(0, rhs);
    if (!context.ok() || output.elements() == 0) return;
    const View matrix = context.temporary(diagonals.dtype, batches_and(diagonals, {n, n}));
    if (!context.ok() || !context.zero(matrix)) return;
    const int row = diagonals.rank - 2;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t length = i == 1 ? n : n - 1;
      if (length == 0) continue;
      View to = matrix.sliced(row, i == 2 ? 1 : 0, 1).sliced(row + 1, i == 0 ? 1 : 0, 1);
      to.rank -= 1;
      to.shape[row] = length;
      to.strides[row] = matrix.strides[row] + matrix.strides[row + 1];
      View from = diagonals.sliced(row, i, 1).sliced(row + 1, i == 2 ? 1 : 0, length);
      from.rank -= 1;
      from.shape[row] = length;
      from.strides[row] = diagonals.strides[row + 1];
      context.copy(from, to);
    }
    Factors factors(context, matrix);
    if (!context.ok()) return;
    const View nan = context.temporary(real_of(output.dtype), Shape{});
    if (!context.ok()) return;
    factors.solve(context, rhs, output);
    // Of a matrix that is singular the solution is NaN, as on TensorFlow's CPU; of complex ones that has 0.
    context.fill(nan, std::numeric_limits<double>::quiet_NaN(), 0);
    const View numbers = factors.info.view().unsqueezed(output.rank - 2).unsqueezed(output.rank - 1);
    context.map(uhal_map_select, {&numbers, &nan, &output}, {&output});
  }
};

}  // namespace

void register_linear_algebra(Registrar& registrar) {
  registrar.add<Cholesky>("Cholesky", {{"T", kMatrices}});
  const DtypeSet single = only(UHAL_FLOAT32) | only(UHAL_COMPLEX64);
  const DtypeSet twice = only(UHAL_FLOAT64) | only(UHAL_COMPLEX128);
  registrar.add<Eig>("Eig", {{"T", single}, {"Tout", only(UHAL_COMPLEX64)}});
  registrar.add<Eig>("Eig", {{"T", twice}, {"Tout", only(UHAL_COMPLEX128)}});
  registrar.add<Determinant<true>>("LogMatrixDeterminant", {{"T", kMatrices}});
  registrar.add<Lu>("Lu", {{"T", kMatrices}, {"output_idx_type", kIndices}});
  registrar.add<Determinant<false>>("MatrixDeterminant", {{"T", kMatrices}});
  registrar.add<MatrixInverse>("MatrixInverse", {{"T", kMatrices}});
  registrar.add<MatrixSolve>("MatrixSolve", {{"T", kMatrices}});
  registrar.add<MatrixTriangularSolve>("MatrixTriangularSolve", {{"T", kMatrices}});
  registrar.add<Qr>("Qr", {{"T", kMatrices}});
  registrar.add<SelfAdjointEig>("SelfAdjointEigV2", {{"T", kMatrices}});
  registrar.add<Svd>("Svd", {{"T", kMatrices}});
  registrar.add<Svd>("BatchSvd", {{"T", kMatrices}});
  registrar.add<TridiagonalSolve>("TridiagonalSolve", {{"T", kMatrices}});
  registrar.add<TridiagonalMatMul>("TridiagonalMatMul", {{"T", kMatrices}});
  registrar.add<MatrixTriangularSolve>("BatchMatrixTriangularSolve", {{"T", only(UHAL_FLOAT32) | only(UHAL_FLOAT64)}});
}

}  // namespace unihal::tensorflow
