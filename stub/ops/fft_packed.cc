#include "stub/ops/fft_packed.h"

#include <algorithm>
#include <utility>

#include "stub/ops/fft_lines.h"
#include "stub/ops/fft_squares.h"
#include "stub/ops/fft_stacked.h"

namespace unihal::stub {
namespace {

using namespace fft_squares;

// Two buffers of longer lines leave second-level caches, and the roots that are kept take as much memory.
constexpr int64_t kLongest = 65536;
// Lines whose columns share a vector at most: of four a half of a vector has two, which are transposed together.
constexpr int kMostSideBySide = 4;

// Row `row` of so many lines side by side.
template <int lines, typename T>
UNIHAL_INLINE void load_row(const T* const* from, int64_t row, T sign, WideNumber<T>& number) {
  constexpr int kWidth = static_cast<int>(kRow<T>) / lines, kHalf = kLanes<T> / 2;
  const int64_t at = row * kWidth;
  if constexpr (lines == 1) {
    load_packed(from[0] + at, sign, number);
  } else {
    Wide<T> low, high;
    if constexpr (lines == 2) {
      low = *reinterpret_cast<const LooseWide<T>*>(from[0] + at);
      high = *reinterpret_cast<const LooseWide<T>*>(from[1] + at);
    } else {
      static_assert(lines == 4 && kWidth == kHalf);
      load_halves(from[0] + at, from[1] + at, low);
      load_halves(from[2] + at, from[3] + at, high);
    }
    part_pairs(low, high, number.re, number.im);
    number.im *= sign;
  }
}

// A pass over the columns. The first one reads `first_of` lines, which is 0 in later ones; the last one, which has one
// part, multiplies by the lanes' roots and may be in place.
template <int Radix, int first_of, bool is_last, typename T>
UNIHAL_WIDE void run_columns(int64_t parts, int64_t stride, const T* twiddles, const T* lane_roots,
                             const T* const* from, const T* x, T sign, T* y) {
  constexpr bool kIsFirst = first_of > 0;
  if constexpr (kIsFirst) stride = 1;
  if constexpr (is_last) parts = 1;
  const LinesInRegisters<std::max(first_of, 1), const T> lines(from);
  const int64_t step = kRow<T> * stride, distance = step * parts;
  for (int64_t part = 0; part < parts; ++part, twiddles += 2 * (Radix - 1), y += (Radix - 1) * step) {
    for (const T* const end = x + step; x < end; x += kRow<T>, y += kRow<T>, lane_roots += kRow<T>) {
      transform_numbers<Radix, T, kBytes>(
          [=](int j, auto& number) UNIHAL_INLINE_LAMBDA {
            if constexpr (kIsFirst) {
              load_row<first_of>(lines.of, part + parts * j, sign, number);
            } else {
              load(x + distance * j, number);
            }
          },
          [=](int j, auto number) UNIHAL_INLINE_LAMBDA {
            if constexpr (is_last) {
              multiply_lanes(lane_roots + step * j, number);
            } else if (j > 0 && part > 0) {
              multiply(number, twiddles[2 * j - 2], twiddles[2 * j - 1]);
            }
            store(y + step * j, number);
          });
    }
  }
}

// What the next lines, side by side, have at the rows of the square that begins with row `row`. The rows of a pass are
// in more places of a line than a processor looks ahead at by itself.
template <int lines, typename T>
UNIHAL_INLINE void ask_for_square(const FftNextLines<T>& next, int64_t row) {
  constexpr int64_t kElements = 2 * kSquare<T> / lines;
  const int64_t at = row * (kRow<T> / lines);
#pragma GCC unroll 4
  for (int line = 0; line < lines; ++line) {
    for (int64_t i = at; i < at + kElements; i += kLanes<T>) {
      __builtin_prefetch(next.from + next.from_step * line + i, 0);
      __builtin_prefetch(next.to + next.to_step * line + i, 1);
    }
  }
}

// The transforms of a square's rows, of lines side by side, from row `row` of so many on. `are_few`: a line has fewer
// than a square, but more than half as many. Then vectors go beyond their numbers, to where those of the next column go
// next, and of the last one up to the end of the line.
template <int lines, bool are_few, bool is_scaled, typename T>
UNIHAL_INLINE void run_short_rows(int64_t row, int64_t rows, const T* x, T re_factor, T im_factor, T* const* to) {
  constexpr int kHalf = kLanes<T> / 2, kColumns = kLanes<T> / lines;
  static_assert(!are_few || kColumns <= 4);  // their transforms write one column after the other
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    Wide<T> re[kHalf], im[kHalf];
    transpose_half(x + half * kHalf, re);
    transpose_half(x + kLanes<T> + half * kHalf, im);
#pragma GCC unroll 2
    for (int i = 0; i < lines / 2; ++i) {
      T* const line = to[half * (lines / 2) + i];
      transform_numbers<kColumns, T, kBytes>(
          [&](int j, auto& number) UNIHAL_INLINE_LAMBDA {
            number.re = re[i * kColumns + j];
            number.im = im[i * kColumns + j];
          },
          [=](int j, auto number) UNIHAL_INLINE_LAMBDA {
            if constexpr (is_scaled) {
              number.re *= re_factor;
              number.im *= im_factor;
            }
            const int64_t at = 2 * (row + rows * j);
            if (are_few && j == kColumns - 1) {
              FftPackedRow<T> last;
              T* const whole = last.numbers;
              store_packed<1>(number, &whole, 0);
              std::copy_n(whole, 2 * rows, line + at);
            } else {
              store_packed<1>(number, &line, at);
            }
          });
    }
  }
}

template <bool is_scaled, typename T>
UNIHAL_WIDE void run_few_rows(int64_t rows, const T* x, T re_factor, T im_factor, T* const* to,
                              const FftNextLines<T>& next) {
  ask_for_square<kMostSideBySide>(next, 0);
  run_short_rows<kMostSideBySide, true, is_scaled>(0, rows, x, re_factor, im_factor, to);
}

// Of all rows, of which the last ones of a square before may be transformed again.
template <int lines, bool is_scaled, typename T>
UNIHAL_WIDE void run_rows(int64_t rows, const T* x, T re_factor, T im_factor, T* const* lines_to,
                          const FftNextLines<T>& next_lines) {
  const LinesInRegisters<lines, T> to(lines_to);
  const FftNextLines<T> next = next_lines;
  for (int64_t begin = 0; begin < rows; begin += kLanes<T>) {
    const int64_t row = std::min<int64_t>(begin, rows - kLanes<T>);
    const T* const square = x + row * kRow<T>;
    ask_for_square<lines>(next, begin);
    if constexpr (lines == 1) {
      store_rows_of_square<1, is_scaled>(square, re_factor, im_factor, to.of, 2 * row, 2 * rows);
    } else {
      run_short_rows<lines, false, is_scaled>(row, rows, square, re_factor, im_factor, to.of);
    }
  }
}

// All of some lines that are one square together.
template <int together, bool is_scaled, typename T>
UNIHAL_WIDE void run_square(const T* const* from, const T* lane_roots, T sign, T re_factor, T im_factor, T* const* to,
                            T* square) {
  run_columns_of_square<together>(lane_roots, square, [=](int line, int j, auto& number) UNIHAL_INLINE_LAMBDA {
    load_packed(from[line] + kRow<T> * j, sign, number);
  });
  // What is probably next: more than this is too much where lines are shorter, and where they are longer the processor
  // looks ahead by itself.
  if constexpr (together == 1) {
#pragma GCC unroll 32
    for (int64_t i = 0; i < kLanes<T> * kRow<T>; i += kLanes<T>) {
      __builtin_prefetch(from[0] + kLanes<T> * kRow<T> + i);
    }
  }
  const LinesInRegisters<together, T> lines(to);
  store_rows_of_square<together, is_scaled>(square, re_factor, im_factor, lines.of, 0, kRow<T> / together);
}

template <typename T>
using RunColumns = void (*)(int64_t parts, int64_t stride, const T* twiddles, const T* lane_roots, const T* const* from,
                            const T* x, T sign, T* y);

template <int Radix, typename T>
RunColumns<T> columns_run(int lines, bool is_first, bool is_last) {
  if (!is_first) return is_last ? run_columns<Radix, 0, true, T> : run_columns<Radix, 0, false, T>;
  // One pass is enough for columns of a butterfly, of one line.
  if (is_last) return run_columns<Radix, 1, true, T>;
  return lines == 1 ? run_columns<Radix, 1, false, T>
                    : (lines == 2 ? run_columns<Radix, 2, false, T> : run_columns<Radix, 4, false, T>);
}

template <int lines, typename T>
void run_rows(int64_t rows, T* x, T factor, T sign, T* const* to, const FftNextLines<T>& next) {
  const bool is_scaled = factor != 1 || sign != 1;
  auto run = is_scaled ? run_rows<lines, true, T> : run_rows<lines, false, T>;
  if (rows < kLanes<T>) {
    std::fill(x + rows * kRow<T>, x + kLanes<T> * kRow<T>, T(0));
    run = is_scaled ? run_few_rows<true, T> : run_few_rows<false, T>;
  }
  run(rows, x, factor, factor * sign, to, next);
}

template <int together, typename T>
void run_square(const T* const* from, const T* lane_roots, T sign, T factor, T* const* to, T* square) {
  const bool is_scaled = factor != 1 || sign != 1;
  const auto run = is_scaled ? run_square<together, true, T> : run_square<together, false, T>;
  run(from, lane_roots, sign, factor, factor * sign, to, square);
}

template <typename T>
using RunStackedColumns = void (*)(int lines, const T* twiddles, const T* lane_roots, const T* const* from, T sign,
                                   T* x);

// Of lines of so many rows; nullptr where a prime factor has no butterfly.
template <typename T>
RunStackedColumns<T> stacked_columns_run(int rows) {
  switch (rows) {
    case 3:
      return run_stacked_columns<3, 1, T>;
    case 5:
      return run_stacked_columns<5, 1, T>;
    case 6:
      return run_stacked_columns<2, 3, T>;
    case 9:
      return run_stacked_columns<3, 3, T>;
    case 10:
      return run_stacked_columns<2, 5, T>;
    case 12:
      return run_stacked_columns<4, 3, T>;
    case 15:
      return run_stacked_columns<3, 5, T>;
    default:
      return nullptr;
  }
}

template <typename T>
void run_stacked(int rows, int together, const T* twiddles, const T* lane_roots, const FftStackedRuns& stacked,
                 const T* const* from, T* const* to, T sign, T factor, T* buffer) {
  int lines = 1;
  while (lines < together && to[lines] != to[lines - 1]) ++lines;
  stacked_columns_run<T>(rows)(lines, twiddles, lane_roots, from, sign, buffer);
  const auto run = factor != 1 || sign != 1 ? run_stacked_rows<true, T> : run_stacked_rows<false, T>;
  run(rows, lines, stacked, buffer, factor, factor * sign, to);
}

}  // namespace

