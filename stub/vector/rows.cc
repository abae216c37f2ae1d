// Sums of rows that lie anywhere, as loops. Compiled once per instruction set.

#include "stub/vector/compute.h"
#include "stub/vector/narrow.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

template <class T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  static constexpr int64_t kCount = 32 / sizeof(T);
};

inline float number(float value) { return value; }
inline double number(double value) { return value; }
inline float number(Bfloat16 value) { return widen_one(value); }
inline float number(Float16 value) { return widen_one(value); }

// A vector of the numbers from `row` on.
inline void read(const float* row, Lanes<float>::Vector& numbers) {
  numbers = *reinterpret_cast<const Lanes<float>::Vector*>(row);
}
inline void read(const double* row, Lanes<double>::Vector& numbers) {
  numbers = *reinterpret_cast<const Lanes<double>::Vector*>(row);
}
inline void read(const Bfloat16* row, Lanes<float>::Vector& numbers) {
#ifdef __AVX2__
  // GCC would widen halves of it, and put these together.
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
  numbers = reinterpret_cast<Lanes<float>::Vector>(_mm256_slli_epi32(words, 16));
#else
  for (int64_t i = 0; i < Lanes<float>::kCount; ++i) numbers[i] = number(row[i]);
#endif
}
inline void read(const Float16* row, Lanes<float>::Vector& numbers) {
#ifdef __F16C__
  numbers =
      reinterpret_cast<Lanes<float>::Vector>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))));
#else
  for (int64_t i = 0; i < Lanes<float>::kCount; ++i) numbers[i] = number(row[i]);
#endif
}

// Asks for the lines that so many bytes lie in.
template <int64_t bytes>
inline void ask_for(const void* row) {
#pragma GCC unroll 4
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(row) + at);
}

// Numbers from `at` on, in registers: sum += the rows in their order, times their weights if these count; the first row
// begins a sum that has none yet.
template <class T, class Stored, bool weighted, int64_t chunks>
inline void sum_chunks(const SegmentRows& segment, int64_t ahead, int64_t at) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t kLanes = Lanes<T>::kCount;
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
      values[c] += next;
    }
  }
#pragma GCC unroll 8
  for (int64_t c = 0; c < chunks; ++c) *reinterpret_cast<Vector*>(sum + c * kLanes) = values[c];
}

template <class T, class Stored, bool weighted>
inline void sum_one(const SegmentRows& segment, int64_t at) {
  const auto* const weights = static_cast<const T*>(segment.weights);
  T* const sum = static_cast<T*>(segment.sum) + at;
  const auto next = [&](int64_t k) {
    const T value = number(static_cast<const Stored*>(segment.rows[k])[at]);
    return weighted ? value * weights[k * segment.weight_step] : value;
  };
  int64_t k = segment.begins ? 1 : 0;
  T value = segment.begins ? next(0) : *sum;
  for (; k < segment.count; ++k) value += next(k);
  *sum = value;
}

template <class T, class Stored, bool weighted>
inline void sum_segments(int64_t length, int64_t ahead, int64_t count, const SegmentRows* segments) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  for (const SegmentRows* const end = segments + count; segments != end; ++segments) {
    int64_t at = 0;
    for (; at + 8 * kLanes <= length; at += 8 * kLanes) sum_chunks<T, Stored, weighted, 8>(*segments, ahead, at);
    if (at + 4 * kLanes <= length) {
      sum_chunks<T, Stored, weighted, 4>(*segments, ahead, at);
      at += 4 * kLanes;
    }
    if (at + 2 * kLanes <= length) {
      sum_chunks<T, Stored, weighted, 2>(*segments, ahead, at);
      at += 2 * kLanes;
    }
    if (at + kLanes <= length) {
      sum_chunks<T, Stored, weighted, 1>(*segments, ahead, at);
      at += kLanes;
    }
    for (; at < length; ++at) sum_one<T, Stored, weighted>(*segments, at);
  }
}

template <class T, class Stored>
void sum_rows(int64_t length, int64_t ahead, int64_t count, const SegmentRows* segments) {
  if (count == 0) return;
  if (segments->weights != nullptr) {
    sum_segments<T, Stored, true>(length, ahead, count, segments);
  } else {
    sum_segments<T, Stored, false>(length, ahead, count, segments);
  }
}

}  // namespace

SumRows sum_rows_of(uhal_dtype dtype);
SumRows sum_rows_of(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT32:
      return sum_rows<float, float>;
    case UHAL_FLOAT64:
      return sum_rows<double, double>;
    case UHAL_FLOAT16:
      return sum_rows<float, Float16>;
    case UHAL_BFLOAT16:
      return sum_rows<float, Bfloat16>;
    default:
      return nullptr;
  }
}

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
