#include "plugins/paddle/memory_pool.h"

#include <atomic>

#include "plugins/paddle/library.h"
#include "plugins/paddle/small_allocations.h"

namespace unihal::paddle {
namespace {

// Paddle's FLAGS_free_idle_chunk, a bool that each deallocation reads; paddle.set_flags refuses it.
constexpr const char* kFreeIdleChunk = "_ZN12paddle_flags21FLAGS_free_idle_chunkE";

std::atomic<bool> asked_for{false};

}  // namespace

bool keep_no_idle_memory() {
  asked_for = true;
  keep_no_small_allocations();
  void* library = find_paddle_library(kFreeIdleChunk);
  if (library == nullptr) return false;
  *static_cast<bool*>(dlsym(library, kFreeIdleChunk)) = true;
  return true;
}

bool keeps_no_idle_memory() { return asked_for; }

}  // namespace unihal::paddle
