#include "csrc/core/launch/validate_op.h"

#include <cstring>

#include "csrc/core/check/allocation_log.h"
#include "csrc/core/check/byte_set.h"
#include "csrc/core/memory/live_range.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

constexpr int64_t kLargestView = int64_t{1} << 56;  // bytes; far beyond any device, far below overflow

// Where a view lies in memory. Not initialized: an op has room for many operands, and few.
struct Extent {
  int64_t low;    // bytes from `data` to the lowest element, at most 0
  int64_t bytes;  // from the lowest element to the end of the highest; 0 for a view without elements
};

// One operand and how to speak of it.
struct Operand {
  const OpView& op;
  const uhal_tensor* tensor;
  const char* name;
  bool output;
};

uhal_status refuse_axis(const Operand& operand, int axis, const char* what) {
  const uhal_tensor& t = *operand.tensor;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has shape %s and strides %s; along axis %d %s.", operand.op.row->name,
                   operand.name, shape_text(t.rank, t.shape).c_str(), shape_text(t.rank, t.strides).c_str(), axis,
                   what);
}

uhal_status check_fields(const Operand& operand) {
  const uhal_tensor& t = *operand.tensor;
  const char* op = operand.op.row->name;
  if (t.struct_size < sizeof(uhal_tensor)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has struct_size %zu, expected sizeof(uhal_tensor), %zu.", op,
                     operand.name, t.struct_size, sizeof(uhal_tensor));
  }
  if (t.dtype <= UHAL_DTYPE_INVALID || t.dtype >= UHAL_DTYPE_COUNT) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has the dtype number %d, expected 1 to %d (tensor.h).", op,
                     operand.name, t.dtype, UHAL_DTYPE_COUNT - 1);
  }
  if (t.rank < 0 || t.rank > UHAL_MAX_RANK) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has rank %d, expected 0 to %d; merge axes, or split the op.", op,
                     operand.name, t.rank, UHAL_MAX_RANK);
  }
  return UHAL_OK;
}

// The elements of a view in which each follows the one before it, as nearly all do; -1 for others, and for what is
// wrong.
int64_t dense_count(const uhal_tensor& t) {
  int64_t count = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    const int64_t length = t.shape[i];
    if (length == 1) continue;
    if (length < 1 || t.strides[i] != count || __builtin_mul_overflow(count, length, &count)) return -1;
  }
  return count;
}

// The elements of an output must be distinct.
uhal_status check_distinct(const Operand& output) {
  const uhal_tensor& t = *output.tensor;
  const Answer repeats = repeats_elements(t);
  if (repeats == Answer::kNo) return UHAL_OK;
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] > 1 && t.strides[i] == 0) {
      return refuse_axis(output, i,
                         "the stride is 0, so that elements coincide; an output's elements must be distinct");
    }
  }
  return UHAL_FAIL(
      UHAL_INVALID_ARGUMENT, "%s: %s has shape %s and strides %s, %s; an output's elements must be distinct.",
      output.op.row->name, output.name, shape_text(t.rank, t.shape).c_str(), shape_text(t.rank, t.strides).c_str(),
      repeats == Answer::kYes ? "so that elements coincide"
                              : "of which a search of 65,536 steps could not tell whether elements coincide");
}

uhal_status measure(const Operand& operand, int64_t element_bytes, Extent* extent) {
  const uhal_tensor& t = *operand.tensor;
  if (const int64_t dense = dense_count(t); dense > 0 && dense <= kLargestView / element_bytes) {
    *extent = {0, dense * element_bytes};
    return UHAL_OK;
  }
  int64_t count = 1, low = 0, high = 0;
  bool empty = false;
  for (int i = 0; i < t.rank; ++i) {
    int64_t length = t.shape[i];
    if (length <= 1) {
      if (length < 0) return refuse_axis(operand, i, "its length is negative; expected 0 or more");
      empty = empty || length == 0;
      continue;
    }
    int64_t stride = t.strides[i];
    int64_t reach;
    if (__builtin_mul_overflow(count, length, &count) || count > kLargestView ||
        __builtin_mul_overflow(length - 1, stride, &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
      return refuse_axis(operand, i, "its size overflows 64 bits");
    }
  }
  int64_t span;
  if (count > kLargestView / element_bytes || __builtin_sub_overflow(high, low, &span) ||
      span >= kLargestView / element_bytes) {
    return refuse_axis(operand, t.rank - 1, "the view overflows any memory");
  }
  extent->low = low * element_bytes;
  extent->bytes = empty ? 0 : (span + 1) * element_bytes;
  return operand.output && !empty ? check_distinct(operand) : UHAL_OK;
}

uhal_status refuse_range(const Operand& operand, const uhal_device& device, RangeCheck check, const void* lowest,
                         int64_t bytes, const LiveBlock& live) {
  const char* op = operand.op.row->name;
  const char* name = operand.name;
  switch (check) {
    case RangeCheck::kOutside:
      return UHAL_FAIL(
          UHAL_INVALID_ARGUMENT,
          "%s: the view of %s covers %lld bytes at %p, but its allocation has %zu bytes at %p; correct its "
          "shape, strides or data.",
          op, name, static_cast<long long>(bytes), lowest, live.bytes, static_cast<void*>(live.base));
    case RangeCheck::kWrongKind:
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "%s: %s lies in pinned host memory; ops take device or managed memory. Copy it first.", op,
                       name);
    default:
      return UHAL_FAIL(
          UHAL_INVALID_ARGUMENT,
          "%s: the view of %s covers %lld bytes at %p, which lie in no live allocation of %s%s; allocate with "
          "uhal_allocate on this device, and free only after the launch.",
          op, name, static_cast<long long>(bytes), lowest, device.label.c_str(), other_owner(device, lowest).c_str());
  }
}

