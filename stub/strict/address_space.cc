#include "stub/strict/address_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>

#include "stub/common/kernels.h"
#include "stub/strict/pages.h"

namespace unihal::stub::strict {
namespace {

constexpr size_t kGigabyte = size_t{1} << 30;

// What is asked for first, and the least that is worth having. The sanitizers keep a shadow of their own for it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kLargestReservation = 64 * kGigabyte;
#else
constexpr size_t kLargestReservation = 4096 * kGigabyte;
#endif
constexpr size_t kSmallestReservation = 4 * kGigabyte;

// The addresses that one page of the processor's page table covers. They are unmapped together, since the system
// frees such a page only then; otherwise ascending addresses would use up memory with empty page tables.
constexpr size_t kPageTableSpan = size_t{2} << 20;

// Reserves `bytes` of a file from an address at which a page of the page table begins; MAP_FAILED and errno without.
void* reserve_aligned(int file, size_t bytes) {
  const size_t all = bytes + kPageTableSpan;
  void* whole = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return MAP_FAILED;
  char* begin = static_cast<char*>(whole);
  char* side = begin + (kPageTableSpan - reinterpret_cast<uintptr_t>(begin) % kPageTableSpan) % kPageTableSpan;
  if (mmap(side, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(whole, all);
    errno = error;
    return MAP_FAILED;
  }
  if (side != begin) munmap(begin, static_cast<size_t>(side - begin));
  munmap(side + bytes, static_cast<size_t>(begin + all - (side + bytes)));
  return side;
}

}  // namespace

AddressSpace& AddressSpace::instance() {
  static AddressSpace* const instance = new AddressSpace;
  return *instance;
}

// Takes both sides, or neither.
bool AddressSpace::reserve(size_t bytes) {
  void* sides[2];
  for (void*& side : sides) {
    side = reserve_aligned(file_, bytes);
    if (side == MAP_FAILED) {
      const int error = errno;
      if (&side == &sides[1]) munmap(sides[0], bytes);
      errno = error;
      return false;
    }
    madvise(side, bytes, MADV_DONTDUMP);  // a core file of terabytes helps nobody
  }
  device_ = static_cast<char*>(sides[0]);
  shadow_ = static_cast<char*>(sides[1]);
  size_ = bytes;
  return true;
}

uhal_status AddressSpace::open() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (size_ != 0) return UHAL_OK;
  if (file_ < 0) file_ = memfd_create("unihal-stub", MFD_CLOEXEC);
  if (file_ < 0) {
    return fail(UHAL_UNIMPLEMENTED, "the strict mode needs memory files, which this system refuses (memfd_create: %s)",
                std::strerror(errno));
  }
  for (size_t bytes = kLargestReservation; bytes >= kSmallestReservation; bytes /= 2) {
    if (ftruncate(file_, static_cast<off_t>(bytes)) == 0 && reserve(bytes)) {
      next_ = page_size();  // the guard of the first allocation
      return UHAL_OK;
    }
  }
  return fail(UHAL_RESOURCE_EXHAUSTED,
              "the strict mode reserves address space, at least twice %zu GiB, which this system refuses (%s). Raise "
              "the limit of address space (ulimit -v), or use the fast mode.",
              kSmallestReservation / kGigabyte, std::strerror(errno));
}

// Finds `length` bytes that no live allocation uses, from `next_` on and then from the beginning.
bool AddressSpace::place(size_t length, size_t* offset) {
  for (int round = 0; round < 2; ++round) {
    auto live = live_.lower_bound(next_);
    while (length <= size_ - next_) {
      if (live == live_.end() || next_ + length <= live->second.begin) {
        *offset = next_;
        next_ += length;
        return true;
      }
      next_ = live->second.end;
      ++live;
    }
    next_ = page_size();
  }
  return false;
}

uhal_status AddressSpace::allocate(int32_t device, size_t bytes, void** pointer) {
  *pointer = nullptr;
  if (bytes > size_) return fail(UHAL_RESOURCE_EXHAUSTED, "stub device %d has no %zu bytes", device, bytes);
  const size_t pages = round_up(bytes, page_size());
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.device = device;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!place(pages + page_size(), &allocation.begin)) {
      return fail(UHAL_RESOURCE_EXHAUSTED,
                  "the strict mode has no contiguous addresses left for %zu bytes of stub device %d", bytes, device);
    }
    allocation.end = allocation.begin + pages + page_size();
    allocation.start = allocation.begin + pages - round_up(bytes, kAlignment);
    if (mprotect(shadow_ + allocation.begin, pages, PROT_READ | PROT_WRITE) != 0) {
      return fail(UHAL_RESOURCE_EXHAUSTED,
                  "the system cannot map another allocation of %zu bytes (%s); live allocations of the strict mode: "
                  "%zu, each takes two of the process's mappings (sysctl vm.max_map_count)",
                  bytes, std::strerror(errno), live_.size());
    }
    try {
      live_.emplace(allocation.begin, allocation);
    } catch (const std::bad_alloc&) {
      mprotect(shadow_ + allocation.begin, pages, PROT_NONE);
      return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for the record of an allocation");
    }
  }
