#include "csrc/core/launch/validate_op.h"

#include <cstring>

#include "csrc/core/base/dtype.h"
#include "csrc/core/check/allocation_log.h"
#include "csrc/core/check/byte_set.h"
#include "csrc/core/memory/live_range.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

constexpr int64_t kLargestView = int64_t{1} << 56;  // bytes; far beyond any device, far below overflow

// Where a view lies in memory, from its lowest element to the end of its highest; empty for a view without elements.
// Not as pointers: what the caller says may lie outside all memory. Not initialized: an op has room for many operands,
// and few.
struct Extent {
  uintptr_t begin;
  uintptr_t end;

  int64_t bytes() const { return static_cast<int64_t>(end - begin); }
  const void* lowest() const { return reinterpret_cast<const void*>(begin); }
};

Extent extent_of(const uhal_tensor& t, int64_t low, int64_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(t.data) + static_cast<uintptr_t>(low);
  return {begin, begin + static_cast<uintptr_t>(bytes)};
}

// One operand and how to speak of it.
struct Operand {
  const OpView& op;
  const uhal_tensor* tensor;
  const char* name;
  bool output;
};

// By its place among the inputs and then the outputs.
Operand operand_of(const OpView& view, int place) {
  const int output = place - view.op->input_count;
  if (output < 0) return {view, view.op->inputs[place], view.row->inputs.names[place], false};
  return {view, view.op->outputs[output], view.row->outputs.names[output], true};
}

__attribute__((cold)) uhal_status refuse_axis(const Operand& operand, int axis, const char* what) {
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
inline int64_t dense_count(const uhal_tensor& t) {
  int64_t count = 1;
  const int64_t* stride = t.strides + t.rank;
  for (const int64_t* length = t.shape + t.rank; length != t.shape;) {
    --length;
    --stride;
    if (*length == 1) continue;
    if (*length < 1 || *stride != count || __builtin_mul_overflow(count, *length, &count)) return -1;
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
    *extent = extent_of(t, 0, dense * element_bytes);
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
  *extent = extent_of(t, low * element_bytes, empty ? 0 : (span + 1) * element_bytes);
  return operand.output && !empty ? check_distinct(operand) : UHAL_OK;
}

__attribute__((cold)) uhal_status refuse_range(const Operand& operand, const uhal_device& device, RangeCheck check,
                                               const void* lowest, int64_t bytes, const LiveBlock& live) {
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
  if (extent.bytes() == 0) return UHAL_OK;
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
  LiveBlock live;
  RangeCheck check = check_range(device, extent.lowest(), static_cast<size_t>(extent.bytes()), &live);
  if (check == RangeCheck::kInside) return UHAL_OK;
  uhal_status status = refuse_range(operand, *device, check, extent.lowest(), extent.bytes(), live);
  append_history(*device, extent.lowest());
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
__attribute__((noinline)) uhal_status check_common_bytes(const OpView& view, int first, const Extent& y, int second,
                                                         const Extent& x) {
  if (x.bytes() == 0 || y.bytes() == 0) return UHAL_OK;
  const Operand output = operand_of(view, first);
  const Operand other = operand_of(view, second);
  const bool in_place = !other.output && may_be_in_place(*view.row, first - view.op->input_count, second);
  if (in_place && same_view(*output.tensor, *other.tensor)) return UHAL_OK;
  const Answer overlap = ByteSet(*output.tensor).meets(ByteSet(*other.tensor));
  if (overlap == Answer::kNo) return UHAL_OK;
  const char* advice = other.output ? "give each output memory of its own"
                       : in_place   ? "this op may write in place only to exactly the view that it reads"
                                    : "this op cannot work in place, so give the output memory of its own";
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: output %s (%lld bytes at %p) %s %s %s (%lld bytes at %p); %s.",
                   view.row->name, output.name, static_cast<long long>(y.bytes()), y.lowest(),
                   overlap == Answer::kYes ? "overlaps" : "may overlap (65,536 steps of a search could not tell)",
                   other.output ? "output" : "input", other.name, static_cast<long long>(x.bytes()), x.lowest(),
                   advice);
}

inline bool meet(const Extent& a, const Extent& b) { return a.begin < b.end && b.begin < a.end; }

__attribute__((cold)) uhal_status refuse_counts(const OpView& view, const char* side, int count,
                                                const uhal_tensor* const* operands, const OperandList& list) {
  if (count < 0 || count > list.count || (count > 0 && operands == nullptr)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %d %ss at %p, expected %d to %d.", view.row->name, count, side,
                     static_cast<const void*>(operands), list.required, list.count);
  }
  int missing = 0;
  while (list.optional[missing] || (missing < count && operands[missing] != nullptr)) ++missing;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s %s (number %d) is missing, but it is required.", view.row->name, side,
                   list.names[missing], missing);
}

