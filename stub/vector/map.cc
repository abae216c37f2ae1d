// The functions of csrc/tables/elementwise.def as loops. Compiled once per instruction set.

#include <cstring>
#include <limits>

#include "stub/vector/compute.h"
#include "stub/vector/narrow.h"
#include "stub/vector/vector_math.h"

// An unsigned compute type makes some tests of an expression always true.
#pragma GCC diagnostic ignored "-Wtype-limits"

namespace unihal::stub::UHAL_INSTRUCTION_SET {

#define C(v) static_cast<T>(v)
#include "stub/vector/map_prelude.h"
#include "stub/vector/special.h"

namespace {

// "No element depends on another": outputs may be the very same memory as inputs, never shifted against it.
#define UHAL_INDEPENDENT _Pragma("GCC ivdep")

// kSame: the bits of the inputs whose first element stands for all (same_inputs). Only where statements are many.
#define UHAL_LOOP(name)                                                            \
  template <class T, uint32_t kSame = 0>                                           \
  void loop_##name(int64_t count, const void* const* inputs, void* const* outputs, \
                   [[maybe_unused]] const void* parameters)
#define UHAL_PARAMETERS(T)                                            \
  [[maybe_unused]] const T p0 = static_cast<const T*>(parameters)[0]; \
  [[maybe_unused]] const T p1 = static_cast<const T*>(parameters)[1]; \
  [[maybe_unused]] const T p2 = static_cast<const T*>(parameters)[2]; \
  [[maybe_unused]] const T p3 = static_cast<const T*>(parameters)[3]; \
  [[maybe_unused]] const T p4 = static_cast<const T*>(parameters)[4]; \
  [[maybe_unused]] const T p5 = static_cast<const T*>(parameters)[5]
#define UHAL_INPUT(k) static_cast<const T*>(inputs[k])
#define UHAL_OUTPUT(k) static_cast<T*>(outputs[k])
#define UHAL_ELEMENT(k) (kSame >> k & 1 ? same[k] : a[k][i])

#define UHAL_MAP1(name, domain, flops, expression) \
  UHAL_LOOP(name) {                                \
    UHAL_PARAMETERS(T);                            \
    const T* a = UHAL_INPUT(0);                    \
    T* result = UHAL_OUTPUT(0);                    \
    UHAL_INDEPENDENT                               \
    for (int64_t i = 0; i < count; ++i) {          \
      [[maybe_unused]] const T x = a[i];           \
      result[i] = static_cast<T>(expression);      \
    }                                              \
  }
#define UHAL_MAP2(name, domain, flops, expression) \
  UHAL_LOOP(name) {                                \
    UHAL_PARAMETERS(T);                            \
    const T* a = UHAL_INPUT(0);                    \
    const T* b = UHAL_INPUT(1);                    \
    T* result = UHAL_OUTPUT(0);                    \
    UHAL_INDEPENDENT                               \
    for (int64_t i = 0; i < count; ++i) {          \
      [[maybe_unused]] const T x = a[i];           \
      [[maybe_unused]] const T y = b[i];           \
      result[i] = static_cast<T>(expression);      \
    }                                              \
  }
#define UHAL_MAP3(name, domain, flops, expression) \
  UHAL_LOOP(name) {                                \
    UHAL_PARAMETERS(T);                            \
    const T* a = UHAL_INPUT(0);                    \
    const T* b = UHAL_INPUT(1);                    \
    const T* c = UHAL_INPUT(2);                    \
    T* result = UHAL_OUTPUT(0);                    \
    UHAL_INDEPENDENT                               \
    for (int64_t i = 0; i < count; ++i) {          \
      [[maybe_unused]] const T x = a[i];           \
      [[maybe_unused]] const T y = b[i];           \
      [[maybe_unused]] const T z = c[i];           \
      result[i] = static_cast<T>(expression);      \
    }                                              \
  }
// Absent operands stand for the first one; their loads are dead code.
#define UHAL_UPDATE(name, input_count, output_count, flops, ...)                   \
  UHAL_LOOP(name) {                                                                \
    UHAL_PARAMETERS(T);                                                            \
    const T* a[8];                                                                 \
    T same[8];                                                                     \
    for (int k = 0; k < 8; ++k) a[k] = UHAL_INPUT(k < input_count ? k : 0);        \
    for (int k = 0; k < 8; ++k) same[k] = kSame >> k & 1 ? *a[k] : T(0);           \
    T* result[4];                                                                  \
    for (int k = 0; k < 4; ++k) result[k] = UHAL_OUTPUT(k < output_count ? k : 0); \
    UHAL_INDEPENDENT                                                               \
    for (int64_t i = 0; i < count; ++i) {                                          \
      [[maybe_unused]] const T x0 = UHAL_ELEMENT(0), x1 = UHAL_ELEMENT(1);         \
      [[maybe_unused]] const T x2 = UHAL_ELEMENT(2), x3 = UHAL_ELEMENT(3);         \
      [[maybe_unused]] const T x4 = UHAL_ELEMENT(4), x5 = UHAL_ELEMENT(5);         \
      [[maybe_unused]] const T x6 = UHAL_ELEMENT(6), x7 = UHAL_ELEMENT(7);         \
      [[maybe_unused]] T r0, r1, r2, r3;                                           \
      __VA_ARGS__;                                                                 \
      result[0][i] = r0;                                                           \
      if constexpr (output_count > 1) result[1][i] = r1;                           \
      if constexpr (output_count > 2) result[2][i] = r2;                           \
      if constexpr (output_count > 3) result[3][i] = r3;                           \
    }                                                                              \
  }
#include "csrc/tables/elementwise.def"
#undef UHAL_MAP1
#undef UHAL_MAP2
#undef UHAL_MAP3
#undef UHAL_UPDATE

#ifdef __FMA__
// -- remainders of floats: the C library's takes a call for each element

// rests[i] = fmod(a[i], b[i]) of quotients below the first number whose neighbour is not 1 away; whether all are.
template <class T>
bool find_rests(int64_t count, const T* a, const T* b, T* rests) {
  constexpr T kMost = sizeof(T) > sizeof(float) ? T(0x1p53) : T(0x1p24);
  int far = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T x = fabs(a[i]), y = fabs(b[i]);
    const T quotient = trunc(x / y);
    T rest = fma(-quotient, y, x);      // exact
    rest = rest < 0 ? rest + y : rest;  // the quotient may have been rounded up to a whole number
    rest = x < y ? x : rest;
    rests[i] = copysign(rest, a[i]);
    far |= quotient >= kMost ? 1 : 0;
  }
  return far == 0;
}

