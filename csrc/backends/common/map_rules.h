// The rules of UHAL_OP_MAP that every backend follows: which type it computes in, and what its parameters are there.
#pragma once

#include <limits>

#include "csrc/backends/common/dtype.h"
#include "csrc/tables/elementwise.h"
#include "unihal/op.h"

namespace unihal {

enum class Arithmetic { kFloat, kDouble, kInt64, kUint64, kComplexFloat, kComplexDouble };

// op.h's "Arithmetic", and elementwise.def's for functions that are not defined on integers. `dtype_of(i)` is the dtype
// of operand i: the outputs come first.
template <class DtypeOf>
Arithmetic map_arithmetic(int outputs, int inputs, bool integer_function, DtypeOf&& dtype_of) {
  bool complex = false;
  bool doubled = false;
  bool floating = false;
  bool wide_integer = false;
  bool is_unsigned = false;
  for (int i = 0; i < outputs + inputs; ++i) {
    const uhal_dtype dtype = dtype_of(i);
    complex |= is_complex(dtype);
    doubled |= dtype == UHAL_FLOAT64 || dtype == UHAL_COMPLEX128;
    floating |= is_floating(dtype);
    wide_integer |= is_integer(dtype) && dtype_size(dtype) >= 4;
    is_unsigned |= dtype == UHAL_UINT64 && i >= outputs;
  }
  if (complex) return doubled ? Arithmetic::kComplexDouble : Arithmetic::kComplexFloat;
  if (doubled) return Arithmetic::kDouble;
  if (floating) return Arithmetic::kFloat;
  if (!integer_function) return wide_integer ? Arithmetic::kDouble : Arithmetic::kFloat;
  return is_unsigned ? Arithmetic::kUint64 : Arithmetic::kInt64;
}

// A parameter where T is 64-bit integers. The bound of a one-sided clip may be infinite. 2^63 is the first double
// beyond the range of int64; beyond 2^64 nothing is left of uint64 either.
template <class T>
T integer_parameter(double value) {
  if (value != value) return 0;
  if (value >= 0x1p63) return std::numeric_limits<T>::max();
  if (value <= -0x1p63) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

// Whether complex.def has a line for a function.
inline bool has_complex_form(uhal_map_function function) {
  switch (function) {
#define UHAL_COMPLEX1(name, expression) case uhal_map_##name:
#define UHAL_COMPLEX2 UHAL_COMPLEX1
#define UHAL_COMPLEX3 UHAL_COMPLEX1
#include "csrc/tables/complex.def"
#undef UHAL_COMPLEX1
#undef UHAL_COMPLEX2
#undef UHAL_COMPLEX3
    return true;
    default:
      return false;
  }
}

// Defined on integers and bool only.
inline bool is_bitwise(uhal_map_function function) {
  return (function >= uhal_map_bitwise_not && function <= uhal_map_shift_right) || function == uhal_map_gcd ||
         function == uhal_map_lcm || function == uhal_map_population_count;
}

// The function that is really meant: on 0 and 1 the complement is the logical one, as all bits of both would be "true".
inline uhal_map_function meant_function(uhal_map_function function, uhal_dtype result) {
  return function == uhal_map_bitwise_not && result == UHAL_BOOL ? uhal_map_logical_not : function;
}

}  // namespace unihal
