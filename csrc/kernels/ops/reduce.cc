#include "csrc/kernels/ops.h"

namespace unihal::kernels {

const char* refuse_reduce(const DeviceTraits&, const uhal_op&) { return "not written yet"; }

uhal_status run_reduce(Queue&, const uhal_op&) { return fail(UHAL_UNIMPLEMENTED, "not written yet"); }

}  // namespace unihal::kernels
