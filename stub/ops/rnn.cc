// UHAL_OP_RNN and its gradient. A row (a sequence in a direction) needs no other row: a thread takes some of them
// through all steps, and waits for nobody.
#include <algorithm>

#include "csrc/backends/common/rnn.h"
#include "stub/common/indices.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/gemm.h"
#include "stub/ops/rnn_cells.h"

namespace unihal::stub {
namespace {

// Work of a unit's cell, in the units of parallel_for.
constexpr int64_t kWork = 40;

// An op's operands with adjacent elements along the last axis, in the dtype of the arithmetic.
template <typename T>
class Operands {
 public:
  Operands(const Launch& launch, uhal_dtype dtype) : problem(launch.op), dtype_(dtype), staging_(launch) {
    for (const uhal_tensor** view :
         {&problem.r, &problem.h0, &problem.c0, &problem.bias, &problem.dy, &problem.dh_last, &problem.dc_last}) {
      read(view);
    }
    for (const uhal_tensor** view : {&problem.c_last, &problem.dproduct, &problem.dh0, &problem.dc0}) write(view);
    for (const uhal_tensor** view : {&problem.y, &problem.reserve}) problem.is_backward ? read(view) : write(view);
    problem.is_backward ? write(&problem.x) : read(&problem.x);
  }

  RnnProblem problem;

  Staging& staging() { return staging_; }
  T* states() { return staging_.template take<T>(static_cast<size_t>(problem.states())); }
  T* gates() { return staging_.template take<T>(static_cast<size_t>(problem.states() * problem.parts.gates)); }

  // r of all directions, or its transposes, packed for products() with n columns; nullptr without memory.
  const T* packed(bool transposed) {
    const int64_t n = transposed ? problem.gates() : problem.hidden, k = transposed ? problem.hidden : problem.gates();
    const int64_t size = packed_elements<T>(n, k);
    T* const result = staging_.template take<T>(static_cast<size_t>(problem.directions * size));
    if (result == nullptr) return nullptr;
    const uhal_tensor& r = *problem.r;
    for (int64_t direction = 0; direction < problem.directions; ++direction) {
      const T* const data = static_cast<const T*>(r.data) + direction * r.strides[0];
      const Matrix<const T> b = transposed ? Matrix<const T>{data, r.strides[2], r.strides[1]}
                                           : Matrix<const T>{data, r.strides[1], r.strides[2]};
      pack_columns<T>(n, k, b, result + direction * size);
    }
    return result;
  }

  // d = a @ b, or d + a @ b, of rows [begin, end) among all; `b` is packed().
  void multiply(int64_t begin, int64_t end, int64_t n, int64_t k, const T* a, const T* b, T* d, bool add) const {
    for (int64_t direction = 0; direction < problem.directions; ++direction) {
      const int64_t first = std::max(begin, direction * problem.batch);
      const int64_t last = std::min(end, (direction + 1) * problem.batch);
      if (first >= last) continue;
      multiply_rows(RowsProduct<T>{last - first, n, k, a + first * k, k, b + direction * packed_elements<T>(n, k),
                                   d + first * n, n, add});
    }
  }

  // The row of a direction and a sequence, of (D, B, ...) and of (D, T, B, ...) at a step of the direction.
  T* row(const uhal_tensor* view, int64_t direction, int64_t sequence) const {
    if (view == nullptr) return nullptr;
    return static_cast<T*>(view->data) + direction * view->strides[0] + sequence * view->strides[1];
  }
  T* row(const uhal_tensor* view, int64_t direction, int64_t step, int64_t sequence) const {
    if (view == nullptr) return nullptr;
    return static_cast<T*>(view->data) + direction * view->strides[0] +
           problem.place(direction, step) * view->strides[1] + sequence * view->strides[2];
  }

  // All rows of (D, B, H) at once; zeros for an absent view.
  void load(const uhal_tensor* view, T* states) const {
    for (int64_t i = 0; i < problem.directions * problem.batch; ++i) {
      T* const to = states + i * problem.hidden;
      if (view == nullptr) {
        std::fill_n(to, problem.hidden, T(0));
      } else {
        std::copy_n(row(view, i / problem.batch, i % problem.batch), problem.hidden, to);
      }
    }
  }
  void store(const T* states, const uhal_tensor* view) const {
    if (view == nullptr) return;
    for (int64_t i = 0; i < problem.directions * problem.batch; ++i) {
      std::copy_n(states + i * problem.hidden, problem.hidden, row(view, i / problem.batch, i % problem.batch));
    }
  }

  bool is_left_out(int64_t direction, int64_t step, int64_t sequence) const {
    if (problem.lengths == nullptr) return false;
    return problem.place(direction, step) >= IndexReader(*problem.lengths)(sequence * problem.lengths->strides[0]);
  }

  // Calls body(begin, end) for parts of all rows.
  template <typename Body>
  void for_rows(const Body& body) const {
    const int64_t work = problem.steps * problem.gates() * (kWork + problem.hidden / 8);
    parallel_for(problem.directions * problem.batch, work, body);
  }

 private:
  void read(const uhal_tensor** view) { stage(view, true); }
  void write(const uhal_tensor** view) { stage(view, false); }
  void stage(const uhal_tensor** view, bool reads) {
    if (*view == nullptr) return;
    const int last = (*view)->rank - 1;
    const bool fits = (*view)->dtype == dtype_ && ((*view)->strides[last] == 1 || *view == problem.r);
    const AxisOrder order = row_major((*view)->rank);
    const AxisOrder* const wanted = fits ? nullptr : &order;
    *view = reads ? staging_.read(*view, dtype_, wanted) : staging_.write(*view, dtype_, wanted);
  }

