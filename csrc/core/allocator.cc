#include "csrc/core/allocator.h"

#include <algorithm>

namespace unihal::core {
namespace {

constexpr size_t kSmallRequest = size_t{1} << 20;
constexpr size_t kSmallGranule = 256;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeGranule = size_t{64} << 10;
constexpr size_t kLargeSegment = size_t{32} << 20;   // shared by requests up to half of it
constexpr size_t kOwnSegmentUnit = size_t{2} << 20;  // larger ones get their own, rounded to this
constexpr size_t kLargeRemainder = size_t{1} << 20;  // smaller rests of large blocks are not split off
constexpr size_t kLargestRequest = size_t{1} << 47;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

SizeRange range_of(size_t bytes) { return bytes <= kSmallRequest ? kSmallRange : kLargeRange; }

SizeRange range_of(const Segment& segment) { return segment.granule == kSmallGranule ? kSmallRange : kLargeRange; }

size_t granule_of(SizeRange range) { return range == kSmallRange ? kSmallGranule : kLargeGranule; }

}  // namespace

const char* memory_kind_name(uhal_memory_kind kind) {
  static const char* const kNames[UHAL_MEMORY_KIND_COUNT] = {"device", "pinned", "managed"};
  return kind >= 0 && kind < UHAL_MEMORY_KIND_COUNT ? kNames[kind] : "unknown";
}

// -- blocks ---------------------------------------------------------------------------------------

Block* Allocator::new_descriptor() {
  if (spare_descriptors_ == nullptr) {
    descriptors_.emplace_back();
    return &descriptors_.back();
  }
  Block* block = spare_descriptors_;
  spare_descriptors_ = block->next;
  return block;
}

void Allocator::recycle_descriptor(Block* block) {
  block->next = spare_descriptors_;
  spare_descriptors_ = block;
}

StreamBlocks* Allocator::blocks_of(const Stream* stream) {
  if (stream == nullptr) return &shared_;
  if (by_stream_.size() <= stream->index) by_stream_.resize(stream->index + 1);
  std::unique_ptr<StreamBlocks>& blocks = by_stream_[stream->index];
  if (blocks == nullptr) {
    blocks = std::make_unique<StreamBlocks>();
    blocks->stream = stream_pool().current_handle(stream);
  }
  return blocks.get();
}

Block* Allocator::take(StreamBlocks* own, SizeRange range, size_t bytes) {
  for (StreamBlocks* source : {own, &shared_}) {
    if (Block* block = source->bins[range].best_fit(bytes)) {
      source->bins[range].remove(block);
      return block;
    }
  }
  return nullptr;
}

// Cuts a block, which is in no bin, to `bytes`; the rest becomes a free block of the same owner.
void Allocator::split(Block* block, size_t bytes) {
  size_t rest = block->bytes - bytes;
  if (rest < (range_of(*block->segment) == kSmallRange ? kSmallGranule : kLargeRemainder)) return;
  Block* tail = new_descriptor();
  tail->address = block->address + bytes;
  tail->bytes = rest;
  tail->segment = block->segment;
  tail->owner = block->owner;
  tail->freed_at = block->freed_at;
  tail->previous = block;
  tail->next = block->next;
  if (block->next != nullptr) block->next->previous = tail;
  block->next = tail;
  block->bytes = bytes;
  block->segment->add_start(tail);
  tail->owner->bins[range_of(*tail->segment)].insert(tail);
}

void Allocator::hand_out(Block* block, size_t rounded, size_t requested, void** pointer) {
  split(block, rounded);
  block->requested = requested;
  block->serial.fetch_add(1, std::memory_order_release);
  *pointer = block->address;
  counters_.allocated_bytes += block->bytes;
  counters_.peak_allocated_bytes = std::max(counters_.peak_allocated_bytes, counters_.allocated_bytes);
  ++counters_.live_allocations;
  ++counters_.total_allocations;
}

// Makes a block that is in no bin free for `owner`, merged with neighbours of the same owner.
void Allocator::put(Block* block, StreamBlocks* owner) {
  block->owner = owner;
  BlockBins& bins = owner->bins[range_of(*block->segment)];
  auto absorb = [&](Block* left, Block* right) {
    left->freed_at = std::max(left->freed_at, right->freed_at);
    left->bytes += right->bytes;
    left->next = right->next;
    if (right->next != nullptr) right->next->previous = left;
    left->segment->remove_start(right);
    recycle_descriptor(right);
  };
  if (Block* next = block->next; next != nullptr && !next->live() && next->owner == owner) {
    bins.remove(next);
    absorb(block, next);
  }
  if (Block* previous = block->previous; previous != nullptr && !previous->live() && previous->owner == owner) {
    bins.remove(previous);
    absorb(previous, block);
    block = previous;
  }
  bins.insert(block);
}

// Makes everybody's what a stream freed up to a count of frees.
void Allocator::publish(StreamBlocks* from, uint64_t up_to) {
  for (BlockBins& bins : from->bins) {
    bins.for_each([&](Block* block) {
      if (block->freed_at > up_to) return;
      bins.remove(block);
      put(block, &shared_);
    });
  }
}

Segment* Allocator::segment_of(const void* address) const {
  const char* place = static_cast<const char*>(address);
  auto after = std::upper_bound(segments_.begin(), segments_.end(), place,
                                [](const char* p, const Segment* segment) { return p < segment->base; });
  if (after == segments_.begin()) return nullptr;
  Segment* segment = *(after - 1);
  return place < segment->base + segment->bytes ? segment : nullptr;
}

// -- allocate and free ------------------------------------------------------------------------------

uhal_status Allocator::allocate(Stream* stream, size_t bytes, Wait wait, void** pointer) {
  *pointer = nullptr;
  if (bytes == 0) return UHAL_OK;
  if (bytes > kLargestRequest) return refuse(bytes, UHAL_RESOURCE_EXHAUSTED, error_serial());
  SizeRange range = range_of(bytes);
  size_t rounded = round_up(bytes, granule_of(range));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Block* block = take(blocks_of(stream), range, rounded)) {
      ++counters_.cache_hits;
      hand_out(block, rounded, bytes, pointer);
      return UHAL_OK;
    }
  }
  // What other streams freed, then new memory, then new memory after returning what is cached, and at last
  // the same after waiting for the streams that hold freed blocks.
  ErrorRecordKeeper keeper;
  const uint64_t serial = error_serial();
  uhal_status status = UHAL_OK;
  for (bool waited : {false, true}) {
    if (waited && wait == Wait::kNever) break;
    reclaim(stream, waited);
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = take(blocks_of(stream), range, rounded);
    if (block != nullptr) {
      ++counters_.cache_hits;
    } else {
      block = grow(rounded, range, &status);
      if (block == nullptr && status == UHAL_RESOURCE_EXHAUSTED && release_segments(0) > 0) {
        block = grow(rounded, range, &status);
      }
    }
    if (block != nullptr) {
      hand_out(block, rounded, bytes, pointer);
      return UHAL_OK;
    }
    if (status != UHAL_RESOURCE_EXHAUSTED) break;
  }
  keeper.keep_latest();
  return refuse(bytes, status, serial);
}

