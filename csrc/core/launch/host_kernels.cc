#include "csrc/core/launch/host_kernels.h"

#include <atomic>

#include "csrc/core/registry/registry.h"

namespace unihal::core {
namespace {

const uhal_host_kernels* table_of(const Backend& backend) {
  if (backend.table.extension == nullptr) return nullptr;
  const void* table = backend.table.extension(UHAL_HOST_KERNELS_NAME, UHAL_HOST_KERNELS_VERSION);
  return static_cast<const uhal_host_kernels*>(table);
}

}  // namespace

const uhal_host_kernels* host_kernels(std::string* reason) {
  static std::atomic<const uhal_host_kernels*> found{nullptr};
  if (const uhal_host_kernels* kernels = found.load(std::memory_order_acquire)) return kernels;
  const Backend* stub = find_backend("stub", reason);
  if (stub == nullptr) return nullptr;
  const uhal_host_kernels* kernels = table_of(*stub);
  if (kernels == nullptr) *reason = stub->library + " has no host kernels; install libraries of one release";
  found.store(kernels, std::memory_order_release);
  return kernels;
}

bool runs_host_kernels(const uhal_device& device) { return table_of(*device.backend) != nullptr; }

}  // namespace unihal::core
