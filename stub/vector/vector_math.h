// libm's functions with glibc's vector variants: GCC then vectorizes loops that call them. Include before any use. They
// are pure here (without errno): a loop may also compute what a condition then leaves out.
#pragma once

#include <math.h>

#ifdef UHAL_HAVE_LIBMVEC
extern "C" {
#define UHAL_VECTOR1(name)                                                         \
  __attribute__((simd("notinbranch"), const)) extern double name(double) noexcept; \
  __attribute__((simd("notinbranch"), const)) extern float name##f(float) noexcept;
#define UHAL_VECTOR2(name)                                                                 \
  __attribute__((simd("notinbranch"), const)) extern double name(double, double) noexcept; \
  __attribute__((simd("notinbranch"), const)) extern float name##f(float, float) noexcept;
UHAL_VECTOR1(exp)
UHAL_VECTOR1(expm1)
UHAL_VECTOR1(log)
UHAL_VECTOR1(log1p)
UHAL_VECTOR1(log2)
UHAL_VECTOR1(log10)
UHAL_VECTOR1(sin)
UHAL_VECTOR1(cos)
UHAL_VECTOR1(tan)
UHAL_VECTOR1(asin)
UHAL_VECTOR1(acos)
UHAL_VECTOR1(atan)
UHAL_VECTOR1(sinh)
UHAL_VECTOR1(cosh)
UHAL_VECTOR1(tanh)
UHAL_VECTOR1(asinh)
UHAL_VECTOR1(acosh)
UHAL_VECTOR1(atanh)
UHAL_VECTOR1(erf)
UHAL_VECTOR1(erfc)
UHAL_VECTOR2(atan2)
UHAL_VECTOR2(pow)
#undef UHAL_VECTOR1
#undef UHAL_VECTOR2
}
#endif
