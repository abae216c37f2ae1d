// Lines into rows and back, by how they lie: neighbouring numbers in neighbouring lines, in each line, or neither.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "stub/ops/fft_butterflies.h"
#include "stub/ops/fft_lines.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Elements of a line that are moved before the next line's, so that rows stay in the first-level cache.
constexpr int64_t kTile = 16;

// The distance of neighbouring lines, 0 if they have none in common.
int64_t distance(int64_t lanes, const int64_t* offsets) {
  if (lanes < 2) return 0;
  const int64_t step = offsets[1] - offsets[0];
  for (int64_t lane = 2; lane < lanes; ++lane) {
    if (offsets[lane] - offsets[lane - 1] != step) return 0;
  }
  return step;
}

// Of lines up to this length the next ones are asked for while a block is read or written, of longer ones what follows.
constexpr int64_t kShortLine = 64;

// Rows of columns lie far from one another, where no processor looks ahead by itself.
constexpr int64_t kAhead = 8;
template <bool to_write, typename T>
UNIHAL_INLINE void prefetch_columns(const T* row) {
#pragma GCC unroll 3
  for (int64_t line = 0; line < 3; ++line) {
    __builtin_prefetch(reinterpret_cast<const char*>(row) + std::min<int64_t>(64 * line, 127), to_write);
  }
}

// Where a row has the parts that come first and second in each number of a line: inverse transforms exchange them.
template <typename T>
struct Parts {
  int64_t first, second;
};

// A row's parts from two vectors of its numbers, of which the first has the first two and the middle two of float, or
// the first and the third of double, and back: one shuffle each.
template <typename T>
UNIHAL_INLINE void part_numbers(const Vector<T>* v, Vector<T>& first, Vector<T>& second) {
  if constexpr (sizeof(T) == 4) {
    first = UNIHAL_SHUFFLE(v[0], v[1], Places8, 0, 2, 8, 10, 4, 6, 12, 14);
    second = UNIHAL_SHUFFLE(v[0], v[1], Places8, 1, 3, 9, 11, 5, 7, 13, 15);
  } else {
    first = UNIHAL_SHUFFLE(v[0], v[1], Places4, 0, 4, 2, 6);
    second = UNIHAL_SHUFFLE(v[0], v[1], Places4, 1, 5, 3, 7);
  }
}

template <typename T>
UNIHAL_INLINE void join_parts(const Vector<T>& first, const Vector<T>& second, Vector<T>* v) {
  if constexpr (sizeof(T) == 4) {
    v[0] = UNIHAL_SHUFFLE(first, second, Places8, 0, 8, 1, 9, 4, 12, 5, 13);
    v[1] = UNIHAL_SHUFFLE(first, second, Places8, 2, 10, 3, 11, 6, 14, 7, 15);
  } else {
    v[0] = UNIHAL_SHUFFLE(first, second, Places4, 0, 4, 2, 6);
    v[1] = UNIHAL_SHUFFLE(first, second, Places4, 1, 5, 3, 7);
  }
}

