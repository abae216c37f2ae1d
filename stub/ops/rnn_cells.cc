#include "stub/ops/rnn_cells.h"

#include <algorithm>

#include "stub/vector/vector_math.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

UNIHAL_INLINE float exponential(float x) { return ::expf(x); }
UNIHAL_INLINE double exponential(double x) { return ::exp(x); }
UNIHAL_INLINE float hyperbolic(float x) { return ::tanhf(x); }
UNIHAL_INLINE double hyperbolic(double x) { return ::tanh(x); }

template <typename T>
UNIHAL_INLINE T sigmoid(T x) {
  return 1 / (1 + exponential(-x));
}

template <typename T>
UNIHAL_VECTORIZED void add_sigmoid(int64_t count, const T* __restrict x, const T* __restrict p, T* __restrict gate) {
  for (int64_t j = 0; j < count; ++j) gate[j] = sigmoid(x[j] + p[j]);
}

template <typename T>
UNIHAL_VECTORIZED void add_tanh(int64_t count, const T* __restrict x, const T* __restrict p, T* __restrict gate) {
  for (int64_t j = 0; j < count; ++j) gate[j] = hyperbolic(x[j] + p[j]);
}

// Gates are written where the product was, or to the reserve: `gates` has the parts one after the other.
template <typename T>
UNIHAL_VECTORIZED void lstm_states(int64_t n, const T* __restrict gates, T clip, T* __restrict c, T* __restrict h) {
  const T* const i = gates;
  const T* const f = gates + n;
  const T* const g = gates + 2 * n;
  const T* const o = gates + 3 * n;
  for (int64_t j = 0; j < n; ++j) {
    T next = f[j] * c[j] + i[j] * g[j];
    if (clip > 0) next = next < -clip ? -clip : next > clip ? clip : next;
    c[j] = next;
    h[j] = o[j] * hyperbolic(next);
  }
}

template <typename T>
UNIHAL_VECTORIZED void gru_states(int64_t n, const T* __restrict x, const T* __restrict p, T* __restrict r,
                                  T* __restrict h) {
  T* const z = r + n;
  T* const candidate = r + 2 * n;
  for (int64_t j = 0; j < n; ++j) {
    const T value = hyperbolic(x[j] + r[j] * p[j]);
    candidate[j] = value;
    h[j] = (1 - z[j]) * value + z[j] * h[j];
  }
}

template <typename T>
UNIHAL_VECTORIZED void add_relu(int64_t count, const T* __restrict x, const T* __restrict p, T* __restrict h) {
  for (int64_t j = 0; j < count; ++j) {
    const T sum = x[j] + p[j];
    h[j] = sum < 0 ? T(0) : sum;  // a NaN stays
  }
}

template <typename T>
UNIHAL_VECTORIZED void lstm_gradient(int64_t n, const T* __restrict gates, const T* __restrict before, T* __restrict dh,
                                     T* __restrict dc, T* __restrict dx) {
  const T* const i = gates;
  const T* const f = gates + n;
  const T* const g = gates + 2 * n;
  const T* const o = gates + 3 * n;
  const T* const c = gates + 4 * n;
  for (int64_t j = 0; j < n; ++j) {
    const T shown = hyperbolic(c[j]);
    const T dcell = dc[j] + dh[j] * o[j] * (1 - shown * shown);
    dx[j] = dcell * g[j] * i[j] * (1 - i[j]);
    dx[n + j] = before == nullptr ? T(0) : dcell * before[j] * f[j] * (1 - f[j]);
    dx[2 * n + j] = dcell * i[j] * (1 - g[j] * g[j]);
    dx[3 * n + j] = dh[j] * shown * o[j] * (1 - o[j]);
    dc[j] = dcell * f[j];
    dh[j] = 0;
  }
}

template <typename T>
UNIHAL_VECTORIZED void gru_gradient(int64_t n, const T* __restrict gates, const T* __restrict before, T* __restrict dh,
                                    T* __restrict dx, T* __restrict dp) {
  const T* const r = gates;
  const T* const z = gates + n;
  const T* const candidate = gates + 2 * n;
  const T* const p = gates + 3 * n;
  for (int64_t j = 0; j < n; ++j) {
    const T h = before == nullptr ? T(0) : before[j];
    const T dn = dh[j] * (1 - z[j]) * (1 - candidate[j] * candidate[j]);
    const T dr = dn * p[j] * r[j] * (1 - r[j]);
    const T dz = dh[j] * (h - candidate[j]) * z[j] * (1 - z[j]);
    dx[j] = dp[j] = dr;
    dx[n + j] = dp[n + j] = dz;
    dx[2 * n + j] = dn;
    dp[2 * n + j] = dn * r[j];
    dh[j] *= z[j];
  }
}

template <typename T>
UNIHAL_VECTORIZED void plain_gradient(int64_t n, bool is_relu, const T* __restrict y, T* __restrict dh,
                                      T* __restrict dx) {
  for (int64_t j = 0; j < n; ++j) {
    dx[j] = is_relu ? (y[j] > 0 ? dh[j] : T(0)) : dh[j] * (1 - y[j] * y[j]);
    dh[j] = 0;
  }
}

}  // namespace

template <typename T>
void run_cell(uhal_rnn_mode mode, const CellRow<T>& row) {
  const int64_t n = row.count;
  switch (mode) {
    case UHAL_RNN_LSTM: {
      T* const gates = row.reserve;
      add_sigmoid(2 * n, row.x, row.product, gates);
      add_tanh(n, row.x + 2 * n, row.product + 2 * n, gates + 2 * n);
      add_sigmoid(n, row.x + 3 * n, row.product + 3 * n, gates + 3 * n);
      lstm_states(n, gates, row.clip, row.c, row.h);
      std::copy_n(row.c, n, gates + 4 * n);
      return;
    }
    case UHAL_RNN_GRU:
      add_sigmoid(2 * n, row.x, row.product, row.reserve);
      std::copy_n(row.product + 2 * n, n, row.reserve + 3 * n);
      return gru_states(n, row.x + 2 * n, row.product + 2 * n, row.reserve, row.h);
    case UHAL_RNN_TANH:
      return add_tanh(n, row.x, row.product, row.h);
    default:
      return add_relu(n, row.x, row.product, row.h);
  }
}

template <typename T>
void run_cell_gradient(uhal_rnn_mode mode, const CellGradientRow<T>& row) {
  switch (mode) {
    case UHAL_RNN_LSTM:
      return lstm_gradient(row.count, row.reserve, row.previous, row.dh, row.dc, row.dx);
    case UHAL_RNN_GRU:
      return gru_gradient(row.count, row.reserve, row.previous, row.dh, row.dx, row.dproduct);
    default:
      return plain_gradient(row.count, mode == UHAL_RNN_RELU, row.y, row.dh, row.dx);
  }
}

template void run_cell<float>(uhal_rnn_mode, const CellRow<float>&);
template void run_cell<double>(uhal_rnn_mode, const CellRow<double>&);
template void run_cell_gradient<float>(uhal_rnn_mode, const CellGradientRow<float>&);
template void run_cell_gradient<double>(uhal_rnn_mode, const CellGradientRow<double>&);

}  // namespace unihal::stub
