// Sums and extremes of rows that lie anywhere, as loops. Compiled once per instruction set.

#include <algorithm>
#include <type_traits>

#include "stub/vector/compute.h"
#include "stub/vector/narrow.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

// Vectors as they lie in memory: whole ones first, then one of 32 bytes for what is left of a row. (GCC keeps vectors
// wider than the registers in memory.)
#ifdef __AVX512F__
inline constexpr int64_t kVectorBytes = 64;
#else
inline constexpr int64_t kVectorBytes = 32;
#endif

template <class T, int64_t bytes>
struct Lanes;
template <class T>
struct Lanes<T, 32> {
  typedef T Vector __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  static constexpr int64_t kCount = 32 / sizeof(T);
};
#ifdef __AVX512F__
template <class T>
struct Lanes<T, 64> {
  typedef T Vector __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
  static constexpr int64_t kCount = 64 / sizeof(T);
};
#endif

inline float number(float value) { return value; }
inline double number(double value) { return value; }
inline float number(Bfloat16 value) { return widen_one(value); }
inline float number(Float16 value) { return widen_one(value); }

// A vector of the numbers from `row` on. (A template would lose the vectors' alignment: compilers drop attributes of
// the types that they deduce.)
using Floats = Lanes<float, 32>::Vector;
using Doubles = Lanes<double, 32>::Vector;
inline void read(const float* row, Floats& numbers) { numbers = *reinterpret_cast<const Floats*>(row); }
inline void read(const double* row, Doubles& numbers) { numbers = *reinterpret_cast<const Doubles*>(row); }
inline void read(const Bfloat16* row, Floats& numbers) {
#ifdef __AVX2__
  // GCC would widen halves of it, and put these together.
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
  numbers = reinterpret_cast<Floats>(_mm256_slli_epi32(words, 16));
#else
  for (int64_t i = 0; i < Lanes<float, 32>::kCount; ++i) numbers[i] = number(row[i]);
#endif
}
inline void read(const Float16* row, Floats& numbers) {
#ifdef __F16C__
  numbers = reinterpret_cast<Floats>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))));
#else
  for (int64_t i = 0; i < Lanes<float, 32>::kCount; ++i) numbers[i] = number(row[i]);
#endif
}
#ifdef __AVX512F__
using WideFloats = Lanes<float, 64>::Vector;
using WideDoubles = Lanes<double, 64>::Vector;
inline void read(const float* row, WideFloats& numbers) { numbers = *reinterpret_cast<const WideFloats*>(row); }
inline void read(const double* row, WideDoubles& numbers) { numbers = *reinterpret_cast<const WideDoubles*>(row); }
inline void read(const Bfloat16* row, WideFloats& numbers) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  const __m512i words = _mm512_maskz_cvtepu16_epi32(kAllWidened, halves);
  numbers = reinterpret_cast<WideFloats>(_mm512_maskz_slli_epi32(kAllWidened, words, 16));
}
inline void read(const Float16* row, WideFloats& numbers) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  numbers = reinterpret_cast<WideFloats>(_mm512_maskz_cvtph_ps(kAllWidened, words));
}
#endif

// Numbers of `chunks` vectors, as they are stored.
template <int64_t chunks, class T, int64_t bytes, class Stored>
inline void write(const typename Lanes<T, bytes>::Vector* numbers, Stored* to) {
  constexpr int64_t kLanes = Lanes<T, bytes>::kCount, kCount = chunks * kLanes;
  if constexpr (std::is_same_v<T, Stored>) {
#pragma GCC unroll 8
    for (int64_t c = 0; c < chunks; ++c) {
      *reinterpret_cast<typename Lanes<T, bytes>::Vector*>(to + c * kLanes) = numbers[c];
    }
  } else if constexpr (kCount % kWidened == 0) {
    shorten<kCount>(reinterpret_cast<const float*>(numbers), to);
  } else {
    for (int64_t i = 0; i < kCount; ++i) shorten_one(numbers[i / kLanes][i % kLanes], to + i);
  }
}
inline void write_one(float value, float* to) { *to = value; }
inline void write_one(double value, double* to) { *to = value; }
inline void write_one(float value, Bfloat16* to) { shorten_one(value, to); }
inline void write_one(float value, Float16* to) { shorten_one(value, to); }

