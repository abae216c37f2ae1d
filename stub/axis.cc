#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_axis(const uhal_op& op) { return refusal("op kind %d is not built into the stub yet", op.kind); }
uhal_status run_axis(const Launch&) { return UHAL_OK; }

}  // namespace unihal::stub
