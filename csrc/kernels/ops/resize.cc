#include "csrc/kernels/ops.h"

namespace unihal::kernels {

const char* refuse_resize(const DeviceTraits&, const uhal_op&) { return "not written yet"; }

uhal_status run_resize(Queue&, const uhal_op&) { return fail(UHAL_UNIMPLEMENTED, "not written yet"); }

}  // namespace unihal::kernels
