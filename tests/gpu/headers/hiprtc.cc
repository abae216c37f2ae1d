// Our declarations of hipRTC against its header. Compiled, never run.
#define __HIP_PLATFORM_AMD__
#include <hip/hiprtc.h>

#include "csrc/backends/gpu/runtime_compiler.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

#define UHAL_CHECK(result, function, parameters) UHAL_AGREES(Functions::function, ::hiprtc##function)
UHAL_RUNTIME_COMPILER_FUNCTIONS(UHAL_CHECK)
UHAL_AGREES(Functions::code_size, ::hiprtcGetCodeSize)
UHAL_AGREES(Functions::code, ::hiprtcGetCode)
static_assert(kSuccess == HIPRTC_SUCCESS);

}  // namespace unihal::gpu
