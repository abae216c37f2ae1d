// Copies and fills.
#include <cstdlib>
#include <memory>

#include "csrc/core/base/process_state.h"
#include "csrc/core/check/allocation_log.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/memory/host_memory.h"
#include "csrc/core/memory/live_range.h"
#include "csrc/core/profile/profiler.h"
#include "csrc/core/stream/capture.h"
#include "csrc/core/stream/wait.h"
#include "unihal/memory.h"
#include "unihal/peer_copy.h"

namespace unihal::core {
namespace {

const char* const kCopyNames[] = {"copy.host_to_device", "copy.device_to_host", "copy.device_to_device"};

// A range of device memory that an operation named `what` touches as its `role`.
uhal_status check_device_range(uhal_device* device, const void* address, size_t bytes, const char* what,
                               const char* role) {
  if (address == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the %s is NULL; pass an address from uhal_allocate.", what, role);
  }
  LiveBlock live;
  switch (check_range(device, address, bytes, &live)) {
    case RangeCheck::kInside:
    case RangeCheck::kWrongKind:  // a copy may well go to or from pinned memory
      return UHAL_OK;
    case RangeCheck::kOutside:
      UHAL_FAIL(UHAL_OUT_OF_RANGE,
                "%s: the %s of %zu bytes at %p reaches beyond its allocation of %zu bytes at %p; copy less, or "
                "allocate more.",
                what, role, bytes, address, live.bytes, static_cast<void*>(live.base));
      break;
    case RangeCheck::kUnknown:
      UHAL_FAIL(
          UHAL_OUT_OF_RANGE,
          "%s: the %s at %p lies in no live allocation of %s%s; pass an address from uhal_allocate of this device "
          "that was not freed.",
          what, role, address, device->label.c_str(), other_owner(*device, address).c_str());
      break;
  }
  append_history(*device, address);
  return with_device(*device, UHAL_OUT_OF_RANGE);
}

uhal_status check_host_range(const void* address, const char* what, const char* role) {
  if (address != nullptr) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the %s is NULL; pass an address in host memory.", what, role);
}

uhal_status submit_copy(Stream* stream, void* destination, const void* source, size_t bytes, uhal_copy_kind kind) {
  uhal_device& device = *stream->device;
  TrackedWork tracked(stream, kCopyNames[kind], destination, source, bytes);
  const uint64_t touched = bytes * (kind == UHAL_COPY_DEVICE_TO_DEVICE ? 2 : 1);
  std::lock_guard<SubmissionLock> lock(stream->submission);
  UHAL_EXPECT(note_captured_range(*stream, destination, kind == UHAL_COPY_DEVICE_TO_HOST));
  UHAL_EXPECT(note_captured_range(*stream, source, kind == UHAL_COPY_HOST_TO_DEVICE));
  ProfiledWork profiled(stream, kCopyNames[kind], touched);
  uhal_status status = call_backend(*device.backend, "copy", device.backend->table.copy, stream->backend_stream,
                                    destination, source, bytes, kind);
  if (status == UHAL_OK) {
    tracked.submitted();
    count_captured(*stream, touched);
  }
  return with_device(device, status);
}

// The backend's own way between two of its devices, or nullptr.
const uhal_peer_copy* peer_copy(const uhal_device& a, const uhal_device& b) {
  if (a.backend != b.backend || a.backend->table.extension == nullptr) return nullptr;
  return static_cast<const uhal_peer_copy*>(a.backend->table.extension(UHAL_PEER_COPY_NAME, UHAL_PEER_COPY_VERSION));
}

uhal_status submit_peer_copy(const uhal_peer_copy& table, Stream* stream, uhal_device& destination_device,
                             void* destination, uhal_device& source_device, const void* source, size_t bytes) {
  uhal_device& device = *stream->device;
  // The race checker follows one device's memory; both ends were waited for.
  std::lock_guard<SubmissionLock> lock(stream->submission);
  ProfiledWork profiled(stream, "copy.between_devices", bytes * 2);
  const uhal_status status =
      call_backend(*device.backend, "peer_copy", table.copy, stream->backend_stream, destination_device.backend_device,
                   destination, source_device.backend_device, source, bytes);
  return with_device(device, status);
}

// Device to device of different devices, through host memory.
uhal_status copy_through_host(uhal_device* destination_device, void* destination, uhal_device* source_device,
                              const void* source, size_t bytes) {
  uhal_stream* handles[2];
  if (uhal_status status = uhal_device_default_stream(source_device, &handles[0]); status != UHAL_OK) return status;
  if (uhal_status status = uhal_device_default_stream(destination_device, &handles[1]); status != UHAL_OK)
    return status;
  PinnedStream from(stream_pool(), handles[0]);
  PinnedStream to(stream_pool(), handles[1]);
  if (!from || !to) return refuse_stream(!from ? handles[0] : handles[1]);
  size_t chunk = bytes < (size_t{16} << 20) ? bytes : size_t{16} << 20;
  std::unique_ptr<void, FreeHostMemory> staging(malloc(chunk));
  if (staging == nullptr) throw std::bad_alloc();
  for (size_t done = 0; done < bytes; done += chunk) {
    size_t part = bytes - done < chunk ? bytes - done : chunk;
    uhal_status status =
        submit_copy(from.get(), staging.get(), static_cast<const char*>(source) + done, part, UHAL_COPY_DEVICE_TO_HOST);
    if (status == UHAL_OK) status = synchronize(from.get());
    if (status == UHAL_OK) {
      status =
          submit_copy(to.get(), static_cast<char*>(destination) + done, staging.get(), part, UHAL_COPY_HOST_TO_DEVICE);
    }
    if (status == UHAL_OK) status = synchronize(to.get());
    if (status != UHAL_OK) return status;
  }
  return UHAL_OK;
}

}  // namespace
}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_copy(uhal_stream* handle, void* destination, const void* source, size_t bytes, uhal_copy_kind kind) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    if (kind < UHAL_COPY_HOST_TO_DEVICE || kind > UHAL_COPY_DEVICE_TO_DEVICE) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "There is no copy kind %d; they are 0 (host to device), 1 (device to host) and 2 (device to "
                       "device).",
                       kind);
    }
    if (bytes == 0) return UHAL_OK;
    uhal_device* device = stream->device;
    const char* what = kCopyNames[kind];
    uhal_status status = kind == UHAL_COPY_DEVICE_TO_HOST
                             ? check_host_range(destination, what, "destination")
                             : check_device_range(device, destination, bytes, what, "destination");
    if (status != UHAL_OK) return status;
    status = kind == UHAL_COPY_HOST_TO_DEVICE ? check_host_range(source, what, "source")
                                              : check_device_range(device, source, bytes, what, "source");
    if (status != UHAL_OK) return status;
    const char* to = static_cast<const char*>(destination);
    const char* from = static_cast<const char*>(source);
    if (to < from + bytes && from < to + bytes) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "%s: source %p and destination %p overlap within %zu bytes; copy by way of "
                       "other memory.",
                       what, source, destination, bytes);
    }
    return submit_copy(stream.get(), destination, source, bytes, kind);
  });
}

