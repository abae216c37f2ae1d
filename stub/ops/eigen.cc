// Eigenvalues and eigenvectors of any square matrices, by LAPACK.
#include "stub/common/staging.h"
#include "stub/ops/matrices.h"

namespace unihal::stub {
namespace {

enum { kValues, kVectors, kInfo, kA, kOperands };

template <typename T>
struct Arrays {
  T *a = nullptr, *vectors = nullptr, *work = nullptr;
  T* values = nullptr;           // of complex matrices
  Real<T>* parts = nullptr;      // of real ones: n real parts, then n imaginary ones
  Real<T>* real_work = nullptr;  // of complex ones

  bool take(ScratchFrame& frame, int64_t n, int32_t work_size) {
    a = frame.take<T>(static_cast<size_t>(n * n));
    vectors = frame.take<T>(static_cast<size_t>(n * n));
    work = frame.take<T>(static_cast<size_t>(work_size));
    values = frame.take<T>(static_cast<size_t>(n));
    parts = frame.take<Real<T>>(static_cast<size_t>(2 * n));
    real_work = frame.take<Real<T>>(static_cast<size_t>(2 * n));
    return a != nullptr && vectors != nullptr && work != nullptr && values != nullptr && parts != nullptr &&
           real_work != nullptr;
  }
};

template <typename T>
int32_t decompose_one(bool vectors, int64_t side, const Arrays<T>& arrays, int32_t work_size) {
  const auto n = static_cast<int32_t>(side);
  const int32_t step = std::max(n, 1);
  const char* const job = vectors ? "V" : "N";
  int32_t info = 0;
  if constexpr (kIsComplex<T>) {
    lapack<T>()->eigen_complex("N", job, &n, arrays.a, &step, arrays.values, nullptr, &step, arrays.vectors, &step,
                               arrays.work, &work_size, arrays.real_work, &info, 1, 1);
  } else {
    lapack<T>()->eigen_real("N", job, &n, arrays.a, &step, arrays.parts, arrays.parts + n, nullptr, &step,
                            arrays.vectors, &step, arrays.work, &work_size, &info, 1, 1);
  }
  return info;
}

template <typename T>
int32_t work_size_of(bool vectors, int64_t n) {
  T answer(0);
  Real<T> real[2] = {};
  Arrays<T> query;
  query.a = query.vectors = query.values = query.work = &answer;
  query.parts = query.real_work = real;
  decompose_one(vectors, n, query, -1);
  return work_size(answer);
}

// Element i of eigenvector j. Those of a real matrix with a conjugate pair of values are column j and i times column
// j + 1, and their conjugates.
template <typename T>
std::complex<Real<T>> vector_element(const Arrays<T>& arrays, int64_t n, int64_t i, int64_t j) {
  const T* const v = arrays.vectors;
  if constexpr (kIsComplex<T>) {
    return v[i + j * n];
  } else {
    const T imaginary = arrays.parts[n + j];
    if (imaginary == 0) return v[i + j * n];
    if (imaginary > 0) return {v[i + j * n], v[i + (j + 1) * n]};
    return {v[i + (j - 1) * n], -v[i + j * n]};
  }
}

template <typename T>
uhal_status decompose(const uhal_op& op) {
  using C = std::complex<Real<T>>;
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor* operands[] = {op.outputs[0], output_of(op, 1), output_of(op, 2), &a};
  const int own[] = {1, 2, 0, 2};
  const int64_t n = rows_of(a);
  const bool with_vectors = operands[kVectors] != nullptr;
  const int32_t work_size = n > 0 ? work_size_of<T>(with_vectors, n) : 0;
  std::atomic<bool> complete{true};
  const double side = static_cast<double>(n);
  MatrixBatch(operands, own, kOperands).for_each(4 * side * side * side, [&](const Cursor& at) {
    ScratchFrame frame;
    Arrays<T> arrays;
    if (!arrays.take(frame, n, work_size)) {
      complete = false;
      return;
    }
    const Matrix2<T> columns = columns_at(arrays.a, n, n);
    copy_matrix(matrix_of<T>(a, at.offset(kA)), columns);
    // What is not finite could keep the iteration going.
    int32_t info = is_finite(columns) ? 0 : static_cast<int32_t>(n) + 1;
    if (info == 0 && n > 0) info = decompose_one(with_vectors, n, arrays, work_size);
    const auto values = vector_of<C>(*operands[kValues], at.offset(kValues));
    for (int64_t i = 0; i < n; ++i) {
      if (info != 0) {
        values[i] = C(not_a_number<T>(), not_a_number<T>());
      } else if constexpr (kIsComplex<T>) {
        values[i] = arrays.values[i];
      } else {
        values[i] = C(arrays.parts[i], arrays.parts[n + i]);
      }
    }
    if (with_vectors) {
      const Matrix2<C> vectors = matrix_of<C>(*operands[kVectors], at.offset(kVectors));
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          vectors.at(i, j) = info == 0 ? vector_element(arrays, n, i, j) : C(not_a_number<T>(), not_a_number<T>());
        }
      }
    }
    if (operands[kInfo] != nullptr) static_cast<int32_t*>(operands[kInfo]->data)[at.offset(kInfo)] = info;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_eigen(const uhal_op& op) { return refuse_without_lapack(op, "eigenvalues"); }

uhal_status run_eigen(const Launch& launch) {
  note_implementation(host(), "%s", lapack_description());
  return with_number_type(launch.op.inputs[0]->dtype,
                          [&](auto number) { return decompose<decltype(number)>(launch.op); });
}

}  // namespace unihal::stub
