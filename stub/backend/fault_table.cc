#include "stub/backend/fault_table.h"

#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "csrc/backends/common/op_names.h"
#include "stub/backend/faults.h"
#include "stub/common/kernels.h"

namespace unihal::stub {
namespace {

const uhal_backend* inner = nullptr;

// The core's handle of each stream, to which asynchronous errors stick. What a backend's stream looks like inside is
// its mode's own business.
struct Owners {
  std::mutex mutex;
  std::unordered_map<uhal_backend_stream*, uhal_stream*> handles;
};

Owners& owners() {
  static Owners* const instance = new Owners;
  return *instance;
}

uhal_stream* owner_of(uhal_backend_stream* stream) {
  std::lock_guard<std::mutex> lock(owners().mutex);
  return owners().handles[stream];
}

bool has_rules() { return has_fault_rules.load(std::memory_order_relaxed); }

uhal_status report(const Fault& fault) {
  if (fault.status != UHAL_OK) host().report(fault.status, 0, nullptr, fault.message.c_str());
  return fault.status;
}

// The failure of a call that is no work: of an allocation, or of any call on a lost device.
uhal_status injected(FaultTarget target) {
  if (!has_rules()) return UHAL_OK;
  try {
    return report(next_fault(target, nullptr));
  } catch (const std::bad_alloc&) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for the message of an injected fault");
  }
}

// The failure of a piece of work. *skipped: the call succeeds, the work is left out, and the stream has the error.
uhal_status injected_work(FaultTarget target, uhal_backend_stream* stream, const uhal_op* op, bool* skipped) {
  *skipped = false;
  if (!has_rules()) return UHAL_OK;
  try {
    const Fault fault = next_fault(target, op);
    if (!fault.asynchronous) return report(fault);
    *skipped = true;
    const std::string name = op != nullptr ? op_name(*op) : "copy";
    host().stream_error(owner_of(stream), fault.status, name.c_str(), fault.message.c_str());
    return UHAL_OK;
  } catch (const std::bad_alloc&) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for the message of an injected fault");
  }
}

// A slot that fails on a lost device only.
template <auto slot, class... Arguments>
uhal_status unless_lost(Arguments... arguments) {
  const uhal_status lost = injected(FaultTarget::kDevice);
  return lost != UHAL_OK ? lost : (inner->*slot)(arguments...);
}

// The same for slots that wait: they wait on a lost device, too, so that what was submitted has ended when its memory
// is freed.
template <auto slot, class... Arguments>
uhal_status wait_unless_lost(Arguments... arguments) {
  const uhal_status status = (inner->*slot)(arguments...);
  const uhal_status lost = injected(FaultTarget::kDevice);
  return lost != UHAL_OK ? lost : status;
}

// The rules of the environment apply from the first use of the backend.
uhal_status device_count(int32_t* count) {
  const uhal_status status = install_fault_rules_of_environment();
  return status != UHAL_OK ? status : inner->device_count(count);
}

uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  *pointer = nullptr;
  if (uhal_status status = injected(FaultTarget::kAllocation); status != UHAL_OK) return status;
  return inner->allocate(device, kind, bytes, pointer);
}

uhal_status stream_create(uhal_backend_device* device, uhal_stream* owner, uhal_backend_stream** stream) {
  if (uhal_status status = injected(FaultTarget::kDevice); status != UHAL_OK) return status;
  if (uhal_status status = inner->stream_create(device, owner, stream); status != UHAL_OK) return status;
  try {
    std::lock_guard<std::mutex> lock(owners().mutex);
    owners().handles[*stream] = owner;
    return UHAL_OK;
  } catch (const std::bad_alloc&) {
    static_cast<void>(inner->stream_destroy(*stream));
    return fail(UHAL_RESOURCE_EXHAUSTED, "no host memory for a stream");
  }
}

uhal_status stream_destroy(uhal_backend_stream* stream) {
  {
    std::lock_guard<std::mutex> lock(owners().mutex);
    owners().handles.erase(stream);
  }
  return inner->stream_destroy(stream);
}

uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes,
                 uhal_copy_kind kind) {
  bool skipped = false;
  const uhal_status status = injected_work(FaultTarget::kCopy, stream, nullptr, &skipped);
  return status != UHAL_OK || skipped ? status : inner->copy(stream, destination, source, bytes, kind);
}

uhal_status fill(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                 size_t bytes) {
  bool skipped = false;
  const uhal_status status = injected_work(FaultTarget::kCopy, stream, nullptr, &skipped);
  return status != UHAL_OK || skipped ? status : inner->fill(stream, destination, pattern, pattern_bytes, bytes);
}

uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  bool skipped = false;
  const uhal_status status = injected_work(FaultTarget::kLaunch, stream, op, &skipped);
  return status != UHAL_OK || skipped ? status : inner->launch(stream, op);
}

const void* extension(const char* name, uint32_t version) {
  const bool known = std::strcmp(name, UHAL_FAULT_INJECTION_NAME) == 0 && version == UHAL_FAULT_INJECTION_VERSION;
  if (known) return &kFaultInjection;
  return inner->extension != nullptr ? inner->extension(name, version) : nullptr;
}

// Slots that give something back pass, so that a program can clean up after a lost device.
constexpr struct Passes {
} free, event_destroy, finalize;
constexpr struct UnlessLost {
} device_open, device_properties, memory_info, stream_wait_event, event_create, event_record, event_elapsed, supports,
    host_callback;
constexpr struct WaitUnlessLost {
} stream_query, stream_synchronize, event_query, event_synchronize;

template <auto slot, class Function>
void fill_slot(Function* function, Passes) {
  *function = inner->*slot;
}
template <auto slot, class Function>
void fill_slot(Function* function, UnlessLost) {
  *function = unless_lost<slot>;
}
template <auto slot, class Function>
void fill_slot(Function* function, WaitUnlessLost) {
  *function = wait_unless_lost<slot>;
}
template <auto slot, class Function>
void fill_slot(Function* function, Function own) {
  *function = own;
}

}  // namespace

uhal_status fail_if_lost() { return injected(FaultTarget::kDevice); }

const uhal_backend* with_faults(const uhal_backend& table) {
  static uhal_backend outer;
  inner = &table;
  outer = table;
#define UHAL_BACKEND_SLOT(slot, ...) fill_slot<&uhal_backend::slot>(&outer.slot, slot);
#include "csrc/tables/backend_slots.def"
  return &outer;
}

}  // namespace unihal::stub
