// Reductions over runs and rows of a compute type as loops. Compiled once per instruction set.
//
// Floating sums are taken in short float runs over many lanes, which are then added up in double: the speed of
// float, and an error that does not grow with the length.

#include <type_traits>

#include "stub/vector/compute.h"
#include "stub/vector/narrow.h"
#include "stub/vector/vector_math.h"
#include "stub/vector/vectorize.h"

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

// What is not in the first caches is read at two places in turn, at each of which the processor looks ahead: it gets
// more of memory's bandwidth so than one place does, with its next lines asked for or not.
constexpr int64_t kLargeBytes = 1 << 18;
constexpr int64_t kPlaces = 2;

// The type that elements of a stored one are computed in, and some of them, which `room` is for.
template <class Stored>
struct Computed {
  using Type = Stored;
};
template <>
struct Computed<Float16> {
  using Type = float;
};
template <>
struct Computed<Bfloat16> {
  using Type = float;
};
template <int64_t count, class Stored>
struct Numbers {
  using T = typename Computed<Stored>::Type;
  T room[count];
  const T* of(const Stored* x) {
    widen<count>(x, room);
    return room;
  }
};
template <int64_t count, class T>
struct OwnNumbers {
  const T* of(const T* x) { return x; }
};
template <int64_t count>
struct Numbers<count, float> : OwnNumbers<count, float> {};
template <int64_t count>
struct Numbers<count, double> : OwnNumbers<count, double> {};
template <int64_t count>
struct Numbers<count, int64_t> : OwnNumbers<count, int64_t> {};
template <int64_t count>
struct Numbers<count, uint64_t> : OwnNumbers<count, uint64_t> {};

template <class T>
inline T number_of(T x) {
  return x;
}
inline float number_of(Float16 x) { return widen_one(x); }
inline float number_of(Bfloat16 x) { return widen_one(x); }

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
  if constexpr (step == kMaximum || step == kMinimum) {
    const T best = (step == kMaximum ? a > b : a < b) ? a : b;  // b where either is NaN: one instruction
    return a != a ? a : best;
  }
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

