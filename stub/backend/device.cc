#include "stub/backend/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "csrc/backends/common/dtype.h"
#include "stub/common/kernels.h"
#include "stub/lapack/library.h"
#include "stub/onednn/library.h"
#include "stub/vector/compute.h"
#include "unihal/check.h"

namespace unihal::stub {
namespace {

Settings found_settings;

// The instruction set of our own loops, and what matrix products and convolutions run on.
const char* driver() {
  static char text[512];
  static const int length = std::snprintf(text, sizeof text, "%s, %s", vectors().name, onednn_description());
  return length > 0 ? text : vectors().name;
}

// Replaces the host's figures by those of a card.
void describe_profile(const DeviceProfile& profile, uhal_device_properties* all) {
  static char name[sizeof profile.card + 32];
  static const int length = std::snprintf(name, sizeof name, "%s (profile, stub)", profile.card);
  if (length > 0) all->name = name;
  all->vendor = profile.vendor;
  all->compute_units = profile.compute_units;
  all->wavefront_size = profile.wavefront_size;
  all->clock_megahertz = profile.clock_megahertz;
  all->local_memory = profile.local_memory;
  all->peak_gigaflops_float32 = profile.peak_gigaflops_float32;
  all->peak_gigabytes_per_second = profile.peak_gigabytes_per_second;
  all->launch_nanoseconds = profile.launch_nanoseconds;
  all->figures_are_of = UHAL_FIGURES_OF_PROFILE;
}

}  // namespace

const Settings& settings() { return found_settings; }

bool wants_strict_mode() {
  const char* mode = std::getenv("UNIHAL_STUB");
  return mode != nullptr && std::strcmp(mode, "strict") == 0;
}

uhal_status take_memory(uhal_backend_device* device, size_t bytes) {
  if (bytes > settings().max_allocation && bytes <= device->memory) {
    return fail(UHAL_RESOURCE_EXHAUSTED,
                "stub device %d gives at most %llu bytes in one allocation, as the card of its profile does; %zu were "
                "asked for. Use several smaller ones.",
                device->ordinal, static_cast<unsigned long long>(settings().max_allocation), bytes);
  }
  uint64_t used = device->used.load(std::memory_order_relaxed);
  do {
    if (used > device->memory || bytes > device->memory - used) {
      return fail(UHAL_RESOURCE_EXHAUSTED,
                  "stub device %d is out of memory: %zu bytes asked for, %llu of %llu in use. UNIHAL_STUB_MEMORY or "
                  "UNIHAL_STUB_PROFILE sets its size.",
                  device->ordinal, bytes, static_cast<unsigned long long>(used),
                  static_cast<unsigned long long>(device->memory));
    }
  } while (!device->used.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return UHAL_OK;
}

void give_memory(uhal_backend_device* device, size_t bytes) {
  device->used.fetch_sub(bytes, std::memory_order_relaxed);
}

uhal_status fail_without_host_memory(const char* what) {
  return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for %s", what);
}

uhal_status device_count(int32_t* count) {
  const uhal_status status = read_settings(&found_settings);
  if (status != UHAL_OK) return status;
  if (*onednn_refusal() != '\0') return fail(UHAL_INVALID_ARGUMENT, "%s", onednn_refusal());
  if (*lapack_refusal() != '\0') return fail(UHAL_INVALID_ARGUMENT, "%s", lapack_refusal());
  *count = settings().devices;
  return UHAL_OK;
}

uhal_status device_open(int32_t ordinal, uhal_backend_device** device) {
  *device = new (std::nothrow) uhal_backend_device{ordinal, settings().memory};
  return *device != nullptr ? UHAL_OK : fail_without_host_memory("the stub's device record");
}

uhal_status device_properties(uhal_backend_device* device, uhal_device_properties* properties) {
  uhal_device_properties all = {};
  all.name = settings().strict ? "unihal stub (strict)" : "unihal stub (host memory)";
  all.vendor = "unihal";
  all.driver = driver();
  all.pci_bus_id = "";
  all.compute_units = static_cast<int32_t>(std::thread::hardware_concurrency());
  all.wavefront_size = 1;
  all.is_stub = 1;
  all.unified_memory = settings().strict ? 0 : 1;
  all.total_memory = device->memory;
  all.max_allocation = settings().max_allocation;
  if (settings().has_profile) describe_profile(settings().profile, &all);
  for (uhal_dtype dtype = UHAL_BOOL; dtype < UHAL_DTYPE_COUNT; ++dtype) {
    if (is_real(dtype) || is_complex(dtype)) all.supported_dtypes |= uint64_t{1} << dtype;
  }
  if (settings().strict) all.checks = UHAL_CHECK_RACES | UHAL_CHECK_MEMORY;
  // The core's struct may be older and shorter; struct_size and the three fields it fills itself stay as they are.
  all.struct_size = properties->struct_size;
  all.device_type = properties->device_type;
  all.backend = properties->backend;
  all.ordinal = properties->ordinal;
  std::memcpy(properties, &all, std::min(properties->struct_size, sizeof all));
  return UHAL_OK;
}

uhal_status memory_info(uhal_backend_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  *total_bytes = device->memory;
  *free_bytes = device->memory - device->used.load(std::memory_order_relaxed);
  return UHAL_OK;
}

}  // namespace unihal::stub
