// UHAL_OP_MAP_CHAIN: a block of elements goes through all steps before the next one, so that what lies between the
// steps never leaves the first caches.

#include <algorithm>
#include <cstring>

#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/move.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/map_functions.h"

namespace unihal::stub {
namespace {

constexpr int kMaxInputs = UHAL_MAP_MAX_INPUTS;
constexpr int kMaxOutputs = UHAL_MAP_MAX_OUTPUTS;
constexpr int kMaxViews = kMaxInputs + kMaxOutputs;
constexpr int kMaxSteps = UHAL_MAP_CHAIN_MAX_STEPS;
constexpr int kMaxValues = kMaxInputs + kMaxSteps * kMaxOutputs;
constexpr int kNoOutput = -1;
// A block of this many bytes: those of all values of a usual chain stay in the first cache, wide ones too.
constexpr int64_t kBlockBytes = kBlock * sizeof(float);
static_assert(kBlockBytes / 16 >= kShortAxis, "blocks of the largest compute type");

const uhal_tensor& operand(const uhal_op& op, int index) {
  return index < op.output_count ? *op.outputs[index] : *op.inputs[index - op.output_count];
}

const uhal_map_chain_attributes& attributes_of(const uhal_op& op) {
  return *static_cast<const uhal_map_chain_attributes*>(op.attributes);
}

struct Step {
  MapLoop loop;
  int inputs, outputs;
  int operands[kMaxInputs];
  int result;  // the number of the first one
  double parameters[UHAL_MAP_MAX_PARAMETERS];
};

// Where a value of a block is. The slots are blocks of the compute type, used again when nothing reads them any more.
struct Place {
  int slot = -1;
  int output = kNoOutput;  // the output whose own memory may take it
};

struct Plan {
  Space space;
  BlockOperand operands[kMaxViews];  // outputs, then inputs
  int inputs = 0, outputs = 0, steps = 0, values = 0, slots = 0;
  bool streams = false;  // outputs are written around the caches
  int results[kMaxOutputs];
  Step step[kMaxSteps];
  Place places[kMaxValues];
  int64_t block = 0;  // elements
};

// Whether an input has the output's memory: then the output is written when all steps have read their operands.
bool replaces_input(const uhal_op& op, int output) {
  for (int i = 0; i < op.input_count; ++i) {
    if (op.inputs[i]->data == op.outputs[output]->data) return true;
  }
  return false;
}

void assign_slots(const uhal_op& op, Plan& plan) {
  int last_use[kMaxValues] = {};  // the step that reads a value last, or else the one that makes it
  for (int s = 0; s < plan.steps; ++s) {
    for (int i = 0; i < plan.step[s].outputs; ++i) last_use[plan.step[s].result + i] = s;
    for (int i = 0; i < plan.step[s].inputs; ++i) last_use[plan.step[s].operands[i]] = s;
  }
  for (int i = 0; i < plan.outputs; ++i) {
    const int value = plan.results[i];
    last_use[value] = plan.steps;
    // A loop never writes over its own operands' memory, but later steps may read them.
    if (value >= plan.inputs && !plan.streams && !replaces_input(op, i)) plan.places[value].output = i;
  }
  bool used[kMaxValues] = {};
  for (int s = 0; s < plan.steps; ++s) {
    const Step& step = plan.step[s];
    for (int i = 0; i < step.outputs; ++i) {
      int slot = 0;
      while (used[slot]) ++slot;
      used[slot] = true;
      plan.places[step.result + i].slot = slot;
      plan.slots = std::max(plan.slots, slot + 1);
    }
    for (int value = plan.inputs; value < step.result + step.outputs; ++value) {
      if (last_use[value] == s) used[plan.places[value].slot] = false;
    }
  }
}

// False if the host has no memory for the blocks.
bool run_blocks(const Plan& plan, int64_t begin, int64_t end) {
  ScratchFrame frame;
  BlockBuffer* buffers = frame.take<BlockBuffer>(static_cast<size_t>(plan.inputs));
  char* slots = frame.take<char>(static_cast<size_t>(plan.slots * kBlockBytes));
  if (buffers == nullptr || slots == nullptr) return false;
  const void* values[kMaxValues];
  const BlockOperand* inputs = plan.operands + plan.outputs;
  for (int i = 0; i < plan.inputs; ++i) inputs[i].prepare(end - begin, buffers[i]);
  Cursor cursor(plan.space, begin);
  while (begin < end) {
    const int64_t count = block_length(plan.space, cursor, end - begin, plan.block);
    for (int i = 0; i < plan.inputs; ++i) values[i] = inputs[i].read(cursor, count, buffers[i]);
    for (int s = 0; s < plan.steps; ++s) {
      const Step& step = plan.step[s];
      const void* from[kMaxInputs];
      void* to[kMaxOutputs];
      for (int i = 0; i < step.inputs; ++i) from[i] = values[step.operands[i]];
      for (int i = 0; i < step.outputs; ++i) {
        const Place& place = plan.places[step.result + i];
        void* own = place.output != kNoOutput ? plan.operands[place.output].span(cursor, count) : nullptr;
        to[i] = own != nullptr ? own : slots + place.slot * kBlockBytes;
        values[step.result + i] = to[i];
      }
      step.loop(count, from, to, step.parameters);
    }
    // Of several outputs in the place of inputs one may be another's input by itself: it is set aside first.
    for (int i = 0; i < plan.outputs; ++i) {
      if (plan.results[i] >= plan.inputs) continue;
      char* copy = slots + (plan.slots - kMaxOutputs + i) * kBlockBytes;
      std::memcpy(copy, values[plan.results[i]], static_cast<size_t>(count * (kBlockBytes / plan.block)));
      values[plan.results[i]] = copy;
    }
    for (int i = 0; i < plan.outputs; ++i) {
      const BlockOperand& output = plan.operands[i];
      const void* value = values[plan.results[i]];
      void* own = output.span(cursor, count);
      if (own == value) continue;
      if (plan.streams && own != nullptr) {
        stream_bytes(own, value, count * output.size());
      } else {
        output.store(cursor, count, value);
      }
    }
    cursor.skip(count);
    begin += count;
  }
  if (plan.streams) finish_streaming();
  return true;
}

}  // namespace

const char* refuse_chain(const uhal_op& op) {
  const uhal_map_chain_attributes& attributes = attributes_of(op);
  for (int s = 0; s < attributes.step_count; ++s) {
    const uhal_map_function function = attributes.functions[s];
    if (function < 0 || function >= uhal_map_function_limit) {
      return refusal("map_chain: function %d of step %d is unknown to this build of the stub, which knows 0 to %d",
                     function, s, uhal_map_function_limit - 1);
    }
    for (int i = 0; is_bitwise(function) && i < op.output_count + op.input_count; ++i) {
      const uhal_dtype dtype = operand(op, i).dtype;
      if (is_integer(dtype)) continue;
      return refusal("map_chain: %s of step %d needs integer or bool operands, got %s; cast it first",
                     kMapFunctions[function].name, s, dtype_name(dtype));
    }
  }
  return nullptr;
}

uhal_status run_chain(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_map_chain_attributes& attributes = attributes_of(op);
  Plan plan;
  plan.outputs = op.output_count;
  plan.inputs = op.input_count;
  plan.steps = attributes.step_count;
  const uhal_tensor* views[kMaxViews] = {};
  const int count = plan.outputs + plan.inputs;
  for (int i = 0; i < count; ++i) views[i] = &operand(op, i);
  plan.space = make_space(views, count);
  if (plan.space.count == 0) return UHAL_OK;
  lengthen_rows(plan.space);

  bool integer = true;
  for (int s = 0; s < plan.steps; ++s) integer &= kMapFunctions[attributes.functions[s]].integer;
  const ComputeType type =
      compute_type_of(map_arithmetic(plan.outputs, plan.inputs, integer, [&](int i) { return views[i]->dtype; }));
  plan.block = kBlockBytes / compute_size(type);
  plan.streams = true;
  for (int i = 0; i < count; ++i) plan.operands[i] = BlockOperand(plan.space, i, *views[i], type);
  for (int i = 0; i < plan.outputs; ++i) {
    plan.results[i] = attributes.results[i];
    plan.streams &= plan.space.count * dtype_size(views[i]->dtype) >= kStreamBytes && !replaces_input(op, i);
  }
  plan.values = plan.inputs;
  int64_t flops = 0;
  for (int s = 0; s < plan.steps; ++s) {
    Step& step = plan.step[s];
    const MapFunctionInfo& info = kMapFunctions[attributes.functions[s]];
    step.loop = vectors().map[attributes.functions[s]][type];
    step.inputs = info.inputs;
    step.outputs = info.outputs;
    std::copy_n(attributes.operands[s], info.inputs, step.operands);
    step.result = plan.values;
    convert_map_parameters(type, attributes.parameters[s], step.parameters);
    plan.values += info.outputs;
    flops += 1 + info.flops / 4;
  }
  assign_slots(op, plan);
  plan.slots += kMaxOutputs;  // for outputs that are inputs
  // A step on a block in the first cache costs about a quarter of an op's pass over memory.
  const int64_t parts = type == kComplexFloat || type == kComplexDouble ? 2 : 1;
  bool ok = true;
  parallel_for(plan.space.count, parts * (1 + flops / 4) + count / 2, kBlock, [&](int64_t begin, int64_t end) {
    if (!run_blocks(plan, begin, end)) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
  });
  return ok ? UHAL_OK : fail(UHAL_RESOURCE_EXHAUSTED, "map_chain: the host has no memory left for blocks");
}

}  // namespace unihal::stub