template <typename T>
bool FftPackedPlan<T>::is_stacked(int64_t n) {
  // With a quarter of a square's rows or less a line's parts of vectors are too many.
  return n % kLanes<T> == 0 && 4 * n > kSquare<T> && n < kSquare<T> &&
         stacked_columns_run<T>(static_cast<int>(n / kLanes<T>)) != nullptr;
}

template <typename T>
int FftPackedPlan<T>::columns_of(int64_t n) {
  if (!has_wide_vectors() || n > kLongest) return 0;
  if (kSquare<T> % n == 0 && kSquare<T> / n <= kMostSideBySide) return kLanes<T>;
  if (is_stacked(n)) return kLanes<T>;
  for (int columns = kLanes<T>; columns >= kLanes<T> / kMostSideBySide; columns /= 2) {
    // Squares that are not full are for the shortest lines, of which run_few_rows() takes four columns.
    const bool few = columns == kLanes<T> / kMostSideBySide && columns == 4 && n / columns > kLanes<T> / 2;
    if (n % columns != 0 || (n / columns < kLanes<T> && !few)) continue;
    int64_t rest = n;
    for (const int prime : {2, 3, 5}) {
      while (rest % prime == 0) rest /= prime;
    }
    return rest == 1 ? columns : 0;
  }
  return 0;
}

