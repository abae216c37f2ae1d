// An open device and what belongs to it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/core/backend/backend.h"
#include "csrc/core/backend/device_types.h"

struct uhal_launch_group;

namespace unihal::core {
class AllocationLog;
class Allocator;
}  // namespace unihal::core

// Never destroyed: equal pointers are equal devices for the life of the process.
struct alignas(64) uhal_device {
  // What every launch reads, in a line of the cache. The slot is the table's.
  uhal_status (*launch)(uhal_backend_stream* stream, const uhal_op* op) = nullptr;
  bool checks_races = false;    // properties.checks
  bool checks_finite = false;   // UNIHAL_CHECK_NAN
  bool is_of_this_abi = false;  // the backend knows all that this core does

  const uhal_launch_group* launch_group = nullptr;  // the backend's extension; nullptr: it has none

  const unihal::core::DeviceTypeRow* type = nullptr;
  unihal::core::Backend* backend = nullptr;
  uhal_backend_device* backend_device = nullptr;
  uhal_device_properties properties = {};
  std::string label;  // "rdna:0 (stub)"

  std::mutex mutex;                   // guards the fields below
  std::vector<uhal_stream*> streams;  // live ones
  uhal_stream* default_stream = nullptr;

  unihal::core::Allocator& allocator(uhal_memory_kind kind) { return *allocators[kind]; }
  unihal::core::Allocator* allocators[UHAL_MEMORY_KIND_COUNT] = {};

  unihal::core::AllocationLog* allocation_log = nullptr;  // with UHAL_CHECK_MEMORY
};

namespace unihal::core {

// All devices that were opened, in order of opening. They live as long as the process.
std::vector<uhal_device*> open_devices();

// The registry opened a device.
void add_open_device(uhal_device* device);

// UHAL_INVALID_ARGUMENT about a NULL device.
__attribute__((cold)) uhal_status refuse_null_device();

// Adds the device to a failed status's record.
__attribute__((cold)) uhal_status with_device(const uhal_device& device, uhal_status status);

}  // namespace unihal::core
