#include "csrc/core/op/description.h"

#include "csrc/core/op/shape_rules.h"
#include "csrc/core/op/table.h"
#include "csrc/tables/elementwise.h"

namespace unihal::core {
namespace {

std::string describe_side(const uhal_tensor* const* operands, int count) {
  if (operands == nullptr || count <= 0) return "";
  std::string text;
  for (int i = 0; i < count && i < kMaxOperands; ++i) {
    if (i > 0) text += ", ";
    const uhal_tensor* operand = operands[i];
    if (operand == nullptr) {
      text += "none";
    } else if (operand->struct_size < sizeof(uhal_tensor)) {
      text += "(a tensor of another ABI)";
    } else if (operand->rank < 0 || operand->rank > UHAL_MAX_RANK) {
      text += std::string(uhal_dtype_name(operand->dtype)) + "(rank " + std::to_string(operand->rank) + ")";
    } else {
      text += uhal_dtype_name(operand->dtype) + shape_text(operand->rank, operand->shape);
    }
  }
  return text;
}

}  // namespace

std::string op_display_name(const uhal_op& op) {
  std::string name = uhal_op_kind_name(op.kind);
  if (op.kind == UHAL_OP_MAP && op.attributes != nullptr) {
    const auto* attributes = static_cast<const uhal_map_attributes*>(op.attributes);
    bool known = attributes->struct_size >= sizeof *attributes && attributes->function >= 0 &&
                 attributes->function < uhal_map_function_limit;
    if (known) name += std::string(".") + map_function_row(attributes->function).name;
  }
  return name;
}

std::string describe_operands(const uhal_op& op) {
  std::string inputs = describe_side(op.inputs, op.input_count);
  return inputs + (inputs.empty() ? "-> " : " -> ") + describe_side(op.outputs, op.output_count);
}

std::string describe_op(const uhal_op* op) {
  if (op == nullptr || op->struct_size < sizeof(uhal_op)) return "";
  std::string name = op_display_name(*op);
  if (op->label != nullptr) name = std::string(op->label) + " (" + name + ")";
  return name + ": " + describe_operands(*op);
}

}  // namespace unihal::core
