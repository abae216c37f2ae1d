#include "csrc/core/op/shape_rules.h"

namespace unihal::core {

std::string shape_text(int rank, const int64_t* dims) {
  std::string text = "(";
  for (int i = 0; i < rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + (rank == 1 ? ",)" : ")");
}

int64_t element_count(const uhal_tensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}

const char* operand_name(const OpView& op, const uhal_tensor* operand) {
  for (int i = 0; i < op.op->output_count; ++i) {
    if (op.op->outputs[i] == operand) return op.row->outputs.names[i];
  }
  for (int i = 0; i < op.op->input_count; ++i) {
    if (op.op->inputs[i] == operand) return op.row->inputs.names[i];
  }
  return "operand";
}

uhal_status refuse_shape(const OpView& op, const uhal_tensor& operand, const Shape& shape, const char* meaning) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has shape %s, expected %s: %s.", op.row->name,
                   operand_name(op, &operand), shape_text(operand.rank, operand.shape).c_str(),
                   shape_text(shape.rank, shape.dims).c_str(), meaning);
}

uhal_status refuse_other_shape(const OpView& op, const uhal_tensor& operand, const uhal_tensor& as) {
  std::string meaning = "the shape of " + std::string(operand_name(op, &as));
  return refuse_shape(op, operand, Shape(as), meaning.c_str());
}

uhal_status refuse_rank(const OpView& op, const uhal_tensor& operand, int minimum, int maximum, const char* meaning) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has rank %d (shape %s), expected %d to %d: %s.", op.row->name,
                   operand_name(op, &operand), operand.rank, shape_text(operand.rank, operand.shape).c_str(), minimum,
                   maximum, meaning);
}

uhal_status refuse_broadcast(const OpView& op, const uhal_tensor& operand, int rank, const int64_t* dims) {
  return UHAL_FAIL(
      UHAL_INVALID_ARGUMENT,
      "%s: %s has shape %s, which does not broadcast to %s; axes are aligned at the right and must be equal "
      "or 1.",
      op.row->name, operand_name(op, &operand), shape_text(operand.rank, operand.shape).c_str(),
      shape_text(rank, dims).c_str());
}

uhal_status refuse_dtype(const OpView& op, const uhal_tensor& operand, const char* meaning) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has dtype %s, expected %s.", op.row->name, operand_name(op, &operand),
                   uhal_dtype_name(operand.dtype), meaning);
}

uhal_status refuse_other_dtype(const OpView& op, const uhal_tensor& operand, const uhal_tensor& as) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has dtype %s, expected %s, the dtype of %s.", op.row->name,
                   operand_name(op, &operand), uhal_dtype_name(operand.dtype), uhal_dtype_name(as.dtype),
                   operand_name(op, &as));
}

uhal_status refuse_absence(const OpView& op, const char* name, const char* when) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s is NULL, but is required %s.", op.row->name, name, when);
}

uhal_status refuse_attribute(const OpView& op, const char* name, int64_t value, int64_t minimum, int64_t maximum) {
  if (maximum == INT64_MAX) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attribute %s is %lld, expected at least %lld.", op.row->name, name,
                     static_cast<long long>(value), static_cast<long long>(minimum));
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attribute %s is %lld, expected %lld to %lld.", op.row->name, name,
                   static_cast<long long>(value), static_cast<long long>(minimum), static_cast<long long>(maximum));
}

uhal_status resolve_axis(const OpView& op, int32_t attribute, int rank, bool minus_one_is_last, int* axis) {
  *axis = minus_one_is_last && attribute == -1 ? rank - 1 : attribute;
  if (*axis >= 0 && *axis < rank) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attribute axis is %d, expected 0 to %d for rank %d%s.", op.row->name,
                   attribute, rank - 1, rank, minus_one_is_last ? " (or -1 for the last)" : "");
}

}  // namespace unihal::core
