#include "plugins/torch/allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <deque>
#include <mutex>

#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

namespace unihal::pytorch {
namespace {

// What PyTorch keeps of a device allocation.
struct Allocation {
  uhal_device* device;
  uhal_stream* stream;  // for whose work it was allocated
  void* pointer;
  c10::DeviceIndex index;
  std::vector<uhal_stream*> others;  // whose work uses it as well
};

void free_device(void* context) {
  auto* const allocation = static_cast<Allocation*>(context);
  // The stream that the memory goes back to waits for the others. Failures have nowhere to go from here; the memory of
  // a device that failed is not worth more.
  for (uhal_stream* other : allocation->others) {
    uhal_event* event = nullptr;
    if (uhal_event_create(allocation->device, &event) != UHAL_OK) continue;
    if (uhal_event_record(event, other) == UHAL_OK) uhal_stream_wait_event(allocation->stream, event);
    uhal_event_destroy(event);
  }
  uhal_free(allocation->device, allocation->stream, allocation->pointer);
  delete allocation;
}

uhal_memory_stats stats_of(c10::DeviceIndex index, uhal_memory_kind kind = UHAL_MEMORY_DEVICE) {
  uhal_memory_stats stats = {};
  stats.struct_size = sizeof stats;
  check(uhal_memory_stats_get(device(index), kind, &stats));
  return stats;
}

// What is cached of all kinds of memory.
void trim() {
  for (int i = 0; i < device_count(); ++i) {
    check(uhal_memory_trim(device(static_cast<c10::DeviceIndex>(i)), 0, nullptr));
  }
}

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex index = current_device();
    const c10::Device place(kDevice, index);
    if (bytes == 0) return {nullptr, nullptr, &free_device_none, place};
    uhal_device* const owner = device(index);
    uhal_stream* const stream = current_stream(index);
    void* pointer = nullptr;
    check(uhal_allocate(owner, stream, UHAL_MEMORY_DEVICE, bytes, &pointer));
    return {pointer, new Allocation{owner, stream, pointer, index, {}}, &free_device, place};
  }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    check(uhal_copy(current_stream(current_device()), destination, source, bytes, UHAL_COPY_DEVICE_TO_DEVICE));
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override { trim(); }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override { record_stream(data, stream); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const uhal_memory_stats stats = stats_of(index);
    c10::CachingDeviceAllocator::DeviceStats result;
    set(result.allocated_bytes, stats.allocated_bytes, stats.peak_allocated_bytes);
    set(result.active_bytes, stats.allocated_bytes, stats.peak_allocated_bytes);
    set(result.requested_bytes, stats.allocated_bytes, stats.peak_allocated_bytes);
    set(result.reserved_bytes, stats.reserved_bytes, stats.peak_reserved_bytes);
    set(result.allocation, stats.live_allocations, stats.live_allocations);
    result.num_device_alloc = static_cast<int64_t>(stats.backend_allocations);
    return result;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override { check(uhal_memory_reset_peak(device(index))); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const uhal_memory_stats stats = stats_of(index);
    const uint64_t total = stats.limit_bytes != 0 ? stats.limit_bytes : stats.total_bytes;
    return {total - std::min(total, stats.reserved_bytes), total};
  }

 private:
  static void free_device_none(void*) {}
  static void set(c10::CachingAllocator::StatArray& of, uint64_t current, uint64_t peak) {
    c10::CachingAllocator::Stat& all = of[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    all.current = static_cast<int64_t>(current);
    all.peak = static_cast<int64_t>(peak);
  }
};

void free_pinned(void* pointer) {
  uhal_pointer_info info = {};
  info.struct_size = sizeof info;
  if (pointer != nullptr && uhal_pointer_query(pointer, &info) == UHAL_OK) uhal_free(info.device, nullptr, pointer);
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    release_passed();
    void* pointer = nullptr;
    if (bytes != 0) check(uhal_allocate(device(current_device()), nullptr, UHAL_MEMORY_PINNED, bytes, &pointer));
    return {pointer, pointer, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  // False: copies keep the tensors that they read and write by keep_until_passed.
  bool record_event(void*, void*, c10::Stream) override { return false; }
  void empty_cache() override {
    release_passed();
    trim();
  }
  at::HostStats get_stats() override {
    at::HostStats result;
    for (int i = 0; i < device_count(); ++i) {
      const uhal_memory_stats stats = stats_of(static_cast<c10::DeviceIndex>(i), UHAL_MEMORY_PINNED);
      result.active_requests.current += static_cast<int64_t>(stats.live_allocations);
      add(result.active_bytes, stats.allocated_bytes, stats.peak_allocated_bytes);
      add(result.allocated_bytes, stats.reserved_bytes, stats.peak_reserved_bytes);
      result.num_host_alloc += static_cast<int64_t>(stats.backend_allocations);
    }
    return result;
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

 private:
  static void add(c10::CachingAllocator::Stat& to, uint64_t current, uint64_t peak) {
    to.current += static_cast<int64_t>(current);
    to.peak += static_cast<int64_t>(peak);
  }
};

struct Kept {
  uhal_event* event;
  at::Tensor host;
};
struct KeptList {
  std::mutex mutex;
  std::deque<Kept> entries;
};
KeptList& kept() {
  static auto* instance = new KeptList;
  return *instance;
}

}  // namespace

c10::Allocator* device_allocator() {
  static auto* instance = new DeviceAllocator;
  return instance;
}

at::HostAllocator* pinned_allocator() {
  static auto* instance = new PinnedAllocator;
  return instance;
}

bool is_pinned(const void* pointer) {
  uhal_pointer_info info = {};
  info.struct_size = sizeof info;
  if (pointer == nullptr || uhal_pointer_query(pointer, &info) != UHAL_OK) return false;
  return info.kind == UHAL_MEMORY_PINNED;
}

void record_stream(const c10::DataPtr& data, const c10::Stream& stream) {
  auto* const allocation = data.cast_context<Allocation>(&free_device);
  if (allocation == nullptr) return;
  uhal_stream* const other = stream_handle(stream);
  if (other == allocation->stream) return;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  for (uhal_stream* known : allocation->others) {
    if (known == other) return;
  }
  allocation->others.push_back(other);
}

void keep_until_passed(uhal_stream* stream, c10::DeviceIndex index, at::Tensor host) {
  release_passed();
  uhal_event* event = nullptr;
  check(uhal_event_create(device(index), &event));
  check(uhal_event_record(event, stream));
  std::lock_guard<std::mutex> lock(kept().mutex);
  kept().entries.push_back({event, std::move(host)});
}

void release_passed() {
  std::vector<at::Tensor> passed;  // let go of outside of the lock
  std::lock_guard<std::mutex> lock(kept().mutex);
  while (!kept().entries.empty()) {
    int32_t done = 0;
    if (uhal_event_query(kept().entries.front().event, &done) == UHAL_OK && done == 0) return;
    uhal_event_destroy(kept().entries.front().event);
    passed.push_back(std::move(kept().entries.front().host));
    kept().entries.pop_front();
  }
}

}  // namespace unihal::pytorch
