// Where the largest or smallest of a run of elements is, as loops. Compiled once per instruction set.

#include <cstring>
#include <limits>
#include <type_traits>

#include "stub/vector/compute.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

template <bool largest, class T>
inline bool better(T a, T b) {
  return largest ? a > b : a < b;
}

template <class T, int64_t bytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias));
};

// Vectors as wide as the instruction set's: of wider ones GCC selects elements one by one.
#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif

// Vectors of T, and of integers as wide, which are masks and places.
template <class T>
struct Lanes {
  static constexpr int64_t kBytes = kVectorBytes, kCount = kBytes / static_cast<int64_t>(sizeof(T));
  using Number = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  using Vector = typename VectorOf<T, kBytes>::Type;
  using Numbers = typename VectorOf<Number, kBytes>::Type;
};

// a becomes the better elements of two vectors without NaN.
template <bool largest, class T>
inline void take_better(typename Lanes<T>::Vector& a, const typename Lanes<T>::Vector& b) {
  a = (largest ? b > a : b < a) ? b : a;
}

// The best element of a vector without NaN.
template <bool largest, class T, int64_t bytes>
inline T best_of(const typename VectorOf<T, bytes>::Type& vector) {
  constexpr int64_t kCount = bytes / static_cast<int64_t>(sizeof(T));
  if constexpr (bytes > (sizeof(T) <= 2 ? 8 : 16)) {
    typename VectorOf<T, bytes / 2>::Type parts[2];
    std::memcpy(parts, &vector, sizeof parts);
    parts[0] = (largest ? parts[1] > parts[0] : parts[1] < parts[0]) ? parts[1] : parts[0];
    return best_of<largest, T, bytes / 2>(parts[0]);
  } else {
    T best = vector[0];
    for (int64_t j = 1; j < kCount; ++j) best = better<largest>(vector[j], best) ? vector[j] : best;
    return best;
  }
}

// Each lane keeps the best element of its place in groups of `vectors` vectors, and where the group begins. The last
// group may have some elements a second time, which changes nothing. Of at least as many elements as a group has.
template <bool largest, int64_t vectors, class T>
inline int64_t find_in_lanes(int64_t count, const T* x) {
  using Vector = typename Lanes<T>::Vector;
  using Number = typename Lanes<T>::Number;
  using Numbers = typename Lanes<T>::Numbers;
  constexpr int64_t kCount = Lanes<T>::kCount, kGroup = vectors * kCount;
  Vector best = *reinterpret_cast<const Vector*>(x);
  Numbers place = {}, ordered = ~Numbers{};  // lanes without NaN so far
  for (int64_t i = 0; i < count; i += kGroup) {
    const int64_t at = i <= count - kGroup ? i : count - kGroup;
    const T* group = x + at;
    Vector rows[vectors];
#pragma GCC unroll 8
    for (int64_t k = 0; k < vectors; ++k) rows[k] = *reinterpret_cast<const Vector*>(group + k * kCount);
    if constexpr (vectors == 1) {
      ordered &= rows[0] == rows[0];
    } else {
#pragma GCC unroll 4
      for (int64_t k = 0; k < vectors; k += 2) {  // GCC makes one comparison of both
        ordered &= (rows[k] < rows[k + 1]) | (rows[k] >= rows[k + 1]);
      }
    }
#pragma GCC unroll 3
    for (int64_t width = vectors / 2; width > 0; width /= 2) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < width; ++k) take_better<largest, T>(rows[k], rows[k + width]);
    }
    const Numbers wins = largest ? rows[0] > best : rows[0] < best;
    take_better<largest, T>(best, rows[0]);
    place = wins ? static_cast<Number>(at) - Numbers{} : place;
  }
  const T top = best_of<largest, T, Lanes<T>::kBytes>(best);
  const Vector tops = top - Vector{};
  const Numbers none = std::numeric_limits<Number>::max() - Numbers{};
  const Numbers starts = (best == tops ? place : none) | ~ordered;  // -1 in a lane with NaN
  const int64_t start = best_of<false, Number, Lanes<T>::kBytes>(starts);
  if (start < 0) return -1;
  Numbers lane, first = none;
  for (int64_t j = 0; j < kCount; ++j) lane[j] = static_cast<Number>(j);
#pragma GCC unroll 8
  for (int64_t k = vectors - 1; k >= 0; --k) {
    const Vector row = *reinterpret_cast<const Vector*>(x + start + k * kCount);
    first = row == tops ? lane + static_cast<Number>(k * kCount) : first;
  }
  return start + best_of<false, Number, Lanes<T>::kBytes>(first);
}

template <bool largest, class T>
int64_t extreme_place(int64_t count, const void* source) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  constexpr int64_t kFewest = 8;  // that take longer one after the other
  const T* x = static_cast<const T*>(source);
  if (count >= 48 * kLanes) return find_in_lanes<largest, 8>(count, x);
  if (count >= 12 * kLanes) return find_in_lanes<largest, 4>(count, x);
  if (count >= 4 * kLanes) return find_in_lanes<largest, 2>(count, x);
  if (count >= kLanes && count >= kFewest) return find_in_lanes<largest, 1>(count, x);
  T best = x[0];
  int64_t place = 0;
  bool nan = best != best;
  for (int64_t i = 1; i < count; ++i) {
    const bool wins = better<largest>(x[i], best);
    nan |= x[i] != x[i];
    best = wins ? x[i] : best;
    place = wins ? i : place;
  }
  return nan ? -1 : place;
}

