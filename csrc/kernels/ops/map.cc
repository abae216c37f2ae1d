// UHAL_OP_MAP: a chain of one step.

#include "csrc/backends/common/map_rules.h"
#include "csrc/kernels/map_chain.h"
#include "csrc/kernels/map_function.h"

namespace unihal::kernels {

void make_map(const uhal_op& op, uhal_map_function function, MapChain* chain) {
  const auto& attributes = *static_cast<const uhal_map_attributes*>(op.attributes);
  int operands[UHAL_MAP_MAX_INPUTS];
  for (int i = 0; i < op.input_count; ++i) operands[i] = chain->input(*op.inputs[i]);
  const int result = chain->step(function, operands, op.input_count, attributes.parameters);
  for (int i = 0; i < op.output_count; ++i) chain->output(result + i, *op.outputs[i]);
}

const char* refuse_map(const DeviceTraits& traits, const uhal_op& op) {
  const uhal_map_function function = static_cast<const uhal_map_attributes*>(op.attributes)->function;
  if (function < 0 || function >= kMapFunctionCount) {
    return refusal("map function %d is unknown to this build of the backend, which knows 0 to %d", function,
                   kMapFunctionCount - 1);
  }
  MapChain chain;
  make_map(op, function, &chain);
  return refuse_map_chain(traits, chain);
}

uhal_status run_map(Queue& queue, const uhal_op& op) {
  const uhal_map_function function = static_cast<const uhal_map_attributes*>(op.attributes)->function;
  MapChain chain;
  make_map(op, meant_function(function, op.outputs[0]->dtype), &chain);
  return run_map_chain(queue, chain, queue.map_plans().make_room(op));
}

}  // namespace unihal::kernels
