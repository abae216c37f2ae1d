#include "plugins/torch/runtime.h"

#include <array>
#include <atomic>
#include <mutex>

#include "unihal/stream.h"

namespace unihal::pytorch {
namespace {

constexpr int kMaxDevices = 64;
constexpr int kPoolStreams = 32;

struct Device {
  std::atomic<uhal_device*> handle{nullptr};
  std::array<std::atomic<uhal_stream*>, kPoolStreams + 1> streams{};
};

struct State {
  std::string type;
  int count = 0;
  std::array<Device, kMaxDevices> devices;
  std::mutex mutex;
  std::atomic<uint32_t> next_stream{0};
};

// Never destroyed: nothing runs at exit.
State& state() {
  static auto* instance = new State;
  return *instance;
}

thread_local c10::DeviceIndex this_device = 0;
thread_local std::array<uint8_t, kMaxDevices> this_streams{};

}  // namespace

void raise(uhal_status status) {
  const std::string message = uhal_last_error()->message;
  switch (status) {
    case UHAL_RESOURCE_EXHAUSTED:
      TORCH_CHECK_WITH(OutOfMemoryError, false, message);
    case UHAL_UNIMPLEMENTED:
      TORCH_CHECK_NOT_IMPLEMENTED(false, message);
    case UHAL_OUT_OF_RANGE:
      TORCH_CHECK_INDEX(false, message);
    default:
      TORCH_CHECK(false, message);
  }
  __builtin_unreachable();
}

void set_device_type(const char* name, int count) {
  state().type = name;
  state().count = std::min(count, kMaxDevices);
}

const char* device_type() { return state().type.c_str(); }

c10::DeviceIndex device_count() { return static_cast<c10::DeviceIndex>(state().count); }

uhal_device* device(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < state().count, "There is no device ", device_type(), ":", static_cast<int>(index),
              "; there are ", state().count, ".");
  std::atomic<uhal_device*>& slot = state().devices[index].handle;
  uhal_device* handle = slot.load(std::memory_order_acquire);
  if (C10_UNLIKELY(handle == nullptr)) {
    check(uhal_device_get(device_type(), index, &handle));
    slot.store(handle, std::memory_order_release);
  }
  return handle;
}

c10::DeviceIndex current_device() { return this_device; }

void set_current_device(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < state().count, "There is no device ", device_type(), ":", static_cast<int>(index),
              "; there are ", state().count, ".");
  this_device = index;
}

uhal_stream* stream_handle(c10::DeviceIndex index, c10::StreamId id) {
  if (C10_LIKELY(index >= 0 && index < kMaxDevices && id >= 0 && id <= kPoolStreams)) {
    uhal_stream* const made = state().devices[index].streams[id].load(std::memory_order_acquire);
    if (C10_LIKELY(made != nullptr)) return made;
  }
  uhal_device* const owner = device(index);
  TORCH_CHECK(id >= 0 && id <= kPoolStreams, "There is no stream ", id, " of ", device_type(), ".");
  std::atomic<uhal_stream*>& slot = state().devices[index].streams[id];
  uhal_stream* handle = slot.load(std::memory_order_acquire);
  if (C10_UNLIKELY(handle == nullptr)) {
    std::lock_guard<std::mutex> lock(state().mutex);
    handle = slot.load(std::memory_order_acquire);
    if (handle == nullptr) {
      check(id == 0 ? uhal_device_default_stream(owner, &handle) : uhal_stream_create(owner, &handle));
      slot.store(handle, std::memory_order_release);
    }
  }
  return handle;
}

c10::StreamId current_stream_id(c10::DeviceIndex device) { return this_streams[device]; }

c10::StreamId exchange_stream_id(c10::DeviceIndex device, c10::StreamId id) {
  TORCH_CHECK(id >= 0 && id <= kPoolStreams, "There is no stream ", id, " of ", device_type(), ".");
  const c10::StreamId before = this_streams[device];
  this_streams[device] = static_cast<uint8_t>(id);
  return before;
}

c10::StreamId next_pool_stream() { return 1 + state().next_stream.fetch_add(1) % kPoolStreams; }

}  // namespace unihal::pytorch
