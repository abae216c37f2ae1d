#include "csrc/backends/opencl/memory.h"

#include <algorithm>

#include "csrc/backends/opencl/address_space.h"
#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/device_info.h"
#include "csrc/backends/opencl/status.h"
#include "csrc/kernels/ops.h"

namespace unihal::opencl {
namespace {

using kernels::fail;

constexpr size_t kAlignment = 256;

// Enough for the memory of a host full of devices several times over, so that freed addresses stay unused for long.
constexpr size_t kReservation = size_t{16} << 40;

}  // namespace

Memory::~Memory() {
  if (queue_ != nullptr) api.clReleaseCommandQueue(queue_);
}

uhal_status Memory::open() {
  const std::string refusal = AddressSpace::instance().open(kReservation);
  if (!refusal.empty()) return fail(UHAL_RESOURCE_EXHAUSTED, "%s", refusal.c_str());
  cl_int code = CL_SUCCESS;
  queue_ = api.clCreateCommandQueue(device_.context, device_.id, 0, &code);
  if (queue_ == nullptr) return fail_native(code, "%s gives no command queue", device_.name.c_str());
  return UHAL_OK;
}

uhal_status Memory::allocate(uhal_memory_kind kind, size_t bytes, void** pointer) {
  *pointer = nullptr;
  switch (kind) {
    case UHAL_MEMORY_DEVICE:
      return allocate_device(bytes, pointer);
    case UHAL_MEMORY_PINNED:
      return allocate_pinned(bytes, pointer);
    default:
      return fail(UHAL_UNIMPLEMENTED,
                  "the opencl backend has no managed memory: OpenCL 1.2 has no addresses that are the same on both "
                  "sides. Use device memory and copies");
  }
}

uhal_status Memory::free(uhal_memory_kind kind, void* pointer, size_t) {
  return kind == UHAL_MEMORY_DEVICE ? free_device(pointer) : free_pinned(pointer);
}

uhal_status Memory::refuse_size(size_t bytes) const {
  return fail(UHAL_RESOURCE_EXHAUSTED,
              "%s gives at most %llu bytes in one buffer (CL_DEVICE_MAX_MEM_ALLOC_SIZE); %llu were asked for. Use "
              "several smaller ones",
              device_.name.c_str(), number(device_.max_allocation), number(bytes));
}

uhal_status Memory::out_of_memory(cl_int code, size_t bytes, const char* what) const {
  return fail_native(code, "%s gives no %llu bytes of %s; %llu of %llu bytes of device memory are in use",
                     device_.name.c_str(), number(bytes), what, number(used_.load()), number(device_.total_memory));
}

uhal_status Memory::allocate_device(size_t bytes, void** pointer) {
  if (bytes > device_.max_allocation) return refuse_size(bytes);
  const uint64_t used = used_.fetch_add(bytes) + bytes;
  if (used > device_.total_memory) {  // a driver may swap to the host's memory instead of failing
    used_.fetch_sub(bytes);
    return fail(UHAL_RESOURCE_EXHAUSTED, "%s is out of memory: %llu bytes asked for, %llu of %llu in use",
                device_.name.c_str(), number(bytes), number(used - bytes), number(device_.total_memory));
  }
  cl_int code = CL_SUCCESS;
  const cl_mem buffer = api.clCreateBuffer(device_.context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
  if (buffer != nullptr) {
    // Drivers make a buffer at its first use, which should fail here and not in somebody's kernel.
    const unsigned char zero = 0;
    std::lock_guard<std::mutex> lock(mutex_);
    code = api.clEnqueueFillBuffer(queue_, buffer, &zero, 1, 0, 1, 0, nullptr, nullptr);
    if (code == CL_SUCCESS) code = api.clFinish(queue_);
  }
  if (code == CL_SUCCESS) *pointer = AddressSpace::instance().insert(buffer, bytes);
  if (*pointer != nullptr) return UHAL_OK;
  if (buffer != nullptr) api.clReleaseMemObject(buffer);
  used_.fetch_sub(bytes);
  if (code != CL_SUCCESS) return out_of_memory(code, bytes, "device memory");
  return fail(UHAL_RESOURCE_EXHAUSTED,
              "no contiguous addresses are left for %llu bytes of %s; %llu are reserved in all", number(bytes),
              device_.name.c_str(), number(AddressSpace::instance().size()));
}

uhal_status Memory::free_device(void* pointer) {
  Allocation allocation;
  if (!AddressSpace::instance().remove(pointer, &allocation)) {
    return fail(UHAL_INVALID_ARGUMENT, "%p is no allocation of the opencl backend", pointer);
  }
  used_.fetch_sub(allocation.bytes);
  const cl_int code = api.clReleaseMemObject(allocation.buffer);
  return code == CL_SUCCESS ? UHAL_OK : fail_native(code, "%s does not take memory back", device_.name.c_str());
}

uhal_status Memory::allocate_pinned(size_t bytes, void** pointer) {
  const size_t padded = bytes + kAlignment;  // a mapping is aligned as the driver likes
  if (padded > device_.max_allocation) return refuse_size(bytes);
  cl_int code = CL_SUCCESS;
  const cl_mem buffer =
      api.clCreateBuffer(device_.context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, padded, nullptr, &code);
  if (buffer == nullptr) return out_of_memory(code, bytes, "pinned host memory");
  std::lock_guard<std::mutex> lock(mutex_);
  void* const mapped = api.clEnqueueMapBuffer(queue_, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, padded, 0,
                                              nullptr, nullptr, &code);
  if (mapped == nullptr) {
    api.clReleaseMemObject(buffer);
    return out_of_memory(code, bytes, "pinned host memory");
  }
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(mapped) + kAlignment - 1) / kAlignment * kAlignment;
  *pointer = reinterpret_cast<void*>(aligned);
  pinned_.emplace(*pointer, Pinned{buffer, mapped});
  return UHAL_OK;
}

uhal_status Memory::free_pinned(void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pinned_.find(pointer);
  if (found == pinned_.end()) {
    return fail(UHAL_INVALID_ARGUMENT, "%p is no pinned allocation of the opencl backend", pointer);
  }
  const Pinned pinned = found->second;
  pinned_.erase(found);
  cl_int code = api.clEnqueueUnmapMemObject(queue_, pinned.buffer, pinned.mapped, 0, nullptr, nullptr);
  if (code == CL_SUCCESS) code = api.clFinish(queue_);
  const cl_int released = api.clReleaseMemObject(pinned.buffer);
  if (code == CL_SUCCESS) code = released;
  return code == CL_SUCCESS ? UHAL_OK : fail_native(code, "%s does not take pinned memory back", device_.name.c_str());
}

uhal_status Memory::info(uint64_t* free_bytes, uint64_t* total_bytes) const {
  *total_bytes = device_.total_memory;
  *free_bytes = device_.total_memory - used_.load();
  // AMD's driver knows what other processes use as well.
  struct FreeMemory {
    size_t kilobytes, largest_block;
  };
  const FreeMemory said =
      extension_value(device_.id, kAmdQueries, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, FreeMemory{SIZE_MAX >> 10, 0});
  *free_bytes = std::min(*free_bytes, uint64_t{said.kilobytes} << 10);
  return UHAL_OK;
}

}  // namespace unihal::opencl
