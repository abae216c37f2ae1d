// UHAL_OP_MAP_CHAIN: a chain as its attributes have it.

#include "csrc/kernels/map_chain.h"
#include "csrc/kernels/map_function.h"

namespace unihal::kernels {

void make_map_chain(const uhal_op& op, MapChain* chain) {
  const auto& attributes = *static_cast<const uhal_map_chain_attributes*>(op.attributes);
  for (int i = 0; i < op.input_count; ++i) chain->input(*op.inputs[i]);
  for (int i = 0; i < attributes.step_count; ++i) {
    const uhal_map_function function = attributes.functions[i];
    chain->step(function, attributes.operands[i], map_function(function).inputs, attributes.parameters[i]);
  }
  for (int i = 0; i < op.output_count; ++i) chain->output(attributes.results[i], *op.outputs[i]);
}

const char* refuse_chain(const DeviceTraits& traits, const uhal_op& op) {
  const auto& attributes = *static_cast<const uhal_map_chain_attributes*>(op.attributes);
  for (int i = 0; i < attributes.step_count; ++i) {
    if (attributes.functions[i] < 0 || attributes.functions[i] >= kMapFunctionCount) {
      return refusal("map_chain: function %d of step %d is unknown to this build of the backend, which knows 0 to %d",
                     attributes.functions[i], i, kMapFunctionCount - 1);
    }
  }
  MapChain chain;
  make_map_chain(op, &chain);
  return refuse_map_chain(traits, chain);
}

uhal_status run_chain(Queue& queue, const uhal_op& op) {
  MapChain chain;
  make_map_chain(op, &chain);
  return run_map_chain(queue, chain, queue.map_plans().make_room(op));
}

}  // namespace unihal::kernels
