// UHAL_OP_CTC_LOSS: forward and backward over the labels with blanks between them (Graves et al. 2006, section 4), in
// logarithms and in float64, a sequence at a time.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "csrc/backends/common/ctc.h"
#include "stub/common/indices.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/ctc_lattice.h"
#include "stub/ops/softmax_rows.h"

namespace unihal::stub {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();
// Work of a state at a step, in the units of parallel_for.
constexpr int64_t kWork = 40;

int64_t length_of(const uhal_tensor* lengths, int64_t sequence, int64_t most) {
  if (lengths == nullptr) return most;
  return std::clamp<int64_t>(IndexReader(*lengths)(sequence * lengths->strides[0]), 0, most);
}

// One sequence in scratch memory. Rows of states have two impossible ones before and behind them.
class Sequence {
 public:
  Sequence(const CtcProblem& problem, int64_t number, ScratchFrame& frame)
      : steps_(length_of(problem.logit_lengths, number, problem.steps)),
        states_(2 * length_of(problem.label_lengths, number, problem.labels_count) + 1),
        row_(states_ + 4),
        classes_(frame.take<int64_t>(static_cast<size_t>(states_))),
        skips_(row(frame)),
        logs_(frame.take<double>(static_cast<size_t>(row_ * std::max<int64_t>(1, steps_)))),
        alphas_(frame.take<double>(static_cast<size_t>(row_ * std::max<int64_t>(1, steps_)))),
        entered_(row(frame)),
        beta_(row(frame)) {
    if (!has_memory()) return;
    const IndexReader label(*problem.labels);
    for (int64_t s = 0; s < states_; ++s) {
      classes_[s] = problem.attributes.blank;
      if (s % 2 == 0) continue;
      const int64_t given = label(number * problem.labels->strides[0] + s / 2 * problem.labels->strides[1]);
      // A label that is none is never emitted.
      classes_[s] = given >= 0 && given < problem.classes && given != problem.attributes.blank ? given : -1;
    }
    std::fill_n(skips_, row_, kImpossible);
    for (int64_t s = 3; s < states_; s += 2) {
      if (classes_[s] != classes_[s - 2]) skips_[2 + s] = 0;
    }
    std::fill_n(entered_, row_, kImpossible);
    std::fill_n(beta_, row_, kImpossible);
  }

  bool has_memory() const {
    return classes_ != nullptr && skips_ != nullptr && logs_ != nullptr && alphas_ != nullptr && entered_ != nullptr &&
           beta_ != nullptr;
  }
  int64_t steps() const { return steps_; }
  int64_t states() const { return states_; }
  int64_t class_of(int64_t state) const { return classes_[state]; }
  double* logs(int64_t step) const { return logs_ + step * row_ + 2; }

  // The logarithm of the labels' probability; logs() are filled.
  double forward() const {
    for (int64_t t = 0; t < steps_; ++t) {
      double* const alpha = alphas_ + t * row_;
      std::fill_n(alpha, row_, kImpossible);
      if (t == 0) {
        std::copy_n(logs(0), std::min<int64_t>(2, states_), alpha + 2);
      } else {
        ctc_forward_step(states_, alpha - row_ + 2, skips_ + 2, logs(t), alpha + 2);
      }
    }
    if (steps_ == 0) return states_ == 1 ? 0 : kImpossible;
    const double* const last = alphas_ + (steps_ - 1) * row_ + 2 + states_ - 1;
    return ctc_log_add(last[0], last[-1]);  // before a single state lies an impossible one
  }

  // Calls use(step, probabilities of the states) from the last step to the first.
  template <typename Use>
  void backward(double log_likelihood, const Use& use) const {
    for (int64_t t = steps_ - 1; t >= 0; --t) {
      if (t == steps_ - 1) {
        beta_[2 + states_ - 1] = 0;
        if (states_ > 1) beta_[2 + states_ - 2] = 0;
      } else {
        ctc_enter(states_, beta_ + 2, logs(t + 1), entered_ + 2);
        ctc_backward_step(states_, entered_ + 2, skips_ + 2, beta_ + 2);
      }
      double* const alpha = alphas_ + t * row_ + 2;
      ctc_posterior(states_, alpha, beta_ + 2, log_likelihood);
      use(t, alpha);
    }
  }

