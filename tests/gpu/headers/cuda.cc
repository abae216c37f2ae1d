// Our declarations of CUDA's driver against its header, cuda.h. Compiled, never run.
#include <cuda.h>

#include "csrc/backends/gpu/corex.cc"
#include "csrc/backends/gpu/status.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

// Functions.
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) \
  static_assert(headers::agree<int parameters, decltype(::cuda)>(), #cuda " is declared otherwise");
#include "csrc/backends/gpu/functions.def"
UHAL_AGREES(cuGetErrorName, ::cuGetErrorName)
UHAL_AGREES(cuDevicePrimaryCtxRetain, ::cuDevicePrimaryCtxRetain)
UHAL_AGREES(cuCtxSetCurrent, ::cuCtxSetCurrent)
UHAL_AGREES(cuCtxEnablePeerAccess, ::cuCtxEnablePeerAccess)
UHAL_AGREES(cuMemcpyAsync, ::cuMemcpyAsync)
UHAL_AGREES(cuFuncSetAttribute, ::cuFuncSetAttribute)
UHAL_AGREES(cuGraphInstantiateWithFlags, ::cuGraphInstantiateWithFlags)

// Numbers.
static_assert(kAttributes.compute_units == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kAttributes.wavefront_size == CU_DEVICE_ATTRIBUTE_WARP_SIZE);
static_assert(kAttributes.max_group_size == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(kAttributes.local_memory == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
static_assert(kAttributes.clock_kilohertz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(kAttributes.memory_clock_kilohertz == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(kAttributes.memory_bus_bits == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(kAttributes.managed_memory == CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
static_assert(kAttributes.integrated == CU_DEVICE_ATTRIBUTE_INTEGRATED);
static_assert(kAttributes.launched_local_memory == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kMaxLaunchedLocalMemory == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

static_assert(kSuccess == CUDA_SUCCESS);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kPeerAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(headers::status_in(kMeanings, CUDA_ERROR_OUT_OF_MEMORY) == UHAL_RESOURCE_EXHAUSTED);
static_assert(headers::status_in(kMeanings, CUDA_ERROR_NOT_INITIALIZED) == UHAL_UNAVAILABLE);
static_assert(headers::status_in(kMeanings, CUDA_ERROR_DEINITIALIZED) == UHAL_FAILED_PRECONDITION);
static_assert(headers::status_in(kMeanings, CUDA_ERROR_NO_DEVICE) == UHAL_UNAVAILABLE);
static_assert(headers::status_in(kMeanings, CUDA_ERROR_INVALID_DEVICE) == UHAL_UNAVAILABLE);
static_assert(headers::status_in(kMeanings, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) == UHAL_RESOURCE_EXHAUSTED);
static_assert(headers::status_in(kMeanings, CUDA_ERROR_NOT_SUPPORTED) == UHAL_UNIMPLEMENTED);

static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventTimed == CU_EVENT_DEFAULT);
static_assert(kEventUntimed == CU_EVENT_DISABLE_TIMING);
static_assert(kPinnedPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kManagedGlobal == CU_MEM_ATTACH_GLOBAL);
static_assert(kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kMaxThreadsPerBlock == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);

}  // namespace unihal::gpu
