#include "tests/doubles/hip_on_host/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "tests/doubles/hip_on_host/codes.h"

namespace on_host {
namespace {

struct Allocation {
  Device* device;
  Kind kind;
  size_t bytes;   // asked for
  size_t mapped;  // whole pages
  char* shadow;   // where threads reach it
};

struct Allocations {
  std::mutex mutex;
  std::map<char*, Allocation> by_address;
};

Allocations& allocations() {
  static Allocations* const instance = new Allocations;
  return *instance;
}

size_t whole_pages(size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// The same pages twice: at *address, which nobody may touch, and at *shadow.
bool map_twice(size_t bytes, void** address, void** shadow) {
  const int file = memfd_create("hip_on_host", MFD_CLOEXEC);
  if (file < 0) return false;
  *address = MAP_FAILED;
  *shadow = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    *address = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
    *shadow = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (*address != MAP_FAILED && *shadow != MAP_FAILED) return true;
  if (*address != MAP_FAILED) munmap(*address, bytes);
  return false;
}

}  // namespace

int allocate(Device& device, Kind kind, size_t bytes, void** pointer) {
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  const bool is_counted = kind != Kind::kPinned;
  if (is_counted && device.used.fetch_add(bytes) + bytes > device.memory) {
    device.used -= bytes;
    return kOutOfMemory;
  }
  const size_t mapped = whole_pages(bytes);
  void* address = nullptr;
  void* shadow = nullptr;
  bool is_there;
  if (kind == Kind::kDevice) {
    is_there = map_twice(mapped, &address, &shadow);
  } else {
    shadow = address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    is_there = address != MAP_FAILED;
  }
  if (!is_there) {
    if (is_counted) device.used -= bytes;
    return kOutOfMemory;
  }
  std::lock_guard<std::mutex> lock(allocations().mutex);
  allocations().by_address[static_cast<char*>(address)] = {&device, kind, bytes, mapped, static_cast<char*>(shadow)};
  *pointer = address;
  return kSuccess;
}

int release(Kind kind, void* pointer) {
  std::lock_guard<std::mutex> lock(allocations().mutex);
  const auto found = allocations().by_address.find(static_cast<char*>(pointer));
  if (found == allocations().by_address.end()) return kInvalidValue;
  const Allocation allocation = found->second;
  if ((allocation.kind == Kind::kPinned) != (kind == Kind::kPinned)) return kInvalidValue;
  allocations().by_address.erase(found);
  if (allocation.kind != Kind::kPinned) allocation.device->used -= allocation.bytes;
  munmap(pointer, allocation.mapped);
  if (allocation.kind == Kind::kDevice) munmap(allocation.shadow, allocation.mapped);
  return kSuccess;
}

char* reach(void* address, size_t bytes) {
  char* const begin = static_cast<char*>(address);
  std::lock_guard<std::mutex> lock(allocations().mutex);
  auto found = allocations().by_address.upper_bound(begin);
  if (found == allocations().by_address.begin()) return begin;
  --found;
  const Allocation& allocation = found->second;
  const size_t offset = static_cast<size_t>(begin - found->first);
  if (offset >= allocation.mapped) return begin;
  return offset + bytes <= allocation.bytes ? allocation.shadow + offset : nullptr;
}

bool is_ordinary(const void* address) {
  char* const begin = const_cast<char*>(static_cast<const char*>(address));
  std::lock_guard<std::mutex> lock(allocations().mutex);
  auto found = allocations().by_address.upper_bound(begin);
  if (found == allocations().by_address.begin()) return true;
  --found;
  return static_cast<size_t>(begin - found->first) >= found->second.mapped;
}

}  // namespace on_host
