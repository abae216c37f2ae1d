// What the patches of Paddle's Python side ask (patches/bridge.py). Each returns the reason why there is no answer, or
// ""; the text lives until the thread's next failure.
#include <algorithm>
#include <cstdint>

#include "unihal/device.h"
#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/status.h"

namespace {

const char* answer(uhal_status status) { return status == UHAL_OK ? "" : uhal_last_error()->message; }

}  // namespace

// Bytes of device memory that an allocation may still take (what is cached counts as free), and all of them.
extern "C" __attribute__((visibility("default"))) const char* uhal_paddle_memory(const char* device_type,
                                                                                 int32_t ordinal, int64_t* free_bytes,
                                                                                 int64_t* total_bytes) {
  uhal_device* device = nullptr;
  uhal_memory_stats stats = {};
  stats.struct_size = sizeof stats;
  uhal_status status = uhal_device_get(device_type, ordinal, &device);
  if (status == UHAL_OK) status = uhal_memory_stats_get(device, UHAL_MEMORY_DEVICE, &stats);
  if (status != UHAL_OK) return answer(status);
  const uint64_t total = stats.limit_bytes != 0 ? std::min(stats.limit_bytes, stats.total_bytes) : stats.total_bytes;
  *total_bytes = static_cast<int64_t>(total);
  *free_bytes = static_cast<int64_t>(total - std::min(total, stats.allocated_bytes));
  return "";
}

extern "C" __attribute__((visibility("default"))) const char* uhal_paddle_elapsed_nanoseconds(uhal_event* start,
                                                                                              uhal_event* end,
                                                                                              int64_t* nanoseconds) {
  return answer(uhal_event_elapsed_nanoseconds(start, end, nanoseconds));
}

// Whether the host may read and write the device's memory.
extern "C" __attribute__((visibility("default"))) const char* uhal_paddle_host_reaches(const char* device_type,
                                                                                       int32_t ordinal, int64_t* yes) {
  uhal_device* device = nullptr;
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  uhal_status status = uhal_device_get(device_type, ordinal, &device);
  if (status == UHAL_OK) status = uhal_device_properties_get(device, &properties);
  *yes = status == UHAL_OK && properties.unified_memory != 0;
  return answer(status);
}