// result[i] = finish(x, y, fmod(x, y))
template <class T, class Finish>
void loop_of_rests(int64_t count, const void* const* inputs, void* const* outputs, const Finish& finish) {
  constexpr int64_t kPiece = 256;
  const T* a = UHAL_INPUT(0);
  const T* b = UHAL_INPUT(1);
  T* result = UHAL_OUTPUT(0);
  for (int64_t begin = 0; begin < count; begin += kPiece, a += kPiece, b += kPiece, result += kPiece) {
    const int64_t length = count - begin < kPiece ? count - begin : kPiece;
    T rests[kPiece];
    if (!find_rests(length, a, b, rests)) {
      for (int64_t i = 0; i < length; ++i) rests[i] = fmod(a[i], b[i]);
    }
    UHAL_INDEPENDENT
    for (int64_t i = 0; i < length; ++i) result[i] = finish(a[i], b[i], rests[i]);
  }
}

template <class T>
inline T floored(T rest, T y) {
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

// As the lines of elementwise.def and map_prelude.h have these functions.
#define UHAL_RESTS(T)                                                                                            \
  template <>                                                                                                    \
  void loop_truncate_mod<T>(int64_t count, const void* const* inputs, void* const* outputs, const void*) {       \
    loop_of_rests<T>(count, inputs, outputs, [](T, T, T rest) { return rest; });                                 \
  }                                                                                                              \
  template <>                                                                                                    \
  void loop_floor_mod<T>(int64_t count, const void* const* inputs, void* const* outputs, const void*) {          \
    loop_of_rests<T>(count, inputs, outputs, [](T, T y, T rest) { return floored(rest, y); });                   \
  }                                                                                                              \
  template <>                                                                                                    \
  void loop_floor_divide_exact<T>(int64_t count, const void* const* inputs, void* const* outputs, const void*) { \
    loop_of_rests<T>(count, inputs, outputs, [](T x, T y, T rest) {                                              \
      return y == 0 ? x / y : rint((x - rest) / y) - (floored(rest, y) != rest ? T(1) : T(0));                   \
    });                                                                                                          \
  }
UHAL_RESTS(float)
UHAL_RESTS(double)
#undef UHAL_RESTS
#endif

// -- numbers of two bytes: converted tile by tile, which stay in registers where the function is cheap

// Beyond, conversions are little of the time.
constexpr int kFlopsOfNarrow = 8;

// The loop of float, all of whose calls are inlined: of a known count no arrays are left of it.
template <class Stored, int input_count, MapLoop loop>
__attribute__((flatten)) void narrow_loop(int64_t count, const void* const* inputs, void* const* outputs,
                                          const void* parameters) {
  constexpr int64_t kTile = 2 * kWidened;
  const Stored* from[input_count];
  for (int k = 0; k < input_count; ++k) from[k] = static_cast<const Stored*>(inputs[k]);
  auto* to = static_cast<Stored*>(outputs[0]);
  Stored rests[input_count][kTile] = {}, last[kTile];
  for (; count > 0; count -= kTile, to += kTile) {
    if (count < kTile) {
      for (int k = 0; k < input_count; ++k) {
        std::memcpy(rests[k], from[k], static_cast<size_t>(count) * sizeof(Stored));
        from[k] = rests[k];
      }
    }
    float numbers[input_count][kTile], results[kTile];
    const void* own_inputs[input_count];
    void* own_outputs[] = {results};
    for (int k = 0; k < input_count; ++k) {
      widen<kTile>(from[k], numbers[k]);
      own_inputs[k] = numbers[k];
      from[k] += kTile;
    }
    loop(kTile, own_inputs, own_outputs, parameters);
    shorten<kTile>(results, count < kTile ? last : to);
    if (count < kTile) std::memcpy(to, last, static_cast<size_t>(count) * sizeof(Stored));
  }
}

// What only touches signs needs no conversions: bits & kept ^ flipped.
template <uint16_t kept, uint16_t flipped>
void change_signs(int64_t count, const void* const* inputs, void* const* outputs, const void*) {
  const auto* from = static_cast<const uint16_t*>(inputs[0]);
  auto* to = static_cast<uint16_t*>(outputs[0]);
  UHAL_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>((from[i] & kept) ^ flipped);
}

template <class Stored, int function, int input_count, int flops, MapLoop loop>
constexpr MapLoop narrow_loop_of() {
  if constexpr (function == uhal_map_negative) return change_signs<0xffff, 0x8000>;
  if constexpr (function == uhal_map_absolute) return change_signs<0x7fff, 0>;
  if constexpr (flops <= kFlopsOfNarrow) return narrow_loop<Stored, input_count, loop>;
  return nullptr;
}

}  // namespace