// Numbers of bfloat16 that are read and written two vectors at a time: of each pair of neighbours the one goes into the
// first vector and the other into the second, by a shift and a mask, where vectors of neighbours take a shuffle each.
template <class Stored, int64_t chunks>
#ifdef __AVX2__
inline constexpr bool kInPairs = std::is_same_v<Stored, Bfloat16> && chunks % 2 == 0;
#else
inline constexpr bool kInPairs = false;
#endif
template <int64_t bytes>
struct Pairs {
  typedef uint32_t Vector __attribute__((vector_size(bytes), aligned(sizeof(Bfloat16)), may_alias));
};
template <int64_t bytes>
inline void read_pairs(const Bfloat16* row, typename Lanes<float, bytes>::Vector& first,
                       typename Lanes<float, bytes>::Vector& second) {
  const typename Pairs<bytes>::Vector pairs = *reinterpret_cast<const typename Pairs<bytes>::Vector*>(row);
  first = reinterpret_cast<typename Lanes<float, bytes>::Vector>(pairs << 16);
  second = reinterpret_cast<typename Lanes<float, bytes>::Vector>(pairs & 0xffff0000U);
}
// Rounded as by float_to_bfloat16().
template <int64_t bytes>
inline void write_pairs(const typename Lanes<float, bytes>::Vector& first,
                        const typename Lanes<float, bytes>::Vector& second, Bfloat16* to) {
  using Words = typename Pairs<bytes>::Vector;
  const auto round = [](const typename Lanes<float, bytes>::Vector& numbers, Words& rounded) {
    const Words bits = reinterpret_cast<Words>(numbers);
    const Words sum = bits + 0x7fffU + (bits >> 16 & 1U);
    rounded = numbers != numbers ? (bits | 0x400000U) : sum;
  };
  Words low, high;
  round(first, low);
  round(second, high);
  *reinterpret_cast<Words*>(to) = low >> 16 | (high & 0xffff0000U);
}

// Asks for the lines that so many bytes lie in.
template <int64_t bytes>
inline void ask_for(const void* row) {
#pragma GCC unroll 4
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(row) + at);
}

// What rows are combined to. (As functions of vectors these would lose their alignment, too.)
enum Combination { kSum, kHighest, kLowest };

// Of extremes NaN is one, whichever comes; the next one is taken where either is: one instruction.
#define UNIHAL_COMBINE(Numbers, result, next)           \
  if constexpr (combination == kSum) {                  \
    result += next;                                     \
  } else if constexpr (combination == kHighest) {       \
    const Numbers best = result > next ? result : next; \
    result = result == result ? best : result;          \
  } else {                                              \
    const Numbers best = result < next ? result : next; \
    result = result == result ? best : result;          \
  }

// Numbers from `at` on, in registers: the rows in their order, times their weights if these count, are combined with
// the sum; the first row begins one that has none yet.
template <class T, class Stored, Combination combination, bool weighted, int64_t chunks, int64_t bytes>
inline void combine_chunks(const SegmentRows& segment, int64_t ahead, int64_t at) {
  using Vector = typename Lanes<T, bytes>::Vector;
  constexpr int64_t kLanes = Lanes<T, bytes>::kCount;
  const void* const* const rows = segment.rows;
  const auto* const weights = static_cast<const T*>(segment.weights);
  T* const sum = static_cast<T*>(segment.sum) + at;
  Vector values[chunks];
  int64_t k = 0;
  if (segment.begins) {
    const Stored* const row = static_cast<const Stored*>(rows[0]) + at;
    ask_for<chunks * kLanes * sizeof(Stored)>(static_cast<const Stored*>(rows[ahead]) + at);
#pragma GCC unroll 8
    for (int64_t c = 0; c < chunks; ++c) {
      read(row + c * kLanes, values[c]);
      if constexpr (weighted) values[c] *= weights[0];
    }
    k = 1;
  } else {
#pragma GCC unroll 8
    for (int64_t c = 0; c < chunks; ++c) read(sum + c * kLanes, values[c]);
  }
  for (; k < segment.count; ++k) {
    const Stored* const row = static_cast<const Stored*>(rows[k]) + at;
    ask_for<chunks * kLanes * sizeof(Stored)>(static_cast<const Stored*>(rows[k + ahead]) + at);
#pragma GCC unroll 8
    for (int64_t c = 0; c < chunks; ++c) {
      Vector next;
      read(row + c * kLanes, next);
      if constexpr (weighted) next *= weights[k * segment.weight_step];
      UNIHAL_COMBINE(Vector, values[c], next)
    }
  }
#pragma GCC unroll 8
  for (int64_t c = 0; c < chunks; ++c) *reinterpret_cast<Vector*>(sum + c * kLanes) = values[c];
}

