// Our declarations of HIP against its header, which is of ROCm 5.2 or later. Compiled, never run.
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__  // no overloads of what is checked
#include <hip/hip_runtime_api.h>

#include "csrc/backends/gpu/hip.cc"
#include "csrc/backends/gpu/status.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

// Functions.
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) \
  static_assert(headers::agree<int parameters, decltype(::hip)>(), #hip " is declared otherwise");
#include "csrc/backends/gpu/functions.def"
UHAL_AGREES(hipGetErrorName, ::hipGetErrorName)
UHAL_AGREES(hipSetDevice, ::hipSetDevice)
UHAL_AGREES(hipDeviceEnablePeerAccess, ::hipDeviceEnablePeerAccess)
UHAL_AGREES(hipMemcpyAsync, ::hipMemcpyAsync)
UHAL_AGREES(hipGraphInstantiate, ::hipGraphInstantiate)
UHAL_AGREES(hipGetDeviceProperties, ::hipGetDeviceProperties)

// Numbers.
static_assert(kAttributes.compute_units == hipDeviceAttributeMultiprocessorCount);
static_assert(kAttributes.wavefront_size == hipDeviceAttributeWarpSize);
static_assert(kAttributes.max_group_size == hipDeviceAttributeMaxThreadsPerBlock);
static_assert(kAttributes.local_memory == hipDeviceAttributeMaxSharedMemoryPerBlock);
static_assert(kAttributes.clock_kilohertz == hipDeviceAttributeClockRate);
static_assert(kAttributes.memory_clock_kilohertz == hipDeviceAttributeMemoryClockRate);
static_assert(kAttributes.memory_bus_bits == hipDeviceAttributeMemoryBusWidth);
static_assert(kAttributes.managed_memory == hipDeviceAttributeManagedMemory);
static_assert(kAttributes.integrated == hipDeviceAttributeIntegrated);

static_assert(kSuccess == hipSuccess);
static_assert(kOutOfMemory == hipErrorOutOfMemory);
static_assert(kNoDevice == hipErrorNoDevice);
static_assert(kNotReady == hipErrorNotReady);
static_assert(kPeerAlreadyEnabled == hipErrorPeerAccessAlreadyEnabled);
static_assert(headers::status_in(kMeanings, hipErrorOutOfMemory) == UHAL_RESOURCE_EXHAUSTED);
static_assert(headers::status_in(kMeanings, hipErrorNotInitialized) == UHAL_UNAVAILABLE);
static_assert(headers::status_in(kMeanings, hipErrorDeinitialized) == UHAL_FAILED_PRECONDITION);
static_assert(headers::status_in(kMeanings, hipErrorNoDevice) == UHAL_UNAVAILABLE);
static_assert(headers::status_in(kMeanings, hipErrorInvalidDevice) == UHAL_UNAVAILABLE);
static_assert(headers::status_in(kMeanings, hipErrorLaunchOutOfResources) == UHAL_RESOURCE_EXHAUSTED);
static_assert(headers::status_in(kMeanings, hipErrorNotSupported) == UHAL_UNIMPLEMENTED);

static_assert(kStreamNonBlocking == hipStreamNonBlocking);
static_assert(kEventTimed == hipEventDefault);
static_assert(kEventUntimed == hipEventDisableTiming);
static_assert(kPinnedPortable == hipHostMallocPortable);
static_assert(kManagedGlobal == hipMemAttachGlobal);
static_assert(kCaptureRelaxed == hipStreamCaptureModeRelaxed);
static_assert(kMaxThreadsPerBlock == HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(kMemcpyDefault == hipMemcpyDefault);

// hipDeviceProp_t is the struct of the header's release.
#if HIP_VERSION_MAJOR >= 6
static_assert(kNewArchitectureName == offsetof(hipDeviceProp_t, gcnArchName));
#else
static_assert(kOldArchitectureName == offsetof(hipDeviceProp_t, gcnArchName));
#endif
static_assert(kPropertyBytes >= sizeof(hipDeviceProp_t));

}  // namespace unihal::gpu
