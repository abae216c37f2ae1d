// How blocks that one stream freed become everybody's.
#include "csrc/core/memory/allocator.h"

namespace unihal::core {

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
  if (!stream) return;                 // being destroyed: forget_stream follows
  if (stream->is_capturing()) return;  // its work cannot be asked after until the capture ends
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
  std::unique_lock<SubmissionLock> submission(stream->submission, std::try_to_lock);
  if (!submission.owns_lock() || stream->is_capturing()) return;
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
  if (exact_) return_shared();
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

}  // namespace unihal::core
