// Steps over the states of connectionist temporal classification, in logarithms. Rows of states have two impossible
// ones
// (-infinity) before and behind them; `skips` has 0 where a state may be entered from the one before the last, else
// -infinity.
#pragma once

#include <cstdint>

namespace unihal::stub {

// log(exp(a) + exp(b))
double ctc_log_add(double a, double b);

// after[s] = log(exp(before[s]) + exp(before[s - 1]) + exp(before[s - 2] + skips[s])) + logs[s]
void ctc_forward_step(int64_t states, const double* before, const double* skips, const double* logs, double* after);

// entered[s] = after[s] + logs[s]
void ctc_enter(int64_t states, const double* after, const double* logs, double* entered);

// before[s] = log(exp(entered[s]) + exp(entered[s + 1]) + exp(entered[s + 2] + skips[s + 2]))
void ctc_backward_step(int64_t states, const double* entered, const double* skips, double* before);

// alpha[s] = exp(alpha[s] + beta[s] - log_likelihood)
void ctc_posterior(int64_t states, double* alpha, const double* beta, double log_likelihood);

}  // namespace unihal::stub
