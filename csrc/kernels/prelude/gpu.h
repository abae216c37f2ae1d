/* The dialect of csrc/kernels/source as C++ for HIP (clang, hipRTC) and CUDA (NVRTC, CoreX's clang). The words are
 * those of opencl.h, whose comment is their list; macros of the spec come first. Nothing is included: what a compiler
 * has not built in is declared here.
 *
 * Other than in OpenCL: UHAL_POINTER(x) is one pointer; a group without UHAL_GROUP_SIZE has at most 256 work-items
 * because its backend says so to the compiler; UHAL_NO_CONTRACTION is also looked for in the text of a program by
 * whoever compiles it, since NVRTC has an option for it and no pragma (csrc/backends/gpu/compiler.h). T16 is not here.
 *
 * Nothing may depend on __CUDA_ARCH__, which CoreX numbers differently, nor on the width of a warp, but where the host
 * has asked for a form of matrix_product.h, or the compiler is NVRTC, the only one that is not clang. */
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;

#if defined(__clang__)
#define UHAL_DEVICE __attribute__((device))
#define UHAL_KERNEL extern "C" __attribute__((global))
#define UHAL_LOCAL_MEMORY __attribute__((shared))
#define UHAL_LAUNCHED_LOCAL_MEMORY(type, name, count) \
  extern __attribute__((shared)) __attribute__((aligned(16))) type name[];
#define UHAL_INLINE UHAL_DEVICE static inline __attribute__((always_inline))
#else
#define UHAL_DEVICE __device__
#define UHAL_KERNEL extern "C" __global__
#define UHAL_LOCAL_MEMORY __shared__
#define UHAL_LAUNCHED_LOCAL_MEMORY(type, name, count) \
  extern __shared__ __align__(1024) type name[]; /* matrix_product.h */
#define UHAL_INLINE __device__ static __forceinline__
#endif
#if defined(__HIP__)
#define UHAL_GROUP_SIZE(x, y, z) __attribute__((amdgpu_flat_work_group_size((x) * (y) * (z), (x) * (y) * (z))))
#elif defined(__clang__)
#define UHAL_GROUP_SIZE(x, y, z) __attribute__((launch_bounds((x) * (y) * (z))))
#else
#define UHAL_GROUP_SIZE(x, y, z) __launch_bounds__((x) * (y) * (z))
#define UHAL_GROUPS_OF(size, count) __launch_bounds__(size, count)
#endif
#ifndef UHAL_GROUPS_OF
#define UHAL_GROUPS_OF(size, count) UHAL_GROUP_SIZE(size, 1, 1)
#endif
#if defined(__AMDGCN__)
#define UHAL_IS_AMD 1
#define UHAL_FORGET(value) __asm__ volatile("" : "+v"(value))
#else
#define UHAL_FORGET(value)
#endif
#if UHAL_IS_AMD && COMPACT
#define UHAL_COMPACT __attribute__((amdgpu_waves_per_eu(4)))
#else
#define UHAL_COMPACT
#endif
#define UHAL_GLOBAL
#define UHAL_LOCAL
#define UHAL_POINTER(name) char* name##_address
#define UHAL_ADDRESS(type, name) ((type*)name##_address)
/* An address that came as a uint64, of the device's memory: AMD's compiler knows that of pointers in arguments only. */
#if UHAL_IS_AMD
#define UHAL_ADDRESS_IN(type, number) ((type*)(__attribute__((address_space(1))) type*)(number))
#else
#define UHAL_ADDRESS_IN(type, number) ((type*)(number))
#endif
#define UHAL_UNROLL _Pragma("unroll")
#if defined(__clang__)
#define UHAL_NO_CONTRACTION _Pragma("clang fp contract(off)")
#else
#define UHAL_NO_CONTRACTION
#endif
/* NVRTC takes minutes over two unrolled turns with a strided layout in each (13.0 on row_norm.cl); clang, a second. */
#if defined(__clang__)
#define UHAL_COSTLY_UNROLLING 0
#else
#define UHAL_COSTLY_UNROLLING 1
#endif

