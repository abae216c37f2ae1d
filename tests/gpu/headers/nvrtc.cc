// Our declarations of NVRTC against its header. Compiled, never run.
#include <nvrtc.h>

#include "csrc/backends/gpu/runtime_compiler.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

#define UHAL_CHECK(result, function, parameters) UHAL_AGREES(CompilerFunctions::function, ::nvrtc##function)
UHAL_RUNTIME_COMPILER_FUNCTIONS(UHAL_CHECK)
UHAL_AGREES(CompilerFunctions::code_size, ::nvrtcGetCUBINSize)
UHAL_AGREES(CompilerFunctions::code, ::nvrtcGetCUBIN)
UHAL_AGREES(CompilerFunctions::code_size, ::nvrtcGetPTXSize)
UHAL_AGREES(CompilerFunctions::code, ::nvrtcGetPTX)
static_assert(kCompilerSuccess == NVRTC_SUCCESS);

}  // namespace unihal::gpu
