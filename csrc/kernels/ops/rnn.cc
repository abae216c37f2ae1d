// UHAL_OP_RNN and its gradient: for each step a product with r and a kernel for the cells. Products have the same
// operands at every step, in the workspace, so that they are planned once.
#include "csrc/backends/common/rnn.h"
#include "csrc/backends/common/quotient.h"

#include <algorithm>

#include "csrc/kernels/gemm.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kRnnPlanMembers = 4 + 5 * 4 + 3 + 2 + 1;  // of the struct RnnPlan of rnn.cl

class Layer {
 public:
  Layer(Queue& queue, const uhal_op& op)
      : problem_(op), queue_(queue), compute_(floating_compute(op)), dtype_(problem_.r->dtype) {
    wide_ = !fits_32_bits(problem_.states() * problem_.parts.gates);
    for (const uhal_tensor* view : {problem_.x, problem_.r, problem_.y, problem_.reserve, problem_.dy, problem_.h0,
                                    problem_.c0, problem_.bias, problem_.dproduct, problem_.dh0}) {
      wide_ |= view != nullptr && !fits_32_bits(*view);
    }
    lay_out(static_cast<char*>(kSomewhere));
  }

  uhal_status forward() {
    const Gemm gemm(queue_.traits(), product());
    uhal_status status = find_workspace(gemm);
    if (status == UHAL_OK) status = begin(problem_.h0, states(h_, dtype_));
    if (status == UHAL_OK && problem_.is_lstm()) status = begin(problem_.c0, states(c_, compute_dtype(compute_)));
    const Gemm planned(queue_.traits(), product());
    for (int64_t step = 0; step < problem_.steps && status == UHAL_OK; ++step) {
      const bool multiplies = step > 0 || problem_.h0 != nullptr;
      if (multiplies) status = planned.run(queue_, gemm_workspace_);
      if (status == UHAL_OK) status = run_cells(step, multiplies);
    }
    if (status != UHAL_OK || problem_.c_last == nullptr) return status;
    return cast_views(queue_, states(c_, compute_dtype(compute_)), *problem_.c_last);
  }

  uhal_status backward() {
    const Gemm gemm(queue_.traits(), product());
    uhal_status status = find_workspace(gemm);
    if (status == UHAL_OK) status = begin(problem_.dh_last, states(h_, compute_dtype(compute_)));
    if (status == UHAL_OK && problem_.is_lstm()) status = begin(problem_.dc_last, states(c_, compute_dtype(compute_)));
    const Gemm planned(queue_.traits(), product());
    for (int64_t step = problem_.steps - 1; step >= 0 && status == UHAL_OK; --step) {
      status = run_cells(step, step < problem_.steps - 1);
      if (status == UHAL_OK && (step > 0 || problem_.dh0 != nullptr)) status = planned.run(queue_, gemm_workspace_);
    }
    if (status == UHAL_OK && problem_.dh0 != nullptr) status = finish();
    if (status != UHAL_OK || problem_.dc0 == nullptr) return status;
    return cast_views(queue_, states(c_, compute_dtype(compute_)), *problem_.dc0);
  }

 private:
  // The workspace's parts: h (or what goes past the product to dh), c (or dc), the product, and of a gradient its
  // left factor.
  size_t lay_out(char* begin) {
    char* end = begin;
    const auto take = [&](int64_t count, int64_t bytes) {
      char* const part = end;
      end += aligned_bytes(static_cast<size_t>(count * bytes));
      return part;
    };
    const auto element = static_cast<int64_t>(dtype_size(dtype_));
    const int64_t wide = compute_bytes(compute_);
    h_ = take(problem_.states(), problem_.is_backward ? wide : element);
    c_ = take(problem_.is_lstm() ? problem_.states() : 0, wide);
    product_ = take(problem_.states() * (problem_.is_backward ? 1 : problem_.parts.gates), wide);
    factor_ = take(problem_.is_backward ? problem_.states() * problem_.parts.gates : 0, element);
    return static_cast<size_t>(end - begin);
  }

  uhal_status find_workspace(const Gemm& gemm) {
    const size_t own = lay_out(static_cast<char*>(kSomewhere));
    void* block;
    const uhal_status status = queue_.workspace(own + gemm.workspace_bytes(), &block);
    if (status != UHAL_OK) return status;
    lay_out(static_cast<char*>(block));
    gemm_workspace_ = gemm.workspace_bytes() != 0 ? static_cast<char*>(block) + own : nullptr;
    return UHAL_OK;
  }

  uhal_tensor states(void* data, uhal_dtype dtype) const {
    return rnn_states(data, dtype, problem_.directions, problem_.batch, problem_.hidden);
  }
  uhal_tensor gates(void* data, uhal_dtype dtype) const {
    return rnn_states(data, dtype, problem_.directions, problem_.batch, problem_.gates());
  }

