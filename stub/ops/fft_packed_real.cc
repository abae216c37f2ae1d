#include "stub/ops/fft_packed_real.h"

#include <algorithm>
#include <utility>

#include "stub/ops/fft_lines.h"
#include "stub/ops/fft_squares.h"

namespace unihal::stub {
namespace {

using namespace fft_squares;

// What is read of numbers k of a half spectrum and of m - k, and what is written, as factors for both parts.
template <typename T>
struct PairFactors {
  T low_re, low_im, high_re, high_im;
};

template <typename T>
UNIHAL_INLINE void alternate(T re, T im, Wide<T>& v) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) v[i] = i % 2 == 0 ? re : im;
}

template <typename T>
UNIHAL_INLINE void reverse_numbers(Wide<T>& v) {
  if constexpr (sizeof(T) == 4) {
    v = UNIHAL_SHUFFLE(v, v, Places16, 14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
  } else {
    v = UNIHAL_SHUFFLE(v, v, WidePlaces8, 6, 7, 4, 5, 2, 3, 0, 1);
  }
}

template <typename T>
UNIHAL_INLINE void exchange_parts(const Wide<T>& v, Wide<T>& exchanged) {
  if constexpr (sizeof(T) == 4) {
    exchanged = UNIHAL_SHUFFLE(v, v, Places16, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  } else {
    exchanged = UNIHAL_SHUFFLE(v, v, WidePlaces8, 1, 0, 3, 2, 5, 4, 7, 6);
  }
}

// Between the transform Z of a line's even elements plus i times its odd ones and its spectrum X, for k = 1 to m - 1:
// with w = exp(-pi i / m), 2 X[k] = Z[k] + conj(Z[m - k]) - i w^k (Z[k] - conj(Z[m - k])), and back
// Z[k] = X[k] + conj(X[m - k]) + i conj(w^k) (X[k] - conj(X[m - k])). Numbers m - k follow from the same sum and
// difference. The middle ones may be formed twice, so both must not be the same memory.
template <bool to_spectrum, typename T, class Roots>
UNIHAL_WIDE void change_pairs(int64_t m, const Roots* roots, const T* from, const PairFactors<T>& read,
                              const PairFactors<T>& written, T* to) {
  constexpr int64_t kNumbers = kLanes<T> / 2;
  Wide<T> read_low, read_high, written_low, written_high;
  alternate(read.low_re, read.low_im, read_low);
  alternate(read.high_re, read.high_im, read_high);
  alternate(written.low_re, written.low_im, written_low);
  alternate(written.high_re, written.high_im, written_high);
  for (int64_t block = 0; block < m / 2; block += kNumbers, ++roots) {
    const int64_t k = std::min(block + 1, m / 2 + 1 - kNumbers), other = m + 1 - k - kNumbers;
    const Wide<T> low = *reinterpret_cast<const LooseWide<T>*>(from + 2 * k) * read_low;
    Wide<T> high = *reinterpret_cast<const LooseWide<T>*>(from + 2 * other);
    reverse_numbers<T>(high);
    const Wide<T> sum = low + high * read_high, difference = low - high * read_high;
    Wide<T> exchanged;
    exchange_parts<T>(difference, exchanged);
    exchanged *= *reinterpret_cast<const Wide<T>*>(roots->re);
    const Wide<T> straight = difference * *reinterpret_cast<const Wide<T>*>(roots->im);
    const Wide<T> turned = to_spectrum ? straight + exchanged : straight - exchanged;
    *reinterpret_cast<LooseWide<T>*>(to + 2 * k) = (sum + turned) * written_low;
    Wide<T> result = (sum - turned) * written_high;
    reverse_numbers<T>(result);
    *reinterpret_cast<LooseWide<T>*>(to + 2 * other) = result;
  }
}

// Of a square of half lines' spectra Z, row r of number j of which is Z[r + rows * j], the same of Z[m - k].
template <int together, typename T>
UNIHAL_INLINE void load_opposite(const T* numbers, int j, WideNumber<T>& number) {
  constexpr int kCount = kLanes<T>;
  const auto opposite = [](const Wide<T>& others, const Wide<T>& firsts, Wide<T>& opposites) UNIHAL_INLINE_LAMBDA {
    if constexpr (sizeof(T) == 4 && together == 1) {
      opposites = UNIHAL_SHUFFLE(others, firsts, Places16, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
    } else if constexpr (sizeof(T) == 4 && together == 2) {
      opposites = UNIHAL_SHUFFLE(others, firsts, Places16, 16, 7, 6, 5, 4, 3, 2, 1, 24, 15, 14, 13, 12, 11, 10, 9);
    } else if constexpr (sizeof(T) == 4) {
      opposites = UNIHAL_SHUFFLE(others, firsts, Places16, 16, 3, 2, 1, 20, 7, 6, 5, 24, 11, 10, 9, 28, 15, 14, 13);
    } else if constexpr (together == 1) {
      opposites = UNIHAL_SHUFFLE(others, firsts, WidePlaces8, 8, 7, 6, 5, 4, 3, 2, 1);
    } else if constexpr (together == 2) {
      opposites = UNIHAL_SHUFFLE(others, firsts, WidePlaces8, 8, 3, 2, 1, 12, 7, 6, 5);
    } else {
      opposites = UNIHAL_SHUFFLE(others, firsts, WidePlaces8, 8, 1, 10, 3, 12, 5, 14, 7);
    }
  };
  WideNumber<T> others, firsts;
  load(numbers + kRow<T> * (kCount - 1 - j), others);
  load(numbers + kRow<T> * ((kCount - j) % kCount), firsts);
  opposite(others.re, firsts.re, number.re);
  opposite(others.im, firsts.im, number.im);
}

// Half the lines' numbers Z, a square of them, to spectra X of m + 1 numbers: 2 X[k] = Z[k] + conj(Z[m - k])
// - i w^k (Z[k] - conj(Z[m - k])) in the lanes in which Z is.
template <int together, typename T>
UNIHAL_WIDE void run_square_from_real(const T* const* from, const T* lane_roots, const T* half_roots, T factor,
                                      T im_factor, T* const* to, T* square) {
  constexpr int64_t kStep = kRow<T> / together;
  T* const numbers = square + 2 * kSquare<T>;
  run_columns_of_square<together>(lane_roots, square, [=](int line, int j, auto& number) UNIHAL_INLINE_LAMBDA {
    load_packed(from[line] + kRow<T> * j, T(1), number);
  });
  run_rows_of_square(square,
                     [=](int j, const auto& number) UNIHAL_INLINE_LAMBDA { store(numbers + kRow<T> * j, number); });
  const LinesInRegisters<together, T> lines(to);
  const T half = factor / 2, im_half = im_factor / 2;
  for (int j = 0; j < kLanes<T>; j += 2, half_roots += 2 * kRow<T>) {
    WideNumber<T> spectrum[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      WideNumber<T> number, opposite, root;
      load(numbers + kRow<T> * (j + i), number);
      load_opposite<together>(numbers, j + i, opposite);
      load(half_roots + kRow<T> * i, root);
      const WideNumber<T> sum = {number.re + opposite.re, number.im - opposite.im};
      const WideNumber<T> difference = {number.re - opposite.re, number.im + opposite.im};
      spectrum[i].re = (sum.re + difference.re * root.im + difference.im * root.re) * half;
      spectrum[i].im = (sum.im + difference.im * root.im - difference.re * root.re) * im_half;
      if constexpr (together < 4) store_packed<together>(spectrum[i], lines.of, kStep * (j + i));
    }
    if constexpr (together == 4) store_packed_pair(spectrum[0], spectrum[1], lines.of, kStep * j);
  }
  for (int line = 0; line < together; ++line) {
    const T* const first = numbers + kLanes<T> / together * line;
    T* const spectrum = to[line];
    constexpr int64_t kLast = 2 * kSquare<T> / together;
    spectrum[0] = (first[0] + first[kLanes<T>]) * factor;
    spectrum[kLast] = (first[0] - first[kLanes<T>]) * factor;
    spectrum[1] = spectrum[kLast + 1] = 0;
  }
}

// The numbers of a spectrum that lie before m + 1 - k, in the order of k and the lanes of load_packed().
template <typename T>
UNIHAL_INLINE void load_reversed(const T* from, WideNumber<T>& number) {
  const Wide<T> low = *reinterpret_cast<const LooseWide<T>*>(from);
  const Wide<T> high = *reinterpret_cast<const LooseWide<T>*>(from + kLanes<T>);
  if constexpr (sizeof(T) == 4) {
    number.re = UNIHAL_SHUFFLE(low, high, Places16, 30, 22, 14, 6, 28, 20, 12, 4, 26, 18, 10, 2, 24, 16, 8, 0);
    number.im = UNIHAL_SHUFFLE(low, high, Places16, 31, 23, 15, 7, 29, 21, 13, 5, 27, 19, 11, 3, 25, 17, 9, 1);
  } else {
    number.re = UNIHAL_SHUFFLE(low, high, WidePlaces8, 14, 10, 6, 2, 12, 8, 4, 0);
    number.im = UNIHAL_SHUFFLE(low, high, WidePlaces8, 15, 11, 7, 3, 13, 9, 5, 1);
  }
}

// Back: Z[k] = X[k] + conj(X[m - k]) + i conj(w^k) (X[k] - conj(X[m - k])) as the square is read, and its conjugate for
// the inverse transform. `sign` is that of the imaginary parts of X.
template <int together, typename T>
UNIHAL_WIDE void run_square_to_real(const T* const* from, const T* lane_roots, const T* half_roots, T sign, T factor,
                                    T* const* to, T* square) {
  constexpr int64_t kNumbers = kSquare<T> / together;
  run_columns_of_square<together>(lane_roots, square, [=](int line, int j, auto& number) UNIHAL_INLINE_LAMBDA {
    WideNumber<T> low, high, root;
    load_packed(from[line] + kRow<T> * j, sign, low);
    load_reversed(from[line] + 2 * (kNumbers + 1 - kLanes<T> * (j + 1)), high);
    high.im *= sign;
    if (j == 0) low.im[0] = high.im[0] = 0;
    load(half_roots + kRow<T> * j, root);
    const WideNumber<T> sum = {low.re + high.re, low.im - high.im};
    const WideNumber<T> difference = {low.re - high.re, low.im + high.im};
    number.re = sum.re + difference.re * root.im - difference.im * root.re;
    number.im = -(sum.im + difference.im * root.im + difference.re * root.re);
  });
  const LinesInRegisters<together, T> lines(to);
  store_rows_of_square<together, true>(square, factor, -factor, lines.of, 0, kRow<T> / together);
}

}  // namespace

template <typename T>
bool FftPackedRealPlan<T>::takes_spectra(int64_t length) {
  const int64_t m = length / 2;
  return takes_lines(length) && (m % kSquare<T> == 0 || kSquare<T> % m == 0);
}

template <typename T>
FftPackedRealPlan<T>::FftPackedRealPlan(int64_t length) : m_(length / 2), halves_(m_) {
  constexpr int64_t kNumbers = kLanes<T> / 2;
  const RootsOfUnity<T> powers(length);
  if (halves_.is_square()) {
    const int rows = kLanes<T> / together();
    const auto add = [&](std::vector<FftPackedRow<T>>& table, int count, const auto& place_of) {
      for (int j = 0; j < count; ++j) {
        T* const re = table.emplace_back().numbers;
        for (int i = 0; i < kLanes<T>; ++i) {
          const auto [k, lane] = place_of(j, i);
          powers.get(k, re + lane, re + kLanes<T> + lane);
        }
      }
    };
    add(spectrum_roots_, kLanes<T>, [&](int j, int lane) { return std::pair{lane % rows + rows * j, lane}; });
    add(row_roots_, rows, [&](int j, int column) { return std::pair{kLanes<T> * j + column, lane_of<T>(column)}; });
    return;
  }
  for (int64_t block = 0; block < m_ / 2; block += kNumbers) {
    const int64_t first = std::min(block + 1, m_ / 2 + 1 - kNumbers);
    Roots& roots = roots_.emplace_back();
    for (int64_t i = 0; i < kNumbers; ++i) {
      T re, im;
      powers.get(first + i, &re, &im);
      roots.im[2 * i] = roots.im[2 * i + 1] = im;
      roots.re[2 * i] = re;
      roots.re[2 * i + 1] = -re;
    }
  }
}

template <typename T>
int64_t FftPackedRealPlan<T>::buffer_elements() const {
  return 2 * m_ * together() + halves_.buffer_elements();
}

template <typename T>
void FftPackedRealPlan<T>::run_from_real(const T* const* from, T* const* to, bool inverse, T factor,
                                         const FftNextLines<T>& next, T* buffer) const {
  if (halves_.is_square()) {
    const auto run = together() == 1   ? run_square_from_real<1, T>
                     : together() == 2 ? run_square_from_real<2, T>
                                       : run_square_from_real<4, T>;
    return run(from, halves_.lane_roots(), spectrum_roots_.front().numbers, factor, inverse ? -factor : factor, to,
               buffer);
  }
  T* lines[FftPackedPlan<T>::kMostTogether];
  int count = 0;  // of lines that differ
  for (; count < together() && (count == 0 || to[count] != to[count - 1]); ++count)
    lines[count] = buffer + 2 * m_ * count;
  std::fill(lines + count, lines + together(), lines[count - 1]);
  halves_.run(from, lines, false, T(1), next, buffer + 2 * m_ * together());
  const T half = factor / 2, im_half = inverse ? -half : half;
  const PairFactors<T> read = {1, 1, 1, -1}, written = {half, im_half, half, -im_half};
  for (int i = 0; i < count; ++i) {
    const T* const line = lines[i];
    T* const spectrum = to[i];
    change_pairs<true>(m_, roots_.data(), line, read, written, spectrum);
    spectrum[0] = (line[0] + line[1]) * factor;
    spectrum[2 * m_] = (line[0] - line[1]) * factor;
    spectrum[1] = spectrum[2 * m_ + 1] = 0;
  }
}

template <typename T>
void FftPackedRealPlan<T>::run_to_real(const T* const* from, T* const* to, bool inverse, T factor,
                                       const FftNextLines<T>& next, T* buffer) const {
  const T sign = inverse ? T(1) : T(-1);
  if (halves_.is_square()) {
    const auto run = together() == 1   ? run_square_to_real<1, T>
                     : together() == 2 ? run_square_to_real<2, T>
                                       : run_square_to_real<4, T>;
    return run(from, halves_.lane_roots(), row_roots_.front().numbers, sign, factor, to, buffer);
  }
  T* const line = buffer;
  const PairFactors<T> read = {1, sign, 1, -sign}, written = {1, 1, 1, -1};
  change_pairs<false>(m_, roots_.data(), from[0], read, written, line);
  line[0] = from[0][0] + from[0][2 * m_];
  line[1] = from[0][0] - from[0][2 * m_];
  halves_.run(&line, to, true, factor, next, buffer + 2 * m_);
}

template class FftPackedRealPlan<float>;
template class FftPackedRealPlan<double>;

}  // namespace unihal::stub