template <class T, class Stored, Combination combination, bool weighted>
inline void combine_one(const SegmentRows& segment, int64_t at) {
  const auto* const weights = static_cast<const T*>(segment.weights);
  T* const sum = static_cast<T*>(segment.sum) + at;
  const auto next = [&](int64_t k) {
    const T value = number(static_cast<const Stored*>(segment.rows[k])[at]);
    return weighted ? value * weights[k * segment.weight_step] : value;
  };
  int64_t k = segment.begins ? 1 : 0;
  T value = segment.begins ? next(0) : *sum;
  for (; k < segment.count; ++k) {
    const T other = next(k);
    UNIHAL_COMBINE(T, value, other)
  }
  *sum = value;
}

template <class T, class Stored, Combination combination, bool weighted>
inline void combine_segments(int64_t length, int64_t ahead, int64_t count, const SegmentRows* segments) {
  constexpr int64_t kLanes = Lanes<T, kVectorBytes>::kCount;
  for (const SegmentRows* const end = segments + count; segments != end; ++segments) {
    int64_t at = 0;
    for (; at + 8 * kLanes <= length; at += 8 * kLanes)
      combine_chunks<T, Stored, combination, weighted, 8, kVectorBytes>(*segments, ahead, at);
    if (at + 4 * kLanes <= length) {
      combine_chunks<T, Stored, combination, weighted, 4, kVectorBytes>(*segments, ahead, at);
      at += 4 * kLanes;
    }
    if (at + 2 * kLanes <= length) {
      combine_chunks<T, Stored, combination, weighted, 2, kVectorBytes>(*segments, ahead, at);
      at += 2 * kLanes;
    }
    if (at + kLanes <= length) {
      combine_chunks<T, Stored, combination, weighted, 1, kVectorBytes>(*segments, ahead, at);
      at += kLanes;
    }
    if (kVectorBytes > 32 && at + Lanes<T, 32>::kCount <= length) {
      combine_chunks<T, Stored, combination, weighted, 1, 32>(*segments, ahead, at);
      at += Lanes<T, 32>::kCount;
    }
    for (; at < length; ++at) combine_one<T, Stored, combination, weighted>(*segments, at);
  }
}

template <class T, class Stored, Combination combination>
void combine_rows(int64_t length, int64_t ahead, int64_t count, const SegmentRows* segments) {
  if (count == 0) return;
  if constexpr (combination == kSum) {
    if (segments->weights != nullptr) {
      return combine_segments<T, Stored, combination, true>(length, ahead, count, segments);
    }
  }
  combine_segments<T, Stored, combination, false>(length, ahead, count, segments);
}

#undef UNIHAL_COMBINE

// -- rows by index

// Elements whose rows are asked for before they are added: tables are larger than caches.
constexpr int64_t kElementsAhead = 24;

// Elements of one segment.
template <class Index>
struct Elements {
  const Index* indices;
  const void* weights;
  int64_t count;  // at least 1
  int64_t ahead;  // 0 near the end of all
};

// Elements of a segment's result from `at` on; false where a row does not exist.
template <class T, class Stored, class Index, bool weighted, int64_t chunks, int64_t bytes>
inline bool sum_elements(const LookedUpRows& problem, const Elements<Index>& elements, int64_t at, Stored* result) {
  using Vector = typename Lanes<T, bytes>::Vector;
  constexpr int64_t kLanes = Lanes<T, bytes>::kCount;
  const auto row_count = static_cast<uint64_t>(problem.rows), row_bytes = static_cast<uint64_t>(problem.row_bytes);
  const int64_t step = problem.index_step;
  const auto table = reinterpret_cast<uintptr_t>(static_cast<const Stored*>(problem.table) + at);
  const auto* weight = static_cast<const T*>(elements.weights);
  Vector values[chunks];
  const Index* index = elements.indices;
  const int64_t ahead = elements.ahead * step;
  const auto add_row = [&](auto begins) {
    const auto row = static_cast<uint64_t>(int64_t{*index});
    if (__builtin_expect(row >= row_count, 0)) return false;
    const auto* const from = reinterpret_cast<const Stored*>(table + row * row_bytes);
    const auto soon = static_cast<uint64_t>(int64_t{index[ahead]});
    ask_for<chunks * kLanes * sizeof(Stored)>(reinterpret_cast<const void*>(table + soon * row_bytes));
    const auto add = [&](int64_t c, Vector& next) {
      if constexpr (weighted) next *= *weight;
      values[c] = decltype(begins)::value ? next : values[c] + next;
    };
#pragma GCC unroll 8
    for (int64_t c = 0; c < chunks; c += kInPairs<Stored, chunks> ? 2 : 1) {
      Vector next;
      if constexpr (kInPairs<Stored, chunks>) {
        Vector second;
        read_pairs<bytes>(from + c * kLanes, next, second);
        add(c, next);
        add(c + 1, second);
      } else {
        read(from + c * kLanes, next);
        add(c, next);
      }
    }
    index += step;
    if constexpr (weighted) weight += problem.weight_step;
    return true;
  };
  if (!add_row(std::true_type())) return false;
  for (int64_t k = 1; k < elements.count; ++k) {
    if (!add_row(std::false_type())) return false;
  }
  if (problem.mean) {
#pragma GCC unroll 8
    for (int64_t c = 0; c < chunks; ++c) values[c] /= static_cast<T>(elements.count);
  }
  if constexpr (kInPairs<Stored, chunks>) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < chunks; c += 2) write_pairs<bytes>(values[c], values[c + 1], result + at + c * kLanes);
  } else {
    write<chunks, T, bytes>(values, result + at);
  }
  return true;
}