#ifdef MADV_POPULATE_WRITE
  // All pages at once, which is faster than one fault for each; older systems do without.
  madvise(shadow_ + allocation.begin, pages, MADV_POPULATE_WRITE);
#endif
  fill_with_poison(shadow_ + allocation.begin, pages);
  *pointer = device_ + allocation.start;
  return UHAL_OK;
}

uhal_status AddressSpace::free(void* pointer) {
  const size_t start = static_cast<size_t>(static_cast<char*>(pointer) - device_);
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = live_.upper_bound(start);
  if (found == live_.begin() || (--found)->second.start != start) {
    return fail(UHAL_INVALID_ARGUMENT, "%p is no allocation of the stub", pointer);
  }
  const Allocation allocation = found->second;
  const auto next = live_.erase(found);
  freed_[frees_++ % kRemembered] = allocation;

  // Wider than the allocation where its neighbours in the page table are unused as well.
  size_t begin = allocation.begin / kPageTableSpan * kPageTableSpan;
  size_t end = round_up(allocation.end, kPageTableSpan);
  if (next != live_.begin() && std::prev(next)->second.end > begin) begin = allocation.begin;
  if (end > size_ || (next != live_.end() && next->second.begin < end)) end = allocation.end;
  if (mmap(shadow_ + begin, end - begin, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_,
           static_cast<off_t>(begin)) == MAP_FAILED) {
    return fail(UHAL_INTERNAL, "the system cannot unmap %zu bytes of the stub (%s)", allocation.bytes,
                std::strerror(errno));
  }
  madvise(shadow_ + begin, end - begin, MADV_DONTDUMP);
  if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(allocation.begin),
                static_cast<off_t>(allocation.end - allocation.begin)) != 0) {
    return fail(UHAL_INTERNAL, "the system does not take back %zu bytes of the stub's memory file (%s)",
                allocation.bytes, std::strerror(errno));
  }
  return UHAL_OK;
}

AddressSpace::Side AddressSpace::side(const void* address) const {
  const uintptr_t place = reinterpret_cast<uintptr_t>(address);
  if (place - reinterpret_cast<uintptr_t>(device_) < size_) return Side::kDevice;
  if (place - reinterpret_cast<uintptr_t>(shadow_) < size_) return Side::kShadow;
  return Side::kNone;
}

AddressSpace::Finding AddressSpace::describe(const Allocation& allocation, bool live) const {
  return {true, live, allocation.device, device_ + allocation.start, allocation.bytes};
}

bool AddressSpace::find(const void* pointer, Finding* finding) {
  const size_t offset = static_cast<size_t>(static_cast<const char*>(pointer) - device_);
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  // Another thread lets go of it in a moment; the faulting thread itself never will.
  for (int attempt = 0; !lock.owns_lock() && attempt < 100; ++attempt) {
    usleep(100);
    static_cast<void>(lock.try_lock());  // for the holder itself as well, glibc just refuses
  }
  if (!lock.owns_lock()) return false;
  *finding = {};
  auto next = live_.upper_bound(offset);
  if (next != live_.begin()) {
    const Allocation& before = std::prev(next)->second;
    *finding = describe(before, true);
    if (offset < before.end) return true;
  }
  for (size_t age = 1; age <= std::min(frees_, kRemembered); ++age) {
    const Allocation& freed = freed_[(frees_ - age) % kRemembered];
    if (offset < freed.begin || offset >= freed.end) continue;
    *finding = describe(freed, false);
    break;
  }
  return true;
}

}  // namespace unihal::stub::strict
