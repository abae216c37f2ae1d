#include "stub/scratch.h"

#include <cstdlib>
#include <vector>

namespace unihal::stub {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallestBlock = size_t{1} << 20;
// What a thread keeps when its last frame ends; more than that goes back to the system.
constexpr size_t kLargestKept = size_t{512} << 20;

struct Block {
  char* data;
  size_t bytes;
};

struct Stack {
  std::vector<Block> blocks;
  size_t current = 0;  // index of the block in use
  size_t used = 0;     // bytes used in it

  ~Stack() { release(); }

  void release() {
    for (const Block& block : blocks) std::free(block.data);
    blocks.clear();
    current = used = 0;
  }

  void* take(size_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    while (current < blocks.size() && blocks[current].bytes - used < bytes) {
      ++current;
      used = 0;
    }
    if (current == blocks.size()) {
      const size_t size = bytes > kSmallestBlock ? bytes : kSmallestBlock;
      char* data = static_cast<char*>(std::aligned_alloc(kAlignment, size));
      if (data == nullptr) return nullptr;
      blocks.push_back({data, size});
    }
    void* taken = blocks[current].data + used;
    used += bytes;
    return taken;
  }

  // Between ops: many blocks become one of their size, so that the next op finds its memory in one piece.
  void settle() {
    size_t total = 0;
    for (const Block& block : blocks) total += block.bytes;
    if (blocks.size() <= 1 && total <= kLargestKept) return;
    release();
    if (total > kLargestKept) return;
    if (char* data = static_cast<char*>(std::aligned_alloc(kAlignment, total))) blocks.push_back({data, total});
  }
};

thread_local Stack stack;

}  // namespace

ScratchFrame::ScratchFrame() : block_(stack.current), used_(stack.used) {}

ScratchFrame::~ScratchFrame() {
  stack.current = block_;
  stack.used = used_;
  if (block_ == 0 && used_ == 0) stack.settle();
}

void* ScratchFrame::take(size_t bytes) { return stack.take(bytes); }

}  // namespace unihal::stub