/* -- work-items ------------------------------------------------------------------------------------------ */

#if defined(__HIP__)
#define UHAL_AXIS(query, axis) ((axis) == 0 ? query##x() : (axis) == 1 ? query##y() : query##z())
#define UHAL_LOCAL_ID(axis) ((INDEX)UHAL_AXIS(__builtin_amdgcn_workitem_id_, axis))
#define UHAL_LOCAL_SIZE(axis) ((INDEX)UHAL_AXIS(__builtin_amdgcn_workgroup_size_, axis))
#define UHAL_GROUP_ID(axis) ((INDEX)UHAL_AXIS(__builtin_amdgcn_workgroup_id_, axis))
#define UHAL_GLOBAL_SIZE(axis) ((INDEX)UHAL_AXIS(__builtin_amdgcn_grid_size_, axis))
#define UHAL_GROUP_COUNT(axis) (UHAL_GLOBAL_SIZE(axis) / UHAL_LOCAL_SIZE(axis))
#else
#define UHAL_AXIS(query, axis) ((axis) == 0 ? (query).x : (axis) == 1 ? (query).y : (query).z)
#define UHAL_LOCAL_ID(axis) ((INDEX)UHAL_AXIS(threadIdx, axis))
#define UHAL_LOCAL_SIZE(axis) ((INDEX)UHAL_AXIS(blockDim, axis))
#define UHAL_GROUP_ID(axis) ((INDEX)UHAL_AXIS(blockIdx, axis))
#define UHAL_GROUP_COUNT(axis) ((INDEX)UHAL_AXIS(gridDim, axis))
#define UHAL_GLOBAL_SIZE(axis) (UHAL_GROUP_COUNT(axis) * UHAL_LOCAL_SIZE(axis))
#endif
#define UHAL_GLOBAL_ID(axis) (UHAL_GROUP_ID(axis) * UHAL_LOCAL_SIZE(axis) + UHAL_LOCAL_ID(axis))

#if defined(__HIP__)
/* Local memory alone, where the compiler can tell: a fence for all memory waits for the loads in flight. */
#if __clang_major__ >= 19
#define UHAL_FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define UHAL_FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif
#define UHAL_BARRIER()            \
  do {                            \
    UHAL_FENCE(__ATOMIC_RELEASE); \
    __builtin_amdgcn_s_barrier(); \
    UHAL_FENCE(__ATOMIC_ACQUIRE); \
  } while (0)
#define UHAL_GLOBAL_BARRIER()                              \
  do {                                                     \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
    __builtin_amdgcn_s_barrier();                          \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
  } while (0)
#else
#define UHAL_BARRIER() __syncthreads()
#define UHAL_GLOBAL_BARRIER() __syncthreads()
#endif

/* -- types ----------------------------------------------------------------------------------------------- */

/* Four neighbours in memory, aligned to their size, with members x, y, z and w: uhal_load4_* of common.h. */
#if defined(__clang__)
#define UHAL_FOUR(type, name) typedef type name __attribute__((ext_vector_type(4)))
#else
template <class Number>
struct alignas(4 * sizeof(Number)) uhal_four_of {
  Number x, y, z, w;
  uhal_four_of() = default;
  UHAL_DEVICE uhal_four_of(Number value) : x(value), y(value), z(value), w(value) {}
};
#define UHAL_FOUR(type, name) typedef uhal_four_of<type> name
#endif
UHAL_FOUR(uint8, uhal_four_bool);
UHAL_FOUR(int8, uhal_four_int8);
UHAL_FOUR(int16, uhal_four_int16);
UHAL_FOUR(int32, uhal_four_int32);
UHAL_FOUR(int64, uhal_four_int64);
UHAL_FOUR(uint8, uhal_four_uint8);
UHAL_FOUR(uint16, uhal_four_uint16);
UHAL_FOUR(uint32, uhal_four_uint32);
UHAL_FOUR(uint64, uhal_four_uint64);
UHAL_FOUR(uint16, uhal_four_bfloat16);
UHAL_FOUR(float, uhal_four_float32);
UHAL_FOUR(double, uhal_four_float64);