// GCC moves the numbers of columns one by one, if it is left to find the vectors.
template <typename T>
UNIHAL_VECTORIZED void load_columns(int64_t rows, int64_t rows_left, const T* from, int64_t stride, Parts<T> parts,
                                    T* to) {
  constexpr int64_t kHalf = kWidth<T> / 2;
  for (int64_t row = 0; row < rows; ++row, from += stride, to += kFftRow<T>) {
    if (row + kAhead < rows_left) prefetch_columns<false>(from + kAhead * stride);
    Vector<T> v[2];
    load_halves(from, from + 2 * kHalf, v[0]);
    load_halves(from + kHalf, from + 3 * kHalf, v[1]);
    part_numbers<T>(v, *reinterpret_cast<Vector<T>*>(to + parts.first),
                    *reinterpret_cast<Vector<T>*>(to + parts.second));
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_columns(int64_t rows, int64_t rows_left, const T* from, Parts<T> parts, T first_factor,
                                     T second_factor, T* to, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, from += kFftRow<T>, to += stride) {
    if (row + kAhead < rows_left) prefetch_columns<true>(to + kAhead * stride);
    Vector<T> v[2];
    join_parts<T>(*reinterpret_cast<const Vector<T>*>(from + parts.first) * first_factor,
                  *reinterpret_cast<const Vector<T>*>(from + parts.second) * second_factor, v);
    if constexpr (sizeof(T) == 4) {
      *reinterpret_cast<Loose<T>*>(to) = UNIHAL_SHUFFLE(v[0], v[1], Places8, 0, 1, 2, 3, 8, 9, 10, 11);
      *reinterpret_cast<Loose<T>*>(to + kWidth<T>) = UNIHAL_SHUFFLE(v[0], v[1], Places8, 4, 5, 6, 7, 12, 13, 14, 15);
    } else {
      *reinterpret_cast<Loose<T>*>(to) = UNIHAL_SHUFFLE(v[0], v[1], Places4, 0, 1, 4, 5);
      *reinterpret_cast<Loose<T>*>(to + kWidth<T>) = UNIHAL_SHUFFLE(v[0], v[1], Places4, 2, 3, 6, 7);
    }
  }
}

// Where lines are, in registers: written rows might be the offsets otherwise, for all that the compiler knows.
template <typename T>
struct LinePlaces {
  static constexpr int64_t kLanes = kFftLanes<std::remove_const_t<T>>;
  T* of[kLanes];

  UNIHAL_INLINE LinePlaces(T* from, const int64_t* offsets) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kLanes; ++i) of[i] = from + offsets[i];
  }

  // Asks for what the lines have `ahead` of a row, where the second half of a line of the cache begins.
  template <bool to_write>
  UNIHAL_INLINE void prefetch(int64_t row, int64_t ahead) const {
    if ((row & (kLanes / 2)) == 0) return;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kLanes; ++i) __builtin_prefetch(of[i] + 2 * row + ahead, to_write);
  }

  // Asks for what the first and the last line have there.
  template <bool to_write>
  UNIHAL_INLINE void prefetch_ends(int64_t at) const {
    __builtin_prefetch(of[0] + at, to_write);
    __builtin_prefetch(of[kLanes - 1] + at, to_write);
  }
};

// Complex numbers one after the other in each line: half a vector of one line's numbers is a column of real and
// imaginary parts. `rows` is a multiple of four numbers of float, or two of double.
template <typename T>
UNIHAL_VECTORIZED void load_lines(int64_t rows, const T* from, const int64_t* offsets, int64_t ahead, Parts<T> parts,
                                  T* to) {
  constexpr int64_t kSize = kWidth<T>, kHalf = kSize / 2;
  const LinePlaces<const T> lines(from, offsets);
  for (int64_t row = 0; row < rows; row += kHalf) {
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half, to += kHalf / 2 * kFftRow<T>) {
      const int64_t at = 2 * row + half * kHalf;
      Vector<T> v[kHalf];
#pragma GCC unroll 4
      for (int64_t i = 0; i < kHalf; ++i) load_halves(lines.of[i] + at, lines.of[i + kHalf] + at, v[i]);
      transpose_halves(v);
#pragma GCC unroll 2
      for (int64_t i = 0; i < kHalf / 2; ++i) {
        *reinterpret_cast<Vector<T>*>(to + i * kFftRow<T> + parts.first) = v[2 * i];
        *reinterpret_cast<Vector<T>*>(to + i * kFftRow<T> + parts.second) = v[2 * i + 1];
      }
    }
    lines.template prefetch<false>(row, ahead);
  }
}

// Whole vectors are stored: half ones would be as many again, and a cache takes one at a time.
template <typename T>
UNIHAL_VECTORIZED void store_lines(int64_t rows, const T* from, Parts<T> parts, T first_factor, T second_factor, T* to,
                                   const int64_t* offsets, int64_t ahead) {
  constexpr int64_t kSize = kWidth<T>;
  const LinePlaces<T> lines(to, offsets);
  for (int64_t row = 0; row < rows; row += kSize / 2, from += kSize / 2 * kFftRow<T>) {
    Vector<T> v[kSize];
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSize / 2; ++i) {
      v[2 * i] = *reinterpret_cast<const Vector<T>*>(from + i * kFftRow<T> + parts.first) * first_factor;
      v[2 * i + 1] = *reinterpret_cast<const Vector<T>*>(from + i * kFftRow<T> + parts.second) * second_factor;
    }
    transpose(v);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) *reinterpret_cast<Loose<T>*>(lines.of[i] + 2 * row) = v[i];
    lines.template prefetch<true>(row, ahead);
  }
}

