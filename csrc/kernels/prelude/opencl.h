/* The dialect of csrc/kernels/source as OpenCL C 1.2. This text goes before every kernel; macros of the spec come first
 * (UHAL_COMPUTE_float and so on), and from the device: UHAL_HAS_FLOAT64. gpu.h defines the same words for HIP and CUDA.
 *
 *   UHAL_KERNEL void name(UHAL_POINTER(x), UHAL_POINTER(y), INDEX count)   an entry; returns nothing
 *   UHAL_ADDRESS(type, x)      the pointer that UHAL_POINTER(x) passed, as a UHAL_GLOBAL type*
 *   UHAL_GROUP_SIZE(x, y, z)   after UHAL_KERNEL: the work-group has exactly this size; an entry without it has at
 *                              most 256 work-items in a group, and may run in smaller groups than it was launched
 *                              with, where the device allows no larger ones
 *   UHAL_GROUPS_OF(size, count)   the same of `size` work-items in a row, of which compilers that can be told leave
 *                              room for so many groups on a unit; 0: for whatever they find
 *   UHAL_COMPACT               after UHAL_GROUP_SIZE: if the spec has the macro COMPACT, AMD's compiler leaves
 *                              registers for four waves on each SIMD, and would rather spill than take more
 *   UHAL_GLOBAL type*          a pointer into the device's memory
 *   UHAL_LOCAL type*           a pointer into a work-group's memory
 *   UHAL_LOCAL_MEMORY type tile[64];   memory of a work-group, declared at the top of an entry
 *   UHAL_LAUNCHED_LOCAL_MEMORY(type, name, count)   the same, aligned to 16 bytes, with NVRTC to 1,024, of a size
 *                              that GPU backends are told at launch (Grid::local_bytes), since CUDA's compilers
 *                              take no more than 48 KiB else
 *   UHAL_BARRIER()             all work-items of the group reach it; local memory is in step after it
 *   UHAL_GLOBAL_BARRIER()      the same, and so is what the group wrote to the device's memory, within the group
 *   UHAL_GLOBAL_ID(axis)       as INDEX; and so UHAL_LOCAL_ID, UHAL_GROUP_ID, UHAL_GROUP_COUNT, UHAL_LOCAL_SIZE,
 *                              UHAL_GLOBAL_SIZE
 *   UHAL_INLINE                before a function
 *   UHAL_FORGET(value)         AMD's compiler takes the int32 for another one from here on, and computes what
 *                              follows from it anew instead of keeping it in registers; UHAL_IS_AMD is defined there
 *   UHAL_NO_CONTRACTION        in a line of its own at the top of a source: products and sums are rounded each,
 *                              never fused
 *
 * Types: T (the compute type; if UHAL_IS_COMPLEX, a struct of two R: complex.h), R (the type of T's parts, T itself
 * if it is real), C(v) (a real number v as a T), UHAL_REAL(v) (the real part of a T), INDEX (int or long,
 * UHAL_WIDE_INDEX), int64, uint64, int32, uint32, uint16, uint8.
 *
 *   T4                         four T, aligned to their size: members x, y, z, w; for wide loads and stores only.
 *                              UHAL_ZEROS is one
 *   T16                        16 T with arithmetic, in kernels for CPUs, which only OpenCL has; in local memory by
 *                              uhal_load16(p, i), uhal_store16(p, i, value): the i-th 16 elements from p
 *
 * Other vectors, images and subgroups are not part of it; nor are double (use T) and half. */
#if UHAL_HAS_FLOAT64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef long int64;
typedef ulong uint64;
typedef int int32;
typedef uint uint32;
/* Macros: OpenCL C has vector types of these names. */
#define int16 short
#define uint16 ushort
#define int8 char
#define uint8 uchar

#define UHAL_KERNEL __kernel
#define UHAL_GLOBAL __global
#define UHAL_LOCAL __local
#define UHAL_LOCAL_MEMORY __local
#define UHAL_LAUNCHED_LOCAL_MEMORY(type, name, count) __local type name[count] __attribute__((aligned(16)));
/* Always: PoCL 3 takes a work-group's local memory for a global variable, shared by its threads, where a function that
 * gets a pointer to it stays a call. */
#define UHAL_INLINE inline static __attribute__((always_inline))
#define UHAL_GROUP_SIZE(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))
#define UHAL_GROUPS_OF(size, count) UHAL_GROUP_SIZE(size, 1, 1)
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
#define UHAL_POINTER(name) UHAL_GLOBAL char *name##_base, int64 name##_offset
#define UHAL_ADDRESS(type, name) ((UHAL_GLOBAL type*)(name##_base + name##_offset))
#define UHAL_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define UHAL_GLOBAL_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define UHAL_UNROLL _Pragma("unroll")
#define UHAL_COSTLY_UNROLLING 0
#define UHAL_NO_CONTRACTION _Pragma("OPENCL FP_CONTRACT OFF")

#define UHAL_GLOBAL_ID(axis) ((INDEX)get_global_id(axis))
#define UHAL_GLOBAL_SIZE(axis) ((INDEX)get_global_size(axis))
#define UHAL_LOCAL_ID(axis) ((INDEX)get_local_id(axis))
#define UHAL_LOCAL_SIZE(axis) ((INDEX)get_local_size(axis))
#define UHAL_GROUP_ID(axis) ((INDEX)get_group_id(axis))
#define UHAL_GROUP_COUNT(axis) ((INDEX)get_num_groups(axis))

