// Our declarations of hipRTC against its header. Compiled, never run.
#define __HIP_PLATFORM_AMD__
#include <hip/hiprtc.h>

#include "csrc/backends/gpu/runtime_compiler.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

#define UHAL_CHECK(result, function, parameters) UHAL_AGREES(CompilerFunctions::function, ::hiprtc##function)
UHAL_RUNTIME_COMPILER_FUNCTIONS(UHAL_CHECK)
UHAL_AGREES(CompilerFunctions::code_size, ::hiprtcGetCodeSize)
UHAL_AGREES(CompilerFunctions::code, ::hiprtcGetCode)
static_assert(kCompilerSuccess == HIPRTC_SUCCESS);

}  // namespace unihal::gpu
