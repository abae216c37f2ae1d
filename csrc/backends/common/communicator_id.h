// What the bytes of a communicator's id say: which backend made it, random bytes, and what its library needs.
#pragma once

#include <cstddef>
#include <string>

#include "csrc/backends/common/rank_board.h"
#include "unihal/collectives.h"

namespace unihal {

// Most bytes that an id holds for a library.
inline constexpr size_t kMostLibraryBytes = 192;

// Makes an id. `backend` has at most 15 letters.
RankFailure make_communicator_id(const char* backend, const void* library_bytes, size_t count,
                                 uhal_communicator_id* id);

// Reads an id: the name of the board on which its ranks meet, and the library's bytes. UHAL_INVALID_ARGUMENT for one
// that this backend did not make.
RankFailure read_communicator_id(const char* backend, const uhal_communicator_id& id, std::string* board,
                                 void* library_bytes, size_t count);

}  // namespace unihal