#if UHAL_COMPUTE_complex_float
typedef float R;
typedef float4 T4; /* sixteen bytes, for sources that move elements of any dtype */
#define UHAL_IS_COMPLEX 1
#elif UHAL_COMPUTE_complex_double
typedef double R;
#define UHAL_IS_COMPLEX 1
#elif UHAL_COMPUTE_double
typedef double T;
typedef double4 T4;
typedef double16 T16;
#define UHAL_IS_FLOATING 1
#elif UHAL_COMPUTE_int64
typedef int64 T;
typedef long4 T4;
typedef long16 T16;
#define UHAL_IS_SIGNED 1
#elif UHAL_COMPUTE_uint64
typedef uint64 T;
typedef ulong4 T4;
typedef ulong16 T16;
#else
typedef float T;
typedef float4 T4;
typedef float16 T16;
#define UHAL_IS_FLOATING 1
#endif
#if UHAL_IS_COMPLEX
typedef struct {
  R x, y;
} T;
#define C(value) uhal_complex((R)(value), (R)0)
#define UHAL_REAL(value) ((value).x)
#else
typedef T R;
#define C(value) ((T)(value))
#define UHAL_REAL(value) (value)
#endif
#define UHAL_ZEROS ((T4)(0))
#define uhal_load16(p, i) vload16((size_t)(i), (UHAL_LOCAL const T*)(p))
#define uhal_store16(p, i, value) vstore16(value, (size_t)(i), (UHAL_LOCAL T*)(p))

/* Four neighbours in memory, aligned to their size, with members x, y, z and w: uhal_load4_* of common.h. */
typedef uchar4 uhal_four_bool;
typedef char4 uhal_four_int8;
typedef short4 uhal_four_int16;
typedef int4 uhal_four_int32;
typedef long4 uhal_four_int64;
typedef uchar4 uhal_four_uint8;
typedef ushort4 uhal_four_uint16;
typedef uint4 uhal_four_uint32;
typedef ulong4 uhal_four_uint64;
typedef ushort4 uhal_four_bfloat16;
typedef float4 uhal_four_float32;
#if UHAL_HAS_FLOAT64
typedef double4 uhal_four_float64;
#endif

/* Bits of a value as another type of its size. */
#define uhal_float_of_bits(bits) as_float((uint32)(bits))
#define uhal_bits_of_float(value) as_uint((float)(value))
#if UHAL_HAS_FLOAT64
#define uhal_bits_of_double(value) as_ulong((double)(value))
#endif

/* binary16 in memory; arithmetic is float's. Both conversions are part of OpenCL C 1.2 without cl_khr_fp16. */
#define uhal_float_of_half(p, i) vload_half((size_t)(i), (UHAL_GLOBAL const half*)(p))
#define uhal_half_of_float(p, i, value) vstore_half_rte((float)(value), (size_t)(i), (UHAL_GLOBAL half*)(p))
#define uhal_load4_float16(p, i, v)                                                                     \
  do {                                                                                                  \
    const float4 uhal_four = vloada_half4(0, (UHAL_GLOBAL const half*)((p) + (i)));                     \
    (v)[0] = C(uhal_four.x), (v)[1] = C(uhal_four.y), (v)[2] = C(uhal_four.z), (v)[3] = C(uhal_four.w); \
  } while (0)
#define uhal_store4_float16(p, i, v)                                                                               \
  vstorea_half4_rte(                                                                                               \
      (float4)(uhal_narrow_of((v)[0]), uhal_narrow_of((v)[1]), uhal_narrow_of((v)[2]), uhal_narrow_of((v)[3])), 0, \
      (UHAL_GLOBAL half*)((p) + (i)))
#define uhal_load8_float16(p, i, v)                                                  \
  do {                                                                               \
    const float8 uhal_eight = vloada_half8(0, (UHAL_GLOBAL const half*)((p) + (i))); \
    (v)[0] = C(uhal_eight.s0), (v)[1] = C(uhal_eight.s1), (v)[2] = C(uhal_eight.s2); \
    (v)[3] = C(uhal_eight.s3), (v)[4] = C(uhal_eight.s4), (v)[5] = C(uhal_eight.s5); \
    (v)[6] = C(uhal_eight.s6), (v)[7] = C(uhal_eight.s7);                            \
  } while (0)
#define uhal_store8_float16(p, i, v)                                                                            \
  vstorea_half8_rte(                                                                                            \
      (float8)(uhal_narrow_of((v)[0]), uhal_narrow_of((v)[1]), uhal_narrow_of((v)[2]), uhal_narrow_of((v)[3]),  \
               uhal_narrow_of((v)[4]), uhal_narrow_of((v)[5]), uhal_narrow_of((v)[6]), uhal_narrow_of((v)[7])), \
      0, (UHAL_GLOBAL half*)((p) + (i)))

/* *p = new if *p == old; returns what was there. */
#define uhal_compare_exchange(p, old, new) \
  atomic_cmpxchg((volatile UHAL_GLOBAL uint32*)(p), (uint32)(old), (uint32)(new))
#define uhal_compare_exchange_int32(p, old, new) \
  atomic_cmpxchg((volatile UHAL_GLOBAL int32*)(p), (int32)(old), (int32)(new))
#define uhal_atomic_add_int32(p, value) atomic_add((volatile UHAL_GLOBAL int32*)(p), (int32)(value))
/* The same in local memory. */
#define uhal_local_add_int32(p, value) atomic_add((volatile UHAL_LOCAL int32*)(p), (int32)(value))
