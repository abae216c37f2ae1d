#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_attention(const uhal_op&) { return "attention is not implemented in this build of the stub"; }

uhal_status run_attention(const Launch& launch) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_attention(launch.op)); }

}  // namespace unihal::stub
