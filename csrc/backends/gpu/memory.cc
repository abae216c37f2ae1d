#include "csrc/backends/gpu/memory.h"

#include <map>
#include <mutex>

#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/status.h"
#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

constexpr const char* kKindNames[] = {"device memory", "pinned host memory", "managed memory"};
static_assert(sizeof kKindNames / sizeof *kKindNames == UHAL_MEMORY_KIND_COUNT);

unsigned long long number(uint64_t value) { return value; }

// The pinned memory that is not given back, by where it ends. Never destroyed: other threads may use memory while the
// process ends.
struct Pinned {
  std::mutex mutex;
  std::map<uintptr_t, size_t> bytes_by_end;
};
Pinned& pinned() {
  static Pinned* const instance = new Pinned;
  return *instance;
}

}  // namespace

bool Memory::is_pinned(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::lock_guard<std::mutex> lock(pinned().mutex);
  const auto found = pinned().bytes_by_end.upper_bound(at);
  return found != pinned().bytes_by_end.end() && at >= found->first - found->second;
}

uhal_status Memory::allocate(uhal_memory_kind kind, size_t bytes, void** pointer) const {
  *pointer = nullptr;
  if (kind == UHAL_MEMORY_MANAGED && !device_.has_managed_memory) {
    return kernels::fail(UHAL_UNIMPLEMENTED, "%s has no managed memory. Use device memory and copies",
                         device_.name.c_str());
  }
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  const int code = kind == UHAL_MEMORY_DEVICE   ? api.allocate(pointer, bytes)
                   : kind == UHAL_MEMORY_PINNED ? api.allocate_pinned(pointer, bytes, kPinnedPortable)
                                                : api.allocate_managed(pointer, bytes, kManagedGlobal);
  if (code == kSuccess && kind == UHAL_MEMORY_PINNED) {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    pinned().bytes_by_end[reinterpret_cast<uintptr_t>(*pointer) + bytes] = bytes;
  }
  if (code == kSuccess) return UHAL_OK;
  *pointer = nullptr;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  static_cast<void>(api.memory_info(&free_bytes, &total_bytes));
  return fail_native(code, "%s gives no %llu bytes of %s; %llu of %llu bytes of device memory are free",
                     device_.name.c_str(), number(bytes), kKindNames[kind], number(free_bytes), number(total_bytes));
}

uhal_status Memory::free(uhal_memory_kind kind, void* pointer) const {
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  if (kind == UHAL_MEMORY_PINNED) {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    const auto found = pinned().bytes_by_end.upper_bound(reinterpret_cast<uintptr_t>(pointer));
    if (found != pinned().bytes_by_end.end()) pinned().bytes_by_end.erase(found);
  }
  const int code = kind == UHAL_MEMORY_PINNED ? api.free_pinned(pointer) : api.free(pointer);
  return code == kSuccess ? UHAL_OK
                          : fail_native(code, "%s does not take %s back", device_.name.c_str(), kKindNames[kind]);
}

uhal_status Memory::info(uint64_t* free_bytes, uint64_t* total_bytes) const {
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  size_t free_now = 0;
  size_t total = 0;
  const int code = api.memory_info(&free_now, &total);
  if (code != kSuccess) return fail_native(code, "%s does not tell its free memory", device_.name.c_str());
  *free_bytes = free_now;
  *total_bytes = total;
  return UHAL_OK;
}

}  // namespace unihal::gpu