  // h @ r^T, or dproduct @ r.
  MatmulProblem product() const {
    const uhal_matmul_attributes attributes = {sizeof attributes, 1, 0, UHAL_ACTIVATION_NONE,
                                               problem_.attributes.math_mode};
    const uhal_dtype wide = compute_dtype(compute_);
    if (problem_.is_backward) {
      return matmul_problem(attributes, gates(factor_, dtype_), *problem_.r, nullptr, states(product_, wide));
    }
    return matmul_problem(attributes, states(h_, dtype_), rnn_transposed(*problem_.r), nullptr, gates(product_, wide));
  }

  uhal_status begin(const uhal_tensor* from, const uhal_tensor& states) {
    return from != nullptr ? cast_views(queue_, *from, states) : fill_view(queue_, 0, 0, states);
  }

  KernelSpec spec(const char* entry, const char* part) const {
    KernelSpec spec(sources::rnn, entry);
    spec.compute(compute_).define(part, 1).define("UHAL_WIDE_INDEX", wide_).define("MODE", problem_.attributes.mode);
    return spec.dtype("X", dtype_);
  }

  void append_plan(Arguments& arguments, const uhal_tensor* initial) const {
    int64_t members[kRnnPlanMembers] = {problem_.states(), problem_.batch, problem_.hidden, problem_.steps};
    int64_t* next = members + 4;
    const auto append = [&](const uhal_tensor* view, int count) {
      if (view != nullptr) std::copy_n(view->strides, count, next);
      next += count;
    };
    for (const uhal_tensor* view : {problem_.x, problem_.y, problem_.reserve, problem_.dy, problem_.dproduct}) {
      append(view, 4);
    }
    append(initial, 3);
    append(problem_.bias, 2);
    append(problem_.lengths, 1);
    append_indices(arguments, members, kRnnPlanMembers, wide_);
  }

  int32_t length_kind() const {
    return problem_.lengths == nullptr ? 0 : problem_.lengths->dtype == UHAL_INT32 ? 1 : 2;
  }

  uhal_status run_cells(int64_t step, bool has_product) {
    Arguments arguments;
    if (problem_.is_backward) {
      const uhal_tensor* const initial = problem_.is_lstm() ? problem_.c0 : problem_.h0;
      arguments.pointer(problem_.dy->data).pointer(problem_.y->data).pointer(data_of(problem_.reserve));
      arguments.pointer(data_of(initial)).pointer(data_of(problem_.lengths)).pointer(product_).pointer(h_);
      arguments.pointer(c_).pointer(problem_.x->data).pointer(data_of(problem_.dproduct)).pointer(factor_);
      append_plan(arguments, initial);
      append_index(arguments, step, wide_);
      arguments.int32(problem_.attributes.reverse).int32(has_product).int32(initial != nullptr).int32(length_kind());
      return queue_.run(spec("rnn_step_backward", "PART_BACKWARD"), arguments, grid());
    }
    arguments.pointer(problem_.x->data).pointer(product_).pointer(data_of(problem_.bias));
    arguments.pointer(data_of(problem_.lengths)).pointer(h_).pointer(c_).pointer(problem_.y->data);
    arguments.pointer(data_of(problem_.reserve));
    append_plan(arguments, nullptr);
    if (compute_ == Compute::kDouble) {
      arguments.float64(problem_.attributes.cell_clip);
    } else {
      arguments.float32(static_cast<float>(problem_.attributes.cell_clip));
    }
    append_index(arguments, step, wide_);
    arguments.int32(problem_.attributes.reverse).int32(has_product).int32(problem_.bias != nullptr);
    arguments.int32(length_kind()).int32(problem_.reserve != nullptr);
    return queue_.run(spec("rnn_step", "PART_FORWARD"), arguments, grid());
  }

  uhal_status finish() {
    Arguments arguments;
    arguments.pointer(product_).pointer(h_).pointer(problem_.dh0->data);
    append_plan(arguments, problem_.dh0);
    arguments.int32(problem_.steps > 0);
    return queue_.run(spec("rnn_finish", "PART_FINISH"), arguments, grid());
  }

  Grid grid() const { return linear_grid(problem_.states(), std::min(256, queue_.traits().max_group_size)); }

  const RnnProblem problem_;
  Queue& queue_;
  const Compute compute_;
  const uhal_dtype dtype_;
  bool wide_;
  char* h_;
  char* c_;
  char* product_;
  char* factor_;
  void* gemm_workspace_ = nullptr;
};

}  // namespace

const char* refuse_rnn(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_rnn(Queue& queue, const uhal_op& op) {
  if (RnnProblem(op).states() == 0) return UHAL_OK;
  Layer layer(queue, op);
  return op.kind == UHAL_OP_RNN ? layer.forward() : layer.backward();
}

}  // namespace unihal::kernels
