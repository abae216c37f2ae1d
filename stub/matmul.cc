#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_matmul(const uhal_op&) { return "matmul is not implemented in this build of the stub"; }

uhal_status run_matmul(const Launch& launch) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_matmul(launch.op)); }

}  // namespace unihal::stub
