// What backends share of attention: its attributes with defaults, and what none of them takes.
#pragma once

#include <algorithm>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"

namespace unihal {

// The attributes of an attention or its gradient, with the scale that they ask for.
inline uhal_attention_attributes attention_attributes(const uhal_op& op) {
  uhal_attention_attributes attributes = attributes_or(op, uhal_attention_attributes{});
  const int64_t depth = op.inputs[0]->shape[3];
  if (attributes.scale == 0) attributes.scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, depth)));
  return attributes;
}

// Why an operand's dtype is none that attention is defined for; nullptr if all are.
inline const char* refuse_attention_dtypes(const uhal_op& op) {
  for (int i = 0; i < op.input_count; ++i) {
    if (op.inputs[i] != nullptr && !is_floating(op.inputs[i]->dtype)) {
      return "attention takes floating point only; a mask is added to the scores: 0 where it lets through, -infinity "
             "where it does not";
    }
  }
  for (int i = 0; i < op.output_count; ++i) {
    if (op.outputs[i] != nullptr && !is_floating(op.outputs[i]->dtype)) {
      return "attention gives floating point results only: cast them afterwards";
    }
  }
  return nullptr;
}

}  // namespace unihal