// Two vectors of the numbers of eight lines of float, or four of double: those whose parts one shuffle of both brings
// into the lines' order.
template <typename T>
UNIHAL_INLINE void load_numbers_of_row(const LinePlaces<const T>& lines, int64_t at, Vector<T>* v) {
  if constexpr (sizeof(T) == 4) {
    typedef double Number __attribute__((aligned(4), may_alias));
    typedef double Numbers __attribute__((vector_size(32)));
    const auto number = [&](int lane)
                            UNIHAL_INLINE_LAMBDA { return *reinterpret_cast<const Number*>(lines.of[lane] + at); };
    v[0] = reinterpret_cast<Vector<T>>(Numbers{number(0), number(1), number(4), number(5)});
    v[1] = reinterpret_cast<Vector<T>>(Numbers{number(2), number(3), number(6), number(7)});
  } else {
    load_halves(lines.of[0] + at, lines.of[2] + at, v[0]);
    load_halves(lines.of[1] + at, lines.of[3] + at, v[1]);
  }
}

// Lanes without a line lie where the last one does, which has to be written after them: what columns are multiplied by
// tells them apart.
template <typename T>
UNIHAL_INLINE void store_numbers_of_row(const LinePlaces<T>& lines, int64_t at, const Vector<T>* v) {
  if constexpr (sizeof(T) == 4) {
    typedef double Number __attribute__((aligned(4), may_alias));
    typedef double Numbers __attribute__((vector_size(32)));
    const Numbers low = reinterpret_cast<Numbers>(v[0]), high = reinterpret_cast<Numbers>(v[1]);
#pragma GCC unroll 8
    for (int lane = 7; lane >= 0; --lane) {
      const int place = lane / 4 * 2 + lane % 2;
      *reinterpret_cast<Number*>(lines.of[lane] + at) = lane % 4 < 2 ? low[place] : high[place];
    }
  } else {
    typedef double Half __attribute__((vector_size(16), aligned(8), may_alias));
#pragma GCC unroll 2
    for (int i = 1; i >= 0; --i) {
      *reinterpret_cast<Half*>(lines.of[2 * i + 1] + at) = Half{v[1][2 * i], v[1][2 * i + 1]};
      *reinterpret_cast<Half*>(lines.of[2 * i] + at) = Half{v[0][2 * i], v[0][2 * i + 1]};
    }
  }
}

