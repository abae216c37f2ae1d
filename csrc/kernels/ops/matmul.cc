#include "csrc/kernels/ops.h"

namespace unihal::kernels {

const char* refuse_matmul(const DeviceTraits&, const uhal_op&) { return "not written yet"; }

uhal_status run_matmul(Queue&, const uhal_op&) { return fail(UHAL_UNIMPLEMENTED, "not written yet"); }

}  // namespace unihal::kernels
