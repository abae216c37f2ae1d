#include "stub/onednn/constant_copies.h"

#if defined(UNIHAL_STUB_ONEDNN)

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "stub/common/kernels.h"

namespace unihal::stub {
namespace {

struct Copy {
  const char* source;
  dnnl_memory_desc_t layout;
  std::unique_ptr<void, void (*)(void*)> memory;
};

struct Constant {
  size_t bytes;
  std::vector<Copy> copies;

  explicit Constant(size_t size) : bytes(size) {}
  Constant(const Constant&) = delete;
  Constant& operator=(const Constant&) = delete;
  ~Constant() {
    for (const Copy& copy : copies) onednn()->dnnl_memory_desc_destroy(copy.layout);
  }
};

struct Constants {
  std::mutex mutex;
  std::map<const char*, Constant> by_address;
  std::atomic<uint64_t> generation{0};
};

// Never destroyed: ops may run until the process ends.
Constants& constants() {
  static auto* const instance = new Constants;
  return *instance;
}

// The constant that holds these bytes. Holding the mutex.
Constant* constant_with(const char* data, size_t bytes) {
  const auto after = constants().by_address.upper_bound(data);
  if (after == constants().by_address.begin()) return nullptr;
  auto& [begin, constant] = *std::prev(after);
  return data + bytes <= begin + constant.bytes ? &constant : nullptr;
}

uhal_status declare(const void* data, size_t bytes) {
  if (data == nullptr || bytes == 0) {
    return fail(UHAL_INVALID_ARGUMENT, "A constant has no memory; pass its address and its size.");
  }
  const std::lock_guard<std::mutex> lock(constants().mutex);
  const auto* const begin = static_cast<const char*>(data);
  const auto after = constants().by_address.lower_bound(begin + bytes);
  if (after != constants().by_address.begin()) {
    const auto& [other, constant] = *std::prev(after);
    if (other + constant.bytes > begin) {
      return fail(UHAL_INVALID_ARGUMENT, "The memory from %p on is declared a constant already; withdraw that first.",
                  static_cast<const void*>(other));
    }
  }
  try {
    constants().by_address.try_emplace(begin, bytes);
  } catch (const std::bad_alloc&) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "The host has no memory left to note a constant.");
  }
  constants().generation.fetch_add(1, std::memory_order_release);
  return UHAL_OK;
}

uhal_status withdraw(const void* data) {
  const std::lock_guard<std::mutex> lock(constants().mutex);
  if (constants().by_address.erase(static_cast<const char*>(data)) == 0) {
    return fail(UHAL_INVALID_ARGUMENT, "No constant was declared at %p.", data);
  }
  constants().generation.fetch_add(1, std::memory_order_release);
  return UHAL_OK;
}

}  // namespace

const uhal_constants kConstants = {sizeof kConstants, declare, withdraw};

uint64_t constants_generation() { return constants().generation.load(std::memory_order_acquire); }

void* constant_copy(const void* source, size_t source_bytes, const_dnnl_memory_desc_t layout,
                    const std::function<uhal_status(void*)>& fill) {
  constexpr size_t kAlignment = 64;
  const std::lock_guard<std::mutex> lock(constants().mutex);
  const auto* const data = static_cast<const char*>(source);
  Constant* const constant = constant_with(data, source_bytes);
  if (constant == nullptr) return nullptr;
  for (const Copy& copy : constant->copies) {
    if (copy.source == data && onednn()->dnnl_memory_desc_equal(copy.layout, layout) != 0) return copy.memory.get();
  }
  const size_t bytes = (onednn()->dnnl_memory_desc_get_size(layout) + kAlignment - 1) / kAlignment * kAlignment;
  std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(kAlignment, bytes), std::free);
  dnnl_memory_desc_t kept = nullptr;
  if (memory == nullptr || fill(memory.get()) != UHAL_OK) return nullptr;
  if (onednn()->dnnl_memory_desc_clone(&kept, layout) != dnnl_success) return nullptr;
  constant->copies.push_back({data, kept, std::move(memory)});
  return constant->copies.back().memory.get();
}

}  // namespace unihal::stub

#endif  // UNIHAL_STUB_ONEDNN