#if UHAL_COMPUTE_complex_float
typedef float R;
#define UHAL_IS_COMPLEX 1
#elif UHAL_COMPUTE_complex_double
typedef double R;
#define UHAL_IS_COMPLEX 1
#elif UHAL_COMPUTE_double
typedef double T;
#define UHAL_IS_FLOATING 1
#elif UHAL_COMPUTE_int64
typedef int64 T;
#define UHAL_IS_SIGNED 1
#elif UHAL_COMPUTE_uint64
typedef uint64 T;
#else
typedef float T;
#define UHAL_IS_FLOATING 1
#endif
#if UHAL_IS_COMPLEX
typedef struct {
  R x, y;
} T;
#define C(value) uhal_complex((R)(value), (R)0)
#define UHAL_REAL(value) ((value).x)
UHAL_FOUR(R, T4); /* sixteen bytes, for sources that move elements of any dtype */
#else
typedef T R;
UHAL_FOUR(T, T4);
#define C(value) ((T)(value))
#define UHAL_REAL(value) (value)
#endif
#define UHAL_ZEROS T4()

/* -- bits ------------------------------------------------------------------------------------------------ */

#if defined(__clang__)
#define uhal_float_of_bits(bits) __builtin_bit_cast(float, (uint32)(bits))
#define uhal_bits_of_float(value) __builtin_bit_cast(uint32, (float)(value))
#define uhal_bits_of_double(value) __builtin_bit_cast(uint64, (double)(value))
#else
#define uhal_float_of_bits(bits) __uint_as_float((uint32)(bits))
#define uhal_bits_of_float(value) __float_as_uint((float)(value))
#define uhal_bits_of_double(value) ((uint64)__double_as_longlong((double)(value)))
#endif
#undef INFINITY
#define INFINITY uhal_float_of_bits(0x7f800000u)

/* binary16 in memory; arithmetic is float's. Both conversions are exact where they can be, and round to the nearest,
 * ties to even. */
