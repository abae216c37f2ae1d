// Which of the two this library is: it is compiled once with HIP's names and once with CUDA's (ON_HOST_CUDA).
#pragma once

#ifdef ON_HOST_CUDA
#define ON_HOST_NAME(cuda, hip) cuda
#else
#define ON_HOST_NAME(cuda, hip) hip
#endif

#define ON_HOST_EXPORT extern "C" __attribute__((visibility("default")))

namespace on_host {

#ifdef ON_HOST_CUDA
constexpr bool kIsCuda = true;
#else
constexpr bool kIsCuda = false;
#endif

}  // namespace on_host