  uhal_dtype dtype_;
  Staging staging_;
};

template <typename T>
uhal_status forward(const Launch& launch, uhal_dtype dtype) {
  Operands<T> operands(launch, dtype);
  RnnProblem& problem = operands.problem;
  const int64_t hidden = problem.hidden, gates = problem.gates(), reserved = problem.parts.reserve * hidden;
  T* const h = operands.states();
  T* const c = operands.states();
  T* const products = operands.gates();
  T* const spare =
      operands.staging().template take<T>(static_cast<size_t>(problem.directions * problem.batch * reserved));
  const T* const transposed = operands.packed(true);
  if (operands.staging().status() != UHAL_OK) return operands.staging().status();
  const auto clip = static_cast<T>(problem.attributes.cell_clip);
  operands.load(problem.h0, h);
  operands.load(problem.c0, c);
  std::fill_n(products, problem.states() * problem.parts.gates, T(0));
  const auto run_row = [&](int64_t index, int64_t step) {
    const int64_t direction = index / problem.batch, sequence = index % problem.batch;
    T* const state = h + index * hidden;
    T* const cell = c + index * hidden;
    T* const kept = operands.row(problem.reserve, direction, step, sequence);
    if (operands.is_left_out(direction, step, sequence)) {
      if (kept != nullptr) std::fill_n(kept, reserved, T(0));
      if (kept != nullptr && problem.is_lstm()) std::copy_n(cell, hidden, kept + 4 * hidden);
    } else {
      T* const p = products + index * gates;
      if (const T* const bias = problem.bias == nullptr ? nullptr : operands.row(problem.bias, direction, 0)) {
        for (int64_t j = 0; j < gates; ++j) p[j] += bias[j];
      }
      const T* const x = operands.row(problem.x, direction, step, sequence);
      T* const reserve = kept != nullptr ? kept : spare + index * reserved;
      run_cell(problem.attributes.mode, CellRow<T>{hidden, x, p, state, cell, reserve, clip});
    }
    std::copy_n(state, hidden, operands.row(problem.y, direction, step, sequence));
  };
  operands.for_rows([&](int64_t begin, int64_t end) {
    for (int64_t step = 0; step < problem.steps; ++step) {
      if (step > 0 || problem.h0 != nullptr) {
        operands.multiply(begin, end, gates, hidden, h, transposed, products, false);
      }
      for (int64_t index = begin; index < end; ++index) run_row(index, step);
    }
  });
  operands.store(c, problem.c_last);
  return operands.staging().finish();
}

template <typename T>
uhal_status backward(const Launch& launch, uhal_dtype dtype) {
  Operands<T> operands(launch, dtype);
  RnnProblem& problem = operands.problem;
  const int64_t hidden = problem.hidden, gates = problem.gates();
  T* const dh = operands.states();
  T* const dc = operands.states();
  T* const products = operands.gates();
  const T* const r = operands.packed(false);
  if (operands.staging().status() != UHAL_OK) return operands.staging().status();
  operands.load(problem.dh_last, dh);
  operands.load(problem.dc_last, dc);
  const auto run_row = [&](int64_t index, int64_t step) {
    const int64_t direction = index / problem.batch, sequence = index % problem.batch;
    T* const gradient = dh + index * hidden;
    T* const dx = operands.row(problem.x, direction, step, sequence);
    T* const dp = operands.row(problem.dproduct, direction, step, sequence);
    const T* const dy = operands.row(problem.dy, direction, step, sequence);
    for (int64_t j = 0; j < hidden; ++j) gradient[j] += dy[j];
    if (operands.is_left_out(direction, step, sequence)) {
      std::fill_n(dx, gates, T(0));
      if (dp != nullptr) std::fill_n(dp, gates, T(0));
    } else {
      const uhal_tensor* const initial = problem.is_lstm() ? problem.c0 : problem.h0;
      const uhal_tensor* const earlier = problem.is_lstm() ? problem.reserve : problem.y;
      const T* previous = operands.row(initial, direction, sequence);
      if (step > 0) {
        previous = operands.row(earlier, direction, step - 1, sequence) + (problem.is_lstm() ? 4 * hidden : 0);
      }
      run_cell_gradient(problem.attributes.mode,
                        CellGradientRow<T>{hidden, operands.row(problem.y, direction, step, sequence),
                                           operands.row(problem.reserve, direction, step, sequence), previous, gradient,
                                           dc + index * hidden, dx, dp});
    }
    std::copy_n(dp != nullptr ? dp : dx, gates, products + index * gates);
  };
  operands.for_rows([&](int64_t begin, int64_t end) {
    for (int64_t step = problem.steps - 1; step >= 0; --step) {
      for (int64_t index = begin; index < end; ++index) run_row(index, step);
      if (step == 0 && problem.dh0 == nullptr) break;
      operands.multiply(begin, end, hidden, gates, products, r, dh, true);
    }
  });
  operands.store(dh, problem.dh0);
  operands.store(dc, problem.dc0);
  return operands.staging().finish();
}

template <typename T>
uhal_status run_in(const Launch& launch, uhal_dtype dtype) {
  return launch.op.kind == UHAL_OP_RNN ? forward<T>(launch, dtype) : backward<T>(launch, dtype);
}

}  // namespace

const char* refuse_rnn(const uhal_op&) { return nullptr; }

uhal_status run_rnn(const Launch& launch) {
  if (RnnProblem(launch.op).states() == 0) return UHAL_OK;
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  return dtype == UHAL_FLOAT64 ? run_in<double>(launch, dtype) : run_in<float>(launch, dtype);
}

}  // namespace unihal::stub