bool Allocator::free(Stream* stream, void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  Segment* segment = segment_of(pointer);
  if (segment == nullptr) return false;
  Block* block = segment->find(static_cast<char*>(pointer));
  if (!block->live() || block->address != pointer) return false;
  block->serial.fetch_add(1, std::memory_order_release);
  counters_.allocated_bytes -= block->bytes;
  --counters_.live_allocations;
  block->freed_at = ++frees_;
  put(block, blocks_of(stream));
  return true;
}

bool Allocator::find(const void* address, LiveBlock* found) {
  std::lock_guard<std::mutex> lock(mutex_);
  Segment* segment = segment_of(address);
  if (segment == nullptr) return false;
  const Block* block = segment->find(static_cast<const char*>(address));
  if (!block->live()) return false;
  *found = {block, block->serial.load(std::memory_order_relaxed), block->address, block->requested};
  return true;
}

// -- growth and release -------------------------------------------------------------------------------

Block* Allocator::add_segment(size_t bytes, size_t granule, uhal_status* status) {
  if (limit_ != 0 && (bytes > limit_ || counters_.reserved_bytes > limit_ - bytes)) {
    *status = UHAL_RESOURCE_EXHAUSTED;
    return nullptr;
  }
  void* base = nullptr;
  ++counters_.backend_allocations;
  const Backend& backend = *device_->backend;
  *status = call_backend(backend, "allocate", backend.table.allocate, device_->backend_device, kind_, bytes, &base);
  if (*status != UHAL_OK) return nullptr;
  if (base == nullptr || reinterpret_cast<uintptr_t>(base) % kSmallGranule != 0) {
    *status = UHAL_FAIL(UHAL_INTERNAL, "The backend '%s' returned the address %p, which is not aligned to 256 bytes.",
                        backend.name.c_str(), base);
    return nullptr;
  }
  auto* segment = new Segment(static_cast<char*>(base), bytes, granule);
  Block* block = new_descriptor();
  block->address = segment->base;
  block->bytes = bytes;
  block->segment = segment;
  block->previous = block->next = nullptr;
  block->owner = &shared_;
  block->freed_at = 0;
  segment->first = block;
  segment->add_start(block);
  segments_.insert(std::upper_bound(segments_.begin(), segments_.end(), segment,
                                    [](const Segment* a, const Segment* b) { return a->base < b->base; }),
                   segment);
  counters_.reserved_bytes += bytes;
  counters_.peak_reserved_bytes = std::max(counters_.peak_reserved_bytes, counters_.reserved_bytes);
  return block;
}

