// Singular values and vectors, by LAPACK's divide and conquer; of many small real matrices by Jacobi's rotations, side
// by side.
#include <algorithm>
#include <numeric>

#include "stub/common/staging.h"
#include "stub/ops/lanes.h"
#include "stub/ops/matrices.h"

namespace unihal::stub {
namespace {

enum { kValues, kU, kVh, kInfo, kA, kOperands };

// A problem's sides: a is m x n, u m x j, vh k x n.
struct Sides {
  int64_t m, n, j, k;
  bool vectors;
  int64_t smaller() const { return std::min(m, n); }
  const char* job() const { return !vectors ? "N" : j == m && k == n ? "A" : "S"; }

  // gesdd's rwork, of complex matrices.
  int64_t real_work() const {
    const int64_t less = smaller(), more = std::max(m, n);
    if (!vectors) return 7 * less;
    return std::max(5 * less * less + 5 * less, 2 * more * less + 2 * less * less + less);
  }
};

template <typename T>
struct Arrays {
  T *a = nullptr, *u = nullptr, *vh = nullptr, *work = nullptr;
  Real<T>*values = nullptr, *real_work = nullptr;
  int32_t* integer_work = nullptr;

  bool take(ScratchFrame& frame, const Sides& sides, int32_t work_size) {
    a = frame.take<T>(static_cast<size_t>(sides.m * sides.n));
    u = frame.take<T>(static_cast<size_t>(sides.m * sides.j));
    vh = frame.take<T>(static_cast<size_t>(sides.k * sides.n));
    work = frame.take<T>(static_cast<size_t>(work_size));
    values = frame.take<Real<T>>(static_cast<size_t>(sides.smaller()));
    real_work = frame.take<Real<T>>(static_cast<size_t>(kIsComplex<T> ? sides.real_work() : 1));
    integer_work = frame.take<int32_t>(static_cast<size_t>(8 * sides.smaller()));
    return a != nullptr && u != nullptr && vh != nullptr && work != nullptr && values != nullptr &&
           real_work != nullptr && integer_work != nullptr;
  }
};

template <typename T>
int32_t find_values(const Sides& sides, const Arrays<T>& arrays, int32_t work_size) {
  const auto m = static_cast<int32_t>(sides.m), n = static_cast<int32_t>(sides.n);
  const int32_t a_step = std::max(m, 1), u_step = std::max(m, 1), vh_step = std::max(static_cast<int32_t>(sides.k), 1);
  int32_t info = 0;
  if constexpr (kIsComplex<T>) {
    lapack<T>()->svd_complex(sides.job(), &m, &n, arrays.a, &a_step, arrays.values, arrays.u, &u_step, arrays.vh,
                             &vh_step, arrays.work, &work_size, arrays.real_work, arrays.integer_work, &info, 1);
  } else {
    lapack<T>()->svd_real(sides.job(), &m, &n, arrays.a, &a_step, arrays.values, arrays.u, &u_step, arrays.vh, &vh_step,
                          arrays.work, &work_size, arrays.integer_work, &info, 1);
  }
  return info;
}

template <typename T>
int32_t work_size_of(const Sides& sides) {
  T answer(0);
  Real<T> real(0);
  int32_t integer = 0;
  Arrays<T> query;
  query.a = query.u = query.vh = query.work = &answer;
  query.values = query.real_work = &real;
  query.integer_work = &integer;
  find_values(sides, query, -1);
  return work_size(answer);
}

struct Operands {
  const uhal_tensor* views[kOperands];
  Sides sides;

  explicit Operands(const uhal_op& op)
      : views{op.outputs[0], output_of(op, 1), output_of(op, 2), output_of(op, 3), op.inputs[0]} {
    const bool vectors = views[kU] != nullptr;
    sides = {rows_of(*views[kA]), columns_of(*views[kA]), vectors ? columns_of(*views[kU]) : 0,
             vectors ? rows_of(*views[kVh]) : 0, vectors};
  }