template <typename T>
FftPackedPlan<T>::FftPackedPlan(int64_t n)
    : n_(n),
      rows_(n / columns_of(n)),
      is_square_(kSquare<T> % n == 0),
      together_(static_cast<int>(is_square_ ? kSquare<T> / n : kLanes<T> * rows_ / n)) {
  if (is_stacked(n)) {
    together_ = stacked_lines<T>(static_cast<int>(rows_));
    stacked_ = stacked_runs<T>(static_cast<int>(rows_));
  }
  const RootsOfUnity<T> roots(n);
  int64_t length = rows_;
  for (const int radix : radices_of(rows_)) {
    const int64_t parts = length / radix;
    passes_.push_back({radix, parts, twiddles_.size()});
    for (int64_t part = 0; part < parts; ++part) {
      for (int j = 1; j < radix; ++j) {
        T re, im;
        roots.get(part * j * (n / length), &re, &im);
        twiddles_.push_back(re);
        twiddles_.push_back(im);
      }
    }
    length = parts;
  }
  lane_roots_.resize(static_cast<size_t>(rows_));
  const int columns = static_cast<int>(n / rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    T* const re = lane_roots_[static_cast<size_t>(row)].numbers;
    for (int i = 0; i < kLanes<T>; ++i) {
      const int lane = columns == kLanes<T> ? lane_of<T>(i) : i;
      roots.get(row * (i % columns), re + lane, re + kLanes<T> + lane);
    }
  }
}

