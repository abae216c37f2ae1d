#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_convolution(const uhal_op&) { return "convolution is not implemented in this build of the stub"; }

uhal_status run_convolution(const Launch& launch) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_convolution(launch.op)); }

}  // namespace unihal::stub