uhal_status uhal_copy_peer(uhal_stream* handle, uhal_device* destination_device, void* destination,
                           uhal_device* source_device, const void* source, size_t bytes) {
  UHAL_CHECK_PROCESS();
  if (destination_device == nullptr || source_device == nullptr) return refuse_null_device();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    if (stream->device != destination_device && stream->device != source_device) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The stream belongs to device %s, which is neither %s nor %s.",
                       stream->device->label.c_str(), destination_device->label.c_str(), source_device->label.c_str());
    }
    if (bytes == 0) return UHAL_OK;
    uhal_status status =
        check_device_range(destination_device, destination, bytes, "copy between devices", "destination");
    if (status == UHAL_OK) {
      status = check_device_range(source_device, source, bytes, "copy between devices", "source");
    }
    if (status != UHAL_OK) return status;
    UHAL_EXPECT(refuse_wait_in_callback("uhal_copy_peer"));
    UHAL_EXPECT(refuse_in_capture(*stream, "A copy between devices, which waits,"));
    if (destination_device->backend_device == source_device->backend_device) {
      status = submit_copy(stream.get(), destination, source, bytes, UHAL_COPY_DEVICE_TO_DEVICE);
      return status != UHAL_OK ? status : synchronize(stream.get());
    }
    // Both ends are in order with the caller's stream: what it submitted before has run, and the copy is
    // done when this returns.
    status = synchronize(stream.get());
    if (status != UHAL_OK) return status;
    if (const uhal_peer_copy* table = peer_copy(*destination_device, *source_device); table != nullptr) {
      status = submit_peer_copy(*table, stream.get(), *destination_device, destination, *source_device, source, bytes);
      if (status != UHAL_UNIMPLEMENTED) return status != UHAL_OK ? status : synchronize(stream.get());
    }
    return copy_through_host(destination_device, destination, source_device, source, bytes);
  });
}

uhal_status uhal_memory_fill(uhal_stream* handle, void* destination, const void* pattern, size_t pattern_bytes,
                             size_t bytes) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    bool power_of_two = (pattern_bytes & (pattern_bytes - 1)) == 0;
    if (pattern == nullptr || pattern_bytes == 0 || pattern_bytes > 16 || !power_of_two || bytes % pattern_bytes != 0) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "fill: a pattern of %zu bytes at %p for %zu bytes; it must have 1, 2, 4, 8 or 16 bytes, and the "
                       "range a multiple of that.",
                       pattern_bytes, pattern, bytes);
    }
    if (bytes == 0) return UHAL_OK;
    uhal_device& device = *stream->device;
    uhal_status status = check_device_range(&device, destination, bytes, "fill", "destination");
    if (status != UHAL_OK) return status;
    TrackedWork tracked(stream.get(), "fill", destination, nullptr, bytes);
    std::lock_guard<SubmissionLock> lock(stream->submission);
    UHAL_EXPECT(note_captured_range(*stream, destination, false));
    ProfiledWork profiled(stream.get(), "fill", bytes);
    status = call_backend(*device.backend, "fill", device.backend->table.fill, stream->backend_stream, destination,
                          pattern, pattern_bytes, bytes);
    if (status == UHAL_OK) {
      tracked.submitted();
      count_captured(*stream, bytes);
    }
    return with_device(device, status);
  });
}
