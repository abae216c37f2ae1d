// Eigenvalues of symmetric and Hermitian matrices, by LAPACK's divide and conquer; of many small real ones by Jacobi's
// rotations, side by side.
#include <algorithm>
#include <numeric>

#include "csrc/backends/common/attributes.h"
#include "stub/common/staging.h"
#include "stub/ops/lanes.h"
#include "stub/ops/matrices.h"

namespace unihal::stub {
namespace {

enum { kValues, kVectors, kInfo, kA, kOperands };

template <typename T>
struct Work {
  T* work = nullptr;
  Real<T>* real_work = nullptr;
  int32_t* integer_work = nullptr;
  int32_t size = -1, real_size = -1, integer_size = -1;  // -1: asks for them

  bool take(ScratchFrame& frame, const Work& sizes) {
    *this = sizes;
    work = frame.take<T>(static_cast<size_t>(size));
    real_work = frame.take<Real<T>>(static_cast<size_t>(std::max(real_size, 1)));
    integer_work = frame.take<int32_t>(static_cast<size_t>(integer_size));
    return work != nullptr && real_work != nullptr && integer_work != nullptr;
  }
};

template <typename T>
int32_t find_values(bool vectors, bool upper, int32_t n, T* a, Real<T>* values, const Work<T>& w) {
  const char* const job = vectors ? "V" : "N";
  const char* const triangle = upper ? "U" : "L";
  const int32_t step = std::max(n, 1);
  int32_t info = 0;
  if constexpr (kIsComplex<T>) {
    lapack<T>()->eigen_hermitian(job, triangle, &n, a, &step, values, w.work, &w.size, w.real_work, &w.real_size,
                                 w.integer_work, &w.integer_size, &info, 1, 1);
  } else {
    lapack<T>()->eigen_symmetric(job, triangle, &n, a, &step, values, w.work, &w.size, w.integer_work, &w.integer_size,
                                 &info, 1, 1);
  }
  return info;
}

template <typename T>
Work<T> work_sizes(bool vectors, bool upper, int32_t n) {
  T work(0);
  Real<T> real_work = 0;
  int32_t integer_work = 0;
  Work<T> query;
  query.work = &work;
  query.real_work = &real_work;
  query.integer_work = &integer_work;
  find_values<T>(vectors, upper, n, &work, &real_work, query);
  Work<T> sizes;
  sizes.size = work_size(work);
  sizes.real_size = work_size(real_work);
  sizes.integer_size = std::max(integer_work, 1);
  return sizes;
}

// The triangle that counts is all that is looked at, of a matrix in columns.
template <typename T>
bool triangle_is_finite(const Matrix2<T>& a, bool upper) {
  for (int64_t j = 0; j < a.columns; ++j) {
    const int64_t first = upper ? 0 : j, last = upper ? j + 1 : a.rows;
    if (!are_finite(last - first, &a.at(first, j))) return false;
  }
  return true;
}

struct Operands {
  const uhal_tensor* views[kOperands];
  int64_t n;
  bool vectors, upper;

  Operands(const uhal_op& op, bool is_upper)
      : views{op.outputs[0], output_of(op, 1), output_of(op, 2), op.inputs[0]},
        n(rows_of(*op.inputs[0])),
        vectors(views[kVectors] != nullptr),
        upper(is_upper) {}

