#include "stub/ops/dense.h"

#include "stub/ops/substitution.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

int32_t narrow(int64_t number) { return static_cast<int32_t>(number); }

// -- plain loops, for where there is no LAPACK ----------------------------------------------------------------------

template <typename T>
void add_multiple(int64_t count, T factor, const T* x, int64_t x_stride, T* y, int64_t y_stride) {
  if (x_stride == 1 && y_stride == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
  } else {
    for (int64_t i = 0; i < count; ++i) y[i * y_stride] += factor * x[i * x_stride];
  }
}

// Row by row of x: each takes away multiples of those before it.
template <typename T>
void plain_solve(bool upper, bool unit, bool conjugated, const Matrix2<T>& a, const Matrix2<T>& x) {
  const int64_t n = a.rows;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    for (int64_t before = 0; before < step; ++before) {
      const int64_t j = upper ? n - 1 - before : before;
      const T factor = conjugated ? conjugate(a.at(i, j)) : a.at(i, j);
      add_multiple(x.columns, -factor, &x.at(j, 0), x.column_stride, &x.at(i, 0), x.column_stride);
    }
    if (unit) continue;
    const T divisor = conjugated ? conjugate(a.at(i, i)) : a.at(i, i);
    for (int64_t j = 0; j < x.columns; ++j) x.at(i, j) /= divisor;
  }
}

// Row by row of the lower triangle (Cholesky-Banachiewicz). The upper one is the lower one of the transpose, which is
// conj(a), and whose factor is conj(l).
template <typename T>
int32_t plain_cholesky(const Matrix2<T>& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      T sum = a.at(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= a.at(i, k) * conjugate(a.at(j, k));
      if (j < i) {
        a.at(i, j) = sum / std::real(a.at(j, j));
      } else if (const Real<T> square = std::real(sum); !(square <= 0)) {  // NaN goes on, as in LAPACK
        a.at(i, i) = std::sqrt(square);
      } else {
        return narrow(i + 1);
      }
    }
  }
  return 0;
}

template <typename T>
int32_t plain_lu(const Matrix2<T>& a, int32_t* pivots) {
  int32_t info = 0;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      if (std::abs(a.at(i, k)) > std::abs(a.at(pivot, k))) pivot = i;
    }
    pivots[k] = narrow(pivot);
    if (a.at(pivot, k) == T(0)) {
      if (info == 0) info = narrow(k + 1);
      continue;
    }
    if (pivot != k) {
      for (int64_t j = 0; j < a.columns; ++j) std::swap(a.at(k, j), a.at(pivot, j));
    }
    for (int64_t i = k + 1; i < a.rows; ++i) a.at(i, k) /= a.at(k, k);
    const int64_t below = a.rows - k - 1;
    for (int64_t j = k + 1; j < a.columns && below > 0; ++j) {
      add_multiple(below, -a.at(k, j), &a.at(k + 1, k), 1, &a.at(k + 1, j), 1);
    }
  }
  return info;
}

// column := (1 - factor v v^H) column, v = (1, rest) of so many elements.
template <typename T>
void reflect(int64_t count, const T* rest, T factor, T* column) {
  T sum = column[0];
  for (int64_t i = 1; i < count; ++i) sum += conjugate(rest[i]) * column[i];
  sum *= factor;
  column[0] -= sum;
  for (int64_t i = 1; i < count; ++i) column[i] -= rest[i] * sum;
}

// Householder's reflections (Golub and Van Loan, section 5.1): h^H a = r with h = 1 - tau v v^H, v's first element 1.
template <typename T>
void plain_qr(const Matrix2<T>& a, T* tau) {
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    T* const column = &a.at(k, k);
    const int64_t count = a.rows - k;
    Real<T> largest = 0;
    for (int64_t i = 1; i < count; ++i) largest = std::max(largest, std::abs(column[i]));
    if (largest == 0 && std::imag(column[0]) == 0) {
      tau[k] = 0;
      continue;
    }
    largest = std::max(largest, std::abs(column[0]));
    Real<T> squares = 0;  // of numbers of at most 1, so that none leaves the range
    for (int64_t i = 0; i < count; ++i) squares += std::norm(column[i] / largest);
    const Real<T> norm = largest * std::sqrt(squares);
    const Real<T> diagonal = std::real(column[0]) > 0 ? -norm : norm;
    tau[k] = (diagonal - column[0]) / diagonal;
    const T scale = column[0] - diagonal;
    for (int64_t i = 1; i < count; ++i) column[i] /= scale;
    column[0] = diagonal;
    for (int64_t j = k + 1; j < a.columns; ++j) reflect(count, column, conjugate(tau[k]), &a.at(k, j));
  }
}

