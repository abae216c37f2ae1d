#include "stub/move.h"

#include <algorithm>
#include <cstring>

#include "stub/parallel.h"

namespace unihal::stub {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kBytesPerUnit = 8;  // copying is that much cheaper than computing

}  // namespace

void move_bytes(void* destination, const void* source, int64_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  if (bytes <= 0 || to == from) return;
  const int64_t lines = (bytes + kCacheLine - 1) / kCacheLine;
  parallel_for(lines, kCacheLine / kBytesPerUnit, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kCacheLine;
    std::memcpy(to + first, from + first, static_cast<size_t>(std::min(bytes, end * kCacheLine) - first));
  });
}

void fill_bytes(void* destination, const void* pattern, int64_t pattern_bytes, int64_t bytes) {
  if (bytes <= 0) return;
  // A cache line of whole patterns is what all loops below repeat.
  char line[kCacheLine];
  for (int64_t i = 0; i < kCacheLine; i += pattern_bytes) {
    std::memcpy(line + i, pattern, static_cast<size_t>(pattern_bytes));
  }
  const bool one_byte = std::all_of(line, line + kCacheLine, [&](char c) { return c == line[0]; });
  char* to = static_cast<char*>(destination);
  const int64_t lines = (bytes + kCacheLine - 1) / kCacheLine;
  parallel_for(lines, kCacheLine / kBytesPerUnit, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kCacheLine;
    const int64_t last = std::min(bytes, end * kCacheLine);
    if (one_byte) {
      std::memset(to + first, line[0], static_cast<size_t>(last - first));
      return;
    }
    int64_t at = first;
    for (; at + kCacheLine <= last; at += kCacheLine) std::memcpy(to + at, line, kCacheLine);
    std::memcpy(to + at, line, static_cast<size_t>(last - at));
  });
}

}  // namespace unihal::stub
