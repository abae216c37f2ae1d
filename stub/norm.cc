#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_norm(const uhal_op&) { return "normalization is not implemented in this build of the stub"; }

uhal_status run_norm(const Launch& launch) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_norm(launch.op)); }

}  // namespace unihal::stub