  void set_info(const Cursor& at, int32_t info) const {
    if (views[kInfo] != nullptr) static_cast<int32_t*>(views[kInfo]->data)[at.offset(kInfo)] = info;
  }
};

// One matrix by itself. False: no memory.
template <typename T>
bool decompose_one(const Operands& operands, const Work<T>& sizes, const Cursor& at) {
  const int64_t n = operands.n;
  ScratchFrame frame;
  T* const data = frame.take<T>(static_cast<size_t>(n * n));
  auto* const found = frame.take<Real<T>>(static_cast<size_t>(n));
  Work<T> work;
  if (data == nullptr || found == nullptr || !work.take(frame, sizes)) return false;
  const Matrix2<T> columns = columns_at(data, n, n);
  // Into columns, though rows as they lie have the same values: vectors get the signs and phases of frameworks' CPUs.
  copy_matrix(matrix_of<T>(*operands.views[kA], at.offset(kA)), columns);
  // What is not finite could keep the iteration going.
  int32_t info = triangle_is_finite(columns, operands.upper) ? 0 : static_cast<int32_t>(n) + 1;
  if (info == 0 && n > 0) {
    info = find_values(operands.vectors, operands.upper, static_cast<int32_t>(n), data, found, work);
  }
  if (info != 0) {
    std::fill_n(found, n, not_a_number<T>());
    fill_matrix(columns, T(not_a_number<T>()));
  }
  const auto values = vector_of<Real<T>>(*operands.views[kValues], at.offset(kValues));
  for (int64_t i = 0; i < n; ++i) values[i] = found[i];
  if (operands.vectors) copy_matrix(columns, matrix_of<T>(*operands.views[kVectors], at.offset(kVectors)));
  operands.set_info(at, info);
  return true;
}

// At most as many small ones as there are lanes. False: no memory.
template <typename T>
bool decompose_group(const Operands& operands, const Work<T>& sizes, const Cursor& first, int64_t count) {
  constexpr int64_t kCount = kLanes<T>;
  const int64_t n = operands.n;
  if (!fits_rotations<T>(n, operands.vectors, count)) {
    Cursor at = first;
    for (int64_t i = 0; i < count; ++i, at.advance(1)) {
      if (!decompose_one<T>(operands, sizes, at)) return false;
    }
    return true;
  }
  ScratchFrame frame;
  T* const lanes = frame.take<T>(static_cast<size_t>(n * n * kCount));
  T* const vectors = operands.vectors ? frame.take<T>(static_cast<size_t>(n * n * kCount)) : nullptr;
  if (lanes == nullptr || (operands.vectors && vectors == nullptr)) return false;
  Matrix2<T> matrices[kCount];
  Cursor from = first, to = first;
  for (int64_t lane = 0; lane < kCount; ++lane) {  // lanes without a matrix have the last one's
    if (lane > 0 && lane < count) from.advance(1);
    const Matrix2<T> matrix = matrix_of<T>(*operands.views[kA], from.offset(kA));
    matrices[lane] = operands.upper ? matrix.transposed() : matrix;
  }
  load_lanes(matrices, lanes);
  bool finite[kCount], sure[kCount];
  find_finite_lanes(n * n, lanes, finite);
  find_eigen_in_lanes(n, lanes, vectors, sure);
  for (int64_t lane = 0; lane < count; ++lane) {
    if (lane > 0) to.advance(1);
    if (!sure[lane] || !finite[lane]) {
      if (!decompose_one<T>(operands, sizes, to)) return false;
      continue;
    }
    const auto value = [&](int64_t i) { return lanes[(i * n + i) * kCount + lane]; };
    int64_t order[kMostRotated];
    std::iota(order, order + n, int64_t{0});
    std::stable_sort(order, order + n, [&](int64_t i, int64_t j) { return value(i) < value(j); });
    const auto values = vector_of<T>(*operands.views[kValues], to.offset(kValues));
    for (int64_t j = 0; j < n; ++j) values[j] = value(order[j]);
    operands.set_info(to, 0);
    if (!operands.vectors) continue;
    store_columns(vectors, lane, n, order, matrix_of<T>(*operands.views[kVectors], to.offset(kVectors)));
  }
  return true;
}

template <typename T>
uhal_status decompose(const uhal_op& op, bool upper) {
  const Operands operands(op, upper);
  const int own[] = {1, 2, 0, 2};
  const MatrixBatch batch(operands.views, own, kOperands);
  const Work<T> sizes = work_sizes<T>(operands.vectors, upper, static_cast<int32_t>(operands.n));
  std::atomic<bool> complete{true};
  const double side = static_cast<double>(operands.n), work = side * side * side;
  if constexpr (kLanes<T> > 0) {
    if (fits_rotations<T>(operands.n, operands.vectors, batch.count())) {
      note_implementation(host(), "built-in kernels, %d matrices at a time", static_cast<int>(kLanes<T>));
      batch.for_each_group(kLanes<T>, work, [&](const Cursor& at, int64_t count) {
        if (!decompose_group<T>(operands, sizes, at, count)) complete = false;
      });
      return complete ? UHAL_OK : fail_without_memory();
    }
  }
  note_implementation(host(), "%s", lapack_description());
  batch.for_each(work, [&](const Cursor& at) {
    if (!decompose_one<T>(operands, sizes, at)) complete = false;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_eigen_symmetric(const uhal_op& op) { return refuse_without_lapack(op, "eigenvalues"); }

uhal_status run_eigen_symmetric(const Launch& launch) {
  const uhal_op& op = launch.op;
  const bool upper = attributes_or(op, uhal_triangle_attributes{sizeof(uhal_triangle_attributes), 0, 0}).upper != 0;
  return with_number_type(op.inputs[0]->dtype, [&](auto number) { return decompose<decltype(number)>(op, upper); });
}

}  // namespace unihal::stub