#define UHAL_LOOPS_INTEGER(name) loop_##name<float>, loop_##name<double>, loop_##name<int64_t>, loop_##name<uint64_t>
#define UHAL_LOOPS_FLOATING(name) loop_##name<float>, loop_##name<double>, nullptr, nullptr
#define UHAL_ROW(name, domain, inputs, flops)                                                           \
  {UHAL_LOOPS_##domain(name), nullptr, nullptr,                                                         \
   narrow_loop_of<Float16, uhal_map_##name, inputs, flops, static_cast<MapLoop>(loop_##name<float>)>(), \
   narrow_loop_of<Bfloat16, uhal_map_##name, inputs, flops, static_cast<MapLoop>(loop_##name<float>)>()},
#define UHAL_MAP1(name, domain, flops, expression) UHAL_ROW(name, domain, 1, flops)
#define UHAL_MAP2(name, domain, flops, expression) UHAL_ROW(name, domain, 2, flops)
#define UHAL_MAP3(name, domain, flops, expression) UHAL_ROW(name, domain, 3, flops)
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) {UHAL_LOOPS_FLOATING(name)},
extern const MapLoop kMapLoops[uhal_map_function_limit][kComputeTypes];
const MapLoop kMapLoops[uhal_map_function_limit][kComputeTypes] = {
#include "csrc/tables/elementwise.def"
#undef UHAL_UPDATE
};
#undef UHAL_MAP1
#undef UHAL_MAP2
#undef UHAL_MAP3
#define UHAL_MAP1(name, domain, flops, expression) {UHAL_LOOPS_##domain(name)},
#define UHAL_MAP2 UHAL_MAP1
#define UHAL_MAP3 UHAL_MAP1
#define UHAL_UPDATE(name, inputs, outputs, flops, ...)                                                           \
  {loop_##name<float, same_inputs(uhal_map_##name)>, loop_##name<double, same_inputs(uhal_map_##name)>, nullptr, \
   nullptr},
extern const MapLoop kMapLoopsOfSame[uhal_map_function_limit][kComputeTypes];
const MapLoop kMapLoopsOfSame[uhal_map_function_limit][kComputeTypes] = {
#include "csrc/tables/elementwise.def"
};

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
