#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_norm(const uhal_op&) { return "normalization is not implemented in this build of the stub"; }

uhal_status run_norm(const uhal_op& op) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_norm(op)); }

}  // namespace unihal::stub
