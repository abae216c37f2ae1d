#include "plugins/paddle/small_allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include "plugins/paddle/library.h"
#include "plugins/paddle/memory_pool.h"
#include "plugins/paddle/stream.h"
#include "unihal/graph_capture.h"

namespace unihal::paddle {
namespace {

// paddle::memory::allocation::StreamSafeCustomDeviceAllocator and its allocations, the outermost part of Paddle's pool
// that makes objects: for each allocation three, which find a block of memory, split it, and join it again.
#define UNIHAL_ALLOCATOR "N6paddle6memory10allocation31StreamSafeCustomDeviceAllocator"
#define UNIHAL_ALLOCATION "N6paddle6memory10allocation32StreamSafeCustomDeviceAllocation"
constexpr const char* kTableSymbol = "_ZTV" UNIHAL_ALLOCATOR "E";
constexpr const char* kAllocateSymbol = "_Z" UNIHAL_ALLOCATOR "12AllocateImplEm";
constexpr const char* kFreeSymbol = "_Z" UNIHAL_ALLOCATOR "8FreeImplEPN3phi10AllocationE";
constexpr const char* kReleaseSymbol = "_Z" UNIHAL_ALLOCATOR "11ReleaseImplERKN3phi5PlaceE";
constexpr const char* kDefaultStreamSymbol =
    "_ZNK6paddle6memory10allocation31StreamSafeCustomDeviceAllocator16GetDefaultStreamEv";
constexpr const char* kSetStreamSymbol = "_Z" UNIHAL_ALLOCATION "15SetOwningStreamEPv";
constexpr const char* kRecordStreamSymbol = "_Z" UNIHAL_ALLOCATION "12RecordStreamEPv";
#undef UNIHAL_ALLOCATION
#undef UNIHAL_ALLOCATOR

void* (*original_allocate)(void* allocator, size_t bytes) = nullptr;
void (*original_free)(void* allocator, void* allocation) = nullptr;
uint64_t (*original_release)(void* allocator, const void* place) = nullptr;
bool (*original_record_stream)(void* allocation, void* stream) = nullptr;
Stream* (*default_stream)(const void* allocator) = nullptr;
void (*set_stream)(void* allocation, Stream* stream) = nullptr;

// Larger ones cost more where they are computed than here.
constexpr size_t kLargest = 32 << 10;
constexpr size_t kShelfSizes = kLargest / kMinimumChunk;
constexpr size_t kMostBytes = 4 << 20;

std::atomic<bool> keeping{false};

bool is_small(size_t bytes) { return bytes - 1 < kLargest; }
size_t place_of_size(size_t bytes) { return (bytes - 1) / kMinimumChunk; }

// phi::Allocation: a table of virtual functions, the pointer, the bytes. learn() looks whether it is so.
size_t bytes_of(const void* allocation) { return static_cast<const size_t*>(allocation)[2]; }

// What is kept of an allocator's.
class Shelf {
 public:
  explicit Shelf(void* allocator) : allocator_(allocator) {}

  // The last one of this size that was put here, or nullptr.
  void* take(size_t bytes) {
    Row& row = rows_[place_of_size(bytes)];
    const Lock lock(this);
    if (row.count == 0) return nullptr;
    kept_bytes_ -= bytes_of(row.allocations[--row.count]);
    return row.allocations[row.count];
  }
  // False if there is no room for it.
  bool put(void* allocation) {
    const size_t bytes = bytes_of(allocation);
    Row& row = rows_[place_of_size(bytes)];
    const Lock lock(this);
    if (row.count == kMost || kept_bytes_ + bytes > kMostBytes) return false;
    kept_bytes_ += bytes;
    row.allocations[row.count++] = allocation;
    return true;
  }
  // Gives all of them back to the pool. Whether there were any.
  bool clear() {
    bool any = false;
    for (size_t i = 0; i < kShelfSizes; ++i) {
      while (void* allocation = take((i + 1) * kMinimumChunk)) {
        any = true;
        original_free(allocator_, allocation);
      }
    }
    return any;
  }
  const void* allocator() const { return allocator_; }