 private:
  double* row(ScratchFrame& frame) const { return frame.take<double>(static_cast<size_t>(row_)); }

  const int64_t steps_, states_, row_;
  int64_t* const classes_;
  double* const skips_;    // 0 where a state may be entered from the one before the last, else impossible
  double* const logs_;     // of the states' classes
  double* const alphas_;   // what came before, this step included
  double* const entered_;  // of the step behind, this included
  double* const beta_;     // what comes after
};

template <typename T>
uhal_status run_in(const Launch& launch, uhal_dtype dtype) {
  const CtcProblem problem(launch.op);
  Staging staging(launch);
  const AxisOrder order = row_major(3);
  const auto adjacent = [&](const uhal_tensor* view) {
    return view != nullptr && (view->dtype != dtype || view->strides[2] != 1) ? &order : nullptr;
  };
  const uhal_tensor* logits = staging.input(0, dtype, adjacent(problem.logits));
  const uhal_tensor* loss = staging.output(0, dtype);
  const uhal_tensor* gradient = staging.output(1, dtype, adjacent(problem.gradient));
  if (staging.status() != UHAL_OK) return staging.status();
  std::atomic<bool> out_of_memory{false};
  const int64_t work = problem.steps * (problem.states() * kWork + problem.classes * 8);
  parallel_for(problem.batch, work, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      ScratchFrame frame;
      const Sequence sequence(problem, b, frame);
      T* const spare = frame.take<T>(static_cast<size_t>(problem.classes));
      if (!sequence.has_memory() || spare == nullptr) {
        out_of_memory = true;
        return;
      }
      const auto row = [&](const uhal_tensor* view, int64_t t) {
        return static_cast<T*>(view->data) + t * view->strides[0] + b * view->strides[1];
      };
      for (int64_t t = 0; t < sequence.steps(); ++t) {
        const T* const x = row(logits, t);
        T* const probabilities = gradient != nullptr ? row(gradient, t) : spare;
        const double total = static_cast<double>(softmax_row(problem.classes, x, probabilities).total());
        double* const logs = sequence.logs(t);
        for (int64_t s = 0; s < sequence.states(); ++s) {
          const int64_t number = sequence.class_of(s);
          logs[s] = number < 0 ? kImpossible : static_cast<double>(x[number]) - total;
        }
      }
      const double log_likelihood = sequence.forward();
      const bool is_impossible = log_likelihood == kImpossible;
      static_cast<T*>(loss->data)[b * loss->strides[0]] =
          is_impossible && problem.attributes.zero_infinity != 0 ? T(0) : static_cast<T>(-log_likelihood);
      if (gradient == nullptr) continue;
      const int64_t first_zero = is_impossible ? 0 : sequence.steps();
      for (int64_t t = first_zero; t < problem.steps; ++t) std::fill_n(row(gradient, t), problem.classes, T(0));
      if (is_impossible) continue;
      sequence.backward(log_likelihood, [&](int64_t t, const double* probabilities) {
        T* const to = row(gradient, t);
        for (int64_t s = 0; s < sequence.states(); ++s) {
          const int64_t number = sequence.class_of(s);
          if (number >= 0) to[number] -= static_cast<T>(probabilities[s]);
        }
      });
    }
  });
  if (out_of_memory) return fail(UHAL_RESOURCE_EXHAUSTED, "ctc_loss: the host has no memory left for its lattice");
  return staging.finish();
}

}  // namespace

const char* refuse_ctc_loss(const uhal_op&) { return nullptr; }

uhal_status run_ctc_loss(const Launch& launch) {
  if (CtcProblem(launch.op).batch == 0) return UHAL_OK;
  return launch.op.inputs[0]->dtype == UHAL_FLOAT64 ? run_in<double>(launch, UHAL_FLOAT64)
                                                    : run_in<float>(launch, UHAL_FLOAT32);
}

}  // namespace unihal::stub
