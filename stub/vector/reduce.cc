// Reductions over runs and rows of a compute type as loops. Compiled once per instruction set.
//
// Floating sums are taken in short float runs over many lanes, which are then added up in double: the speed of
// float, and an error that does not grow with the length.

#include <type_traits>

#include "stub/vector/compute.h"
#include "stub/vector/vector_math.h"

// An unsigned compute type makes some tests always true.
#pragma GCC diagnostic ignored "-Wtype-limits"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

// Elements added in float before the partial sums go to double, and the lanes they are spread over.
constexpr int64_t kLanes = 64;
constexpr int64_t kRun = 16 * kLanes;
constexpr int64_t kWideRun = 8 * kRun;  // of a type that is its own accumulator: lanes are added up less often
constexpr int64_t kFewLanes = 16;       // of what is left
constexpr int64_t kRows = 8;

// Of what is not in the first caches memory is asked for so far ahead: one thread alone does not get all of its
// bandwidth otherwise.
constexpr int64_t kLargeBytes = 1 << 18;
constexpr int64_t kAheadBytes = 4096;
constexpr int64_t kLine = 64;

template <class T>
inline void ask_ahead(const T* x) {
  const char* from = reinterpret_cast<const char*>(x) + kAheadBytes;
  for (int64_t at = 0; at < kLanes * static_cast<int64_t>(sizeof(T)); at += kLine) __builtin_prefetch(from + at);
}

inline float exponential(float x) { return ::expf(x); }
inline double exponential(double x) { return ::exp(x); }
inline int64_t exponential(int64_t) { return 0; }  // never called: the integer reductions have no kSumExp
inline uint64_t exponential(uint64_t) { return 0; }

template <ReduceStep step, class T>
inline T enter(T x, T shift) {
  if constexpr (step == kSumSquares) return x * x;
  if constexpr (step == kSumAbsolute) return x < 0 ? -x : x;
  if constexpr (step == kSumExp) return exponential(x - shift);
  if constexpr (step == kAll || step == kAny) return static_cast<T>(x != 0);
  return x;
}

constexpr bool is_sum(ReduceStep step) {
  return step == kSum || step == kSumSquares || step == kSumAbsolute || step == kSumExp;
}

// NaN wins in maximum and minimum. kAll and kAny see only 0 and 1.
template <ReduceStep step, class T>
inline T combine(T a, T b) {
  if constexpr (step == kProduct || step == kAll) return a * b;
  if constexpr (step == kAny) return a > b ? a : b;
  if constexpr (step == kMaximum) return (a > b || a != a) ? a : b;
  if constexpr (step == kMinimum) return (a < b || a != a) ? a : b;
  return a + b;
}

template <class T>
struct Accumulator {
  using Type = T;
};
template <>
struct Accumulator<float> {
  using Type = double;
};

// One lane per position: GCC keeps the array in vector registers.
template <ReduceStep step, class T>
void reduce_run(int64_t count, const void* source, const void* shift_pointer, void* accumulator) {
  using A = typename Accumulator<T>::Type;
  // Products are taken in the accumulator's type: in float their order would decide whether they overflow.
  using Lane = std::conditional_t<step == kProduct, A, T>;
  const T* x = static_cast<const T*>(source);
  const T shift = step == kSumExp ? *static_cast<const T*>(shift_pointer) : T(0);
  constexpr int64_t longest = std::is_same_v<T, A> ? kWideRun : kRun;
  const bool large = count * static_cast<int64_t>(sizeof(T)) >= kLargeBytes;
  A total = *static_cast<A*>(accumulator);
  while (count >= kLanes) {
    const int64_t length = (count < longest ? count : longest) / kLanes * kLanes;
    Lane lanes[kLanes];
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = enter<step, T>(x[j], shift);
    for (int64_t i = kLanes; i < length; i += kLanes) {
      if (large) ask_ahead(x + i);
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] = combine<step, Lane>(lanes[j], enter<step, T>(x[i + j], shift));
    }
    for (int64_t width = kLanes / 2; width >= 8; width /= 2) {
      for (int64_t j = 0; j < width; ++j) lanes[j] = combine<step, Lane>(lanes[j], lanes[j + width]);
    }
    for (int64_t j = 0; j < 8; ++j) total = combine<step, A>(total, lanes[j]);
    x += length;
    count -= length;
  }
  if (count >= kFewLanes) {
    const int64_t length = count / kFewLanes * kFewLanes;
    Lane lanes[kFewLanes];
    for (int64_t j = 0; j < kFewLanes; ++j) lanes[j] = enter<step, T>(x[j], shift);
    for (int64_t i = kFewLanes; i < length; i += kFewLanes) {
      for (int64_t j = 0; j < kFewLanes; ++j) lanes[j] = combine<step, Lane>(lanes[j], enter<step, T>(x[i + j], shift));
    }
    for (int64_t j = 0; j < kFewLanes / 2; ++j) lanes[j] = combine<step, Lane>(lanes[j], lanes[j + kFewLanes / 2]);
    for (int64_t j = 0; j < kFewLanes / 2; ++j) total = combine<step, A>(total, lanes[j]);
    x += length;
    count -= length;
  }
  for (int64_t j = 0; j < count; ++j) total = combine<step, A>(total, enter<step, T>(x[j], shift));
  *static_cast<A*>(accumulator) = total;
}