template <class T, class Stored, class Index, bool weighted>
inline bool sum_one_of_elements(const LookedUpRows& problem, const Elements<Index>& elements, int64_t at,
                                Stored* result) {
  T sum = 0;
  for (int64_t k = 0; k < elements.count; ++k) {
    const auto row = static_cast<uint64_t>(int64_t{elements.indices[k * problem.index_step]});
    if (row >= static_cast<uint64_t>(problem.rows)) return false;
    const auto* const from = static_cast<const char*>(problem.table) + row * static_cast<uint64_t>(problem.row_bytes);
    T value = number(reinterpret_cast<const Stored*>(from)[at]);
    if (weighted) value *= static_cast<const T*>(elements.weights)[k * problem.weight_step];
    sum = k == 0 ? value : sum + value;
  }
  write_one(problem.mean ? sum / static_cast<T>(elements.count) : sum, result + at);
  return true;
}

// `vectors`: so many are a row, or 0.
template <class T, class Stored, class Index, bool weighted, int64_t vectors>
inline bool sum_segment(const LookedUpRows& problem, const Elements<Index>& elements, Stored* result) {
  if constexpr (vectors != 0) {
    return sum_elements<T, Stored, Index, weighted, vectors, kVectorBytes>(problem, elements, 0, result);
  }
  constexpr int64_t kLanes = Lanes<T, kVectorBytes>::kCount;
  const int64_t length = problem.length;
  int64_t at = 0;
  for (; at + 8 * kLanes <= length; at += 8 * kLanes) {
    if (!sum_elements<T, Stored, Index, weighted, 8, kVectorBytes>(problem, elements, at, result)) return false;
  }
  if (at + 4 * kLanes <= length) {
    if (!sum_elements<T, Stored, Index, weighted, 4, kVectorBytes>(problem, elements, at, result)) return false;
    at += 4 * kLanes;
  }
  if (at + 2 * kLanes <= length) {
    if (!sum_elements<T, Stored, Index, weighted, 2, kVectorBytes>(problem, elements, at, result)) return false;
    at += 2 * kLanes;
  }
  if (at + kLanes <= length) {
    if (!sum_elements<T, Stored, Index, weighted, 1, kVectorBytes>(problem, elements, at, result)) return false;
    at += kLanes;
  }
  if (kVectorBytes > 32 && at + Lanes<T, 32>::kCount <= length) {
    if (!sum_elements<T, Stored, Index, weighted, 1, 32>(problem, elements, at, result)) return false;
    at += Lanes<T, 32>::kCount;
  }
  for (; at < length; ++at) {
    if (!sum_one_of_elements<T, Stored, Index, weighted>(problem, elements, at, result)) return false;
  }
  return true;
}

// Whether numbers lie one after the other, and sums are wanted.
inline bool is_usual(const LookedUpRows& problem) {
  return problem.index_step == 1 && problem.offset_step == 1 && problem.wide_offsets && !problem.mean;
}