// A new segment's only block, in no bin. A segment for many requests if there is room, else just enough.
Block* Allocator::grow(size_t bytes, SizeRange range, uhal_status* status) {
  size_t preferred = range == kSmallRange         ? kSmallSegment
                     : bytes <= kLargeSegment / 2 ? kLargeSegment
                                                  : round_up(bytes, kOwnSegmentUnit);
  Block* block = add_segment(preferred, granule_of(range), status);
  if (block == nullptr && *status == UHAL_RESOURCE_EXHAUSTED && preferred > bytes) {
    block = add_segment(bytes, granule_of(range), status);
  }
  return block;
}

bool Allocator::release_segment(Segment* segment) {
  Block* block = segment->first;
  if (block->live() || block->next != nullptr || block->owner != &shared_) return false;
  const Backend& backend = *device_->backend;
  if (call_backend(backend, "free", backend.table.free, device_->backend_device, kind_,
                   static_cast<void*>(segment->base), segment->bytes) != UHAL_OK) {
    return false;
  }
  shared_.bins[range_of(*segment)].remove(block);
  recycle_descriptor(block);
  counters_.reserved_bytes -= segment->bytes;
  return true;
}

// Returns free segments, the largest first, until at most `keep_bytes` are cached.
size_t Allocator::release_segments(size_t keep_bytes) {
  std::vector<Segment*> candidates = segments_;
  std::sort(candidates.begin(), candidates.end(),
            [](const Segment* a, const Segment* b) { return a->bytes > b->bytes; });
  size_t released = 0;
  for (Segment* segment : candidates) {
    if (counters_.reserved_bytes - counters_.allocated_bytes <= keep_bytes) break;
    if (!release_segment(segment)) continue;
    released += segment->bytes;
    segments_.erase(std::find(segments_.begin(), segments_.end(), segment));
    delete segment;
  }
  return released;
}

// -- reclaiming other streams' freed blocks -----------------------------------------------------------

