// What a stream captures, and what its graph keeps of it: the memory that is the graph's own, and the allocations that
// its work uses.
//
// Guarded by the capturing stream's submission lock; constant once the capture has ended, but for `blocks`, which
// belong to the allocators.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "csrc/core/memory/allocator.h"
#include "unihal/graph_capture.h"

namespace unihal::core {

struct Work;  // csrc/core/check/access_history.h

struct Capture {
  const uhal_graph_capture* table = nullptr;  // the backend's
  uhal_device* device = nullptr;
  uint64_t number = 0;  // from 1 on

  // What was captured.
  uint64_t work_count = 0;
  uint64_t bytes = 0;
  uint64_t flops = 0;

  // With the race check: all that the work touches, as one piece of work, which each launch is; else nullptr.
  std::shared_ptr<Work> touched;

  GraphBlocks blocks[UHAL_MEMORY_KIND_COUNT];

  // The scratch memory that the stream had before, while the capture is under way; then the graph's own.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;

  // Notes the allocation in which captured work uses an address; false if it lies in none.
  bool note_use(const void* address);

  // UHAL_FAILED_PRECONDITION if an allocation that the work uses was freed.
  uhal_status check_memory() const;

  // Counts captured work.
  void count(uint64_t work_bytes, uint64_t work_flops) {
    ++work_count;
    bytes += work_bytes;
    flops += work_flops;
  }

  // Gives back the memory that is the graph's own: there will be no launch, and those that were have run.
  void release_memory();

 private:
  struct Use {
    LiveBlock live;
    const uhal_device* device;
  };
  std::unordered_map<const Block*, Use> uses_;
};

// Ends a stream's capture on the core's side: the stream has its scratch memory again. Its submission lock is held, and
// the capture is the caller's.
Capture* detach_capture(Stream* stream);

}  // namespace unihal::core