template <typename T>
void plain_form_q(const Matrix2<T>& q, int64_t reflectors, const T* tau) {
  for (int64_t j = reflectors; j < q.columns; ++j) {
    for (int64_t i = 0; i < q.rows; ++i) q.at(i, j) = i == j ? T(1) : T(0);
  }
  for (int64_t k = reflectors - 1; k >= 0; --k) {
    T* const column = &q.at(k, k);
    const int64_t count = q.rows - k;
    for (int64_t j = k + 1; j < q.columns; ++j) reflect(count, column, tau[k], &q.at(k, j));
    for (int64_t i = 1; i < count; ++i) column[i] *= -tau[k];
    column[0] = T(1) - tau[k];
    for (int64_t i = 0; i < k; ++i) q.at(i, k) = T(0);
  }
}

}  // namespace

// -- one matrix -------------------------------------------------------------------------------------------------------

// c (m x n) := alpha a b + beta c, all by columns; `transposed` says which of a and b is turned, with 'N' and 'T'.
template <typename T>
void multiply(const char* transposed, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t a_step, const T* b,
              int64_t b_step, T beta, T* c, int64_t c_step) {
  const int32_t rows = narrow(m), columns = narrow(n), inner = narrow(k);
  const int32_t a_stride = narrow(a_step), b_stride = narrow(b_step), c_stride = narrow(c_step);
  lapack<T>()->gemm(transposed, transposed + 1, &rows, &columns, &inner, &alpha, a, &a_stride, b, &b_stride, &beta, c,
                    &c_stride, 1, 1);
}

// A triangle as BLAS has it, and from which side it is divided by.
struct TriangleForm {
  bool from_right, stored_upper, transposed, unit_diagonal;

  // Whether its first half is solved before the second one.
  bool begins_first() const { return (stored_upper != transposed) == from_right; }
};

// Whether right sides are adjacent, so many that packing the triangle is worth it, and vectors as long as it takes.
template <typename T>
bool takes_vectors(const TriangleForm& form, int64_t right_sides) {
  return !kIsComplex<T> && form.from_right && right_sides >= 16 && has_wide_vectors();
}

// x op(a) = b in b's place, by columns; x is m x n. In rows, as they lie, it is a triangle divided by from the left.
// False: no memory.
template <typename T>
bool solve_rows(const TriangleForm& form, int64_t m, int64_t n, const T* a, int64_t a_step, T* x, int64_t x_step) {
  const bool lower = form.begins_first();
  const int64_t turned = lower ? 1 : -1;
  const int64_t row_step = form.transposed ? turned : turned * a_step;
  const int64_t column_step = form.transposed ? turned * a_step : turned;
  ScratchFrame frame;
  T* const packed = frame.take<T>(packed_triangle_size<T>(n));
  if (packed == nullptr) return false;
  pack_triangle<T>({lower ? a : a + (n - 1) * (a_step + 1), n, row_step, column_step, form.unit_diagonal}, packed);
  T* const first_row = lower ? x : x + (n - 1) * x_step;
  std::atomic<bool> complete{true};
  parallel_for(m, n * n / 8, kSidesTogether<T>, [&](int64_t begin, int64_t end) {
    ScratchFrame own;
    T* const sides = own.take<T>(packed_sides_size<T>(n));
    if (sides == nullptr) {
      complete = false;
    } else {
      solve_in_vectors<T>(n, packed, end - begin, first_row + begin, turned * x_step, sides);
    }
  });
  return complete;
}

