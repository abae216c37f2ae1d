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

template <class Attributes>
uhal_math_mode math_mode_in(const void* attributes) {
  const auto* given = static_cast<const Attributes*>(attributes);
  return given != nullptr && given->struct_size >= sizeof *given ? given->math_mode : UHAL_MATH_STRICT;
}

uhal_math_mode math_mode_of(const uhal_op& op) {
  switch (op.kind) {
    case UHAL_OP_MATMUL:
      return math_mode_in<uhal_matmul_attributes>(op.attributes);
    case UHAL_OP_CONVOLUTION:
    case UHAL_OP_CONVOLUTION_BACKWARD_DATA:
    case UHAL_OP_CONVOLUTION_BACKWARD_FILTER:
      return math_mode_in<uhal_convolution_attributes>(op.attributes);
    case UHAL_OP_ATTENTION:
    case UHAL_OP_ATTENTION_BACKWARD:
      return math_mode_in<uhal_attention_attributes>(op.attributes);
    case UHAL_OP_RNN:
    case UHAL_OP_RNN_BACKWARD:
      return math_mode_in<uhal_rnn_attributes>(op.attributes);
    default:
      return UHAL_MATH_STRICT;
  }
}

// Of other dtypes a mode changes nothing, and is not worth a word.
bool multiplies_float32(const uhal_op& op) {
  if (op.inputs == nullptr || op.input_count < 2) return false;
  for (int i = 0; i < 2; ++i) {
    const uhal_tensor* factor = op.inputs[i];
    if (factor == nullptr || factor->struct_size < sizeof *factor || factor->dtype != UHAL_FLOAT32) return false;
  }
  return true;
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
  const bool allows_tf32 = math_mode_of(op) == UHAL_MATH_ALLOW_TF32 && multiplies_float32(op);
  return inputs + (inputs.empty() ? "-> " : " -> ") + describe_side(op.outputs, op.output_count) +
         (allows_tf32 ? ", TF32 allowed" : "");
}

std::string describe_op(const uhal_op* op) {
  if (op == nullptr || op->struct_size < sizeof(uhal_op)) return "";
  std::string name = op_display_name(*op);
  if (op->label != nullptr) name = std::string(op->label) + " (" + name + ")";
  return name + ": " + describe_operands(*op);
}

}  // namespace unihal::core