  void set_info(const Cursor& at, int32_t info) const {
    if (views[kInfo] != nullptr) static_cast<int32_t*>(views[kInfo]->data)[at.offset(kInfo)] = info;
  }
};

// One matrix by itself. False: no memory.
template <typename T>
bool decompose_one(const Operands& operands, int32_t work_size, const Cursor& at) {
  const Sides& sides = operands.sides;
  ScratchFrame frame;
  Arrays<T> arrays;
  if (!arrays.take(frame, sides, work_size)) return false;
  const Matrix2<T> columns = columns_at(arrays.a, sides.m, sides.n);
  const Matrix2<T> u = columns_at(arrays.u, sides.m, sides.j), vh = columns_at(arrays.vh, sides.k, sides.n);
  int32_t info = 0;
  if (sides.smaller() == 0) {
    fill_identity(u);
    fill_identity(vh);
  } else {
    copy_matrix(matrix_of<T>(*operands.views[kA], at.offset(kA)), columns);
    // What is not finite could keep the iteration going.
    info = is_finite(columns) ? find_values(sides, arrays, work_size) : static_cast<int32_t>(sides.smaller()) + 1;
  }
  if (info != 0) {
    std::fill_n(arrays.values, sides.smaller(), not_a_number<T>());
    fill_matrix(u, T(not_a_number<T>()));
    fill_matrix(vh, T(not_a_number<T>()));
  }
  const auto values = vector_of<Real<T>>(*operands.views[kValues], at.offset(kValues));
  for (int64_t i = 0; i < sides.smaller(); ++i) values[i] = arrays.values[i];
  if (sides.vectors) {
    copy_matrix(u, matrix_of<T>(*operands.views[kU], at.offset(kU)));
    copy_matrix(vh, matrix_of<T>(*operands.views[kVh], at.offset(kVh)));
  }
  operands.set_info(at, info);
  return true;
}

constexpr int64_t kMostSideInLanes = 64;

// Square vectors of other matrices than square ones are LAPACK's.
template <typename T>
bool fits_lanes_of(const Sides& sides, int64_t matrices) {
  const int64_t values = sides.smaller();
  const bool whole = !sides.vectors || (sides.j == values && sides.k == values);
  return whole && std::max(sides.m, sides.n) <= kMostSideInLanes && fits_rotations<T>(values, sides.vectors, matrices);
}

// At most as many small ones as there are lanes, the wide ones transposed. False: no memory.
template <typename T>
bool decompose_group(const Operands& operands, int32_t work_size, const Cursor& first, int64_t count) {
  constexpr int64_t kCount = kLanes<T>;
  const Sides& sides = operands.sides;
  if (!fits_lanes_of<T>(sides, count)) {
    Cursor at = first;
    for (int64_t i = 0; i < count; ++i, at.advance(1)) {
      if (!decompose_one<T>(operands, work_size, at)) return false;
    }
    return true;
  }
  const bool wide = sides.m < sides.n;
  const int64_t m = std::max(sides.m, sides.n), n = sides.smaller();
  ScratchFrame frame;
  T* const left = frame.take<T>(static_cast<size_t>(m * n * kCount));
  T* const right = sides.vectors ? frame.take<T>(static_cast<size_t>(n * n * kCount)) : nullptr;
  T* const found = frame.take<T>(static_cast<size_t>(n * kCount));
  if (left == nullptr || found == nullptr || (sides.vectors && right == nullptr)) return false;
  Matrix2<T> matrices[kCount];
  Cursor from = first, to = first;
  for (int64_t lane = 0; lane < kCount; ++lane) {  // lanes without a matrix have the last one's
    if (lane > 0 && lane < count) from.advance(1);
    const Matrix2<T> matrix = matrix_of<T>(*operands.views[kA], from.offset(kA));
    matrices[lane] = wide ? matrix.transposed() : matrix;
  }
  load_lanes(matrices, left);
  bool finite[kCount], sure[kCount];
  find_finite_lanes(m * n, left, finite);
  find_singular_in_lanes(m, n, left, found, right, sure);
  for (int64_t lane = 0; lane < count; ++lane) {
    if (lane > 0) to.advance(1);
    if (!sure[lane] || !finite[lane]) {
      if (!decompose_one<T>(operands, work_size, to)) return false;
      continue;
    }
    const auto value = [&](int64_t i) { return found[i * kCount + lane]; };
    int64_t order[kMostRotated];
    std::iota(order, order + n, int64_t{0});
    std::stable_sort(order, order + n, [&](int64_t i, int64_t j) { return value(i) > value(j); });
    const auto values = vector_of<T>(*operands.views[kValues], to.offset(kValues));
    for (int64_t j = 0; j < n; ++j) values[j] = value(order[j]);
    operands.set_info(to, 0);
    if (!sides.vectors) continue;
    const auto u = matrix_of<T>(*operands.views[kU], to.offset(kU));
    const auto v = matrix_of<T>(*operands.views[kVh], to.offset(kVh)).transposed();
    store_columns(left, lane, m, order, wide ? v : u);
    store_columns(right, lane, n, order, wide ? u : v);
  }
  return true;
}

template <typename T>
uhal_status decompose(const uhal_op& op) {
  const Operands operands(op);
  const Sides& sides = operands.sides;
  const int own[] = {1, 2, 2, 0, 2};
  const MatrixBatch batch(operands.views, own, kOperands);
  const int32_t work_size = sides.smaller() > 0 ? work_size_of<T>(sides) : 0;
  std::atomic<bool> complete{true};
  const double work =
      static_cast<double>(sides.m) * static_cast<double>(sides.n) * static_cast<double>(sides.smaller());
  if constexpr (kLanes<T> > 0) {
    if (fits_lanes_of<T>(sides, batch.count())) {
      note_implementation(host(), "built-in kernels, %d matrices at a time", static_cast<int>(kLanes<T>));
      batch.for_each_group(kLanes<T>, work, [&](const Cursor& at, int64_t count) {
        if (!decompose_group<T>(operands, work_size, at, count)) complete = false;
      });
      return complete ? UHAL_OK : fail_without_memory();
    }
  }
  note_implementation(host(), "%s", lapack_description());
  batch.for_each(work, [&](const Cursor& at) {
    if (!decompose_one<T>(operands, work_size, at)) complete = false;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_svd(const uhal_op& op) { return refuse_without_lapack(op, "singular values"); }

uhal_status run_svd(const Launch& launch) {
  return with_number_type(launch.op.inputs[0]->dtype,
                          [&](auto number) { return decompose<decltype(number)>(launch.op); });
}

}  // namespace unihal::stub
