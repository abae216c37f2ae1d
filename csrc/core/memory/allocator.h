// The stream-ordered caching allocator: one per device and memory kind.
//
// Memory comes from the backend in segments that are divided into blocks. A freed block belongs to the
// stream that used it last, which may take it again at once; it becomes everybody's once an event recorded
// after the free has been reached. A segment that is wholly free goes back to the backend when memory is
// short, at trim(), or at the end.
//
// On a device with UHAL_CHECK_MEMORY nothing is cached: each allocation is a segment of its own, of exactly the bytes
// that were asked for, and goes back to the backend instead of becoming everybody's.
//
// Thread-safe. Lock order: a stream's submission lock, then the allocator's.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/core/handle/device.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/memory/block_bins.h"

namespace unihal::core {

// Requests up to kSmallRequest share segments with a fine granule, others are cut from coarse ones.
enum SizeRange { kSmallRange = 0, kLargeRange = 1, kSizeRangeCount = 2 };

// The free blocks in the order of one stream, or (stream nullptr) everybody's.
struct StreamBlocks {
  uhal_stream* stream = nullptr;
  BlockBins bins[kSizeRangeCount];
  uhal_backend_event* fence = nullptr;  // recorded on the stream after a free
  bool fence_pending = false;
  uint64_t fence_covers = 0;  // blocks freed up to this count are behind the fence

  bool empty() const { return bins[kSmallRange].empty() && bins[kLargeRange].empty(); }
};

// The free blocks of a graph, of one kind of memory: its launches use them, so nobody else may have them meanwhile.
struct GraphBlocks {
  // Freed in the capture by its stream: in the order of the captured work, whose later part may have them again.
  StreamBlocks own;

  // Freed otherwise: to be in the order of these streams (nullptr: everybody's) when the graph is gone.
  std::vector<std::unique_ptr<StreamBlocks>> returning;
};

// A live block as another thread may remember it: valid while the block's serial is the same.
struct LiveBlock {
  const Block* block = nullptr;
  uint64_t serial = 0;
  char* base = nullptr;
  size_t bytes = 0;                    // as requested
  const GraphBlocks* graph = nullptr;  // as of the block
};

class Allocator {
 public:
  // Whether a shortage may be met by waiting for other streams' work. Never by a caller that holds a
  // submission lock.
  enum class Wait { kNever, kAllowed };

  // The device's properties are known.
  Allocator(uhal_device* device, uhal_memory_kind kind);

  // stream may be nullptr: for any stream. `capture`: the blocks of the graph that the stream is capturing; then its
  // submission lock is held, so `wait` is kNever.
  uhal_status allocate(Stream* stream, size_t bytes, Wait wait, void** pointer, GraphBlocks* capture = nullptr);

  // Returns false if `pointer` is not the start of a live block of this allocator. `capture` as for allocate.
  bool free(Stream* stream, void* pointer, GraphBlocks* capture = nullptr);

  // The graph is gone, and its launches have run: what it kept goes where it was freed to. Live blocks are no graph's
  // any more.
  void release(GraphBlocks* graph);

  // The live block that contains an address.
  bool find(const void* address, LiveBlock* found);

  // The stream is idle and about to go: its free blocks become everybody's.
  void forget_stream(Stream* stream);

  // With UHAL_CHECK_MEMORY: returns to the backend what was freed and whose stream has passed the free. The caller
  // holds no submission lock.
  void return_passed();

  // Returns free segments until at most `keep_bytes` are cached; the number of bytes returned.
  size_t trim(size_t keep_bytes);
  size_t cached_bytes();
  void set_limit(size_t bytes);
  void reset_peak();
  uhal_memory_stats stats();

  // Returns all free segments and destroys the events; all streams are idle.
  void release_all();

 private:
  StreamBlocks* blocks_of(const Stream* stream);
  Block* take(StreamBlocks* own, SizeRange range, size_t bytes);
  void hand_out(Block* block, size_t rounded, size_t requested, GraphBlocks* graph, void** pointer);
  Block* new_descriptor();
  void recycle_descriptor(Block* block);
  void split(Block* block, size_t bytes);
  void put(Block* block, StreamBlocks* owner);
  void publish(StreamBlocks* from, uint64_t up_to) { move(from, &shared_, up_to); }
  void move(StreamBlocks* from, StreamBlocks* to, uint64_t up_to);
  StreamBlocks* owner_after_free(const Block& block, const Stream* stream, GraphBlocks* capture);
  Segment* segment_of(const void* address) const;
  Block* grow(size_t bytes, SizeRange range, uhal_status* status);
  bool exceeds_device(size_t bytes) const;
  Block* add_segment(size_t bytes, size_t granule, uhal_status* status);
  size_t release_segments(size_t keep_bytes);
  size_t release_segment(Segment* segment);
  void reclaim(const Stream* requester, bool wait);
  void reclaim_stream(uhal_stream* handle, bool wait);
  bool record_fence(Stream* stream, StreamBlocks* blocks);
  bool pass_fence(StreamBlocks* blocks);
  uhal_status allocate_exactly(Stream* stream, size_t bytes, Wait wait, void** pointer, GraphBlocks* capture);
  void return_shared();
  uhal_status refuse(size_t bytes, uhal_status status, uint64_t serial_before);
  std::string free_on_device() const;

  uhal_device* const device_;
  const uhal_memory_kind kind_;
  const bool exact_;  // the device has UHAL_CHECK_MEMORY

  std::mutex mutex_;
  std::vector<Segment*> segments_;  // by address
  StreamBlocks shared_;
  std::vector<std::unique_ptr<StreamBlocks>> by_stream_;  // by the stream's slot
  std::deque<Block> descriptors_;                         // all that were ever made
  Block* spare_descriptors_ = nullptr;                    // linked by next
  uint64_t frees_ = 0;
  uint64_t limit_ = 0;
  uhal_memory_stats counters_ = {};
};

// "device", "pinned", "managed".
const char* memory_kind_name(uhal_memory_kind kind);

}  // namespace unihal::core
