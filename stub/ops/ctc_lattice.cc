#include "stub/ops/ctc_lattice.h"

#include "stub/vector/vector_math.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

UNIHAL_INLINE double largest(double a, double b) { return a > b ? a : b; }

// A NaN among them gives NaN; nothing but impossible ones give that.
UNIHAL_INLINE double log_sum(double a, double b, double c) {
  const double shift = largest(largest(a, b), c);
  const double finite = shift >= -1e300 ? shift : 0;
  return finite + ::log(::exp(a - finite) + ::exp(b - finite) + ::exp(c - finite));
}

}  // namespace

double ctc_log_add(double a, double b) { return log_sum(a, b, -HUGE_VAL); }

UNIHAL_VECTORIZED void ctc_forward_step(int64_t states, const double* before, const double* skips, const double* logs,
                                        double* __restrict after) {
  for (int64_t s = 0; s < states; ++s) {
    after[s] = log_sum(before[s], before[s - 1], before[s - 2] + skips[s]) + logs[s];
  }
}

UNIHAL_VECTORIZED void ctc_enter(int64_t states, const double* after, const double* logs, double* __restrict entered) {
  for (int64_t s = 0; s < states; ++s) entered[s] = after[s] + logs[s];
}

UNIHAL_VECTORIZED void ctc_backward_step(int64_t states, const double* entered, const double* skips,
                                         double* __restrict before) {
  for (int64_t s = 0; s < states; ++s) {
    before[s] = log_sum(entered[s], entered[s + 1], entered[s + 2] + skips[s + 2]);
  }
}

UNIHAL_VECTORIZED void ctc_posterior(int64_t states, double* __restrict alpha, const double* __restrict beta,
                                     double log_likelihood) {
  for (int64_t s = 0; s < states; ++s) alpha[s] = ::exp(alpha[s] + beta[s] - log_likelihood);
}

}  // namespace unihal::stub