// Short rows that lie one after the other, as a run whose lanes belong to the columns in turn: `count` divides kTurns.
constexpr int64_t kTurns = 8;
template <ReduceStep step, class T>
void reduce_turns(int64_t count, int64_t rows, const T* x, typename Accumulator<T>::Type* total) {
  using A = typename Accumulator<T>::Type;
  using Lane = std::conditional_t<step == kProduct, A, T>;
  constexpr int64_t longest = std::is_same_v<T, A> ? kWideRun : kRun;
  int64_t left = count * rows;
  const bool large = left * static_cast<int64_t>(sizeof(T)) >= kLargeBytes;
  while (left >= kLanes) {
    const int64_t length = (left < longest ? left : longest) / kLanes * kLanes;
    Lane lanes[kLanes];
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = enter<step, T>(x[j], T(0));
    for (int64_t i = kLanes; i < length; i += kLanes) {
      if (large) ask_ahead(x + i);
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] = combine<step, Lane>(lanes[j], enter<step, T>(x[i + j], T(0)));
    }
    for (int64_t width = kLanes / 2; width >= kTurns; width /= 2) {
      for (int64_t j = 0; j < width; ++j) lanes[j] = combine<step, Lane>(lanes[j], lanes[j + width]);
    }
    for (int64_t j = 0; j < kTurns; ++j) total[j % count] = combine<step, A>(total[j % count], lanes[j]);
    x += length;
    left -= length;
  }
  for (int64_t j = 0; j < left; ++j) total[j % count] = combine<step, A>(total[j % count], enter<step, T>(x[j], T(0)));
}

template <ReduceStep step, class T>
void reduce_rows(int64_t count, int64_t rows, const void* source, int64_t row_stride, void* accumulators) {
  using A = typename Accumulator<T>::Type;
  const T* x = static_cast<const T*>(source);
  if (count > 0 && row_stride == count && kTurns % count == 0) {
    reduce_turns<step, T>(count, rows, x, static_cast<A*>(accumulators));
    return;
  }
  A* __restrict total = static_cast<A*>(accumulators);
  for (; rows >= kRows; rows -= kRows, x += kRows * row_stride) {
    for (int64_t j = 0; j < count; ++j) {
      const T* column = x + j;
      if constexpr (step == kProduct) {
        A product = total[j];
        for (int64_t r = 0; r < kRows; ++r) product *= column[r * row_stride];
        total[j] = product;
      } else {
        T part = enter<step, T>(column[0], T(0));
        for (int64_t r = 1; r < kRows; ++r) part = combine<step, T>(part, enter<step, T>(column[r * row_stride], T(0)));
        total[j] = combine<step, A>(total[j], part);
      }
    }
  }
  for (; rows > 0; --rows, x += row_stride) {
    for (int64_t j = 0; j < count; ++j) total[j] = combine<step, A>(total[j], enter<step, T>(x[j], T(0)));
  }
}

}  // namespace

#define UHAL_RUNS(step) \
  {reduce_run<step, float>, reduce_run<step, double>, reduce_run<step, int64_t>, reduce_run<step, uint64_t>}
#define UHAL_ROWS(step) \
  {reduce_rows<step, float>, reduce_rows<step, double>, reduce_rows<step, int64_t>, reduce_rows<step, uint64_t>}

extern const ReduceRun kReduceRuns[kReduceSteps][kComputeTypes];
const ReduceRun kReduceRuns[kReduceSteps][kComputeTypes] = {
    UHAL_RUNS(kSum),         UHAL_RUNS(kSumSquares),
    UHAL_RUNS(kSumAbsolute), {reduce_run<kSumExp, float>, reduce_run<kSumExp, double>, nullptr, nullptr},
    UHAL_RUNS(kProduct),     UHAL_RUNS(kMaximum),
    UHAL_RUNS(kMinimum),     UHAL_RUNS(kAll),
    UHAL_RUNS(kAny),
};

extern const ReduceRows kReduceRows[kReduceSteps][kComputeTypes];
const ReduceRows kReduceRows[kReduceSteps][kComputeTypes] = {
    UHAL_ROWS(kSum),     UHAL_ROWS(kSumSquares), UHAL_ROWS(kSumAbsolute), {}, UHAL_ROWS(kProduct), UHAL_ROWS(kMaximum),
    UHAL_ROWS(kMinimum), UHAL_ROWS(kAll),        UHAL_ROWS(kAny),
};

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
