// Submitting host callbacks.
#pragma once

#include "csrc/core/handle/stream.h"

namespace unihal::core {

// Submits a callback to a stream whose backend takes some. A backend that calls it before its slot returns, when the
// stream's lock is held, has it called after that.
uhal_status submit_host_callback(Stream* stream, uhal_host_function function, void* user_data);

}  // namespace unihal::core
