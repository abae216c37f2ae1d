#include "stub/strict/pages.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace unihal::stub::strict {

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

void fill_with_poison(void* memory, size_t bytes) {
  constexpr size_t kPiece = 4096;
  char* data = static_cast<char*>(memory);
  const size_t first = std::min(bytes, kPiece);
  for (size_t i = 0; i < first; ++i) data[i] = static_cast<char>(i % 2 == 0 ? kPoison & 0xFF : kPoison >> 8);
  for (size_t done = first; done < bytes;) {
    const size_t part = std::min(kPiece, bytes - done);
    std::memcpy(data + done, data, part);
    done += part;
  }
}

}  // namespace unihal::stub::strict
