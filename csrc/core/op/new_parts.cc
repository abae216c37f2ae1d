#include "csrc/core/op/new_parts.h"

#include <cstring>

#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

struct Rule {
  uhal_op_kind first_kind, last_kind;
  NewPart part;
  bool (*is_used)(const OpView& op);
};

bool is_given(const OpView& op, int input) { return op.input(input) != nullptr; }

bool has_complex(const OpView& op) {
  for (int i = 0; i < op.op->input_count; ++i) {
    if (is_given(op, i) && is_complex(op.input(i)->dtype)) return true;
  }
  for (int i = 0; i < op.op->output_count; ++i) {
    if (op.output(i) != nullptr && is_complex(op.output(i)->dtype)) return true;
  }
  return false;
}

// By ascending minors. Fields whose value allows and demands nothing (math_mode) need no row.
const Rule kRules[] = {
    {UHAL_OP_MAP, UHAL_OP_MAP, {6, "arithmetic on complex numbers"}, has_complex},
    {UHAL_OP_SCATTER, UHAL_OP_SCATTER, {6, "arithmetic on complex numbers"}, has_complex},
    {UHAL_OP_SCATTER_ND, UHAL_OP_SCATTER_ND, {6, "arithmetic on complex numbers"}, has_complex},
    {UHAL_OP_SCATTER_ELEMENTS, UHAL_OP_SCATTER_ELEMENTS, {6, "arithmetic on complex numbers"}, has_complex},
    {UHAL_OP_REDUCE, UHAL_OP_MATMUL, {6, "arithmetic on complex numbers"}, has_complex},
    {UHAL_OP_SCAN,
     UHAL_OP_SCAN,
     {8, "the reduction log_sum_exp"},
     [](const OpView& op) { return op.attributes_as<uhal_scan_attributes>().reduction == UHAL_REDUCE_LOG_SUM_EXP; }},
    {UHAL_OP_CONVOLUTION,
     UHAL_OP_CONVOLUTION,
     {8, "a convolution of integers"},
     [](const OpView& op) { return !is_floating(op.input(0)->dtype); }},
    {UHAL_OP_RANDOM, UHAL_OP_RANDOM, {8, "the operand turn"}, [](const OpView& op) { return is_given(op, 0); }},
    {UHAL_OP_DROPOUT, UHAL_OP_DROPOUT, {8, "the operand turn"}, [](const OpView& op) { return is_given(op, 1); }},
    {UHAL_OP_GRID_SAMPLE,
     UHAL_OP_GRID_SAMPLE_BACKWARD_GRID,
     {8, "the operand images"},
     [](const OpView& op) { return is_given(op, op.row->inputs.count - 1); }},
    {UHAL_OP_GRID_SAMPLE,
     UHAL_OP_GRID_SAMPLE_BACKWARD_GRID,
     {8, "the attribute in_pixels"},
     [](const OpView& op) { return op.attributes_as<uhal_grid_sample_attributes>().in_pixels != 0; }},
    {UHAL_OP_GRID_SAMPLE,
     UHAL_OP_GRID_SAMPLE_BACKWARD_GRID,
     {9, "the mode cubic"},
     [](const OpView& op) { return op.attributes_as<uhal_grid_sample_attributes>().mode == UHAL_GRID_SAMPLE_CUBIC; }},
    {UHAL_OP_NON_MAX_SUPPRESSION,
     UHAL_OP_NON_MAX_SUPPRESSION,
     {10, "lists of boxes"},
     [](const OpView& op) { return op.input(0)->rank > 2; }},
    {UHAL_OP_SCAN, UHAL_OP_SCAN, {11, "the operand indices"}, [](const OpView& op) { return op.output(1) != nullptr; }},
};

// Of attributes that grew, whether what came later has other values than its defaults, which mean what was before.
bool uses_what_grew(const OpView& op) {
  const OpRow& row = *op.row;
  if (row.attributes_size == row.first_attributes_size || op.attributes == row.default_attributes) return false;
  return memcmp(static_cast<const char*>(op.attributes) + row.first_attributes_size,
                static_cast<const char*>(row.default_attributes) + row.first_attributes_size,
                row.attributes_size - row.first_attributes_size) != 0;
}

}  // namespace

NewPart newest_part(const OpView& op) {
  NewPart newest;
  for (const Rule& rule : kRules) {
    if (op.row->kind >= rule.first_kind && op.row->kind <= rule.last_kind && rule.is_used(op)) newest = rule.part;
  }
  if (op.row->grown_minor > newest.minor && uses_what_grew(op)) newest = {op.row->grown_minor, "newer attributes"};
  return newest;
}

}  // namespace unihal::core
