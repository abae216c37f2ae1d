// What the bytes of a communicator's id say.
#pragma once

#include <string>

#include "csrc/backends/common/rank_board.h"
#include "unihal/collectives.h"

namespace unihal::stub {

// Fills an id of random bytes.
RankFailure make_id(uhal_communicator_id* id);

// The name of the segment that belongs to an id. UHAL_INVALID_ARGUMENT for bytes that make_id did not make.
RankFailure name_of_segment(const uhal_communicator_id& id, std::string* name);

}  // namespace unihal::stub
