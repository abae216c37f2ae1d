// UNIHAL_CHECK_NAN=1: stops at the first op whose output is not finite.
#pragma once

#include "csrc/core/handle/stream.h"
#include "csrc/core/op/table.h"

namespace unihal::core {

// Waits for the stream and looks at the op's floating outputs. UHAL_DATA_LOSS names the first element that is
// NaN or infinite. Called without the submission lock.
uhal_status check_outputs_finite(Stream* stream, const OpView& op);

}  // namespace unihal::core
