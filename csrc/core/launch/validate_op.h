// The checks that every op passes before a backend sees it.
#pragma once

#include "csrc/core/handle/device.h"
#include "csrc/core/op/table.h"

namespace unihal::core {

// Whether operands' data is looked at: yes for a launch, no when only support is asked for.
enum class OperandData { kChecked, kIgnored };

// Checks counts, views, shapes, dtypes and attributes; fills *view. `device` is where the data must live.
// A failure's record has the message only: see describe_failure.
uhal_status validate_op(uhal_device* device, const uhal_op* op, OperandData data, OpView* view);

}  // namespace unihal::core