template <typename T>
int64_t FftPackedPlan<T>::buffer_elements() const {
  if (!stacked_.runs.empty()) return kRow<T> * rows_ * together_;
  const int64_t rows = is_square_ ? kLanes<T> : std::max<int64_t>(rows_, kLanes<T>);
  return kRow<T> * rows * (passes_.size() > 2 ? 2 : 1);
}

template <typename T>
void FftPackedPlan<T>::run(const T* const* from, T* const* to, bool inverse, T factor, const FftNextLines<T>& next,
                           T* buffer) const {
  const T sign = inverse ? T(-1) : T(1);
  const T* const roots = lane_roots();
  if (is_square_) {
    const auto run = together_ == 1 ? run_square<1, T> : together_ == 2 ? run_square<2, T> : run_square<4, T>;
    return run(from, roots, sign, factor, to, buffer);
  }
  if (!stacked_.runs.empty()) {
    return run_stacked(static_cast<int>(rows_), together_, twiddles_.data(), roots, stacked_, from, to, sign, factor,
                       buffer);
  }
  T *x = nullptr, *y = buffer, *other = buffer + kRow<T> * rows_;
  for (size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    const bool is_first = i == 0, is_last = i + 1 == passes_.size();
    if (is_last && !is_first) std::swap(y, other);  // in place
    with_radix(pass.radix, [&](auto radix) {
      columns_run<radix(), T>(together_, is_first, is_last)(pass.parts, rows_ / pass.parts / pass.radix,
                                                            twiddles_.data() + pass.twiddles, roots, from, x, sign, y);
    });
    x = y;
    std::swap(y, other);
  }
  const auto run = together_ == 1 ? run_rows<1, T> : together_ == 2 ? run_rows<2, T> : run_rows<4, T>;
  run(rows_, x, factor, sign, to, next);
}

template class FftPackedPlan<float>;
template class FftPackedPlan<double>;

}  // namespace unihal::stub
