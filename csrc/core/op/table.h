// The table of op kinds: what each takes, and the functions that check and count it.
#pragma once

#include <cstdint>

#include "unihal/op.h"

namespace unihal::core {

struct OpRow;

// What attributes that grew may have become in all.
constexpr size_t kLongestGrownAttributes = 64;

// An op as the checks see it: absent operands are nullptr, absent attributes are the defaults. Not to be copied: the
// attributes may lie in it.
struct OpView {
  const uhal_op* op;
  const OpRow* row;
  const void* attributes;
  bool has_float8 = false;                             // among the operands
  alignas(8) char completed[kLongestGrownAttributes];  // a caller's that were built before the struct grew

  OpView() = default;
  OpView(const OpView&) = delete;
  OpView& operator=(const OpView&) = delete;

  const uhal_tensor* input(int i) const { return i < op->input_count ? op->inputs[i] : nullptr; }
  const uhal_tensor* output(int i) const { return i < op->output_count ? op->outputs[i] : nullptr; }
  template <class Attributes>
  const Attributes& attributes_as() const {
    return *static_cast<const Attributes*>(attributes);
  }
};

constexpr int kMaxOperands = 8;

// The operands of one side.
struct OperandList {
  int count = 0;                         // at most
  int required = 0;                      // the last required operand's index + 1
  bool optional[kMaxOperands] = {};      // may be NULL
  const char* names[kMaxOperands] = {};  // for messages
};

// What every launch reads comes first.
struct alignas(64) OpRow {
  const char* name;
  uhal_op_kind kind;
  uint32_t in_place;                       // see may_be_in_place()
  uhal_status (*check)(const OpView& op);  // shapes, dtypes and attributes; operands are sound views
  const void* default_attributes;          // nullptr: the kind has none
  size_t attributes_size;
  bool attributes_required;
  OperandList inputs;
  OperandList outputs;
  size_t first_attributes_size;         // before the struct grew
  uint32_t grown_minor;                 // of the ABI, with which it grew; 0: it has not
  uint64_t (*flops)(const OpView& op);  // the textbook count
};

// In OpRow::in_place, bit i: any output may be the same view as input i; bit kOwnPlaceShift + i: output i may.
constexpr int kOwnPlaceShift = kMaxOperands;
inline bool may_be_in_place(const OpRow& row, int output, int input) {
  return (row.in_place >> input & 1) != 0 || (output == input && (row.in_place >> (kOwnPlaceShift + input) & 1) != 0);
}

// The rows of all kinds, by number; without a name where there is no such kind. Parsed once, and called once.
const OpRow* parse_op_rows();

// The row of a kind, or nullptr.
inline const OpRow* find_op_row(uhal_op_kind kind) {
  static const OpRow* const rows = parse_op_rows();
  if (kind <= UHAL_OP_INVALID || kind >= UHAL_OP_KIND_LIMIT || rows[kind].name == nullptr) return nullptr;
  return &rows[kind];
}

// By number.
extern const uhal_map_function_info map_function_rows[];

// The info of a function number in range.
inline const uhal_map_function_info& map_function_row(uhal_map_function function) {
  return map_function_rows[function];
}

// The map function of a checked map op.
inline const uhal_map_function_info& map_function_of(const OpView& op) {
  return map_function_row(op.attributes_as<uhal_map_attributes>().function);
}

}  // namespace unihal::core
