// Running on the host what a device refuses.
//
// The memory that the operands cover is copied to the host, the host's kernels run there, and what the op owns of its
// outputs is copied back: all of it as work of the stream, in its order, while the caller goes on. A backend without
// host callbacks is waited for instead. The op is counted as a fallback; under UNIHAL_STRICT=1 it is refused.
#pragma once

#include "csrc/core/handle/stream.h"
#include "csrc/core/op/table.h"

namespace unihal::core {

// The device's backend has just refused a validated op: its reason is the error record. On UHAL_OK the record is as it
// was when error_serial() was `serial`. On failure it says why the host cannot run the op either.
uhal_status run_on_host(Stream* stream, const OpView& view, uint64_t serial);

// The same answer without running anything.
uhal_status host_supports(const uhal_device& device, const OpView& view, uint64_t serial);

}  // namespace unihal::core
