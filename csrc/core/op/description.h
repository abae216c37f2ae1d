// Ops as text for a person.
#pragma once

#include <string>

#include "unihal/op.h"

namespace unihal::core {

// "Conv2D (convolution): float32(8, 3, 32, 32), float32(16, 3, 3, 3) -> float32(8, 16, 32, 32), TF32
// allowed". Takes any op, sound or not.
std::string describe_op(const uhal_op* op);

// The part after the colon.
std::string describe_operands(const uhal_op& op);

// "matmul", "map.relu".
std::string op_display_name(const uhal_op& op);

}  // namespace unihal::core
