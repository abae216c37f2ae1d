// uhal_launch, uhal_supports and uhal_can_run.
#include "csrc/core/base/process_state.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/launch/finite_check.h"
#include "csrc/core/launch/host_run.h"
#include "csrc/core/launch/validate_op.h"
#include "csrc/core/op/cost.h"
#include "csrc/core/op/description.h"
#include "csrc/core/op/new_parts.h"
#include "csrc/core/op/shape_rules.h"
#include "csrc/core/profile/profiler.h"
#include "csrc/core/stream/capture.h"
#include "unihal/op.h"

namespace unihal::core {
namespace {

// Completes the record of a failed op.
__attribute__((cold)) uhal_status describe_failure(const uhal_device& device, const uhal_op* op, uhal_status status) {
  set_error_op(describe_op(op).c_str());
  return with_device(device, status);
}

__attribute__((noinline)) void note_operands(Capture* capture, const uhal_op& op) {
  for (int i = 0; i < op.input_count; ++i) {
    if (op.inputs[i] != nullptr) static_cast<void>(capture->note_use(op.inputs[i]->data));
  }
  for (int i = 0; i < op.output_count; ++i) {
    if (op.outputs[i] != nullptr) static_cast<void>(capture->note_use(op.outputs[i]->data));
  }
}

// A backend that was built before float8 would not know even its size: it gets none of it unless it says that it has.
__attribute__((cold)) uhal_status refuse_float8(const uhal_device& device, const uhal_op& op) {
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
    if (view == nullptr || !is_float8(view->dtype)) continue;
    if ((device.properties.supported_dtypes >> view->dtype & 1) != 0) continue;
    return UHAL_FAIL(UHAL_UNIMPLEMENTED, "The device has no %s.", uhal_dtype_name(view->dtype));
  }
  return UHAL_OK;
}

// Nor what of a kind that it knows is newer than itself, which it would pass over.
__attribute__((cold)) uhal_status refuse_new_parts(const uhal_device& device, const OpView& view) {
  const Backend& backend = *device.backend;
  if (backend.table.abi_minor >= UHAL_ABI_MINOR) return UHAL_OK;
  const NewPart part = newest_part(view);
  if (part.minor <= backend.table.abi_minor) return UHAL_OK;
  return UHAL_FAIL(UHAL_UNIMPLEMENTED, "%s: the backend %s was built for ABI %d.%u, and %s came with %d.%u; update it.",
                   view.row->name, backend.name.c_str(), UHAL_ABI_MAJOR, backend.table.abi_minor, part.what,
                   UHAL_ABI_MAJOR, part.minor);
}

__attribute__((cold)) uhal_status look_for_unknown(const uhal_device& device, const OpView& view) {
  const uhal_status status = view.has_float8 ? refuse_float8(device, *view.op) : UHAL_OK;
  return status == UHAL_OK ? refuse_new_parts(device, view) : status;
}

// A backend of this ABI knows all but what its device may lack.
uhal_status refuse_unknown(const uhal_device& device, const OpView& view) {
  if (__builtin_expect(!view.has_float8 && device.is_of_this_abi, 1)) return UHAL_OK;
  return look_for_unknown(device, view);
}

// `serial` is error_serial() of now.
uhal_status submit(Stream* stream, const OpView& view, uint64_t serial) {
  const uhal_device& device = *stream->device;
  if (uhal_status refused = refuse_unknown(device, view); refused != UHAL_OK) return refused;
  uhal_op defaulted;
  const uhal_op* op = view.op;
  if (__builtin_expect(op->attributes != view.attributes, 0)) {
    // Backends always get the kind's attributes, so that the defaults are written down once.
    defaulted = *op;
    defaulted.attributes = view.attributes;
    op = &defaulted;
  }
  TrackedWork tracked(stream, view);
  std::lock_guard<SubmissionLock> lock(stream->submission);
  if (__builtin_expect(stream->is_capturing(), 0)) note_operands(stream->capture.load(std::memory_order_relaxed), *op);
  ProfiledWork profiled(stream, view);
  uhal_status status = device.launch(stream->backend_stream, op);
  if (__builtin_expect(status == UHAL_OK, 1)) {
    tracked.submitted();
    if (__builtin_expect(stream->is_capturing(), 0)) count_captured(*stream, op_bytes(*op), view.row->flops(view));
  } else {
    profiled.drop();
    status = finish_backend_failure(*device.backend, "launch", status, serial);
  }
  return status;
}

uhal_status backend_supports(const uhal_device& device, const OpView& view) {
  if (uhal_status refused = refuse_unknown(device, view); refused != UHAL_OK) return refused;
  uhal_op complete = *view.op;
  complete.attributes = view.attributes;
  const Backend& backend = *device.backend;
  return call_backend(backend, "supports", backend.table.supports, device.backend_device,
                      static_cast<const uhal_op*>(&complete));
}

}  // namespace
}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_supports(uhal_device* device, const uhal_op* op) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  return guarded([&]() -> uhal_status {
    OpView view;
    uhal_status status = validate_op(device, op, OperandData::kIgnored, &view);
    if (status == UHAL_OK) status = backend_supports(*device, view);
    return status == UHAL_OK ? UHAL_OK : describe_failure(*device, op, status);
  });
}

uhal_status uhal_can_run(uhal_device* device, const uhal_op* op, int32_t* on_host) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  return guarded([&]() -> uhal_status {
    const uint64_t serial = error_serial();
    OpView view;
    bool refused = false;
    uhal_status status = validate_op(device, op, OperandData::kIgnored, &view);
    if (status == UHAL_OK) {
      status = backend_supports(*device, view);
      refused = status == UHAL_UNIMPLEMENTED;
      if (refused) status = host_supports(*device, view, serial);
    }
    if (status == UHAL_OK && on_host != nullptr) *on_host = refused ? 1 : 0;
    return status == UHAL_OK ? UHAL_OK : describe_failure(*device, op, status);
  });
}

// Hot, here and in what it calls: such functions lie beside one another, in few pages.
__attribute__((hot)) uhal_status uhal_launch(uhal_stream* handle, const uhal_op* op) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    OpView view;
    uhal_status status = validate_op(stream->device, op, OperandData::kChecked, &view);
    if (status == UHAL_OK) {
      const uint64_t serial = error_serial();
      status = submit(stream.get(), view, serial);
      if (status == UHAL_UNIMPLEMENTED) status = run_on_host(stream.get(), view, serial);
    }
    // A host callback could not wait for the outputs.
    if (status == UHAL_OK && stream->device->checks_finite && !in_host_callback())
      status = check_outputs_finite(stream.get(), view);
    return status == UHAL_OK ? UHAL_OK : describe_failure(*stream->device, op, status);
  });
}
