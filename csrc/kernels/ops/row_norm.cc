#include "csrc/kernels/ops.h"

namespace unihal::kernels {

const char* refuse_row_norm(const DeviceTraits&, const uhal_op&) { return "not written yet"; }

uhal_status run_row_norm(Queue&, const uhal_op&) { return fail(UHAL_UNIMPLEMENTED, "not written yet"); }

}  // namespace unihal::kernels