// The best of at least as many elements as `vectors` vectors have; the last group may have some a second time.
template <bool largest, int64_t vectors, class T>
inline T best_of_groups(int64_t count, const T* x) {
  using Vector = typename VectorOf<T, kVectorBytes>::Type;
  constexpr int64_t kCount = kVectorBytes / static_cast<int64_t>(sizeof(T)), kGroup = vectors * kCount;
  Vector tops[vectors];
#pragma GCC unroll 4
  for (int64_t k = 0; k < vectors; ++k) tops[k] = *reinterpret_cast<const Vector*>(x + k * kCount);
  for (int64_t i = kGroup; i < count; i += kGroup) {
    const T* const group = x + (i <= count - kGroup ? i : count - kGroup);
#pragma GCC unroll 4
    for (int64_t k = 0; k < vectors; ++k) {
      const Vector row = *reinterpret_cast<const Vector*>(group + k * kCount);
      tops[k] = (largest ? row > tops[k] : row < tops[k]) ? row : tops[k];
    }
  }
#pragma GCC unroll 4
  for (int64_t k = 1; k < vectors; ++k) {
    tops[0] = (largest ? tops[k] > tops[0] : tops[k] < tops[0]) ? tops[k] : tops[0];
  }
  return best_of<largest, T, kVectorBytes>(tops[0]);
}

// The first place from i on that has an element, which there is, of at least as many elements as `vectors` vectors
// have; the last of these may begin before their turn.
template <int64_t vectors, class T>
inline int64_t first_place_of(int64_t count, const T* x, int64_t i, T element) {
  using Vector = typename VectorOf<T, kVectorBytes>::Type;
  constexpr int64_t kCount = kVectorBytes / static_cast<int64_t>(sizeof(T)), kGroup = vectors * kCount;
  constexpr int64_t kWordElements = 8 / static_cast<int64_t>(sizeof(T));
  const Vector sought = element - Vector{};
  for (;; i += kGroup) {
    if (i > count - kGroup) i = count - kGroup;
    auto found = *reinterpret_cast<const Vector*>(x + i) == sought;
#pragma GCC unroll 4
    for (int64_t k = 1; k < vectors; ++k) found |= *reinterpret_cast<const Vector*>(x + i + k * kCount) == sought;
    uint64_t words[kVectorBytes / 8], any = 0;
    std::memcpy(words, &found, sizeof words);
    for (const uint64_t word : words) any |= word;
    if (any == 0) continue;
    if constexpr (vectors > 1) return first_place_of<1>(count, x, i, element);
    int64_t k = 0;
    while (words[k] == 0) ++k;
    i += k * kWordElements;
    while (x[i] != element) ++i;
    return i;
  }
}

// Places do not fit in lanes of one or two bytes: the best element of each piece, then where it first is in the first
// piece that has it. NumPy stops at the last possible value; so does this, after a piece.
template <bool largest, class T>
int64_t extreme_place_of_narrow(int64_t count, const void* source) {
  constexpr int64_t kCount = kVectorBytes / static_cast<int64_t>(sizeof(T)), kGroup = 4 * kCount, kPiece = 64 * kGroup;
  constexpr T kEnd = largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
  const T* x = static_cast<const T*>(source);
  T best = x[0];
  int64_t start = 0;
  for (int64_t begin = 0; begin < count && best != kEnd; begin += kPiece) {
    const int64_t length = count - begin < kPiece ? count - begin : kPiece;
    const T* piece = x + begin;
    T own = piece[0];
    if (length >= kGroup) {
      own = best_of_groups<largest, 4>(length, piece);
    } else if (length >= kCount) {
      own = best_of_groups<largest, 1>(length, piece);
    } else {
      for (int64_t i = 1; i < length; ++i) own = better<largest>(piece[i], own) ? piece[i] : own;
    }
    if (begin > 0 && !better<largest>(own, best)) continue;
    best = own;
    start = begin;
  }
  if (count >= kGroup) return first_place_of<4>(count, x, start, best);
  if (count >= kCount) return first_place_of<1>(count, x, start, best);
  int64_t i = start;
  while (x[i] != best) ++i;
  return i;
}

}  // namespace

#define UHAL_PLACES(largest)                  \
  {extreme_place<largest, float>,             \
   extreme_place<largest, double>,            \
   extreme_place<largest, int64_t>,           \
   extreme_place<largest, uint64_t>,          \
   extreme_place<largest, int32_t>,           \
   extreme_place_of_narrow<largest, int8_t>,  \
   extreme_place_of_narrow<largest, uint8_t>, \
   extreme_place_of_narrow<largest, int16_t>, \
   extreme_place_of_narrow<largest, uint16_t>}

extern const ExtremePlace kExtremePlaces[2][kExtremeTypes];
const ExtremePlace kExtremePlaces[2][kExtremeTypes] = {UHAL_PLACES(false), UHAL_PLACES(true)};

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
