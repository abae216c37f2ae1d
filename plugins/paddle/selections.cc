#include "plugins/paddle/selections.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "plugins/paddle/registry.h"

namespace unihal::paddle {
namespace {

std::atomic<bool> wanted{false};
std::mutex mutex;

std::set<std::pair<std::string, int32_t>>& chosen() {
  static auto* kernels = new std::set<std::pair<std::string, int32_t>>();
  return *kernels;
}

}  // namespace

void note_selection(const std::string& kernel, int32_t dtype) {
  if (!wanted.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex);
  chosen().emplace(kernel, dtype);
}

}  // namespace unihal::paddle

// The kernels that Paddle chose for unihal's devices since the last call, "name dtype" a line. From the first call on
// they are noted, which takes a lock each time: it is for tests. The text lives until the next call.
extern "C" __attribute__((visibility("default"))) const char* uhal_paddle_selections() {
  using namespace unihal::paddle;
  static std::string text;
  const std::lock_guard<std::mutex> lock(mutex);
  wanted = true;
  text.clear();
  for (const auto& [kernel, dtype] : chosen()) text += kernel + " " + dtype_name(dtype_of_number(dtype)) + "\n";
  chosen().clear();
  return text.c_str();
}
