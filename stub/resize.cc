#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_resize(const uhal_op&) { return "resizing is not implemented in this build of the stub"; }

uhal_status run_resize(const uhal_op& op) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_resize(op)); }

}  // namespace unihal::stub
