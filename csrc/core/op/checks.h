// The rules of each op kind (op.h) about shapes, dtypes and attributes: check_<name>, in shapes*.cc.
//
// A check runs after the operands were found to be sound views and required ones to be present. It returns
// UHAL_OK, or UHAL_INVALID_ARGUMENT with a message that names the operand, what it is, and what it must be.
#pragma once

#include "csrc/core/op/table.h"

namespace unihal::core {

#define UHAL_OP_KIND(number, KIND, name, ...) uhal_status check_##name(const OpView& op);
#include "csrc/tables/op_kinds.def"

}  // namespace unihal::core
