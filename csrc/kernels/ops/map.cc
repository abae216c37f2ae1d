// UHAL_OP_MAP: a chain of one step.

#include "csrc/backends/common/dtype.h"
#include "csrc/kernels/elementwise.h"
#include "csrc/kernels/map_chain.h"
#include "csrc/kernels/map_function.h"

namespace unihal::kernels {
namespace {

void make_chain(const uhal_op& op, MapChain* chain) {
  const auto& attributes = *static_cast<const uhal_map_attributes*>(op.attributes);
  uhal_map_function function = attributes.function;
  // On 0 and 1 the complement is the logical one: all bits of both would be "true".
  if (function == uhal_map_bitwise_not && op.outputs[0]->dtype == UHAL_BOOL && is_integer(op.inputs[0]->dtype)) {
    function = uhal_map_logical_not;
  }
  int operands[UHAL_MAP_MAX_INPUTS];
  for (int i = 0; i < op.input_count; ++i) operands[i] = chain->input(*op.inputs[i]);
  const int result = chain->step(function, operands, op.input_count, attributes.parameters);
  for (int i = 0; i < op.output_count; ++i) chain->output(result + i, *op.outputs[i]);
}

}  // namespace

const char* refuse_map(const DeviceTraits& traits, const uhal_op& op) {
  const uhal_map_function function = static_cast<const uhal_map_attributes*>(op.attributes)->function;
  if (function < 0 || function >= kMapFunctionCount) {
    return refusal("map function %d is unknown to this build of the backend, which knows 0 to %d", function,
                   kMapFunctionCount - 1);
  }
  MapChain chain;
  make_chain(op, &chain);
  return refuse_map_chain(traits, chain);
}

uhal_status run_map(Queue& queue, const uhal_op& op) {
  MapChain chain;
  make_chain(op, &chain);
  return run_map_chain(queue, chain);
}

}  // namespace unihal::kernels
