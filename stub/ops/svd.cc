// Singular values and vectors, by LAPACK's divide and conquer.
#include "stub/common/staging.h"
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
int32_t decompose_one(const Sides& sides, const Arrays<T>& arrays, int32_t work_size) {
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
  decompose_one(sides, query, -1);
  return work_size(answer);
}

template <typename T>
uhal_status decompose(const uhal_op& op) {
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor* operands[] = {op.outputs[0], output_of(op, 1), output_of(op, 2), output_of(op, 3), &a};
  const int own[] = {1, 2, 2, 0, 2};
  const bool vectors = operands[kU] != nullptr;
  const Sides sides = {rows_of(a), columns_of(a), vectors ? columns_of(*operands[kU]) : 0,
                       vectors ? rows_of(*operands[kVh]) : 0, vectors};
  const int32_t work_size = sides.smaller() > 0 ? work_size_of<T>(sides) : 0;
  std::atomic<bool> complete{true};
  const double work = static_cast<double>(sides.m) * static_cast<double>(sides.n);
  MatrixBatch(operands, own, kOperands).for_each(work * static_cast<double>(sides.smaller()), [&](const Cursor& at) {
    ScratchFrame frame;
    Arrays<T> arrays;
    if (!arrays.take(frame, sides, work_size)) {
      complete = false;
      return;
    }
    const Matrix2<T> columns = columns_at(arrays.a, sides.m, sides.n);
    const Matrix2<T> u = columns_at(arrays.u, sides.m, sides.j), vh = columns_at(arrays.vh, sides.k, sides.n);
    int32_t info = 0;
    if (sides.smaller() == 0) {
      fill_identity(u);
      fill_identity(vh);
    } else {
      copy_matrix(matrix_of<T>(a, at.offset(kA)), columns);
      // What is not finite could keep the iteration going.
      info = is_finite(columns) ? decompose_one(sides, arrays, work_size) : static_cast<int32_t>(sides.smaller()) + 1;
    }
    if (info != 0) {
      std::fill_n(arrays.values, sides.smaller(), not_a_number<T>());
      fill_matrix(u, T(not_a_number<T>()));
      fill_matrix(vh, T(not_a_number<T>()));
    }
    const auto values = vector_of<Real<T>>(*operands[kValues], at.offset(kValues));
    for (int64_t i = 0; i < sides.smaller(); ++i) values[i] = arrays.values[i];
    if (vectors) {
      copy_matrix(u, matrix_of<T>(*operands[kU], at.offset(kU)));
      copy_matrix(vh, matrix_of<T>(*operands[kVh], at.offset(kVh)));
    }
    if (operands[kInfo] != nullptr) static_cast<int32_t*>(operands[kInfo]->data)[at.offset(kInfo)] = info;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_svd(const uhal_op& op) { return refuse_without_lapack(op, "singular values"); }

uhal_status run_svd(const Launch& launch) {
  note_implementation(host(), "%s", lapack_description());
  return with_number_type(launch.op.inputs[0]->dtype,
                          [&](auto number) { return decompose<decltype(number)>(launch.op); });
}

}  // namespace unihal::stub
