#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/rows.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Elements of a row for each member of a team: those that it reads a few times (the gradient, and rows in no units),
// and those that it holds in registers.
constexpr int64_t kShareOfRead = 8;
constexpr int64_t kHeldLogits = 16;
constexpr int64_t kHeldShortLogits = 32;  // of 16 bits

uhal_cross_entropy_attributes cross_entropy_attributes(const uhal_op& op) {
  uhal_cross_entropy_attributes defaults = {};
  defaults.axis = -1;
  return attributes_or(op, defaults);
}

// label_rules of cross_entropy.cl.
struct LabelRules {
  int64_t ignore_index;
  int64_t ticket;
  int32_t has_ignore;
  int32_t wide;
};

// The op's rows, and what reading its labels takes.
struct CrossEntropyProblem {
  const uhal_cross_entropy_attributes attributes;
  const uhal_tensor& labels;
  const bool sparse;
  const Rows rows;
  const int64_t unit;  // UNIT of row_units.h, for the forward pass
  const int64_t share;
  const Teams teams;
  LabelRules rules;
  void* errors = nullptr;  // the error cell

  // Of `held`, the operands that are held in registers, those that are absent are nullptr.
  CrossEntropyProblem(Queue& queue, const uhal_op& op, const uhal_tensor* const* views, int operands,
                      const uhal_tensor* const* held = nullptr)
      : attributes(cross_entropy_attributes(op)),
        labels(*op.inputs[1]),
        sparse(is_integer(labels.dtype)),
        rows(views, operands, attributes.axis == -1 ? views[0]->rank - 1 : attributes.axis),
        unit(held == nullptr ? 1 : unit_of_rows(rows, held, operands)),
        share(unit == 8   ? kHeldShortLogits
              : unit == 4 ? kHeldLogits
                          : kShareOfRead),
        teams(teams_for_rows(queue.traits(), rows, share)),
        rules{attributes.ignore_index, 0, attributes.has_ignore, labels.dtype == UHAL_INT64} {}

  // Only class numbers can be wrong.
  uhal_status prepare(Queue& queue, const uhal_op& op) {
    return sparse ? queue.error_cell(op, &errors, &rules.ticket) : UHAL_OK;
  }

  void define(KernelSpec& spec) const {
    spec.define("SPARSE", sparse);
    if (!sparse) spec.dtype("L", labels.dtype);
    rows.kind.define(spec);
    teams.define(spec);
  }
};

uhal_status run_forward(Queue& queue, const uhal_op& op) {
  const uhal_tensor& logits = *op.inputs[0];
  const uhal_tensor* weights = input_of(op, 2);
  const uhal_tensor& loss = *op.outputs[0];
  const uhal_tensor* probabilities = output_of(op, 1);
  const uhal_tensor* gradient = output_of(op, 2);
  // An absent result has the layout of the logits, and is not touched.
  const uhal_tensor& probabilities_view = probabilities != nullptr ? *probabilities : logits;
  const uhal_tensor& gradient_view = gradient != nullptr ? *gradient : logits;
  const uhal_tensor* views[] = {&logits, op.inputs[1], &loss, &probabilities_view, &gradient_view};
  const uhal_tensor* held[] = {&logits, nullptr, nullptr, probabilities, gradient};
  CrossEntropyProblem problem(queue, op, views, 5, held);
  if (problem.rows.count() == 0) return UHAL_OK;
  const uhal_status status = problem.prepare(queue, op);
  if (status != UHAL_OK) return status;

  KernelSpec spec(sources::cross_entropy, "cross_entropy");
  spec.compute(floating_compute(op)).define("FORWARD", 1).dtype("X", logits.dtype);
  spec.dtype("P", probabilities_view.dtype).dtype("G", gradient_view.dtype);
  problem.define(spec);
  const bool fits = problem.unit > 1 && problem.rows.length <= problem.share * problem.teams.lanes;
  spec.define("HELD", fits ? problem.share : 0).define("UNIT", problem.unit);

  Arguments arguments;
  arguments.pointer(logits.data).pointer(problem.labels.data).pointer(data_of(weights)).pointer(loss.data);
  arguments.pointer(data_of(probabilities)).pointer(data_of(gradient)).pointer(problem.errors);
  problem.rows.append(arguments);
  arguments.value_of(problem.rules);
  append_index(arguments, weights != nullptr ? weights->strides[0] : 0, problem.rows.kind.wide);
  arguments.int32(weights != nullptr).int32(dtype_of(weights)).int32(loss.dtype);
  arguments.int32(probabilities != nullptr).int32(gradient != nullptr);
  problem.teams.append(arguments);
  return queue.run(spec, arguments, problem.teams.grid(problem.rows.count()));
}

uhal_status run_backward(Queue& queue, const uhal_op& op) {
  const uhal_tensor& probabilities = *op.inputs[0];
  const uhal_tensor& dloss = *op.inputs[2];
  const uhal_tensor& dlogits = *op.outputs[0];
  const uhal_tensor* views[] = {&probabilities, op.inputs[1], &dloss, &dlogits};
  CrossEntropyProblem problem(queue, op, views, 4);
  if (problem.rows.count() == 0) return UHAL_OK;
  const uhal_status status = problem.prepare(queue, op);
  if (status != UHAL_OK) return status;

  KernelSpec spec(sources::cross_entropy, "cross_entropy_backward");
  spec.compute(floating_compute(op)).dtype("X", probabilities.dtype).dtype("G", dlogits.dtype);
  problem.define(spec);

  Arguments arguments;
  for (const void* data : {static_cast<const void*>(probabilities.data), static_cast<const void*>(problem.labels.data),
                           static_cast<const void*>(dloss.data), static_cast<const void*>(dlogits.data),
                           static_cast<const void*>(problem.errors)}) {
    arguments.pointer(data);
  }
  problem.rows.append(arguments);
  arguments.value_of(problem.rules).int32(dloss.dtype);
  problem.teams.append(arguments);
  return queue.run(spec, arguments, problem.teams.grid(problem.rows.count()));
}

}  // namespace

const char* refuse_cross_entropy(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype labels = op.inputs[1]->dtype;
  if (!is_floating(labels) && labels != UHAL_INT32 && labels != UHAL_INT64) {
    return "cross_entropy takes labels of int32 or int64 (class numbers) or floating point (distributions)";
  }
  for (const uhal_tensor* view :
       {input_of(op, 0), input_of(op, 2), output_of(op, 0), output_of(op, 1), output_of(op, 2)}) {
    if (view != nullptr && !is_floating(view->dtype)) {
      return "cross_entropy takes floating point logits, weights and results: cast the operands first";
    }
  }
  return nullptr;
}

uhal_status run_cross_entropy(Queue& queue, const uhal_op& op) {
  return op.kind == UHAL_OP_CROSS_ENTROPY ? run_forward(queue, op) : run_backward(queue, op);
}

}  // namespace unihal::kernels
