// The functions of csrc/tables/complex.def as loops. Compiled once per instruction set.

#include <limits>

#include "stub/vector/compute.h"
#include "stub/vector/vector_math.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {

#include "stub/vector/map_prelude.h"

#include "stub/vector/complex.h"

// "No element depends on another": outputs may be the very same memory as inputs, never shifted against it.
#define UHAL_INDEPENDENT _Pragma("GCC ivdep")
#define C(v) uhal_complex(static_cast<R>(v), 0)

#define UHAL_LOOP(name, loads, expression)                                                                          \
  static void loop_##name(int64_t count, const void* const* inputs, void* const* outputs, const void* parameters) { \
    [[maybe_unused]] const R p0 = static_cast<const R*>(parameters)[0];                                             \
    [[maybe_unused]] const R p1 = static_cast<const R*>(parameters)[1];                                             \
    T* result = static_cast<T*>(outputs[0]);                                                                        \
    UHAL_INDEPENDENT                                                                                                \
    for (int64_t i = 0; i < count; ++i) {                                                                           \
      loads;                                                                                                        \
      result[i] = expression;                                                                                       \
    }                                                                                                               \
  }
#define UHAL_LOAD(name, k) [[maybe_unused]] const T name = static_cast<const T*>(inputs[k])[i]
#define UHAL_COMPLEX1(name, expression) UHAL_LOOP(name, UHAL_LOAD(x, 0), expression)
#define UHAL_COMPLEX2(name, expression) UHAL_LOOP(name, UHAL_LOAD(x, 0); UHAL_LOAD(y, 1), expression)
#define UHAL_COMPLEX3(name, expression) UHAL_LOOP(name, UHAL_LOAD(x, 0); UHAL_LOAD(y, 1); UHAL_LOAD(z, 2), expression)

namespace complex_float {
#include "csrc/tables/complex.def"
}
namespace complex_double {
#include "csrc/tables/complex.def"
}
#undef UHAL_COMPLEX1
#undef UHAL_COMPLEX2
#undef UHAL_COMPLEX3

// The modulus as a real number. Where a square would overflow or vanish, it is that of the parts times a power of two.
template <class T, class R>
static void careful_modulus(int64_t count, const T* x, R* result) {
  constexpr bool narrow = sizeof(R) == sizeof(float);
  constexpr R large = static_cast<R>(narrow ? 0x1p62 : 0x1p510), small = 1 / large;
  constexpr R factor = static_cast<R>(narrow ? 0x1p88 : 0x1p600), inverse = 1 / factor;
  for (int64_t i = 0; i < count; ++i) {
    const R a = fabs(x[i].x), b = fabs(x[i].y);
    const R larger = a > b ? a : b;
    const R before = larger > large ? inverse : larger < small ? factor : R(1);
    const R after = larger > large ? factor : larger < small ? inverse : R(1);
    const R root = sqrt(a * before * (a * before) + b * before * (b * before)) * after;
    result[i] = a - a != 0 && a == a ? a : b - b != 0 && b == b ? b : root;
  }
}

template <class T, class R>
static void modulus(int64_t count, const void* const* inputs, void* const* outputs, const void*) {
  constexpr int64_t kTogether = 64;
  constexpr bool narrow = sizeof(R) == sizeof(float);
  constexpr R least = static_cast<R>(narrow ? 0x1p-80 : 0x1p-900), most = static_cast<R>(narrow ? 0x1p126 : 0x1p1022);
  const T* x = static_cast<const T*>(inputs[0]);
  R* result = static_cast<R*>(outputs[0]);
  for (; count >= kTogether; count -= kTogether, x += kTogether, result += kTogether) {
    int usual = 0;
    for (int64_t i = 0; i < kTogether; ++i) {
      const R square = x[i].x * x[i].x + x[i].y * x[i].y;
      usual += square >= least && square <= most;
      result[i] = sqrt(square);
    }
    if (usual != kTogether) careful_modulus(kTogether, x, result);
  }
  careful_modulus(count, x, result);
}

// Sums and differences as those of twice as many real numbers, for which GCC takes whole vectors.
template <class R, bool minus>
static void sum_parts(int64_t count, const void* const* inputs, void* const* outputs, const void*) {
  const R* a = static_cast<const R*>(inputs[0]);
  const R* b = static_cast<const R*>(inputs[1]);
  R* result = static_cast<R*>(outputs[0]);
  UHAL_INDEPENDENT
  for (int64_t i = 0; i < 2 * count; ++i) result[i] = minus ? a[i] - b[i] : a[i] + b[i];
}

// Conjugates of parts of float by the sign of the second one, which is the highest bit of both: no part changes places.
static void conjugate_pairs(int64_t count, const void* const* inputs, void* const* outputs, const void*) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the second part is the higher half");
  typedef uint64_t Pair __attribute__((aligned(4), may_alias));
  const Pair* x = static_cast<const Pair*>(inputs[0]);
  Pair* result = static_cast<Pair*>(outputs[0]);
  UHAL_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) result[i] = x[i] ^ uint64_t { 1 } << 63;
}

void add_complex_loops(InstructionSet& set);

void add_complex_loops(InstructionSet& set) {
#define UHAL_COMPLEX1(name, expression)                                 \
  set.map[uhal_map_##name][kComplexFloat] = complex_float::loop_##name; \
  set.map[uhal_map_##name][kComplexDouble] = complex_double::loop_##name;
#define UHAL_COMPLEX2 UHAL_COMPLEX1
#define UHAL_COMPLEX3 UHAL_COMPLEX1
#include "csrc/tables/complex.def"
  set.map[uhal_map_add][kComplexFloat] = sum_parts<float, false>;
  set.map[uhal_map_add][kComplexDouble] = sum_parts<double, false>;
  set.map[uhal_map_subtract][kComplexFloat] = sum_parts<float, true>;
  set.map[uhal_map_subtract][kComplexDouble] = sum_parts<double, true>;
  set.map[uhal_map_conjugate][kComplexFloat] = conjugate_pairs;
  set.modulus[kComplexFloat] = modulus<complex_float::T, float>;
  set.modulus[kComplexDouble] = modulus<complex_double::T, double>;
}

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