void Allocator::reclaim(const Stream* requester, bool wait) {
  std::vector<uhal_stream*> owners;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::unique_ptr<StreamBlocks>& blocks : by_stream_) {
      if (blocks != nullptr && !blocks->empty()) owners.push_back(blocks->stream);
    }
  }
  for (uhal_stream* handle : owners) {
    // The requester takes its own blocks as they are, unless they must leave its order to be returned.
    if (!wait && requester != nullptr && stream_pool().current_handle(requester) == handle) continue;
    reclaim_stream(handle, wait);
  }
}

void Allocator::reclaim_stream(uhal_stream* handle, bool wait) {
  PinnedStream stream(stream_pool(), handle);
  if (!stream) return;  // being destroyed: forget_stream follows
  const Backend& backend = *device_->backend;
  const uhal_backend& table = backend.table;
  uint64_t freed_before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    freed_before = frees_;
  }
  if (wait) {
    if (call_backend(backend, "stream_synchronize", table.stream_synchronize, stream->backend_stream) != UHAL_OK)
      return;
    std::lock_guard<std::mutex> lock(mutex_);
    publish(blocks_of(stream.get()), freed_before);
    return;
  }
  // Whoever submits now need not be waited for: the blocks can be had another time.
  std::unique_lock<std::mutex> submission(stream->submission, std::try_to_lock);
  if (!submission.owns_lock()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  StreamBlocks* blocks = blocks_of(stream.get());
  int32_t idle = 0;
  if (call_backend(backend, "stream_query", table.stream_query, stream->backend_stream, &idle) == UHAL_OK &&
      idle != 0) {
    blocks->fence_pending = false;
    publish(blocks, frees_);
    return;
  }
  // A fence that was pending covers only what was freed before it; the rest needs one that is recorded now.
  if (blocks->fence_pending && !pass_fence(blocks)) return;
  if (!blocks->empty() && record_fence(stream.get(), blocks)) pass_fence(blocks);
}

// Marks the end of a stream's work; its submission lock is held.
bool Allocator::record_fence(Stream* stream, StreamBlocks* blocks) {
  const Backend& backend = *device_->backend;
  const uhal_backend& table = backend.table;
  if (blocks->fence == nullptr &&
      call_backend(backend, "event_create", table.event_create, device_->backend_device, &blocks->fence) != UHAL_OK) {
    blocks->fence = nullptr;
    return false;
  }
  if (call_backend(backend, "event_record", table.event_record, blocks->fence, stream->backend_stream) != UHAL_OK) {
    return false;
  }
  blocks->fence_pending = true;
  blocks->fence_covers = frees_;
  return true;
}

// If the pending fence has been reached, makes everybody's what it covers.
bool Allocator::pass_fence(StreamBlocks* blocks) {
  const Backend& backend = *device_->backend;
  int32_t done = 0;
  if (call_backend(backend, "event_query", backend.table.event_query, blocks->fence, &done) != UHAL_OK || done == 0) {
    return false;
  }
  blocks->fence_pending = false;
  publish(blocks, blocks->fence_covers);
  return true;
}

void Allocator::forget_stream(Stream* stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (by_stream_.size() <= stream->index || by_stream_[stream->index] == nullptr) return;
  StreamBlocks* blocks = by_stream_[stream->index].get();
  publish(blocks, UINT64_MAX);
  if (blocks->fence != nullptr) {
    const Backend& backend = *device_->backend;
    static_cast<void>(call_backend(backend, "event_destroy", backend.table.event_destroy, blocks->fence));
  }
  by_stream_[stream->index].reset();
}

void Allocator::release_all() {
  std::lock_guard<std::mutex> lock(mutex_);
  const Backend& backend = *device_->backend;
  for (std::unique_ptr<StreamBlocks>& blocks : by_stream_) {
    if (blocks == nullptr) continue;
    publish(blocks.get(), UINT64_MAX);
    if (blocks->fence != nullptr) {
      static_cast<void>(call_backend(backend, "event_destroy", backend.table.event_destroy, blocks->fence));
    }
    blocks.reset();
  }
  release_segments(0);
}

// -- limits and statistics ------------------------------------------------------------------------------

