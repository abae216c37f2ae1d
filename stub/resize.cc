#include "stub/kernels.h"

namespace unihal::stub {

const char* refuse_resize(const uhal_op&) { return "resizing is not implemented in this build of the stub"; }

uhal_status run_resize(const Launch& launch) { return fail(UHAL_UNIMPLEMENTED, "%s", refuse_resize(launch.op)); }

}  // namespace unihal::stub
