// Seeing what Paddle runs on the CPU although the tensors are on a unihal device.
//
// Paddle chooses kernels in phi::KernelFactory: eager mode through SelectKernelOrThrowError, whose result says
// that the CPU's kernel was taken instead; graph building (to_static, Executor) by asking HasKernel and turning
// to the CPU when told no; the executor of the old intermediate representation by asking SelectKernel for the device's
// and then for the CPU's. libpaddle.so reaches all through its table of jump slots, so redirecting their slots
// sees every fallback. Under UNIHAL_STRICT=1 one is an exception in any mode; one of an op that writes in place
// always is (in_place.h).
//
// What a device refuses of a kernel's launches is no concern of this: the core runs that on the host (op.h).
#pragma once

namespace unihal::paddle {

// Redirects them; once per process. Returns nullptr, or what could not be found: then fallbacks go uncounted.
const char* watch_fallbacks();

}  // namespace unihal::paddle