// Whether as many operands are named as the kind takes, up to the last that it requires. None of them has been looked
// at.
inline bool is_count_of(const OperandList& list, int count, const uhal_tensor* const* operands) {
  return count >= list.required && count <= list.count && (count == 0 || operands != nullptr);
}

// Of an operand that is NULL, by its place among the inputs and then the outputs.
uhal_status check_absence(const OpView& view, int place) {
  const uhal_op& op = *view.op;
  const int output = place - op.input_count;
  if (output < 0) {
    if (view.row->inputs.optional[place]) return UHAL_OK;
    return refuse_counts(view, "input", op.input_count, op.inputs, view.row->inputs);
  }
  if (view.row->outputs.optional[output]) return UHAL_OK;
  return refuse_counts(view, "output", op.output_count, op.outputs, view.row->outputs);
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
__attribute__((cold)) uhal_status check_storage(const Operand& operand) {
  if (takes_float8(operand.op.row->kind)) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "%s: %s has dtype %s, which is for storage (copy, cast, fill, gather, compact); cast it first.",
                   operand.op.row->name, operand.name, uhal_dtype_name(operand.tensor->dtype));
}

__attribute__((noinline)) uhal_status check_operand(const Operand& operand, uhal_device* device, OperandData data,
                                                    OpView* view, Extent* extent) {
  if (uhal_status status = check_fields(operand); status != UHAL_OK) return status;
  if (is_float8(operand.tensor->dtype)) {
    view->has_float8 = true;
    if (uhal_status status = check_storage(operand); status != UHAL_OK) return status;
  }
  int64_t element_bytes = static_cast<int64_t>(dtype_bytes(operand.tensor->dtype));
  if (uhal_status status = measure(operand, element_bytes, extent); status != UHAL_OK) return status;
  if (data == OperandData::kIgnored) return UHAL_OK;
  return check_data(operand, device, element_bytes, *extent);
}

// Whether an operand is what nearly all are, so that check_operand has nothing to say of it: dense, with elements of a
// dtype that ops compute with, and, if its data matters, in an allocation that this thread saw lately.
inline bool is_usual(const uhal_tensor& t, const uhal_device* device, const RecentBlocks* recent, Extent* extent) {
  static_assert(UHAL_FLOAT8_E4M3FN == UHAL_COMPLEX128 + 1, "dtypes for storage follow those that ops compute with");
  if (t.struct_size < sizeof t || t.dtype <= UHAL_DTYPE_INVALID || t.dtype > UHAL_COMPLEX128) return false;
  if (static_cast<uint32_t>(t.rank) > UHAL_MAX_RANK) return false;
  const int64_t count = dense_count(t);
  if (count < 1 || count > kLargestView / 16) return false;
  const int64_t element_bytes = static_cast<int64_t>(dtype_bytes(t.dtype));
  *extent = extent_of(t, 0, count * element_bytes);
  if (recent == nullptr) return true;
  const uintptr_t beyond_alignment = static_cast<uintptr_t>(element_bytes - 1) & 7;  // as check_data has it
  return (extent->begin & beyond_alignment) == 0 && recent->hold(device, t.data, static_cast<size_t>(extent->bytes()));
}

}  // namespace

__attribute__((hot)) uhal_status validate_op(uhal_device* device, const uhal_op* op, OperandData data, OpView* view) {
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
  if (!is_count_of(row->inputs, op->input_count, op->inputs)) {
    return refuse_counts(*view, "input", op->input_count, op->inputs, row->inputs);
  }
  if (!is_count_of(row->outputs, op->output_count, op->outputs)) {
    return refuse_counts(*view, "output", op->output_count, op->outputs, row->outputs);
  }
  UHAL_EXPECT(check_attributes(view));

  const RecentBlocks* const recent = data == OperandData::kChecked ? &RecentBlocks::of_thread() : nullptr;
  const int inputs = op->input_count;
  const int count = inputs + op->output_count;
  Extent extents[2 * kMaxOperands];  // inputs, then outputs
  for (int i = 0; i < count; ++i) {
    const uhal_tensor* const tensor = i < inputs ? op->inputs[i] : op->outputs[i - inputs];
    if (tensor == nullptr) {
      extents[i] = {0, 0};
      UHAL_EXPECT(check_absence(*view, i));
      continue;
    }
    if (__builtin_expect(is_usual(*tensor, device, recent, &extents[i]), 1)) continue;
    UHAL_EXPECT(check_operand(operand_of(*view, i), device, data, view, &extents[i]));
  }
  for (int i = inputs; recent != nullptr && i < count; ++i) {
    for (int k = 0; k < i; ++k) {
      if (__builtin_expect(!meet(extents[i], extents[k]), 1)) continue;
      UHAL_EXPECT(check_common_bytes(*view, i, extents[i], k, extents[k]));
    }
  }
  return row->check(*view);
}

}  // namespace unihal::core