// op(a) x = b, or x op(a) = b, in b's place; x is m x n. Halves of a long triangle are apart by a product, which takes
// two thirds of the time of trsm with as many operations (OpenBLAS, 512 x 512). False: no memory.
template <typename T>
bool solve_by_halves(const TriangleForm& form, int64_t m, int64_t n, const T* a, int64_t a_step, T* x, int64_t x_step) {
  constexpr int64_t kLongest = 1024;  // so many rows of packed right sides fit a second-level cache
  const int64_t size = form.from_right ? n : m, others = form.from_right ? m : n;
  const bool in_vectors = takes_vectors<T>(form, others);
  const bool whole = in_vectors ? size <= kLongest : size <= 64 || others < 32;
  if constexpr (!kIsComplex<T>) {
    if (in_vectors && whole) return solve_rows(form, m, n, a, a_step, x, x_step);
  }
  if (whole || lapack<T>()->gemm == nullptr) {
    const int32_t rows = narrow(m), columns = narrow(n), a_stride = narrow(a_step), x_stride = narrow(x_step);
    const T one(1);
    lapack<T>()->trsm(form.from_right ? "R" : "L", form.stored_upper ? "U" : "L", form.transposed ? "T" : "N",
                      form.unit_diagonal ? "U" : "N", &rows, &columns, &one, a, &a_stride, x, &x_stride, 1, 1, 1, 1);
    return true;
  }
  constexpr int64_t kAlign = 64;
  const int64_t half = (size / 2 + kAlign - 1) / kAlign * kAlign, rest = size - half;
  const T* const between = form.stored_upper ? a + half * a_step : a + half;
  T* const second_x = x + half * (form.from_right ? x_step : 1);
  const auto solve_first = [&] {
    return solve_by_halves(form, form.from_right ? m : half, form.from_right ? half : n, a, a_step, x, x_step);
  };
  const auto solve_second = [&] {
    return solve_by_halves(form, form.from_right ? m : rest, form.from_right ? rest : n, a + half * (a_step + 1),
                           a_step, second_x, x_step);
  };
  // What the half that is solved is to the other one.
  const auto subtract = [&](const T* solved, int64_t solved_size, T* other, int64_t other_size) {
    if (form.from_right) {
      multiply<T>(form.transposed ? "NT" : "NN", m, other_size, solved_size, T(-1), solved, x_step, between, a_step,
                  T(1), other, x_step);
    } else {
      multiply<T>(form.transposed ? "TN" : "NN", other_size, n, solved_size, T(-1), between, a_step, solved, x_step,
                  T(1), other, x_step);
    }
  };
  if (form.begins_first()) {
    if (!solve_first()) return false;
    subtract(x, half, second_x, rest);
    return solve_second();
  }
  if (!solve_second()) return false;
  subtract(second_x, rest, x, half);
  return solve_first();
}

template <typename T>
bool solve_triangular(bool upper, bool unit_diagonal, bool conjugated, const Matrix2<T>& a, const Matrix2<T>& x) {
  if (a.rows == 0 || x.columns == 0) return true;
  const Lapack<T>* const library = lapack<T>();
  if (library == nullptr) {
    plain_solve(upper, unit_diagonal, conjugated, a, x);
    return true;
  }
  ScratchFrame frame;
  Matrix2<T> factor = a, result = x;
  if ((conjugated && kIsComplex<T>) || (!a.in_columns() && !a.transposed().in_columns())) {
    factor = columns_at(frame.take<T>(static_cast<size_t>(a.rows * a.rows)), a.rows, a.rows);
    if (factor.data == nullptr) return false;
    copy_matrix(a, factor);
    if (conjugated) std::transform(factor.data, factor.data + a.rows * a.rows, factor.data, conjugate<T>);
  }
  // Where x lies in rows its transpose lies in columns: x^T a^T = b^T.
  const bool from_right = !x.in_columns() && x.transposed().in_columns();
  if (!from_right && !x.in_columns()) {
    result = columns_at(frame.take<T>(static_cast<size_t>(x.rows * x.columns)), x.rows, x.columns);
    if (result.data == nullptr) return false;
    copy_matrix(x, result);
  }
  // What lies in memory, by columns, is a or its transpose.
  const bool as_it_is = factor.in_columns();
  const bool stored_upper = as_it_is == upper;
  const TriangleForm form = {from_right, stored_upper, as_it_is == from_right, unit_diagonal};
  if (!solve_by_halves<T>(form, from_right ? x.columns : x.rows, from_right ? x.rows : x.columns, factor.data,
                          as_it_is ? factor.column_stride : factor.row_stride, result.data,
                          from_right ? result.row_stride : result.column_stride)) {
    return false;
  }
  if (result.data != x.data) copy_matrix(result, x);
  return true;
}

// A pivot that is NaN is not positive either: OpenBLAS does not look for it.
template <typename T>
void note_nan_on_diagonal(const Matrix2<T>& l, int32_t* info) {
  for (int64_t i = 0; *info == 0 && i < l.rows; ++i) {
    if (std::isnan(std::real(l.at(i, i)))) *info = narrow(i + 1);
  }
}

