#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_pool(const uhal_op&) { return "pooling is not implemented in this build of the stub"; }

uhal_status run_pool(const Launch& launch) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_pool(launch.op)); }

}  // namespace unihal::stub