// All lanes in order of halves, which vectors are added up in.
template <ReduceStep step, int64_t count, class A>
inline A fold(A* lanes) {
#pragma GCC unroll 8
  for (int64_t width = count / 2; width >= 1; width /= 2) {
    for (int64_t j = 0; j < width; ++j) lanes[j] = combine<step, A>(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

// Of products the lanes are taken in the accumulator's type: in float their order would decide whether they overflow.
template <ReduceStep step, class T>
using LaneOf = std::conditional_t<step == kProduct, typename Accumulator<T>::Type, T>;

// The elements of a place, into lanes of its own: GCC keeps arrays in vector registers that are written so.
template <ReduceStep step, int64_t count, class Stored, class T, class Lane>
UNIHAL_INLINE void begin_lanes(const Stored* x, T shift, Lane* lanes) {
  Numbers<count, Stored> first;
  const T* const numbers = first.of(x);
  for (int64_t j = 0; j < count; ++j) lanes[j] = enter<step, T>(numbers[j], shift);
}

template <ReduceStep step, int64_t count, class Stored, class T, class Lane>
UNIHAL_INLINE void add_to_lanes(const Stored* x, T shift, Lane* lanes) {
  Numbers<count, Stored> next;
  const T* const numbers = next.of(x);
  for (int64_t j = 0; j < count; ++j) lanes[j] = combine<step, Lane>(lanes[j], enter<step, T>(numbers[j], shift));
}

constexpr int64_t kFolded = 8;
template <ReduceStep step, int64_t count, class Lane, class A>
UNIHAL_INLINE void fold_lanes(Lane* lanes, A* folded) {
  for (int64_t width = count / 2; width >= kFolded; width /= 2) {
    for (int64_t j = 0; j < width; ++j) lanes[j] = combine<step, Lane>(lanes[j], lanes[j + width]);
  }
  for (int64_t j = 0; j < kFolded; ++j) folded[j] = lanes[j];
}

// `length` elements, which `count` lanes divide, one lane per position, folded to some of them.
template <ReduceStep step, int64_t count, class Stored, class T, class A>
inline void reduce_lanes(int64_t length, const Stored* x, T shift, A* folded) {
  LaneOf<step, T> lanes[count];
  begin_lanes<step, count>(x, shift, lanes);
  for (int64_t i = count; i < length; i += count) add_to_lanes<step, count>(x + i, shift, lanes);
  fold_lanes<step, count>(lanes, folded);
}

// As many elements of each of two places, so many elements apart.
template <ReduceStep step, class Stored, class T, class A>
inline void reduce_places(int64_t length, const Stored* x, int64_t distance, T shift, A* folded) {
  using Lane = LaneOf<step, T>;
  constexpr int64_t kCount = kLanes / kPlaces;
  Lane first[kCount], second[kCount];
  begin_lanes<step, kCount>(x, shift, first);
  begin_lanes<step, kCount>(x + distance, shift, second);
  for (int64_t i = kCount; i < length; i += kCount) {
    add_to_lanes<step, kCount>(x + i, shift, first);
    add_to_lanes<step, kCount>(x + distance + i, shift, second);
  }
  for (int64_t j = 0; j < kCount; ++j) first[j] = combine<step, Lane>(first[j], second[j]);
  fold_lanes<step, kCount>(first, folded);
}

// Calls take(folded lanes) for the parts of a run that all lanes share; the number of elements that are left.
template <ReduceStep step, class Stored, class T, class Take>
inline int64_t reduce_parts(int64_t count, const Stored* x, T shift, const Take& take) {
  using A = typename Accumulator<T>::Type;
  constexpr int64_t kLongest = std::is_same_v<T, A> ? kWideRun : kRun;
  A folded[kFolded];
  if (count * static_cast<int64_t>(sizeof(Stored)) >= kLargeBytes) {
    const int64_t distance = count / kLanes * (kLanes / kPlaces);
    for (int64_t at = 0; at < distance; at += kLongest / kPlaces) {
      const int64_t rest = distance - at;
      reduce_places<step>(rest < kLongest / kPlaces ? rest : kLongest / kPlaces, x + at, distance, shift, folded);
      take(folded);
    }
    return count % kLanes;
  }
  while (count >= kLanes) {
    const int64_t length = (count < kLongest ? count : kLongest) / kLanes * kLanes;
    reduce_lanes<step, kLanes>(length, x, shift, folded);
    take(folded);
    x += length;
    count -= length;
  }
  return count;
}

template <ReduceStep step, class Stored>
void reduce_run(int64_t count, const void* source, const void* shift_pointer, void* accumulator) {
  using T = typename Computed<Stored>::Type;
  using A = typename Accumulator<T>::Type;
  const auto* x = static_cast<const Stored*>(source);
  const T shift = step == kSumExp ? *static_cast<const T*>(shift_pointer) : T(0);
  A total = *static_cast<A*>(accumulator);
  // What no lanes are full of is a chain of its own, which the processor follows beside the others.
  const int64_t rest = count % kFewLanes;
  if (rest > 0) {
    const Stored* const last = x + (count - rest);
    A few = enter<step, T>(number_of(last[0]), shift);
    for (int64_t j = 1; j < rest; ++j) few = combine<step, A>(few, enter<step, T>(number_of(last[j]), shift));
    total = combine<step, A>(total, few);
    count -= rest;
  }
  const auto take = [&](A* folded) { total = combine<step, A>(total, fold<step, kFolded>(folded)); };
  const int64_t left = reduce_parts<step>(count, x, shift, take);
  if (left > 0) {
    A folded[kFolded];
    reduce_lanes<step, kFewLanes>(left, x + (count - left), shift, folded);
    take(folded);
  }
  *static_cast<A*>(accumulator) = total;
}

// Short rows that lie one after the other, as a run whose lanes belong to the columns in turn: `count` divides kFolded.
template <ReduceStep step, class Stored, class A>
void reduce_turns(int64_t count, int64_t rows, const Stored* x, A* total) {
  using T = typename Computed<Stored>::Type;
  const int64_t all = count * rows;
  const int64_t left = reduce_parts<step>(all, x, T(0), [&](const A* folded) {
    for (int64_t j = 0; j < kFolded; ++j) total[j % count] = combine<step, A>(total[j % count], folded[j]);
  });
  x += all - left;
  for (int64_t j = 0; j < left; ++j) {
    total[j % count] = combine<step, A>(total[j % count], enter<step, T>(number_of(x[j]), T(0)));
  }
}

// `rows` rows, kRows at most: row[r * row_stride + j] for `count` columns j.
template <ReduceStep step, class T, class A>
inline void reduce_some_rows(int64_t count, int64_t rows, const T* x, int64_t row_stride, A* __restrict total) {
  if (rows < kRows) {
    for (; rows > 0; --rows, x += row_stride) {
      for (int64_t j = 0; j < count; ++j) total[j] = combine<step, A>(total[j], enter<step, T>(x[j], T(0)));
    }
    return;
  }
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

template <ReduceStep step, class Stored>
void reduce_rows(int64_t count, int64_t rows, const void* source, int64_t row_stride, void* accumulators) {
  using T = typename Computed<Stored>::Type;
  using A = typename Accumulator<T>::Type;
  const auto* x = static_cast<const Stored*>(source);
  auto* const total = static_cast<A*>(accumulators);
  if (count > 0 && row_stride == count && kFolded % count == 0) {
    reduce_turns<step, Stored, A>(count, rows, x, total);
    return;
  }
  for (int64_t some = rows < kRows ? rows : kRows; rows > 0; rows -= some, x += some * row_stride) {
    some = rows < kRows ? rows : kRows;
    if constexpr (std::is_same_v<T, Stored>) {
      reduce_some_rows<step, T, A>(count, some, x, row_stride, total);
    } else {
      // By columns whose numbers of all rows are in registers.
      int64_t j = 0;
      for (; j + kWidened <= count && some == kRows; j += kWidened) {
        T numbers[kRows][kWidened];
#pragma GCC unroll 8
        for (int64_t r = 0; r < kRows; ++r) widen<kWidened>(x + r * row_stride + j, numbers[r]);
        reduce_some_rows<step, T, A>(kWidened, kRows, numbers[0], kWidened, total + j);
      }
      for (; j < count; ++j) {
        T numbers[kRows] = {};
        for (int64_t r = 0; r < some; ++r) numbers[r] = number_of(x[r * row_stride + j]);
        reduce_some_rows<step, T, A>(1, some, numbers, 1, total + j);
      }
    }
  }
}

}  // namespace

#define UHAL_LOOPS(loop, step)                                                                 \
  {loop<step, float>, loop<step, double>,  loop<step, int64_t>, loop<step, uint64_t>, nullptr, \
   nullptr,           loop<step, Float16>, loop<step, Bfloat16>}
#define UHAL_RUNS(step) UHAL_LOOPS(reduce_run, step)
#define UHAL_ROWS(step) UHAL_LOOPS(reduce_rows, step)

extern const ReduceRun kReduceRuns[kReduceSteps][kComputeTypes];
const ReduceRun kReduceRuns[kReduceSteps][kComputeTypes] = {
    UHAL_RUNS(kSum),         UHAL_RUNS(kSumSquares),
    UHAL_RUNS(kSumAbsolute), {reduce_run<kSumExp, float>, reduce_run<kSumExp, double>},
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
