#include "csrc/backends/common/communicator_id.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace unihal {
namespace {

// As the bytes lie in the id.
struct Layout {
  char mark[16];     // "unihal id 1"
  char backend[16];  // with its NUL
  unsigned char random[16];
  char library[kMostLibraryBytes];
  char unused[16];
};
static_assert(sizeof(Layout) == sizeof(uhal_communicator_id));

constexpr char kMark[sizeof Layout::mark] = "unihal id 1";

}  // namespace

RankFailure make_communicator_id(const char* backend, const void* library_bytes, size_t count,
                                 uhal_communicator_id* id) {
  Layout layout = {};
  std::memcpy(layout.mark, kMark, sizeof kMark);
  std::strncpy(layout.backend, backend, sizeof layout.backend - 1);
  if (count != 0) std::memcpy(layout.library, library_bytes, count);
  if (getrandom(layout.random, sizeof layout.random, 0) != static_cast<ssize_t>(sizeof layout.random)) {
    return {UHAL_UNAVAILABLE, std::string("the system gives no random bytes for a communicator's id: ") +
                                  std::strerror(errno) + "; try again"};
  }
  std::memcpy(id->bytes, &layout, sizeof layout);
  return {};
}

RankFailure read_communicator_id(const char* backend, const uhal_communicator_id& id, std::string* board,
                                 void* library_bytes, size_t count) {
  Layout layout;
  std::memcpy(&layout, id.bytes, sizeof layout);
  const bool made_by_us = std::memcmp(layout.mark, kMark, sizeof kMark) == 0 &&
                          std::strncmp(layout.backend, backend, sizeof layout.backend) == 0;
  if (!made_by_us) {
    return {UHAL_INVALID_ARGUMENT, std::string("the communicator's id is none of the backend ") + backend +
                                       "; pass the bytes that one rank got for a device of this backend, all of them "
                                       "unchanged"};
  }
  static const char kDigits[] = "0123456789abcdef";
  board->clear();
  for (const unsigned char byte : layout.random) {
    *board += kDigits[byte >> 4];
    *board += kDigits[byte & 15];
  }
  if (count != 0) std::memcpy(library_bytes, layout.library, count);
  return {};
}

}  // namespace unihal