 private:
  static constexpr uint32_t kMost = 31;
  struct alignas(64) Row {
    uint32_t count = 0;
    void* allocations[kMost];
  };
  struct Lock {
    explicit Lock(Shelf* shelf) : busy(shelf->busy_) {
      while (busy.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Lock() { busy.clear(std::memory_order_release); }
    std::atomic_flag& busy;
  };

  void* const allocator_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  size_t kept_bytes_ = 0;
  Row rows_[kShelfSizes];
};

// One for each device and stream that Paddle computes on; beyond that many its pool stays as it is. Shelves stay for
// the life of the process, as these allocators do.
constexpr size_t kMostShelves = 16;
std::atomic<Shelf*> shelves[kMostShelves];
std::mutex adding;

Shelf* shelf_of(const void* allocator) {
  for (const auto& place : shelves) {
    Shelf* const shelf = place.load(std::memory_order_acquire);
    if (shelf == nullptr || shelf->allocator() == allocator) return shelf;
  }
  return nullptr;
}

// Makes a shelf for an allocator with its first small allocation. None for that of a graph's own memory, which Paddle
// uses while it captures, and which goes when its allocations have gone.
[[gnu::cold]] void learn(void* allocator, const void* allocation, size_t bytes) {
  if (bytes_of(allocation) != (place_of_size(bytes) + 1) * kMinimumChunk) {
    keeping = false;  // this Paddle's allocations are otherwise
    return;
  }
  Stream* const stream = default_stream(allocator);
  int32_t capturing = 1;
  if (!is_our_stream(stream) || uhal_graph_capture_query(stream->handle, &capturing) != UHAL_OK || capturing != 0) {
    return;
  }
  const std::lock_guard<std::mutex> lock(adding);
  if (shelf_of(allocator) != nullptr) return;
  for (auto& place : shelves) {
    if (place.load(std::memory_order_relaxed) != nullptr) continue;
    return place.store(new (std::nothrow) Shelf(allocator), std::memory_order_release);
  }
}

[[gnu::noinline]] void* allocate_anew(void* allocator, Shelf* shelf, size_t bytes) {
  void* allocation = nullptr;
  try {
    allocation = original_allocate(allocator, bytes);
  } catch (...) {
    // What is kept here may be what is missing.
    if (shelf == nullptr) shelf = shelf_of(allocator);
    if (shelf == nullptr || !shelf->clear()) throw;
    allocation = original_allocate(allocator, bytes);
  }
  if (shelf == nullptr && is_small(bytes) && keeping.load(std::memory_order_relaxed)) {
    learn(allocator, allocation, bytes);
  }
  return allocation;
}

void* allocate_from_shelf(void* allocator, size_t bytes) {
  Shelf* shelf = nullptr;
  if (is_small(bytes) && keeping.load(std::memory_order_relaxed) && (shelf = shelf_of(allocator)) != nullptr) {
    if (void* const allocation = shelf->take(bytes)) {
      set_stream(allocation, default_stream(allocator));
      return allocation;
    }
  }
  return allocate_anew(allocator, shelf, bytes);
}

void free_to_shelf(void* allocator, void* allocation) {
  const size_t bytes = bytes_of(allocation);
  if (is_small(bytes) && bytes % kMinimumChunk == 0 && keeping.load(std::memory_order_relaxed)) {
    Shelf* const shelf = shelf_of(allocator);
    if (shelf != nullptr && shelf->put(allocation)) return;
  }
  original_free(allocator, allocation);
}

uint64_t release_with_shelf(void* allocator, const void* place) {
  if (Shelf* const shelf = shelf_of(allocator)) shelf->clear();
  return original_release(allocator, place);
}

// Another stream uses the allocation too: from now on Paddle looks at each, when it is freed, for events of others.
bool record_stream(void* allocation, void* stream) {
  keep_no_small_allocations();
  return original_record_stream(allocation, stream);
}

bool redirect_allocator() {
  if (keeps_no_idle_memory() || !bind_function(kAllocateSymbol, &original_allocate) ||
      !bind_function(kFreeSymbol, &original_free) || !bind_function(kReleaseSymbol, &original_release) ||
      !bind_function(kDefaultStreamSymbol, &default_stream) || !bind_function(kSetStreamSymbol, &set_stream) ||
      redirect_paddle_function(kRecordStreamSymbol, record_stream, &original_record_stream) != nullptr) {
    return false;
  }
  return redirect_virtual_functions(
      kTableSymbol, {{reinterpret_cast<void*>(original_allocate), reinterpret_cast<void*>(allocate_from_shelf)},
                     {reinterpret_cast<void*>(original_free), reinterpret_cast<void*>(free_to_shelf)},
                     {reinterpret_cast<void*>(original_release), reinterpret_cast<void*>(release_with_shelf)}});
}

}  // namespace

void keep_small_allocations() {
  static const bool redirected = [] {
    keeping = redirect_allocator();
    return true;
  }();
  static_cast<void>(redirected);
}

void keep_no_small_allocations() { keeping = false; }

}  // namespace unihal::paddle
