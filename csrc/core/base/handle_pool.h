// Handles that can be checked: a handle is a number (tag, generation, index), never an address, so a
// destroyed, foreign or invented handle is recognized without touching memory that it might point to.
//
// Slots are never freed, only used again under another generation. A slot in use is pinned; retiring a
// slot waits until nobody pins it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace unihal::core {

// Base of what a handle stands for.
struct HandleSlot {
  std::atomic<uint32_t> generation{0};  // odd while alive
  std::atomic<uint32_t> pins{0};
  uint32_t index = 0;
};

// `Slot` derives from HandleSlot; `tag` tells the kinds of handles apart.
template <class Slot, uint8_t tag, class Handle>
class HandlePool {
 public:
  // A slot that is not alive yet, or nullptr when kMaximum handles are alive.
  Slot* acquire() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!unused_.empty()) {
      Slot* slot = unused_.front();
      unused_.pop_front();
      return slot;
    }
    uint32_t index = count_.load(std::memory_order_relaxed);
    if (index == kMaximum) return nullptr;
    Slot*& chunk = chunks_[index / kChunkSlots];
    if (chunk == nullptr) chunk = new Slot[kChunkSlots];
    Slot* slot = &chunk[index % kChunkSlots];
    slot->index = index;
    count_.store(index + 1, std::memory_order_release);
    return slot;
  }

  // The handle that publish() will make valid.
  Handle next_handle(const Slot* slot) const { return encode(slot, slot->generation.load() + 1); }

  // The handle of a slot that is alive.
  Handle current_handle(const Slot* slot) const { return encode(slot, slot->generation.load()); }

  // Makes the handle of a slot valid, once its fields are set.
  Handle publish(Slot* slot) {
    Handle handle = next_handle(slot);
    slot->generation.fetch_add(1);
    return handle;
  }

  // The slot that a handle names or named, dead or alive; nullptr if it never was a handle.
  Slot* slot(Handle handle) {
    uint64_t bits = reinterpret_cast<uint64_t>(handle);
    uint32_t index = static_cast<uint32_t>(bits);
    if (bits >> 56 != tag || index >= count_.load(std::memory_order_acquire)) return nullptr;
    return &chunks_[index / kChunkSlots][index % kChunkSlots];
  }

  // The slot of a live handle, pinned, or nullptr.
  Slot* pin(Handle handle) {
    Slot* found = slot(handle);
    if (found == nullptr) return nullptr;
    found->pins.fetch_add(1);
    uint32_t generation = found->generation.load();
    bool alive = (generation & 1) != 0;
    if (alive && (generation & kGenerationMask) == (reinterpret_cast<uint64_t>(handle) >> 32 & kGenerationMask)) {
      return found;
    }
    found->pins.fetch_sub(1);
    return nullptr;
  }

  static void unpin(Slot* slot) { slot->pins.fetch_sub(1); }

  // Makes the handle of a pinned slot invalid, drops that pin, and waits for all others. False, and the
  // pin is dropped, if another thread was faster.
  bool retire(Slot* slot) {
    uint32_t generation = slot->generation.load();
    bool retired = (generation & 1) != 0 && slot->generation.compare_exchange_strong(generation, generation + 1);
    unpin(slot);
    while (retired && slot->pins.load() != 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return retired;
  }

  // Gives back a slot that was acquired and is not alive.
  void recycle(Slot* slot) {
    std::lock_guard<std::mutex> lock(mutex_);
    unused_.push_back(slot);
  }

 private:
  static constexpr uint32_t kChunkSlots = 256;
  static constexpr uint32_t kMaximum = 1 << 20;
  static constexpr uint64_t kGenerationMask = 0xffffff;

  static Handle encode(const Slot* slot, uint64_t generation) {
    return reinterpret_cast<Handle>(uint64_t{tag} << 56 | (generation & kGenerationMask) << 32 | slot->index);
  }

  std::mutex mutex_;
  std::deque<Slot*> unused_;  // the longest unused first: a generation comes back after very long only
  alignas(64) std::atomic<uint32_t> count_{0};  // in a line with the first chunks: what pin() reads
  Slot* chunks_[kMaximum / kChunkSlots] = {};
};

// A pinned slot; empty if the handle is not valid.
template <class Pool>
class Pinned;

template <class Slot, uint8_t tag, class Handle>
class Pinned<HandlePool<Slot, tag, Handle>> {
 public:
  using Pool = HandlePool<Slot, tag, Handle>;
  Pinned(Pool& pool, Handle handle) : slot_(pool.pin(handle)) {}
  ~Pinned() {
    if (slot_ != nullptr) Pool::unpin(slot_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  explicit operator bool() const { return slot_ != nullptr; }
  Slot* operator->() const { return slot_; }
  Slot& operator*() const { return *slot_; }
  Slot* get() const { return slot_; }

  // The slot, whose pin is now the caller's.
  Slot* release() {
    Slot* slot = slot_;
    slot_ = nullptr;
    return slot;
  }

 private:
  Slot* slot_;
};

}  // namespace unihal::core