// Complex numbers anywhere: lines that are neighbours but for a gap, or are not at all.
template <typename T>
UNIHAL_VECTORIZED void load_numbers(int64_t rows, int64_t rows_left, const T* from, int64_t stride,
                                    const int64_t* offsets, Parts<T> parts, T* to) {
  const LinePlaces<const T> lines(from, offsets);
  for (int64_t row = 0; row < rows; ++row, to += kFftRow<T>) {
    if (row + kAhead < rows_left) lines.template prefetch_ends<false>((row + kAhead) * stride);
    Vector<T> v[2];
    load_numbers_of_row(lines, row * stride, v);
    part_numbers<T>(v, *reinterpret_cast<Vector<T>*>(to + parts.first),
                    *reinterpret_cast<Vector<T>*>(to + parts.second));
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_numbers(int64_t rows, int64_t rows_left, const T* from, Parts<T> parts, T first_factor,
                                     T second_factor, T* to, int64_t stride, const int64_t* offsets) {
  const LinePlaces<T> lines(to, offsets);
  for (int64_t row = 0; row < rows; ++row, from += kFftRow<T>) {
    if (row + kAhead < rows_left) lines.template prefetch_ends<true>((row + kAhead) * stride);
    Vector<T> v[2];
    join_parts<T>(*reinterpret_cast<const Vector<T>*>(from + parts.first) * first_factor,
                  *reinterpret_cast<const Vector<T>*>(from + parts.second) * second_factor, v);
    store_numbers_of_row(lines, row * stride, v);
  }
}

template <typename T>
UNIHAL_VECTORIZED void load_part(int64_t rows, const T* from, int64_t stride, const int64_t* offsets, T* to) {
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t end = std::min(rows, begin + kTile);
    for (int64_t lane = 0; lane < kFftLanes<T>; ++lane) {
      const T* line = from + offsets[lane];
      for (int64_t row = begin; row < end; ++row) to[row * kFftRow<T> + lane] = line[row * stride];
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_part(int64_t rows, int64_t lanes, const T* from, T factor, T* to, int64_t stride,
                                  const int64_t* offsets) {
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t end = std::min(rows, begin + kTile);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      T* line = to + offsets[lane];
      for (int64_t row = begin; row < end; ++row) line[row * stride] = from[row * kFftRow<T> + lane] * factor;
    }
  }
}

}  // namespace

template <typename T>
FftLines<T>::FftLines(const FftSignal<T>& signal, int64_t length, int64_t lanes, const int64_t* offsets)
    : signal_(signal), length_(length), lanes_(lanes) {
  std::copy_n(offsets, lanes, offsets_);
  std::fill(offsets_ + lanes, offsets_ + kFftLanes<T>, offsets[lanes - 1]);
  if (signal.re == nullptr || signal.im == nullptr || std::abs(signal.re - signal.im) != 1) return;
  numbers_ = std::min(signal.re, signal.im);
  is_exchanged_ = signal.im < signal.re;
  const int64_t step = distance(kFftLanes<T>, offsets_);
  if (step == 2) {
    layout_ = Layout::kColumns;
  } else if (signal.stride == 2) {
    layout_ = Layout::kPacked;
    ahead_ = length <= kShortLine && step > 0 ? kFftLanes<T> * step : 2 * kTileRows<T>;
  }
}

template <typename T>
void FftLines<T>::load(int64_t begin, int64_t rows, T* to) const {
  const Parts<T> parts = {is_exchanged_ ? kFftLanes<T> : 0, is_exchanged_ ? 0 : kFftLanes<T>};
  int64_t done = 0;
  if (layout_ == Layout::kColumns) {
    const T* const first = numbers_ + offsets_[0] + begin * signal_.stride;
    return load_columns(rows, length_ - begin, first, signal_.stride, parts, to);
  }
  if (layout_ == Layout::kPacked) {
    done = rows / (kWidth<T> / 2) * (kWidth<T> / 2);
    load_lines(done, numbers_ + 2 * begin, offsets_, ahead_, parts, to);
    if (done == rows) return;
  }
  const FftSignal<T> rest = signal_.from(begin + done);
  to += done * kFftRow<T>;
  if (numbers_ != nullptr) {
    const T* const first = std::min(rest.re, rest.im);
    return load_numbers(rows - done, length_ - begin - done, first, rest.stride, offsets_, parts, to);
  }
  for (const auto& [part, at] : {std::pair{rest.re, to}, std::pair{rest.im, to + kFftLanes<T>}}) {
    if (part != nullptr) {
      load_part(rows - done, part, signal_.stride, offsets_, at);
    } else {
      for (int64_t row = 0; row < rows - done; ++row) std::fill_n(at + row * kFftRow<T>, kFftLanes<T>, T(0));
    }
  }
}

template <typename T>
void FftLines<T>::store(int64_t begin, int64_t rows, const T* from, T re_factor, T im_factor) const {
  const Parts<T> parts = {is_exchanged_ ? kFftLanes<T> : 0, is_exchanged_ ? 0 : kFftLanes<T>};
  const T first = is_exchanged_ ? im_factor : re_factor, second = is_exchanged_ ? re_factor : im_factor;
  int64_t done = 0;
  if (layout_ == Layout::kColumns) {
    T* const target = numbers_ + offsets_[0] + begin * signal_.stride;
    return store_columns(rows, length_ - begin, from, parts, first, second, target, signal_.stride);
  }
  if (layout_ == Layout::kPacked) {
    done = rows / (kWidth<T> / 2) * (kWidth<T> / 2);
    store_lines(done, from, parts, first, second, numbers_ + 2 * begin, offsets_, ahead_);
    if (done == rows) return;
  }
  const FftSignal<T> rest = signal_.from(begin + done);
  from += done * kFftRow<T>;
  if (numbers_ != nullptr) {
    T* const target = std::min(rest.re, rest.im);
    return store_numbers(rows - done, length_ - begin - done, from, parts, first, second, target, rest.stride,
                         offsets_);
  }
  if (rest.re != nullptr) store_part(rows - done, lanes_, from, re_factor, rest.re, rest.stride, offsets_);
  from += kFftLanes<T>;
  if (rest.im != nullptr) store_part(rows - done, lanes_, from, im_factor, rest.im, rest.stride, offsets_);
}

template class FftLines<float>;
template class FftLines<double>;

}  // namespace unihal::stub
