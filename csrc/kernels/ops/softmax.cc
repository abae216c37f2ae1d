#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/rows.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Elements that a work-item holds in registers of an operand, at most: 64 bytes of it, so that enough are on their way.
// The gradient has two operands.
constexpr int64_t kHeld = 16;
constexpr int64_t kHeldShort = 32;

uhal_softmax_attributes softmax_attributes(const uhal_op& op) {
  uhal_softmax_attributes defaults = {};
  defaults.axis = -1;
  return attributes_or(op, defaults);
}

}  // namespace

const char* refuse_softmax(const DeviceTraits&, const uhal_op& op) {
  for (const uhal_tensor* view : {input_of(op, 0), input_of(op, 1), output_of(op, 0)}) {
    if (view != nullptr && !is_floating(view->dtype)) {
      return "softmax takes floating point only: cast the operands first";
    }
  }
  return nullptr;
}

uhal_status run_softmax(Queue& queue, const uhal_op& op) {
  const uhal_softmax_attributes attributes = softmax_attributes(op);
  const bool backward = op.kind == UHAL_OP_SOFTMAX_BACKWARD;
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const uhal_tensor* views[3] = {&x};
  int operands = 1;
  if (backward) views[operands++] = op.inputs[1];
  views[operands++] = &y;
  const Rows rows(views, operands, attributes.axis == -1 ? x.rank - 1 : attributes.axis);
  if (rows.count() == 0 || rows.length == 0) return UHAL_OK;

  KernelSpec spec(sources::softmax, backward ? "softmax_backward" : "softmax");
  spec.compute(floating_compute(op)).dtype("X", x.dtype).dtype("Y", y.dtype);
  if (backward) spec.dtype("G", op.inputs[1]->dtype);
  rows.kind.define(spec);
  const int64_t unit = unit_of_rows(rows, views, operands);
  const int64_t most_held = unit == 8 && !backward ? kHeldShort : kHeld;
  const Teams teams = teams_for_rows(queue.traits(), rows, most_held);
  teams.define(spec);
  const bool held = rows.length <= most_held * teams.lanes;
  spec.define("HELD", held ? most_held : 0).define("UNIT", held ? unit : 1);

  Arguments arguments;
  for (int k = 0; k < operands; ++k) arguments.pointer(views[k]->data);
  rows.append(arguments);
  arguments.int32(attributes.logarithm);
  teams.append(arguments);
  return queue.run(spec, arguments, teams.grid(rows.count()));
}

}  // namespace unihal::kernels
