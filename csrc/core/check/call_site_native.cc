// The native callers of a call site.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "csrc/core/check/call_site.h"

namespace unihal::core {
namespace {

constexpr int kMostFrames = 64;      // looked at
constexpr int kMostCallers = 2;      // shown
constexpr size_t kMostSymbol = 120;  // characters; template arguments can be very long

const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Where this library lies in memory.
const void* own_base() {
  static const void* const base = [] {
    Dl_info library = {};
    dladdr(reinterpret_cast<void*>(&own_base), &library);
    return library.dli_fbase;
  }();
  return base;
}

std::string readable(const char* symbol) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string text = status == 0 && demangled != nullptr ? demangled : symbol;
  free(demangled);
  if (text.size() > kMostSymbol) text = text.substr(0, kMostSymbol) + "...";
  return text;
}

// "libx.so: function +0x12", "program +0x1234" without a symbol, "" for an address of the core.
std::string describe(const void* address) {
  Dl_info place = {};
  char offset[32];
  if (dladdr(address, &place) == 0 || place.dli_fname == nullptr) {
    snprintf(offset, sizeof offset, "%p", address);
    return offset;
  }
  if (place.dli_fbase == own_base()) return "";
  const void* start = place.dli_sname != nullptr ? place.dli_saddr : place.dli_fbase;
  snprintf(offset, sizeof offset, " +0x%tx", static_cast<const char*>(address) - static_cast<const char*>(start));
  std::string text = base_name(place.dli_fname);
  if (place.dli_sname != nullptr) text += ": " + readable(place.dli_sname);
  return text + offset;
}

// Descriptions by address: looking up a symbol in a framework's library walks through all of its symbols.
class Descriptions {
 public:
  std::string of(const void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto [entry, inserted] = known_.try_emplace(address);
    if (inserted) entry->second = describe(address);
    return entry->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::string> known_;  // as many as the process has call sites
};

}  // namespace

std::string native_call_site() {
  static auto* const descriptions = new Descriptions;
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  std::string site;
  int lines = 0;
  bool in_core = false;  // before the core's own frames comes whatever stands in for backtrace(), such as a sanitizer
  for (int i = 0; i < count && lines < kMostCallers; ++i) {
    // A return address may lie just behind the function that called.
    const std::string line = descriptions->of(static_cast<const char*>(frames[i]) - 1);
    in_core = in_core || line.empty();
    if (line.empty() || !in_core) continue;
    site += (lines++ > 0 ? " < " : "") + line;
  }
  return site;
}

}  // namespace unihal::core