#if defined(__HIP__)
UHAL_INLINE float uhal_float_of_half_bits(uint16 bits) { return (float)__builtin_bit_cast(_Float16, bits); }
UHAL_INLINE uint16 uhal_half_bits_of_float(float value) { return __builtin_bit_cast(uint16, (_Float16)value); }
#elif defined(__clang__)
UHAL_INLINE float uhal_float_of_half_bits(uint16 bits) {
  const uint32 sign = (bits & 0x8000u) << 16;
  const uint32 rest = bits & 0x7fffu;
  /* 2^-24 a unit: subnormal numbers have no exponent to shift. */
  const uint32 small = uhal_bits_of_float((float)rest * 5.9604644775390625e-8f);
  const uint32 usual = (rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u);
  return uhal_float_of_bits(sign | (rest < 0x400u ? small : usual));
}
UHAL_INLINE uint16 uhal_half_bits_of_float(float value) {
  const uint32 bits = uhal_bits_of_float(value);
  const uint32 sign = bits >> 16 & 0x8000u;
  const uint32 rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16)(sign | 0x7e00u);  /* NaN */
  if (rest >= 0x477ff000u) return (uint16)(sign | 0x7c00u); /* nearer to 2^16 than to the largest number */
  /* Beside 1/2, the last bit of a float is that of a subnormal number. */
  if (rest < 0x38800000u) return (uint16)(sign | (uhal_bits_of_float(uhal_float_of_bits(rest) + 0.5f) - 0x3f000000u));
  return (uint16)(sign | ((rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13));
}
#else
UHAL_INLINE float uhal_float_of_half_bits(uint16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
UHAL_INLINE uint16 uhal_half_bits_of_float(float value) {
  uint16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#endif
#define uhal_float_of_half(p, i) uhal_float_of_half_bits((p)[i])
#define uhal_half_of_float(p, i, value) ((p)[i] = uhal_half_bits_of_float((float)(value)))
#define uhal_from_float16(v) C(uhal_float_of_half_bits(v))
#define uhal_to_float16(v) uhal_half_bits_of_float(uhal_narrow(v))
typedef uhal_four_uint16 uhal_four_float16;
#define uhal_load4_float16(p, i, v) UHAL_LOAD4(float16, uhal_from_float16, p, i, v)
#define uhal_store4_float16(p, i, v) UHAL_STORE4(float16, uhal_to_float16, p, i, v)
#define uhal_low_float16(word) C(uhal_float_of_half_bits((uint16)(word)))
#define uhal_high_float16(word) C(uhal_float_of_half_bits((uint16)((word) >> 16)))
#define uhal_float16_pair(first, second) \
  ((uint32)uhal_half_bits_of_float(first) | (uint32)uhal_half_bits_of_float(second) << 16)
#define uhal_load8_float16(p, i, v) UHAL_LOAD_WORDS(uhal_low_float16, uhal_high_float16, p, i, v)
#define uhal_store8_float16(p, i, v) UHAL_STORE_WORDS(uhal_float16_pair, p, i, v)

/* bfloat16 by NVIDIA's instruction, which rounds as common.h does and is one for its eight. Only NVRTC is not clang,
 * and it numbers architectures as NVIDIA does. */
#if !defined(__clang__) && __CUDA_ARCH__ >= 800
#define UHAL_OWN_BFLOAT16 1
UHAL_INLINE uint16 uhal_bfloat16_of_float(float value) {
  uint16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
UHAL_INLINE uint32 uhal_bfloat16_pair(float first, float second) {
  uint32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
#endif

/* -- atomic operations: of the whole device, in no order with others -------------------------------------- */

#if defined(__HIP__)
template <class Number>
UHAL_INLINE Number uhal_exchange_if_equal(Number* p, Number expected, Number desired) {
  __hip_atomic_compare_exchange_strong(p, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
#define uhal_compare_exchange(p, old, new) uhal_exchange_if_equal((uint32*)(p), (uint32)(old), (uint32)(new))
#define uhal_compare_exchange_int32(p, old, new) uhal_exchange_if_equal((int32*)(p), (int32)(old), (int32)(new))
#define uhal_atomic_add_int32(p, value) \
  __hip_atomic_fetch_add((int32*)(p), (int32)(value), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define uhal_local_add_int32(p, value) \
  __hip_atomic_fetch_add((int32*)(p), (int32)(value), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP)
#else
#define uhal_compare_exchange(p, old, new) atomicCAS((uint32*)(p), (uint32)(old), (uint32)(new))
#define uhal_compare_exchange_int32(p, old, new) atomicCAS((int32*)(p), (int32)(old), (int32)(new))
#define uhal_atomic_add_int32(p, value) atomicAdd((int32*)(p), (int32)(value))
#define uhal_local_add_int32(p, value) atomicAdd((int32*)(p), (int32)(value))
#endif

/* -- between the work-items of a warp: NVRTC only --------------------------------------------------------- */

#if !defined(__clang__)
#define UHAL_WARP 32
/* The value of the work-item whose number differs in the bits of `mask`, which is less than UHAL_WARP. All of a warp
 * call it. */
template <class Value>
UHAL_INLINE Value uhal_shuffle(Value value, int32 mask) {
  static_assert(sizeof(Value) % sizeof(int32) == 0, "values move as words of 32 bits");
  union Words {
    Value value;
    int32 words[sizeof(Value) / sizeof(int32)];
    UHAL_DEVICE Words() {}
  } bits;
  bits.value = value;
  UHAL_UNROLL
  for (int32 i = 0; i < (int32)(sizeof(Value) / sizeof(int32)); ++i) {
    bits.words[i] = __shfl_xor_sync(0xffffffffu, bits.words[i], mask);
  }
  return bits.value;
}
/* A bit for each work-item of a warp: whether it gives another number than 0. All of the warp call it. */
UHAL_INLINE uint32 uhal_ballot(int32 predicate) { return __ballot_sync(0xffffffffu, predicate); }
UHAL_INLINE uint32 uhal_set_bits(uint32 word) { return (uint32)__popc(word); }
/* What a warp's work-items wrote to local memory before, all of them read after. */
#define UHAL_WARP_BARRIER() __syncwarp()
#endif

/* -- mathematics: overloads for float and double, by the names of OpenCL ---------------------------------- */

/* UHAL_FUNCTION_<arguments>(name, of float, of double) defines uhal_<name>. */
#define UHAL_FUNCTION_1(name, single, wide)                    \
  UHAL_INLINE float uhal_##name(float x) { return single(x); } \
  UHAL_INLINE double uhal_##name(double x) { return wide(x); }
#define UHAL_FUNCTION_2(name, single, wide)                                \
  UHAL_INLINE float uhal_##name(float x, float y) { return single(x, y); } \
  UHAL_INLINE double uhal_##name(double x, double y) { return wide(x, y); }
#define UHAL_FUNCTION_3(name, single, wide)                                            \
  UHAL_INLINE float uhal_##name(float x, float y, float z) { return single(x, y, z); } \
  UHAL_INLINE double uhal_##name(double x, double y, double z) { return wide(x, y, z); }

#if defined(__HIP__)
/* AMD's library, which every ROCm has and hipRTC links by itself. */
#define UHAL_LIBRARY_1(name)                                                        \
  extern "C" UHAL_DEVICE __attribute__((const)) float __ocml_##name##_f32(float);   \
  extern "C" UHAL_DEVICE __attribute__((const)) double __ocml_##name##_f64(double); \
  UHAL_FUNCTION_1(name, __ocml_##name##_f32, __ocml_##name##_f64)
#define UHAL_LIBRARY_2(name)                                                                \
  extern "C" UHAL_DEVICE __attribute__((const)) float __ocml_##name##_f32(float, float);    \
  extern "C" UHAL_DEVICE __attribute__((const)) double __ocml_##name##_f64(double, double); \
  UHAL_FUNCTION_2(name, __ocml_##name##_f32, __ocml_##name##_f64)
#define UHAL_BUILTIN_1(name) UHAL_FUNCTION_1(name, __builtin_##name##f, __builtin_##name)
#define UHAL_BUILTIN_2(name) UHAL_FUNCTION_2(name, __builtin_##name##f, __builtin_##name)
#define UHAL_BUILTIN_3(name) UHAL_FUNCTION_3(name, __builtin_##name##f, __builtin_##name)
#else
#define UHAL_LIBRARY_1(name) UHAL_FUNCTION_1(name, name##f, name)
#define UHAL_LIBRARY_2(name) UHAL_FUNCTION_2(name, name##f, name)
#define UHAL_BUILTIN_1 UHAL_LIBRARY_1
#define UHAL_BUILTIN_2 UHAL_LIBRARY_2
#define UHAL_BUILTIN_3(name) UHAL_FUNCTION_3(name, name##f, name)
#endif
UHAL_BUILTIN_1(ceil)
UHAL_BUILTIN_1(fabs)
UHAL_BUILTIN_1(floor)
UHAL_BUILTIN_1(rint)
UHAL_BUILTIN_1(round)
UHAL_BUILTIN_1(trunc)
UHAL_BUILTIN_2(copysign)
UHAL_BUILTIN_2(fmax)
UHAL_BUILTIN_2(fmin)
UHAL_BUILTIN_3(fma)
UHAL_LIBRARY_1(acos)
UHAL_LIBRARY_1(acosh)
UHAL_LIBRARY_1(asin)
UHAL_LIBRARY_1(asinh)
UHAL_LIBRARY_1(atan)
UHAL_LIBRARY_1(atanh)
UHAL_LIBRARY_1(cos)
UHAL_LIBRARY_1(cosh)
UHAL_LIBRARY_1(erf)
UHAL_LIBRARY_1(erfc)
UHAL_LIBRARY_1(exp)
UHAL_LIBRARY_1(expm1)
UHAL_LIBRARY_1(log)
UHAL_LIBRARY_1(log10)
UHAL_LIBRARY_1(log1p)
UHAL_LIBRARY_1(log2)
UHAL_LIBRARY_1(rsqrt)
UHAL_LIBRARY_1(sin)
UHAL_LIBRARY_1(sinh)
UHAL_LIBRARY_1(tan)
UHAL_LIBRARY_1(tanh)
UHAL_LIBRARY_2(atan2)
UHAL_LIBRARY_2(fmod)
UHAL_LIBRARY_2(nextafter)
UHAL_LIBRARY_2(pow)
/* Clang rounds its own square root of a float correctly from version 19 on; before, AMD's library did that. */
#if __clang_major__ >= 19
UHAL_BUILTIN_1(sqrt)
#else
UHAL_LIBRARY_1(sqrt)
#endif

#if defined(__HIP__)
UHAL_INLINE float uhal_ldexp(float x, int32 exponent) { return __builtin_ldexpf(x, exponent); }
UHAL_INLINE double uhal_ldexp(double x, int32 exponent) { return __builtin_ldexp(x, exponent); }
#else
UHAL_INLINE float uhal_ldexp(float x, int32 exponent) { return ldexpf(x, exponent); }
UHAL_INLINE double uhal_ldexp(double x, int32 exponent) { return ldexp(x, exponent); }
#endif

template <class Number>
UHAL_INLINE Number uhal_min(Number a, Number b) {
  return b < a ? b : a;
}
template <class Number>
UHAL_INLINE Number uhal_max(Number a, Number b) {
  return a < b ? b : a;
}

/* Macros, so that a compiler's own functions of these names are not in the way. */
#define acos(x) uhal_acos(x)
#define acosh(x) uhal_acosh(x)
#define asin(x) uhal_asin(x)
#define asinh(x) uhal_asinh(x)
#define atan(x) uhal_atan(x)
#define atan2(x, y) uhal_atan2(x, y)
#define atanh(x) uhal_atanh(x)
#define ceil(x) uhal_ceil(x)
#define copysign(x, y) uhal_copysign(x, y)
#define cos(x) uhal_cos(x)
#define cosh(x) uhal_cosh(x)
#define erf(x) uhal_erf(x)
#define erfc(x) uhal_erfc(x)
#define exp(x) uhal_exp(x)
#define expm1(x) uhal_expm1(x)
#define fabs(x) uhal_fabs(x)
#define floor(x) uhal_floor(x)
#define fma(x, y, z) uhal_fma(x, y, z)
#define fmax(x, y) uhal_fmax(x, y)
#define fmin(x, y) uhal_fmin(x, y)
#define fmod(x, y) uhal_fmod(x, y)
#define ldexp(x, exponent) uhal_ldexp(x, exponent)
#define log(x) uhal_log(x)
#define log10(x) uhal_log10(x)
#define log1p(x) uhal_log1p(x)
#define log2(x) uhal_log2(x)
#define max(x, y) uhal_max(x, y)
#define min(x, y) uhal_min(x, y)
#define nextafter(x, y) uhal_nextafter(x, y)
#define pow(x, y) uhal_pow(x, y)
#define rint(x) uhal_rint(x)
#define round(x) uhal_round(x)
#define rsqrt(x) uhal_rsqrt(x)
#define sin(x) uhal_sin(x)
#define sinh(x) uhal_sinh(x)
#define sqrt(x) uhal_sqrt(x)
#define tan(x) uhal_tan(x)
#define tanh(x) uhal_tanh(x)
#define trunc(x) uhal_trunc(x)
