#include <cstdint>
#include "csrc/core/base/process_state.h"
#include "csrc/core/base/struct_size.h"
#include "csrc/core/check/allocation_log.h"
#include "csrc/core/check/call_site.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/memory/capture.h"
#include "csrc/core/memory/live_range.h"
#include "unihal/memory.h"

namespace unihal::core {
namespace {

uhal_status refuse_kind(uhal_memory_kind kind) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "There is no memory kind %d; they are 0 (device), 1 (pinned) and 2 (managed).", kind);
}

// Pins the stream that an allocation is made or freed for, which must be one of the device's.
uhal_status check_stream(const PinnedStream& stream, uhal_stream* handle, const uhal_device* device) {
  if (handle == nullptr) return UHAL_OK;
  if (!stream) return refuse_stream(handle);
  if (stream->device == device) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "The stream belongs to device %s, not to %s; use a stream of the same device.",
                   stream->device->label.c_str(), device->label.c_str());
}

uhal_status refuse_free(uhal_device* device, const void* pointer) {
  for (uhal_device* other : open_devices()) {
    for (Allocator* allocator : other->allocators) {
      LiveBlock live;
      if (!allocator->find(pointer, &live)) continue;
      if (other != device) {
        return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The address %p belongs to device %s; free it there, not on %s.",
                         pointer, other->label.c_str(), device->label.c_str());
      }
      UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                "The address %p lies %td bytes inside an allocation of %zu bytes at %p; free its start.", pointer,
                static_cast<const char*>(pointer) - live.base, live.bytes, static_cast<void*>(live.base));
      append_history(*device, pointer);
      return UHAL_INVALID_ARGUMENT;
    }
  }
  UHAL_FAIL(UHAL_INVALID_ARGUMENT,
            "The address %p is not a live allocation of %s; it was freed already, or never came from uhal_allocate.",
            pointer, device->label.c_str());
  append_history(*device, pointer);
  return UHAL_INVALID_ARGUMENT;
}

// Memory for a capturing stream is the graph's.
uhal_status allocate(Allocator* allocator, uhal_memory_kind kind, Stream* stream, size_t bytes, void** pointer) {
  if (stream != nullptr && stream->is_capturing()) {
    std::lock_guard<SubmissionLock> lock(stream->submission);
    if (Capture* capture = stream->capture.load()) {
      return allocator->allocate(stream, bytes, Allocator::Wait::kNever, pointer, &capture->blocks[kind]);
    }
  }
  const Allocator::Wait wait = in_host_callback() ? Allocator::Wait::kNever : Allocator::Wait::kAllowed;
  return allocator->allocate(stream, bytes, wait, pointer);
}

bool free_block(Allocator* allocator, uhal_memory_kind kind, Stream* stream, void* pointer) {
  if (stream != nullptr && stream->is_capturing()) {
    std::lock_guard<SubmissionLock> lock(stream->submission);
    if (Capture* capture = stream->capture.load()) return allocator->free(stream, pointer, &capture->blocks[kind]);
  }
  return allocator->free(stream, pointer);
}

// Remembers an allocation. Without host memory for that, it is not made.
void log_allocation(uhal_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  try {
    device->allocation_log->note_allocation(*pointer, bytes, kind, call_site());
  } catch (...) {
    device->allocator(kind).free(nullptr, *pointer);
    *pointer = nullptr;
    throw;
  }
}

}  // namespace
}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_allocate(uhal_device* device, uhal_stream* handle, uhal_memory_kind kind, size_t bytes,
                          void** pointer) {
  UHAL_CHECK_PROCESS();
  if (pointer == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "pointer is NULL; pass the place for the address.");
  *pointer = nullptr;
  if (device == nullptr) return refuse_null_device();
  if (kind < 0 || kind >= UHAL_MEMORY_KIND_COUNT) return refuse_kind(kind);
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (uhal_status status = check_stream(stream, handle, device); status != UHAL_OK) return status;
    uhal_status status = allocate(&device->allocator(kind), kind, stream.get(), bytes, pointer);
    if (status == UHAL_OK) note_allocation(*device, *pointer, bytes);
    if (device->allocation_log != nullptr && *pointer != nullptr) log_allocation(device, kind, bytes, pointer);
    return status;
  });
}

uhal_status uhal_free(uhal_device* device, uhal_stream* handle, void* pointer) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (pointer == nullptr) return UHAL_OK;
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (uhal_status status = check_stream(stream, handle, device); status != UHAL_OK) return status;
    // First of all: once it is free, the memory may be another thread's.
    note_free(device, stream.get(), pointer);
    if (device->allocation_log != nullptr) device->allocation_log->note_free(pointer, call_site());
    for (uhal_memory_kind kind = 0; kind < UHAL_MEMORY_KIND_COUNT; ++kind) {
      Allocator* const allocator = &device->allocator(kind);
      if (!free_block(allocator, kind, stream.get(), pointer)) continue;
      allocator->return_passed();
      return UHAL_OK;
    }
    return refuse_free(device, pointer);
  });
}

uhal_status uhal_pointer_query(const void* pointer, uhal_pointer_info* info) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    for (uhal_device* device : open_devices()) {
      for (uhal_memory_kind kind = 0; kind < UHAL_MEMORY_KIND_COUNT; ++kind) {
        LiveBlock live;
        if (!device->allocator(kind).find(pointer, &live)) continue;
        uhal_pointer_info value = {sizeof value, device, live.base, live.bytes, kind};
        return copy_out(value, info, "info");
      }
    }
    return UHAL_FAIL(UHAL_NOT_FOUND, "The address %p lies in no live allocation of any unihal device.", pointer);
  });
}

uhal_status uhal_memory_stats_get(uhal_device* device, uhal_memory_kind kind, uhal_memory_stats* stats) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (kind < 0 || kind >= UHAL_MEMORY_KIND_COUNT) return refuse_kind(kind);
  return guarded([&]() -> uhal_status { return copy_out(device->allocator(kind).stats(), stats, "stats"); });
}

uhal_status uhal_memory_reset_peak(uhal_device* device) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  for (Allocator* allocator : device->allocators) allocator->reset_peak();
  return UHAL_OK;
}

uhal_status uhal_memory_trim(uhal_device* device, size_t keep_bytes, size_t* released) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  return guarded([&]() -> uhal_status {
    size_t total = 0;
    size_t keep = keep_bytes;  // what the kinds before left of it
    for (Allocator* allocator : device->allocators) {
      total += allocator->trim(keep);
      size_t cached = allocator->cached_bytes();
      keep = cached < keep ? keep - cached : 0;
    }
    if (released != nullptr) *released = total;
    return UHAL_OK;
  });
}

uhal_status uhal_memory_set_limit(uhal_device* device, size_t bytes) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  return guarded([&]() -> uhal_status {
    device->allocator(UHAL_MEMORY_DEVICE).set_limit(bytes);
    return UHAL_OK;
  });
}
