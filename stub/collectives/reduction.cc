#include "stub/collectives/reduction.h"

#include <algorithm>

#include "csrc/backends/common/float_bits.h"

namespace unihal::stub {
namespace {

// Elements that are reduced at a time: the accumulators stay in the nearest cache.
constexpr int64_t kBlockElements = 1024;

// How elements are kept and computed with.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Boolean {
  using Stored = uint8_t;
  using Computed = uint8_t;
  static uint8_t load(uint8_t value) { return value != 0; }
  static uint8_t store(uint8_t value) { return value; }
};
struct Float16 {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t value) { return float16_to_float(value); }
  static uint16_t store(float value) { return float_to_float16(value); }
};
struct Bfloat16 {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t value) { return bfloat16_to_float(value); }
  static uint16_t store(float value) { return float_to_bfloat16(value); }
};

// NaN stays, whichever comes first.
template <class T>
T lesser(T a, T b) {
  return b < a || b != b ? b : a;
}
template <class T>
T greater(T a, T b) {
  return b > a || b != b ? b : a;
}

template <class Element, class Combine>
void reduce(const char* const* sources, int32_t source_count, char* destination, int64_t elements,
            const Combine& combine, int32_t divisor) {
  using Stored = typename Element::Stored;
  using Computed = typename Element::Computed;
  Computed sums[kBlockElements];
  auto* const result = reinterpret_cast<Stored*>(destination);
  for (int64_t begin = 0; begin < elements; begin += kBlockElements) {
    const int64_t length = std::min(kBlockElements, elements - begin);
    for (int32_t rank = 0; rank < source_count; ++rank) {
      const auto* source = reinterpret_cast<const Stored*>(sources[rank]) + begin;
      if (rank == 0) {
        for (int64_t i = 0; i < length; ++i) sums[i] = Element::load(source[i]);
      } else {
        for (int64_t i = 0; i < length; ++i) {
          sums[i] = static_cast<Computed>(combine(sums[i], Element::load(source[i])));
        }
      }
    }
    if (divisor > 1) {
      for (int64_t i = 0; i < length; ++i) sums[i] = static_cast<Computed>(sums[i] / static_cast<Computed>(divisor));
    }
    for (int64_t i = 0; i < length; ++i) result[begin + i] = Element::store(sums[i]);
  }
}

template <class Element>
void reduce_numbers(uhal_reduction reduction, const char* const* sources, int32_t source_count, char* destination,
                    int64_t elements) {
  using T = typename Element::Computed;
  const auto run = [&](const auto& combine, int32_t divisor) {
    reduce<Element>(sources, source_count, destination, elements, combine, divisor);
  };
  switch (reduction) {
    case UHAL_REDUCTION_PRODUCT:
      return run([](T a, T b) { return a * b; }, 1);
    case UHAL_REDUCTION_MINIMUM:
      return run([](T a, T b) { return lesser(a, b); }, 1);
    case UHAL_REDUCTION_MAXIMUM:
      return run([](T a, T b) { return greater(a, b); }, 1);
    case UHAL_REDUCTION_AVERAGE:
      return run([](T a, T b) { return a + b; }, source_count);
    default:
      return run([](T a, T b) { return a + b; }, 1);
  }
}

void reduce_booleans(uhal_reduction reduction, const char* const* sources, int32_t source_count, char* destination,
                     int64_t elements) {
  if (reduction == UHAL_REDUCTION_PRODUCT || reduction == UHAL_REDUCTION_MINIMUM) {
    reduce<Boolean>(sources, source_count, destination, elements, [](uint8_t a, uint8_t b) { return a & b; }, 1);
  } else {
    reduce<Boolean>(sources, source_count, destination, elements, [](uint8_t a, uint8_t b) { return a | b; }, 1);
  }
}

using Reduce = void (*)(uhal_reduction, const char* const*, int32_t, char*, int64_t);

// By dtype.
constexpr Reduce kReduces[UHAL_DTYPE_COUNT] = {
    nullptr,
    reduce_booleans,
    reduce_numbers<Plain<int8_t>>,
    reduce_numbers<Plain<int16_t>>,
    reduce_numbers<Plain<int32_t>>,
    reduce_numbers<Plain<int64_t>>,
    reduce_numbers<Plain<uint8_t>>,
    reduce_numbers<Plain<uint16_t>>,
    reduce_numbers<Plain<uint32_t>>,
    reduce_numbers<Plain<uint64_t>>,
    reduce_numbers<Float16>,
    reduce_numbers<Bfloat16>,
    reduce_numbers<Plain<float>>,
    reduce_numbers<Plain<double>>,
};

}  // namespace

void reduce_ranks(uhal_dtype dtype, uhal_reduction reduction, const char* const* sources, int32_t source_count,
                  char* destination, int64_t elements) {
  kReduces[dtype](reduction, sources, source_count, destination, elements);
}

}  // namespace unihal::stub