uhal_status check_data(const Operand& operand, uhal_device* device, int64_t element_bytes, const Extent& extent) {
  const uhal_tensor& t = *operand.tensor;
  if (extent.bytes == 0) return UHAL_OK;
  if (t.data == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: %s has shape %s but its data is NULL; only views without elements may.", operand.op.row->name,
                     operand.name, shape_text(t.rank, t.shape).c_str());
  }
  uint64_t alignment = static_cast<uint64_t>(element_bytes < 8 ? element_bytes : 8);
  if (reinterpret_cast<uintptr_t>(t.data) % alignment != 0) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the data of %s at %p is not aligned to its dtype %s.",
                     operand.op.row->name, operand.name, t.data, uhal_dtype_name(t.dtype));
  }
  // Not as a pointer: what the caller says may lie outside all memory.
  const void* lowest =
      reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(t.data) + static_cast<uintptr_t>(extent.low));
  LiveBlock live;
  RangeCheck check = check_range(device, lowest, static_cast<size_t>(extent.bytes), &live);
  if (check == RangeCheck::kInside) return UHAL_OK;
  uhal_status status = refuse_range(operand, *device, check, lowest, extent.bytes, live);
  append_history(*device, lowest);
  return status;
}

// Whether two views name the same elements in the same order; leading axes of length 1 do not matter.
bool same_view(const uhal_tensor& a, const uhal_tensor& b) {
  if (a.data != b.data || a.dtype != b.dtype) return false;
  int rank = a.rank > b.rank ? a.rank : b.rank;
  for (int i = 1; i <= rank; ++i) {
    int64_t length_a = i <= a.rank ? a.shape[a.rank - i] : 1;
    int64_t length_b = i <= b.rank ? b.shape[b.rank - i] : 1;
    if (length_a != length_b) return false;
    if (length_a > 1 && a.strides[a.rank - i] != b.strides[b.rank - i]) return false;
  }
  return true;
}

// An output and another operand have no byte in common, but where the op may write in place to exactly the view that
// it reads. Views that merely interleave (two halves of the rows of one matrix) are told apart by a search.
uhal_status check_overlap(const Operand& output, const Extent& y, const Operand& other, const Extent& x,
                          bool in_place) {
  if (x.bytes == 0 || y.bytes == 0) return UHAL_OK;
  const char* y_low = static_cast<const char*>(output.tensor->data) + y.low;
  const char* x_low = static_cast<const char*>(other.tensor->data) + x.low;
  if (y_low + y.bytes <= x_low || x_low + x.bytes <= y_low) return UHAL_OK;
  if (in_place && same_view(*output.tensor, *other.tensor)) return UHAL_OK;
  const Answer overlap = ByteSet(*output.tensor).meets(ByteSet(*other.tensor));
  if (overlap == Answer::kNo) return UHAL_OK;
  const char* advice = other.output ? "give each output memory of its own"
                       : in_place   ? "this op may write in place only to exactly the view that it reads"
                                    : "this op cannot work in place, so give the output memory of its own";
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: output %s (%lld bytes at %p) %s %s %s (%lld bytes at %p); %s.",
                   output.op.row->name, output.name, static_cast<long long>(y.bytes), static_cast<const void*>(y_low),
                   overlap == Answer::kYes ? "overlaps" : "may overlap (65,536 steps of a search could not tell)",
                   other.output ? "output" : "input", other.name, static_cast<long long>(x.bytes),
                   static_cast<const void*>(x_low), advice);
}

uhal_status check_counts(const OpView& view, const char* side, int count, const uhal_tensor* const* operands,
                         const OperandList& list) {
  if (count < 0 || count > list.count || (count > 0 && operands == nullptr)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %d %ss at %p, expected %d to %d.", view.row->name, count, side,
                     static_cast<const void*>(operands), list.required, list.count);
  }
  for (int i = 0; i < list.required; ++i) {
    if (!list.optional[i] && (i >= count || operands[i] == nullptr)) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s %s (number %d) is missing, but it is required.", view.row->name,
                       side, list.names[i], i);
    }
  }
  return UHAL_OK;
}