template <typename T>
bool factorize_cholesky(bool upper, const Matrix2<T>& a, int32_t* info) {
  const Lapack<T>* const library = lapack<T>();
  if (library == nullptr) {
    *info = plain_cholesky(upper ? a.transposed() : a);
    note_nan_on_diagonal(a, info);
    return true;
  }
  ScratchFrame frame;
  Matrix2<T> columns = a;
  bool stored_upper = upper;
  if (!a.in_columns() && a.transposed().in_columns()) {
    // In memory lies the transpose, conj(a) = conj(l) conj(l)^H, whose upper triangle is l^T.
    columns = a.transposed();
    stored_upper = !upper;
  } else if (!a.in_columns()) {
    columns = columns_at(frame.take<T>(static_cast<size_t>(a.rows * a.rows)), a.rows, a.rows);
    if (columns.data == nullptr) return false;
    copy_matrix(a, columns);
  }
  const int32_t n = narrow(a.rows), step = narrow(columns.column_stride);
  library->potrf(stored_upper ? "U" : "L", &n, columns.data, &step, info, 1);
  note_nan_on_diagonal(columns, info);
  if (columns.data != a.data) copy_matrix(columns, a);
  return true;
}

template <typename T>
int32_t factorize_lu(const Matrix2<T>& a, int32_t* pivots) {
  const Lapack<T>* const library = lapack<T>();
  if (library == nullptr) return plain_lu(a, pivots);
  const int32_t m = narrow(a.rows), n = narrow(a.columns), step = narrow(a.column_stride);
  int32_t info = 0;
  library->getrf(&m, &n, a.data, &step, pivots, &info);
  for (int64_t i = 0; i < std::min(a.rows, a.columns); ++i) --pivots[i];
  return info;
}

// Columns that geqrt factorizes by recursion, with matrix products, before it turns to the rest.
constexpr int32_t kPanel = 32;

// Measured with OpenBLAS, one and two threads, 20 to 1024 columns: geqrf factorizes as many with products of a matrix
// and a vector; of complex numbers it is the faster one.
template <typename T>
bool qr_takes_panels(int64_t m, int64_t n) {
  constexpr int64_t kLongest = 1 << 24;  // workspaces are counted in int32
  const Lapack<T>* const library = lapack<T>();
  return !kIsComplex<T> && library != nullptr && library->geqrt != nullptr && library->gemm != nullptr &&
         n >= kPanel + 8 && m >= kPanel && m * n >= 10000 && m + n <= kLongest;
}

// What is left beside the matrix by its factorization, and what forming q of it needs.
template <typename T>
struct PanelWork {
  T* triangles;  // kPanel x all reflectors: a triangle T for each panel, whose diagonal is tau
  T* triangle;   // kPanel x kPanel, one of them with zeros below
  T* vectors;    // m x kPanel: the reflectors V of a panel, with zeros above and the ones that are not stored
  T* products;   // two of kPanel x k

  PanelWork(T* work, int64_t m, int64_t reflectors)
      : triangles(work),
        triangle(triangles + kPanel * reflectors),
        vectors(triangle + kPanel * kPanel),
        products(vectors + kPanel * m) {}

  static int64_t size(int64_t m, int64_t n, int64_t k) {
    return kPanel * (std::min(m, n) + std::max(n, kPanel + m + 2 * k));
  }
};

