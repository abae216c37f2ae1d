#include "stub/common/move.h"

#include <algorithm>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "stub/common/parallel.h"
#include "stub/vector/compute.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kFillBytes = 16 * kCacheLine;
constexpr int64_t kBytesPerUnit = 8;  // copying is that much cheaper than computing

// Writes `count` lines that all hold what `line` does. By stores alone: copying a line that is in the caches again and
// again takes twice the time, for its loads.
UNIHAL_VECTORIZED void repeat_line(char* to, const char* line, int64_t count) {
  typedef uint64_t Line __attribute__((vector_size(kCacheLine), aligned(1), may_alias));
  const Line value = *reinterpret_cast<const Line*>(line);
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<Line*>(to)[i] = value;
}

}  // namespace

void stream_bytes(void* destination, const void* source, int64_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  const StreamLines stream = vectors().stream_lines;
  const int64_t head = std::min(bytes, -static_cast<int64_t>(reinterpret_cast<uintptr_t>(to)) & (kCacheLine - 1));
  const int64_t lines = stream != nullptr ? (bytes - head) / kCacheLine : 0;
  const int64_t rest = head + lines * kCacheLine;
  std::memcpy(to, from, static_cast<size_t>(head));
  if (lines > 0) stream(to + head, from + head, lines);
  std::memcpy(to + rest, from + rest, static_cast<size_t>(bytes - rest));
}

void finish_streaming() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

void move_bytes(void* destination, const void* source, int64_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  if (bytes <= 0 || to == from) return;
  const int64_t lines = (bytes + kCacheLine - 1) / kCacheLine;
  parallel_for(lines, kCacheLine / kBytesPerUnit, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kCacheLine;
    const int64_t length = std::min(bytes, end * kCacheLine) - first;
    if (bytes < kStreamBytes) {
      std::memcpy(to + first, from + first, static_cast<size_t>(length));
    } else {
      stream_bytes(to + first, from + first, length);
      finish_streaming();
    }
  });
}

void fill_bytes(void* destination, const void* pattern, int64_t pattern_bytes, int64_t bytes) {
  if (bytes <= 0) return;
  // A few cache lines of whole patterns are what is copied again and again.
  char lines[kFillBytes];
  std::memcpy(lines, pattern, static_cast<size_t>(pattern_bytes));
  for (int64_t filled = pattern_bytes; filled < std::min(bytes, kFillBytes); filled *= 2) {
    std::memcpy(lines + filled, lines, static_cast<size_t>(std::min(filled, kFillBytes - filled)));
  }
  char* to = static_cast<char*>(destination);
  const int64_t pieces = (bytes + kFillBytes - 1) / kFillBytes;
  parallel_for(pieces, kFillBytes / kBytesPerUnit, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(bytes, end * kFillBytes);
    int64_t at = begin * kFillBytes;
    if (bytes < kStreamBytes) {
      const int64_t whole = (last - at) / kCacheLine;
      repeat_line(to + at, lines, whole);
      at += whole * kCacheLine;
      std::memcpy(to + at, lines, static_cast<size_t>(last - at));
      return;
    }
    for (; at < last; at += kFillBytes) stream_bytes(to + at, lines, std::min(kFillBytes, last - at));
    finish_streaming();
  });
}

}  // namespace unihal::stub
