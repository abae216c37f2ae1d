// Functions compiled for several instruction sets; the one that fits the processor is chosen at load.
#pragma once

// Put before the definition of a function with a hot loop. What it calls must be inlined to profit.
// The sanitizers' runtimes are not up yet when the dynamic linker makes its choice; clang has no clones of templates. A
// build for this machine only (UNIHAL_STUB_INSTRUCTION_SETS=NATIVE) needs the one that its processor would get.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#ifdef UHAL_STUB_NATIVE_LEVEL
#define UNIHAL_VECTORIZED __attribute__((target("arch=" UHAL_STUB_NATIVE_LEVEL)))
#else
#define UNIHAL_VECTORIZED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#else
#define UNIHAL_VECTORIZED
#endif

// Put before the definition of what only processors with vectors of 64 bytes run. Nothing is chosen at load, so
// sanitizers do not mind.
#if defined(__x86_64__)
#define UNIHAL_WIDE __attribute__((target("arch=x86-64-v4")))
#else
#define UNIHAL_WIDE
#endif

namespace unihal::stub {

// Whether this processor has vectors of 64 bytes, as the functions above need them.
inline bool has_wide_vectors() {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                           __builtin_cpu_supports("avx512vl");
  return wide;
#else
  return false;
#endif
}

}  // namespace unihal::stub

#define UNIHAL_INLINE inline __attribute__((always_inline))
#define UNIHAL_INLINE_LAMBDA __attribute__((always_inline))
