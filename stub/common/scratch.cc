#include "stub/common/scratch.h"

#include <cstdlib>

namespace unihal::stub {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallestBlock = size_t{1} << 20;
// What a thread keeps when its last frame ends; more than that goes back to the system.
constexpr size_t kLargestKept = size_t{512} << 20;
// Blocks of one op before they are joined; a fixed number, so that taking memory never throws.
constexpr size_t kMaxBlocks = 64;

struct Block {
  char* data;
  size_t bytes;
};

struct Stack {
  Block blocks[kMaxBlocks];
  size_t count = 0;
  size_t current = 0;  // index of the block in use
  size_t used = 0;     // bytes used in it

  ~Stack() { release(); }

  void release() {
    for (size_t i = 0; i < count; ++i) std::free(blocks[i].data);
    count = current = used = 0;
  }

  void* take(size_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    while (current < count && blocks[current].bytes - used < bytes) {
      ++current;
      used = 0;
    }
    if (current == count) {
      if (count == kMaxBlocks) return nullptr;
      const size_t size = bytes > kSmallestBlock ? bytes : kSmallestBlock;
      char* data = static_cast<char*>(std::aligned_alloc(kAlignment, size));
      if (data == nullptr) return nullptr;
      blocks[count++] = {data, size};
    }
    void* taken = blocks[current].data + used;
    used += bytes;
    return taken;
  }

  // Between ops: many blocks become one of their size, so that the next op finds its memory in one piece.
  void settle() {
    size_t total = 0;
    for (size_t i = 0; i < count; ++i) total += blocks[i].bytes;
    if (count <= 1 && total <= kLargestKept) return;
    release();
    if (total > kLargestKept) return;
    if (char* data = static_cast<char*>(std::aligned_alloc(kAlignment, total))) blocks[count++] = {data, total};
  }
};

thread_local Stack thread_stack;

}  // namespace

// A thread's variable is looked for each time that it is named, so it is named once.
ScratchFrame::ScratchFrame() {
  const Stack& stack = thread_stack;
  block_ = stack.current;
  used_ = stack.used;
}

ScratchFrame::~ScratchFrame() {
  Stack& stack = thread_stack;
  stack.current = block_;
  stack.used = used_;
  if (block_ == 0 && used_ == 0) stack.settle();
}

void* ScratchFrame::take(size_t bytes) {
  Stack& stack = thread_stack;
  return stack.take(bytes);
}

}  // namespace unihal::stub