size_t Allocator::trim(size_t keep_bytes) {
  reclaim(nullptr, false);
  std::lock_guard<std::mutex> lock(mutex_);
  return release_segments(keep_bytes);
}

size_t Allocator::cached_bytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return counters_.reserved_bytes - counters_.allocated_bytes;
}

void Allocator::set_limit(size_t bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = bytes;
    if (bytes == 0 || counters_.reserved_bytes <= bytes) return;
  }
  reclaim(nullptr, false);
  std::lock_guard<std::mutex> lock(mutex_);
  size_t allocated = counters_.allocated_bytes;
  release_segments(bytes > allocated ? bytes - allocated : 0);
}

void Allocator::reset_peak() {
  std::lock_guard<std::mutex> lock(mutex_);
  counters_.peak_allocated_bytes = counters_.allocated_bytes;
  counters_.peak_reserved_bytes = counters_.reserved_bytes;
}

uhal_memory_stats Allocator::stats_locked() const {
  uhal_memory_stats stats = counters_;
  stats.struct_size = sizeof stats;
  stats.limit_bytes = limit_;
  stats.total_bytes = device_->properties.total_memory;
  auto widen = [&](const StreamBlocks& blocks) {
    for (const BlockBins& bins : blocks.bins) {
      stats.largest_free_block = std::max<uint64_t>(stats.largest_free_block, bins.largest());
    }
  };
  widen(shared_);
  for (const std::unique_ptr<StreamBlocks>& blocks : by_stream_) {
    if (blocks != nullptr) widen(*blocks);
  }
  uint64_t cached = stats.reserved_bytes - stats.allocated_bytes;
  stats.fragmentation =
      cached == 0 ? 0 : 1 - static_cast<double>(stats.largest_free_block) / static_cast<double>(cached);
  return stats;
}

uhal_memory_stats Allocator::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_locked();
}

uhal_status Allocator::refuse(size_t bytes, uhal_status status, uint64_t serial_before) {
  if (status != UHAL_RESOURCE_EXHAUSTED) {
    append_error(" (while allocating %zu bytes of %s memory)", bytes, memory_kind_name(kind_));
    set_error_device(device_->label.c_str());
    return status;
  }
  const bool backend_said = error_serial() != serial_before;
  const uhal_error* native = uhal_last_error();
  const std::string cause = backend_said ? " The backend said: " + std::string(native->message) + "." : "";
  uhal_memory_stats now = stats();
  auto mebibytes = [](uint64_t amount) { return static_cast<double>(amount) / (1 << 20); };
  bool limited = now.limit_bytes != 0 && now.reserved_bytes + bytes > now.limit_bytes;
  UHAL_FAIL(
      UHAL_RESOURCE_EXHAUSTED,
      "Out of %s memory on %s: %zu bytes (%.1f MiB) were asked for. Allocated %.1f MiB in %llu allocations (peak "
      "%.1f MiB), reserved %.1f MiB, cached and free %.1f MiB (largest block %.1f MiB, fragmentation %.0f %%), limit "
      "%s%.1f MiB, device memory %.1f MiB. Cached memory was returned to the device before this failed. ",
      memory_kind_name(kind_), device_->label.c_str(), bytes, mebibytes(bytes), mebibytes(now.allocated_bytes),
      static_cast<unsigned long long>(now.live_allocations), mebibytes(now.peak_allocated_bytes),
      mebibytes(now.reserved_bytes), mebibytes(now.reserved_bytes - now.allocated_bytes),
      mebibytes(now.largest_free_block), now.fragmentation * 100, now.limit_bytes == 0 ? "none, " : "",
      mebibytes(now.limit_bytes), mebibytes(now.total_bytes));
  append_error("%s%s",
               limited ? "Raise the limit (UNIHAL_MEMORY_LIMIT or uhal_memory_set_limit), or use smaller batches."
                       : "Use smaller batches, free what is not needed, or close other programs that use the device.",
               cause.c_str());
  set_error_device(device_->label.c_str());
  return UHAL_RESOURCE_EXHAUSTED;
}

}  // namespace unihal::core
