// Ops of the backend table: found in the table of kernels, refused with a reason or run at once.
#pragma once

#include "stub/common/kernels.h"

namespace unihal::stub {

// UHAL_OK, or UHAL_UNIMPLEMENTED after a report of the reason.
uhal_status supports(const uhal_op& op);

// Runs a validated op to its end.
uhal_status launch(uhal_stream* stream, const uhal_op& op);

}  // namespace unihal::stub
