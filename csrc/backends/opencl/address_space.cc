#include "csrc/backends/opencl/address_space.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace unihal::opencl {
namespace {

constexpr size_t kSmallestReservation = size_t{4} << 30;

void* reserve(size_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) madvise(memory, bytes, MADV_DONTDUMP);  // a core file of terabytes helps nobody
  return memory;
}

}  // namespace

AddressSpace& AddressSpace::instance() {
  static AddressSpace* const instance = new AddressSpace;
  return *instance;
}

AddressSpace::~AddressSpace() {
  if (size_ == 0) return;
  munmap(base_, size_);
  munmap(granules_, size_ / kGranule * sizeof(Granule));
}

std::string AddressSpace::open(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (size_ != 0) return "";
  for (size_t size = bytes; size >= kSmallestReservation; size /= 2) {
    const size_t table_bytes = size / kGranule * sizeof(Granule);
    void* const addresses = reserve(size, PROT_NONE);
    if (addresses == MAP_FAILED) continue;
    void* const table = reserve(table_bytes, PROT_READ | PROT_WRITE);
    if (table == MAP_FAILED) {
      munmap(addresses, size);
      continue;
    }
    static_assert(std::atomic<const Allocation*>::is_always_lock_free && sizeof(Granule) == sizeof(void*),
                  "a page of zeros is a table of null pointers");
    base_ = static_cast<char*>(addresses);
    granules_ = static_cast<Granule*>(table);
    size_ = size;
    return "";
  }
  return "the backend reserves at least " + std::to_string(kSmallestReservation >> 30) +
         " GiB of address space for device pointers, which the system refuses (" + std::strerror(errno) +
         "); raise the limit of address space (ulimit -v)";
}

// Finds `count` granules that no live allocation has, from `next_` on and then from the beginning.
bool AddressSpace::place(size_t count, size_t* first) {
  const size_t granules = size_ / kGranule;
  for (int round = 0; round < 2; ++round) {
    auto live = live_.lower_bound(next_);
    while (next_ <= granules && count <= granules - next_) {
      if (live == live_.end() || next_ + count <= live->first) {
        *first = next_;
        next_ += count;
        return true;
      }
      next_ = live->second.end;
      ++live;
    }
    next_ = 0;
  }
  return false;
}

void AddressSpace::set(size_t first, size_t end, const Allocation* allocation) {
  for (size_t i = first; i < end; ++i) granules_[i].store(allocation, std::memory_order_release);
}

void* AddressSpace::insert(cl_mem buffer, size_t bytes) {
  // One byte more at least than the allocation has, so that the address of its end is not another one's beginning.
  const size_t count = bytes / kGranule + 1;
  auto allocation = std::make_unique<Allocation>();
  const Allocation* const record = allocation.get();
  std::lock_guard<std::mutex> lock(mutex_);
  size_t first;
  if (!place(count, &first)) return nullptr;
  *allocation = {base_ + first * kGranule, bytes, buffer, ++insertions_};
  live_.emplace(first, Range{first + count, std::move(allocation)});
  set(first, first + count, record);
  return record->base;
}

bool AddressSpace::remove(void* address, Allocation* removed) {
  if (!contains(address)) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(static_cast<size_t>(static_cast<char*>(address) - base_) / kGranule);
  if (found == live_.end() || found->second.allocation->base != address) return false;
  *removed = *found->second.allocation;
  set(found->first, found->second.end, nullptr);
  live_.erase(found);
  return true;
}

}  // namespace unihal::opencl
