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

std::atomic<const Stream*>* find(const Stream* stream) {
  for (Block* block = &first; block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    for (auto& place : block->streams) {
      if (place.load(std::memory_order_acquire) == stream) return &place;
    }
  }
  return nullptr;
}

}  // namespace

void add_stream(Stream* stream) {
  const std::lock_guard<std::mutex> lock(changing);
  std::atomic<const Stream*>* place = find(nullptr);
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
  if (std::atomic<const Stream*>* place = find(stream)) place->store(nullptr, std::memory_order_release);
}

bool is_our_stream(const Stream* stream) { return stream != nullptr && find(stream) != nullptr; }

}  // namespace unihal::paddle