uhal_status check_attributes(OpView* view) {
  const OpRow& row = *view->row;
  view->attributes = view->op->attributes;
  if (view->attributes == nullptr) {
    if (row.attributes_required) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attributes are NULL, but this op requires them.", row.name);
    }
    view->attributes = row.default_attributes;
    return UHAL_OK;
  }
  size_t struct_size;
  memcpy(&struct_size, view->attributes, sizeof struct_size);
  if (struct_size >= row.attributes_size) return UHAL_OK;
  if (struct_size >= row.first_attributes_size) {
    // What the caller does not know has its default.
    memcpy(view->completed, row.default_attributes, row.attributes_size);
    memcpy(view->completed + sizeof struct_size, static_cast<const char*>(view->attributes) + sizeof struct_size,
           struct_size - sizeof struct_size);
    view->attributes = view->completed;
    return UHAL_OK;
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attributes have struct_size %zu, expected %zu.", row.name,
                   struct_size, row.attributes_size);
}

// Kinds that move elements, or make others of them one by one.
bool takes_float8(uhal_op_kind kind) {
  switch (kind) {
    case UHAL_OP_COPY:
    case UHAL_OP_CAST:
    case UHAL_OP_FILL:
    case UHAL_OP_GATHER:
    case UHAL_OP_GATHER_ND:
    case UHAL_OP_GATHER_ELEMENTS:
    case UHAL_OP_COMPACT:
      return true;
    default:
      return false;
  }
}

// op.h: what computes has no float8.
uhal_status check_storage(const Operand& operand) {
  if (takes_float8(operand.op.row->kind)) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "%s: %s has dtype %s, which is for storage (copy, cast, fill, gather, compact); cast it first.",
                   operand.op.row->name, operand.name, uhal_dtype_name(operand.tensor->dtype));
}

uhal_status check_operand(const Operand& operand, uhal_device* device, OperandData data, OpView* view, Extent* extent) {
  if (uhal_status status = check_fields(operand); status != UHAL_OK) return status;
  if (is_float8(operand.tensor->dtype)) {
    view->has_float8 = true;
    if (uhal_status status = check_storage(operand); status != UHAL_OK) return status;
  }
  int64_t element_bytes = static_cast<int64_t>(uhal_dtype_size(operand.tensor->dtype));
  if (uhal_status status = measure(operand, element_bytes, extent); status != UHAL_OK) return status;
  if (data == OperandData::kIgnored) return UHAL_OK;
  return check_data(operand, device, element_bytes, *extent);
}

}  // namespace

uhal_status validate_op(uhal_device* device, const uhal_op* op, OperandData data, OpView* view) {
  if (op == nullptr || op->struct_size < sizeof(uhal_op)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The op is %s; pass one with struct_size = sizeof(uhal_op), %zu.",
                     op == nullptr ? "NULL" : "too short", sizeof(uhal_op));
  }
  const OpRow* row = find_op_row(op->kind);
  if (row == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "There is no op kind %d; op.h lists them (UHAL_OP_*).", op->kind);
  }
  view->op = op;
  view->row = row;
  UHAL_EXPECT(check_counts(*view, "input", op->input_count, op->inputs, row->inputs));
  UHAL_EXPECT(check_counts(*view, "output", op->output_count, op->outputs, row->outputs));
  UHAL_EXPECT(check_attributes(view));

  Extent inputs[kMaxOperands];
  for (int i = 0; i < op->input_count; ++i) {
    if (op->inputs[i] == nullptr) continue;
    UHAL_EXPECT(check_operand({*view, op->inputs[i], row->inputs.names[i], false}, device, data, view, &inputs[i]));
  }
  Extent outputs[kMaxOperands];
  for (int i = 0; i < op->output_count; ++i) {
    if (op->outputs[i] == nullptr) continue;
    Operand output = {*view, op->outputs[i], row->outputs.names[i], true};
    UHAL_EXPECT(check_operand(output, device, data, view, &outputs[i]));
    for (int k = 0; data == OperandData::kChecked && k < op->input_count; ++k) {
      if (op->inputs[k] == nullptr) continue;
      Operand input = {*view, op->inputs[k], row->inputs.names[k], false};
      UHAL_EXPECT(check_overlap(output, outputs[i], input, inputs[k], may_be_in_place(*row, i, k)));
    }
    for (int k = 0; data == OperandData::kChecked && k < i; ++k) {
      if (op->outputs[k] == nullptr) continue;
      Operand earlier = {*view, op->outputs[k], row->outputs.names[k], true};
      UHAL_EXPECT(check_overlap(output, outputs[i], earlier, outputs[k], false));
    }
  }
  return row->check(*view);
}

}  // namespace unihal::core
