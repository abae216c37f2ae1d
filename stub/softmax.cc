#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_softmax(const uhal_op&) { return "softmax is not implemented in this build of the stub"; }

uhal_status run_softmax(const Launch& launch) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_softmax(launch.op)); }

}  // namespace unihal::stub
