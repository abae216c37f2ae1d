// Eigenvalues of symmetric and Hermitian matrices, by LAPACK's divide and conquer.
#include "csrc/backends/common/attributes.h"
#include "stub/common/staging.h"
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

template <typename T>
uhal_status decompose(const uhal_op& op, bool upper) {
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor* operands[] = {op.outputs[0], output_of(op, 1), output_of(op, 2), &a};
  const int own[] = {1, 2, 0, 2};
  const int64_t n = rows_of(a);
  const bool vectors = operands[kVectors] != nullptr;
  const Work<T> sizes = work_sizes<T>(vectors, upper, static_cast<int32_t>(n));
  std::atomic<bool> complete{true};
  const double side = static_cast<double>(n);
  MatrixBatch(operands, own, kOperands).for_each(side * side * side, [&](const Cursor& at) {
    ScratchFrame frame;
    T* const data = frame.take<T>(static_cast<size_t>(n * n));
    auto* const found = frame.take<Real<T>>(static_cast<size_t>(n));
    Work<T> work;
    if (data == nullptr || found == nullptr || !work.take(frame, sizes)) {
      complete = false;
      return;
    }
    const Matrix2<T> columns = columns_at(data, n, n);
    copy_matrix(matrix_of<T>(a, at.offset(kA)), columns);
    // What is not finite could keep the iteration going.
    int32_t info = triangle_is_finite(columns, upper) ? 0 : static_cast<int32_t>(n) + 1;
    if (info == 0 && n > 0) info = find_values(vectors, upper, static_cast<int32_t>(n), data, found, work);
    if (info != 0) {
      std::fill_n(found, n, not_a_number<T>());
      fill_matrix(columns, T(not_a_number<T>()));
    }
    const auto values = vector_of<Real<T>>(*operands[kValues], at.offset(kValues));
    for (int64_t i = 0; i < n; ++i) values[i] = found[i];
    if (vectors) copy_matrix(columns, matrix_of<T>(*operands[kVectors], at.offset(kVectors)));
    if (operands[kInfo] != nullptr) static_cast<int32_t*>(operands[kInfo]->data)[at.offset(kInfo)] = info;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_eigen_symmetric(const uhal_op& op) { return refuse_without_lapack(op, "eigenvalues"); }

uhal_status run_eigen_symmetric(const Launch& launch) {
  const uhal_op& op = launch.op;
  note_implementation(host(), "%s", lapack_description());
  const bool upper = attributes_or(op, uhal_triangle_attributes{sizeof(uhal_triangle_attributes), 0, 0}).upper != 0;
  return with_number_type(op.inputs[0]->dtype, [&](auto number) { return decompose<decltype(number)>(op, upper); });
}

}  // namespace unihal::stub
