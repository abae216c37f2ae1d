#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_convolution(const uhal_op&) { return "convolution is not implemented in this build of the stub"; }

uhal_status run_convolution(const uhal_op& op) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_convolution(op)); }

}  // namespace unihal::stub
