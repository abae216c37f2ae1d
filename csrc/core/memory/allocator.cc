#include "csrc/core/memory/allocator.h"

#include <algorithm>

#include "csrc/core/memory/live_range.h"
#include "unihal/check.h"

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

bool by_address(const Segment* a, const Segment* b) { return a->base < b->base; }

size_t granule_of(SizeRange range) { return range == kSmallRange ? kSmallGranule : kLargeGranule; }

}  // namespace

Allocator::Allocator(uhal_device* device, uhal_memory_kind kind)
    : device_(device), kind_(kind), exact_((device->properties.checks & UHAL_CHECK_MEMORY) != 0) {}

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

void Allocator::hand_out(Block* block, size_t rounded, size_t requested, GraphBlocks* graph, void** pointer) {
  split(block, rounded);
  block->requested = requested;
  block->graph = graph;
  const uint64_t serial = block->serial.fetch_add(1, std::memory_order_release) + 1;
  *pointer = block->address;
  // Who allocates is mostly who launches.
  if (kind_ != UHAL_MEMORY_PINNED) remember_range(device_, {block, serial, block->address, requested, graph});
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

// Moves what was freed up to a count of frees from one owner to another.
void Allocator::move(StreamBlocks* from, StreamBlocks* to, uint64_t up_to) {
  for (BlockBins& bins : from->bins) {
    bins.for_each([&](Block* block) {
      if (block->freed_at > up_to) return;
      bins.remove(block);
      put(block, to);
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

uhal_status Allocator::allocate(Stream* stream, size_t bytes, Wait wait, void** pointer, GraphBlocks* capture) {
  *pointer = nullptr;
  if (bytes == 0) return UHAL_OK;
  if (bytes > kLargestRequest) return refuse(bytes, UHAL_RESOURCE_EXHAUSTED, error_serial());
  if (exact_) return allocate_exactly(stream, bytes, wait, pointer, capture);
  SizeRange range = range_of(bytes);
  size_t rounded = round_up(bytes, granule_of(range));
  const auto own = [&] { return capture != nullptr ? &capture->own : blocks_of(stream); };
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Block* block = take(own(), range, rounded)) {
      ++counters_.cache_hits;
      hand_out(block, rounded, bytes, capture, pointer);
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
    Block* block = take(own(), range, rounded);
    if (block != nullptr) {
      ++counters_.cache_hits;
    } else {
      block = grow(rounded, range, &status);
      if (block == nullptr && status == UHAL_RESOURCE_EXHAUSTED && release_segments(0) > 0) {
        block = grow(rounded, range, &status);
      }
    }
    if (block != nullptr) {
      hand_out(block, rounded, bytes, capture, pointer);
      return UHAL_OK;
    }
    if (status != UHAL_RESOURCE_EXHAUSTED) break;
  }
  keeper.keep_latest();
  return refuse(bytes, status, serial);
}

// Whose a live block is from when a stream frees it.
StreamBlocks* Allocator::owner_after_free(const Block& block, const Stream* stream, GraphBlocks* capture) {
  if (block.graph == nullptr) return blocks_of(stream);
  if (block.graph == capture) return &capture->own;
  uhal_stream* const handle = stream != nullptr ? stream_pool().current_handle(stream) : nullptr;
  for (const std::unique_ptr<StreamBlocks>& blocks : block.graph->returning) {
    if (blocks->stream == handle) return blocks.get();
  }
  block.graph->returning.push_back(std::make_unique<StreamBlocks>());
  block.graph->returning.back()->stream = handle;
  return block.graph->returning.back().get();
}

bool Allocator::free(Stream* stream, void* pointer, GraphBlocks* capture) {
  std::lock_guard<std::mutex> lock(mutex_);
  Segment* segment = segment_of(pointer);
  if (segment == nullptr) return false;
  Block* block = segment->find(static_cast<char*>(pointer));
  if (!block->live() || block->address != pointer) return false;
  StreamBlocks* const owner = owner_after_free(*block, stream, capture);
  block->serial.fetch_add(1, std::memory_order_release);
  counters_.allocated_bytes -= block->bytes;
  --counters_.live_allocations;
  block->freed_at = ++frees_;
  put(block, owner);
  return true;
}

void Allocator::release(GraphBlocks* graph) {
  std::vector<std::unique_ptr<StreamBlocks>> returning;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Segment* segment : segments_) {
      for (Block* block = segment->first; block != nullptr; block = block->next) {
        if (block->graph == graph) block->graph = nullptr;
      }
    }
    returning = std::move(graph->returning);
    publish(&graph->own, UINT64_MAX);
  }
  for (const std::unique_ptr<StreamBlocks>& blocks : returning) {
    PinnedStream stream(stream_pool(), blocks->stream);  // a stream that was destroyed has run its work
    std::lock_guard<std::mutex> lock(mutex_);
    move(blocks.get(), blocks_of(stream.get()), UINT64_MAX);
  }
  if (exact_) return_passed();
}

bool Allocator::find(const void* address, LiveBlock* found) {
  std::lock_guard<std::mutex> lock(mutex_);
  Segment* segment = segment_of(address);
  if (segment == nullptr) return false;
  const Block* block = segment->find(static_cast<const char*>(address));
  if (!block->live()) return false;
  *found = {block, block->serial.load(std::memory_order_relaxed), block->address, block->requested, block->graph};
  return true;
}

// -- growth and release -------------------------------------------------------------------------------

// Whether so many bytes more would exceed what the device has.
bool Allocator::exceeds_device(size_t bytes) const {
  const uint64_t total = kind_ == UHAL_MEMORY_DEVICE ? device_->properties.total_memory : 0;
  return total != 0 && (bytes > total || counters_.reserved_bytes > total - bytes);
}

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
  if (exceeds_device(bytes)) {
    // Not every backend counts. It was asked first all the same, as one that does says more about the shortage.
    static_cast<void>(call_backend(backend, "free", backend.table.free, device_->backend_device, kind_, base, bytes));
    *status = UHAL_RESOURCE_EXHAUSTED;
    return nullptr;
  }
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
  segments_.insert(std::upper_bound(segments_.begin(), segments_.end(), segment, by_address), segment);
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

// Returns a segment to the backend if it is everybody's as a whole; the number of bytes returned.
size_t Allocator::release_segment(Segment* segment) {
  Block* block = segment->first;
  if (block->live() || block->next != nullptr || block->owner != &shared_) return 0;
  const Backend& backend = *device_->backend;
  if (call_backend(backend, "free", backend.table.free, device_->backend_device, kind_,
                   static_cast<void*>(segment->base), segment->bytes) != UHAL_OK) {
    return 0;
  }
  shared_.bins[range_of(*segment)].remove(block);
  recycle_descriptor(block);
  const size_t bytes = segment->bytes;
  counters_.reserved_bytes -= bytes;
  segments_.erase(std::lower_bound(segments_.begin(), segments_.end(), segment, by_address));
  delete segment;
  return bytes;
}

// Returns free segments, the largest first, until at most `keep_bytes` are cached.
size_t Allocator::release_segments(size_t keep_bytes) {
  std::vector<Segment*> candidates = segments_;
  std::sort(candidates.begin(), candidates.end(),
            [](const Segment* a, const Segment* b) { return a->bytes > b->bytes; });
  size_t released = 0;
  for (Segment* segment : candidates) {
    if (counters_.reserved_bytes - counters_.allocated_bytes <= keep_bytes) break;
    released += release_segment(segment);
  }
  return released;
}

// -- limits ------------------------------------------------------------------------------

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

}  // namespace unihal::core
