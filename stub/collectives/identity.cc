#include "stub/collectives/identity.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace unihal::stub {
namespace {

// An id is this, the random bytes, and zeros.
constexpr char kMark[16] = "unihal stub id1";
constexpr size_t kRandomBytes = 16;

}  // namespace

RankFailure make_id(uhal_communicator_id* id) {
  *id = {};
  std::memcpy(id->bytes, kMark, sizeof kMark);
  if (getrandom(id->bytes + sizeof kMark, kRandomBytes, 0) == static_cast<ssize_t>(kRandomBytes)) return {};
  return {UHAL_UNAVAILABLE, std::string("the system gives no random bytes for a communicator's id: ") +
                                std::strerror(errno) + "; try again"};
}

RankFailure name_of_segment(const uhal_communicator_id& id, std::string* name) {
  constexpr size_t kUsed = sizeof kMark + kRandomBytes;
  bool made_here = std::memcmp(id.bytes, kMark, sizeof kMark) == 0;
  for (size_t i = kUsed; i < sizeof id.bytes; ++i) made_here = made_here && id.bytes[i] == 0;
  if (!made_here) {
    return {UHAL_INVALID_ARGUMENT,
            "the communicator's id is none of the stub's; pass the bytes that one rank got for a device of this "
            "backend, all of them unchanged"};
  }
  static const char kDigits[] = "0123456789abcdef";
  name->clear();
  for (size_t i = sizeof kMark; i < kUsed; ++i) {
    const auto byte = static_cast<unsigned char>(id.bytes[i]);
    *name += kDigits[byte >> 4];
    *name += kDigits[byte & 15];
  }
  return {};
}

}  // namespace unihal::stub
