#include "csrc/kernels/ops.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/space.h"
#include "csrc/kernels/map_chain.h"

namespace unihal::kernels {
namespace {

const uhal_host* the_host = nullptr;

constexpr OpRow kOpRows[] = {
#define UHAL_OP_KIND(number, KIND, name, family, ...) {UHAL_OP_##KIND, refuse_##family, run_##family},
#include "csrc/tables/op_kinds.def"
};

// The rows by kind, so that a launch finds its own without a search.
struct Index {
  const OpRow* rows[UHAL_OP_KIND_LIMIT] = {};
  constexpr Index() {
    for (const OpRow& row : kOpRows) rows[row.kind] = &row;
  }
};
constexpr Index kIndex;

// The row of an op that the device takes; else nullptr, with the reason.
const OpRow* find(const DeviceTraits& traits, const uhal_op& op, const char** reason) {
  const OpRow* row = op.kind > 0 && op.kind < UHAL_OP_KIND_LIMIT ? kIndex.rows[op.kind] : nullptr;
  if (row == nullptr) {
    *reason = refusal("there is no kernel for op kind %d", op.kind);
    return nullptr;
  }
  *reason = refuse_dtypes(traits, op);
  if (*reason == nullptr) *reason = row->refuse(traits, op);
  return *reason == nullptr ? row : nullptr;
}

const uhal_tensor* operand(const uhal_op& op, int i) {
  return i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
}

// A view without elements may have any address (tensor.h), and drivers take none but those of their memory.
bool has_idle_address(const uhal_tensor* view) {
  if (view == nullptr || view->data == nullptr) return false;
  const int64_t* const end = view->shape + view->rank;
  return std::find(view->shape, end, 0) != end;
}

bool has_idle_addresses(const uhal_op& op) {
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    if (has_idle_address(operand(op, i))) return true;
  }
  return false;
}

// Runs an op with NULL in the place of those addresses.
uhal_status run_without_idle_addresses(Queue& queue, const OpRow& row, const uhal_op& op) {
  uhal_tensor views[kMaxOperands];
  const uhal_tensor* operands[kMaxOperands];
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    operands[i] = operand(op, i);
    if (!has_idle_address(operands[i])) continue;
    views[i] = *operands[i];
    views[i].data = nullptr;
    operands[i] = &views[i];
  }
  uhal_op same = op;
  same.inputs = operands;
  same.outputs = operands + op.input_count;
  return row.run(queue, same);
}

}  // namespace

void set_host(const uhal_host* host) { the_host = host; }

const uhal_host& host() { return *the_host; }

const char* refusal(const char* format, ...) {
  thread_local char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

uhal_status fail(uhal_status status, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  host().report(status, 0, nullptr, text);
  return status;
}

const char* refuse_dtypes(const DeviceTraits& traits, const uhal_op& op) {
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    const uhal_tensor* const view = operand(op, i);
    if (view != nullptr && (traits.dtypes >> view->dtype & 1) == 0) {
      return refusal("the device has no %s", dtype_name(view->dtype));
    }
  }
  return nullptr;
}

uhal_status supports(const DeviceTraits& traits, const uhal_op& op) {
  const char* reason;
  return find(traits, op, &reason) != nullptr ? UHAL_OK : fail(UHAL_UNIMPLEMENTED, "%s", reason);
}

__attribute__((hot)) uhal_status launch(Queue& queue, const uhal_op& op) {
  if (MapPlan* plan = queue.map_plans().find(op)) return run_map_plan(queue, *plan, op);
  const char* reason;
  const OpRow* row = find(queue.traits(), op, &reason);
  if (row == nullptr) return fail(UHAL_UNIMPLEMENTED, "%s", reason);
  return has_idle_addresses(op) ? run_without_idle_addresses(queue, *row, op) : row->run(queue, op);
}

}  // namespace unihal::kernels
