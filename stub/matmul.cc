#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_matmul(const uhal_op&) { return "matmul is not implemented in this build of the stub"; }

uhal_status run_matmul(const uhal_op& op) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_matmul(op)); }

}  // namespace unihal::stub
