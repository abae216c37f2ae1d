// UHAL_OP_CTC_LOSS: sums of rows, then a work-group for each sequence, forwards and back, then the gradient class by
// class, without atomic operations.
#include <algorithm>

#include "csrc/backends/common/ctc.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/teams.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kCtcPlanMembers = 4 + 3 + 2 + 3 + 3 + 5;  // of the struct CtcPlan of ctc_loss.cl

int64_t length_kind(const uhal_tensor* lengths) {
  return lengths == nullptr ? 0 : lengths->dtype == UHAL_INT32 ? 1 : 2;
}

class Loss {
 public:
  Loss(Queue& queue, const uhal_op& op)
      : queue_(queue),
        problem_(op),
        compute_(floating_compute(op)),
        rows_(problem_.gradient != nullptr ? problem_.steps : 2) {
    wide_ = !fits_32_bits(*problem_.logits) || !fits_32_bits(*problem_.labels) ||
            !fits_32_bits(problem_.batch * rows_ * problem_.states()) || !fits_32_bits(gradient_items());
    if (problem_.gradient != nullptr) wide_ |= !fits_32_bits(*problem_.gradient);
  }

  uhal_status run() {
    uhal_status status = find_workspace();
    if (status == UHAL_OK && problem_.steps > 0) status = sum_rows();
    if (status == UHAL_OK) status = run_forward();
    if (status != UHAL_OK || problem_.gradient == nullptr || problem_.steps == 0) return status;
    status = run_backward();
    if (status == UHAL_OK) status = write_softmax();
    return status == UHAL_OK ? subtract() : status;
  }

 private:
  int64_t gradient_items() const {
    return problem_.steps * problem_.batch * std::max(problem_.classes, problem_.labels_count + 1);
  }

  uhal_status find_workspace() {
    const int64_t element = compute_bytes(compute_);
    size_t bytes = 0;
    const auto take = [&](int64_t count) {
      const size_t begin = bytes;
      bytes += (static_cast<size_t>(count * element) + 255) / 256 * 256;
      return begin;
    };
    const size_t sums = take(problem_.steps * problem_.batch);
    const size_t alphas = take(problem_.batch * rows_ * problem_.states());
    const size_t betas = take(problem_.gradient != nullptr ? 2 * problem_.batch * problem_.states() : 0);
    const size_t likelihoods = take(problem_.batch);
    void* block;
    const uhal_status status = queue_.workspace(bytes, &block);
    if (status != UHAL_OK) return status;
    char* const begin = static_cast<char*>(block);
    sums_ = begin + sums;
    alphas_ = begin + alphas;
    betas_ = begin + betas;
    likelihoods_ = begin + likelihoods;
    return UHAL_OK;
  }

  KernelSpec spec(const char* entry) const {
    KernelSpec spec(sources::ctc_loss, entry);
    spec.compute(compute_).define("UHAL_WIDE_INDEX", wide_).define("UHAL_GROUP", group());
    return spec.dtype("X", problem_.logits->dtype);
  }
  int32_t group() const { return team_group_size(queue_.traits()); }

  void append_plan(Arguments& arguments) const {
    int64_t members[kCtcPlanMembers] = {problem_.steps, problem_.batch, problem_.classes, problem_.states()};
    int64_t* next = std::copy_n(problem_.logits->strides, 3, members + 4);
    next = std::copy_n(problem_.labels->strides, 2, next);
    if (problem_.gradient != nullptr) std::copy_n(problem_.gradient->strides, 3, next);
    next += 3;
    *next++ = problem_.loss->strides[0];
    for (const uhal_tensor* lengths : {problem_.logit_lengths, problem_.label_lengths}) {
      *next++ = lengths != nullptr ? lengths->strides[0] : 0;
    }
    *next++ = rows_;
    *next++ = problem_.attributes.blank;
    *next++ = problem_.labels->dtype == UHAL_INT64;
    *next++ = length_kind(problem_.logit_lengths);
    *next++ = length_kind(problem_.label_lengths);
    append_indices(arguments, members, kCtcPlanMembers, wide_);
  }

  // The operands that all passes over sequences take.
  void append_sequences(Arguments& arguments) const {
    arguments.pointer(problem_.logits->data).pointer(problem_.labels->data).pointer(data_of(problem_.logit_lengths));
    arguments.pointer(data_of(problem_.label_lengths)).pointer(sums_).pointer(alphas_).pointer(likelihoods_);
  }

  Grid a_group_for_each_sequence() const {
    Grid grid;
    grid.groups[0] = problem_.batch;
    grid.group_size[0] = group();
    return grid;
  }

  uhal_status sum_rows() {
    Teams teams(queue_.traits());
    teams.lanes = static_cast<int32_t>(std::min<int64_t>(teams.group, power_of_two_from(problem_.classes)));
    Arguments arguments;
    arguments.pointer(problem_.logits->data).pointer(sums_);
    append_plan(arguments);
    teams.append(arguments);
    return queue_.run(spec("ctc_rows"), arguments, teams.grid(problem_.steps * problem_.batch));
  }

  uhal_status run_forward() {
    Arguments arguments;
    append_sequences(arguments);
    arguments.pointer(problem_.loss->data);
    append_plan(arguments);
    arguments.int32(problem_.attributes.zero_infinity);
    return queue_.run(spec("ctc_forward"), arguments, a_group_for_each_sequence());
  }

  uhal_status run_backward() {
    Arguments arguments;
    append_sequences(arguments);
    arguments.pointer(betas_);
    append_plan(arguments);
    return queue_.run(spec("ctc_backward"), arguments, a_group_for_each_sequence());
  }

  uhal_status write_softmax() {
    const int64_t count = problem_.steps * problem_.batch * problem_.classes;
    Arguments arguments;
    arguments.pointer(problem_.logits->data).pointer(data_of(problem_.logit_lengths)).pointer(sums_);
    arguments.pointer(likelihoods_).pointer(problem_.gradient->data);
    append_plan(arguments);
    append_index(arguments, count, wide_);
    return queue_.run(spec("ctc_softmax"), arguments, linear_grid(count, group()));
  }

  uhal_status subtract() {
    const int64_t count = problem_.steps * problem_.batch * (problem_.labels_count + 1);
    Arguments arguments;
    append_sequences(arguments);
    arguments.pointer(problem_.gradient->data);
    append_plan(arguments);
    append_index(arguments, count, wide_);
    return queue_.run(spec("ctc_subtract"), arguments, linear_grid(count, group()));
  }

  Queue& queue_;
  const CtcProblem problem_;
  const Compute compute_;
  const int64_t rows_;
  bool wide_;
  char* sums_ = nullptr;
  char* alphas_ = nullptr;
  char* betas_ = nullptr;
  char* likelihoods_ = nullptr;
};

}  // namespace

const char* refuse_ctc_loss(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_ctc_loss(Queue& queue, const uhal_op& op) {
  if (CtcProblem(op).batch == 0) return UHAL_OK;
  return Loss(queue, op).run();
}

}  // namespace unihal::kernels
