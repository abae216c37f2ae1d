// The textbook costs of ops, for the profiler.
#pragma once

#include "csrc/core/op/table.h"

namespace unihal::core {

// Bytes of all operands, each read or written once. A broadcast operand counts its own elements only.
uint64_t op_bytes(const uhal_op& op);

// The least time that work could take on a device with these peaks (profiler.h); 0 if they are unknown.
int64_t estimated_nanoseconds(const uhal_device_properties& properties, uint64_t bytes, uint64_t flops);

// The textbook counts that rows of op_kinds.def name; input_0_flops and the like count one per element of an operand.
#define UHAL_OP_KIND(number, KIND, name, family, inputs, outputs, attributes, in_place, flops) \
  uint64_t flops(const OpView& op);
#include "csrc/tables/op_kinds.def"

}  // namespace unihal::core