template <class T, class Stored, class Index, bool weighted, int64_t vectors, bool usual>
int64_t sum_segments_of(const LookedUpRows& given, int64_t first, int64_t last) {
  LookedUpRows problem = given;  // which results are none of, so that it stays in registers
  if constexpr (usual) {         // of which there are too few for all of it: what is known needs none
    problem.index_step = 1;
    problem.offset_step = 1;
    problem.wide_offsets = true;
    problem.mean = false;
  }
  const auto offset_at = [&](int64_t segment) -> int64_t {
    const int64_t at = segment * problem.offset_step;
    return problem.wide_offsets ? static_cast<const int64_t*>(problem.offsets)[at]
                                : static_cast<const int32_t*>(problem.offsets)[at];
  };
  const auto* const indices = static_cast<const Index*>(problem.indices);
  const auto* const weights = static_cast<const T*>(problem.weights);
  auto* result = static_cast<char*>(problem.results) + first * problem.result_bytes;
  int64_t next = offset_at(first);
  for (; first < last; ++first, result += problem.result_bytes) {
    const int64_t begin = std::max(next, int64_t{0});
    next = offset_at(first + 1);
    const int64_t end = std::min(next, problem.elements);
    if (begin >= end) break;
    const Elements<Index> elements = {indices + begin * problem.index_step,
                                      weighted ? weights + begin * problem.weight_step : nullptr, end - begin,
                                      end + kElementsAhead <= problem.elements ? kElementsAhead : 0};
    if (!sum_segment<T, Stored, Index, weighted, vectors>(problem, elements, reinterpret_cast<Stored*>(result))) break;
  }
  return first;
}

// Rows of usual widths have loops of their own: bags are short, and finding out what is left of a row takes as long as
// to add one.
template <class T, class Stored, class Index, bool weighted>
int64_t sum_rows_of_width(const LookedUpRows& problem, int64_t first, int64_t last) {
  constexpr int64_t kLanes = Lanes<T, kVectorBytes>::kCount;
  switch (problem.length) {
    case 4 * kLanes:
      return is_usual(problem) ? sum_segments_of<T, Stored, Index, weighted, 4, true>(problem, first, last)
                               : sum_segments_of<T, Stored, Index, weighted, 4, false>(problem, first, last);
    case 8 * kLanes:
      return is_usual(problem) ? sum_segments_of<T, Stored, Index, weighted, 8, true>(problem, first, last)
                               : sum_segments_of<T, Stored, Index, weighted, 8, false>(problem, first, last);
    default:
      return sum_segments_of<T, Stored, Index, weighted, 0, false>(problem, first, last);
  }
}

template <class T, class Stored>
int64_t sum_looked_up(const LookedUpRows& problem, int64_t first, int64_t last) {
  if (problem.wide_indices) {
    return problem.weights != nullptr ? sum_rows_of_width<T, Stored, int64_t, true>(problem, first, last)
                                      : sum_rows_of_width<T, Stored, int64_t, false>(problem, first, last);
  }
  return problem.weights != nullptr ? sum_rows_of_width<T, Stored, int32_t, true>(problem, first, last)
                                    : sum_rows_of_width<T, Stored, int32_t, false>(problem, first, last);
}

}  // namespace

CombineRows combine_rows_of(uhal_reduction reduction, uhal_dtype dtype);
CombineRows combine_rows_of(uhal_reduction reduction, uhal_dtype dtype) {
  if (reduction == UHAL_REDUCE_MAXIMUM || reduction == UHAL_REDUCE_MINIMUM) {
    const bool highest = reduction == UHAL_REDUCE_MAXIMUM;
    switch (dtype) {
      case UHAL_FLOAT32:
        return highest ? combine_rows<float, float, kHighest> : combine_rows<float, float, kLowest>;
      case UHAL_FLOAT64:
        return highest ? combine_rows<double, double, kHighest> : combine_rows<double, double, kLowest>;
      default:
        return nullptr;
    }
  }
  if (reduction != UHAL_REDUCE_SUM && reduction != UHAL_REDUCE_MEAN) return nullptr;
  switch (dtype) {
    case UHAL_FLOAT32:
      return combine_rows<float, float, kSum>;
    case UHAL_FLOAT64:
      return combine_rows<double, double, kSum>;
    case UHAL_FLOAT16:
      return combine_rows<float, Float16, kSum>;
    case UHAL_BFLOAT16:
      return combine_rows<float, Bfloat16, kSum>;
    default:
      return nullptr;
  }
}

SumLookedUp sum_looked_up_of(uhal_dtype dtype);
SumLookedUp sum_looked_up_of(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT32:
      return sum_looked_up<float, float>;
    case UHAL_FLOAT64:
      return sum_looked_up<double, double>;
    case UHAL_FLOAT16:
      return sum_looked_up<float, Float16>;
    case UHAL_BFLOAT16:
      return sum_looked_up<float, Bfloat16>;
    default:
      return nullptr;
  }
}

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