// The last panel first: what it does to a matrix, the product with I - V T V', leaves the columns before it alone, and
// finds zeros in its own rows of those behind it.
template <typename T>
void form_q_of_panels(const Matrix2<T>& q, int64_t reflectors, T* work) {
  const int64_t m = q.rows, k = q.columns, step = q.column_stride;
  const PanelWork<T> parts(work, m, reflectors);
  for (int64_t c = reflectors; c < k; ++c) {
    std::fill_n(q.data + c * step, m, T(0));
    q.data[c * step + c] = 1;
  }
  for (int64_t first = (reflectors - 1) / kPanel * kPanel; first >= 0; first -= kPanel) {
    const int64_t width = std::min<int64_t>(kPanel, reflectors - first), rows = m - first, others = k - first - width;
    T* const panel = q.data + first * step + first;
    for (int64_t c = 0; c < width; ++c) {
      T* const vector = parts.vectors + c * rows;
      std::fill_n(vector, c, T(0));
      vector[c] = 1;
      std::copy_n(panel + c * step + c + 1, rows - c - 1, vector + c + 1);
      std::fill_n(parts.triangle + c * kPanel, kPanel, T(0));
      std::copy_n(parts.triangles + (first + c) * kPanel, c + 1, parts.triangle + c * kPanel);
    }
    T *const product = parts.products, *const turned = product + kPanel * k;
    if (others > 0) {
      T* const rest = panel + width * step;
      multiply<T>("TN", width, others, rows - width, 1, parts.vectors + width, rows, rest + width, step, 0, product,
                  kPanel);
      multiply<T>("NN", width, others, width, 1, parts.triangle, kPanel, product, kPanel, 0, turned, kPanel);
      multiply<T>("NN", rows, others, width, -1, parts.vectors, rows, turned, kPanel, 1, rest, step);
    }
    // Its own columns are those of the identity.
    multiply<T>("NT", width, width, width, 1, parts.triangle, kPanel, parts.vectors, rows, 0, turned, kPanel);
    multiply<T>("NN", rows, width, width, -1, parts.vectors, rows, turned, kPanel, 0, panel, step);
    for (int64_t c = 0; c < width; ++c) {
      panel[c * step + c] += 1;
      std::fill_n(q.data + (first + c) * step, first, T(0));
    }
  }
}

template <typename T>
int32_t qr_work_size(int64_t rows, int64_t columns, int64_t q_columns) {
  const Lapack<T>* const library = lapack<T>();
  if (library == nullptr) return 1;
  const int32_t m = narrow(rows), n = narrow(columns), k = narrow(q_columns), query = -1, step = std::max(m, 1);
  const int32_t reflectors = std::min({m, n, k});
  int32_t info = 0;
  T answer(0), tau(0);
  library->geqrf(&m, &n, &tau, &step, &tau, &answer, &query, &info);
  int32_t size = work_size(answer);
  if (qr_takes_panels<T>(rows, columns)) {
    size = std::max(size, narrow(PanelWork<T>::size(rows, columns, q_columns)));
  }
  if (k > 0) {
    library->form_q(&m, &k, &reflectors, &tau, &step, &tau, &answer, &query, &info);
    size = std::max(size, work_size(answer));
  }
  return size;
}

template <typename T>
void factorize_qr(const Matrix2<T>& a, const QrWork<T>& work) {
  const Lapack<T>* const library = lapack<T>();
  if (library == nullptr) return plain_qr(a, work.tau);
  const int32_t m = narrow(a.rows), n = narrow(a.columns), step = narrow(a.column_stride);
  int32_t info = 0;
  if (!work.panels) {
    library->geqrf(&m, &n, a.data, &step, work.tau, work.work, &work.size, &info);
    return;
  }
  const int64_t reflectors = std::min(a.rows, a.columns);
  library->geqrt(&m, &n, &kPanel, a.data, &step, work.work, &kPanel, work.work + kPanel * reflectors, &info);
}

template <typename T>
void form_q(const Matrix2<T>& q, int64_t reflectors, const QrWork<T>& work) {
  const Lapack<T>* const library = lapack<T>();
  if (library == nullptr) return plain_form_q(q, reflectors, work.tau);
  if constexpr (!kIsComplex<T>) {
    if (work.panels) return form_q_of_panels(q, reflectors, work.work);
  }
  const int32_t m = narrow(q.rows), k = narrow(q.columns), count = narrow(reflectors), step = narrow(q.column_stride);
  int32_t info = 0;
  library->form_q(&m, &k, &count, q.data, &step, work.tau, work.work, &work.size, &info);
}

#define UNIHAL_DENSE(T)                                                                      \
  template bool solve_triangular<T>(bool, bool, bool, const Matrix2<T>&, const Matrix2<T>&); \
  template bool factorize_cholesky<T>(bool, const Matrix2<T>&, int32_t*);                    \
  template int32_t factorize_lu<T>(const Matrix2<T>&, int32_t*);                             \
  template int32_t qr_work_size<T>(int64_t, int64_t, int64_t);                               \
  template bool qr_takes_panels<T>(int64_t, int64_t);                                        \
  template void factorize_qr<T>(const Matrix2<T>&, const QrWork<T>&);                        \
  template void form_q<T>(const Matrix2<T>&, int64_t, const QrWork<T>&);
UNIHAL_DENSE(float)
UNIHAL_DENSE(double)
UNIHAL_DENSE(std::complex<float>)
UNIHAL_DENSE(std::complex<double>)

}  // namespace unihal::stub
