#include "plugins/paddle/stream.h"

#include <atomic>
#include <mutex>

namespace unihal::paddle {
namespace {

// A process has one stream per device and two or three per DataLoader, so they are searched one by one. Blocks stay for
// the life of the process.
struct Block {
  std::atomic<const Stream*> streams[32] = {};
  std::atomic<Block*> next{nullptr};
};

Block first;
std::mutex changing;

std::atomic<const Stream*>* place_of_stream(const Stream* stream) {
  for (Block* block = &first; block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    for (auto& place : block->streams) {
      if (place.load(std::memory_order_acquire) == stream) return &place;
    }
  }
  return nullptr;
}

// Calls act(stream) for the streams of a device, until one fails. The caller holds `changing`.
template <class Act>
uhal_status for_each(const uhal_device* device, Act act) {
  for (Block* block = &first; block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    for (auto& place : block->streams) {
      const Stream* stream = place.load(std::memory_order_acquire);
      if (stream == nullptr || stream->device != device) continue;
      if (const uhal_status status = act(*stream); status != UHAL_OK) return status;
    }
  }
  return UHAL_OK;
}

}  // namespace

void add_stream(Stream* stream) {
  const std::lock_guard<std::mutex> lock(changing);
  std::atomic<const Stream*>* place = place_of_stream(nullptr);
  if (place == nullptr) {
    auto* block = new Block;
    place = &block->streams[0];
    Block* last = &first;
    while (Block* next = last->next.load()) last = next;
    last->next.store(block, std::memory_order_release);
  }
  place->store(stream, std::memory_order_release);
}

void remove_stream(Stream* stream) {
  const std::lock_guard<std::mutex> lock(changing);
  if (std::atomic<const Stream*>* place = place_of_stream(stream)) place->store(nullptr, std::memory_order_release);
}

bool is_our_stream(const Stream* stream) { return stream != nullptr && place_of_stream(stream) != nullptr; }

uhal_status submit_in_device_order(uhal_device* device, const Stream* wanted, uhal_stream* otherwise,
                                   uhal_status (*submit)(uhal_stream* stream, void* argument), void* argument) {
  const std::lock_guard<std::mutex> lock(changing);
  const Stream* chosen = wanted;
  if (chosen == nullptr) for_each(device, [&](const Stream& stream) { return chosen = &stream, UHAL_OK; });
  if (chosen == nullptr) return submit(otherwise, argument);
  const auto wait = [](const Stream& later, const Stream& earlier) {
    const uhal_status status = uhal_event_record(earlier.passed, earlier.handle);
    return status == UHAL_OK ? uhal_stream_wait_event(later.handle, earlier.passed) : status;
  };
  const auto for_others = [&](auto act) {
    return for_each(device, [&](const Stream& other) { return &other == chosen ? UHAL_OK : act(other); });
  };
  uhal_status status = for_others([&](const Stream& other) { return wait(*chosen, other); });
  if (status == UHAL_OK) status = submit(chosen->handle, argument);
  if (status == UHAL_OK) status = for_others([&](const Stream& other) { return wait(other, *chosen); });
  return status;
}

}  // namespace unihal::paddle
