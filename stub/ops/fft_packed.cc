#include "stub/ops/fft_packed.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "stub/ops/fft_lines.h"

namespace unihal::stub {
namespace {

using namespace fft_numbers;

// Two buffers of longer lines leave second-level caches, and the roots that are kept take as much memory.
constexpr int64_t kLongest = 65536;
// Of passes over columns, and of lines that are transformed in registers, where more rows would not fit.
constexpr int kRadices[] = {16, 15, 12, 10, 9, 8, 6, 5, 4, 3};
constexpr int kRowsInRegisters[] = {24, 20, 18, 16, 15, 12, 10, 9, 8, 6, 5, 4};

// Calls run(constant) with that one of some numbers that `number` is.
template <const auto& numbers, size_t i = 0, class Run>
bool with_one_of(int64_t number, const Run& run) {
  if constexpr (i == std::size(numbers)) {
    return false;
  } else {
    if (number != numbers[i]) return with_one_of<numbers, i + 1>(number, run);
    run(std::integral_constant<int, numbers[i]>());
    return true;
  }
}

// The fewest whose product is a number of rows, and of those the ones whose largest is least; none if it has another
// prime factor.
std::vector<int> radices_of_rows(int64_t rows) {
  std::vector<int> best;
  const auto largest = [](const std::vector<int>& radices) {
    return *std::max_element(radices.begin(), radices.end());
  };
  for (const int radix : kRadices) {
    if (rows == radix) return {radix};
    if (rows % radix != 0) continue;
    std::vector<int> radices = radices_of_rows(rows / radix);
    if (radices.empty()) continue;
    radices.push_back(radix);
    if (best.empty() || radices.size() < best.size() ||
        (radices.size() == best.size() && largest(radices) < largest(best))) {
      best = std::move(radices);
    }
  }
  return best;
}

bool fit_registers(int64_t rows) {
  return std::find(std::begin(kRowsInRegisters), std::end(kRowsInRegisters), rows) != std::end(kRowsInRegisters);
}

// Whether columns_of() chooses so many columns, no more than a vector has numbers, for a line of rows * columns: not
// where twice as many leave enough rows.
template <typename T>
constexpr bool may_have_columns(int columns, int rows) {
  return rows >= kNumbers<T> && (columns == kNumbers<T> || rows < 2 * kNumbers<T> || rows % 2 == 1);
}

// Of a line's matrix, in the order in which they are preferred.
template <typename T>
inline constexpr int kColumns[] = {2 * kNumbers<T>, kNumbers<T>, kNumbers<T> / 2, std::max(kNumbers<T> / 4, 2)};

// The vectors of a row, and the lines side by side in one.
template <typename T, int columns>
inline constexpr int kVectors = columns > kNumbers<T> ? columns / kNumbers<T> : 1;
template <typename T, int columns>
inline constexpr int kLines = columns < kNumbers<T> ? kNumbers<T> / columns : 1;

// Where lines are, in registers: what is written might be their place otherwise, for all that the compiler knows.
template <int count, typename T>
struct LinesInRegisters {
  T* of[count];

  UNIHAL_INLINE explicit LinesInRegisters(T* const* lines) {
#pragma GCC unroll 4
    for (int line = 0; line < count; ++line) of[line] = lines[line];
  }
};

// The vector of lines that begins with element `at` of each.
template <int lines, typename T, bool inverse>
UNIHAL_INLINE void load_lines(const T* const* from, int64_t at, PackedNumbers<T, inverse>& numbers) {
  if constexpr (lines == 1) {
    load(from[0] + at, numbers);
  } else {
    load_parts<lines>(from, at, numbers.v);
  }
}

// A pass over the columns. The first one reads lines with so many columns, which are 0 in later ones; the last one,
// which has one part, multiplies rows by their roots and may be in place.
template <int Radix, int columns_of_lines, bool is_last, bool inverse, typename T>
UNIHAL_WIDE void run_columns(int64_t parts, int64_t stride, const Root<T>* roots, const VectorRoots<T>* row_roots,
                             const T* const* from, const T* x, T* y) {
  constexpr bool kIsFirst = columns_of_lines > 0;
  constexpr int kColumnsRead = kIsFirst ? columns_of_lines : kNumbers<T>;
  constexpr int kLinesRead = kLines<T, kColumnsRead>;
  if constexpr (kIsFirst) stride = kVectors<T, columns_of_lines>;
  if constexpr (is_last) parts = 1;
  const LinesInRegisters<kLinesRead, const T> lines(from);
  const int64_t step = kElements<T> * stride, distance = step * parts;
  for (int64_t part = 0, at = 0; part < parts; ++part, roots += Radix - 1, y += (Radix - 1) * step) {
    for (const int64_t end = at + step; at < end; at += kElements<T>, y += kElements<T>, ++row_roots) {
      transform_numbers<Radix, PackedNumbers<T, inverse>>(
          [=](int j, auto& numbers) UNIHAL_INLINE_LAMBDA {
            if constexpr (kIsFirst) {
              load_lines<kLinesRead>(lines.of, (at + distance * j) / kLinesRead, numbers);
            } else {
              load(x + at + distance * j, numbers);
            }
          },
          [=](int j, auto numbers) UNIHAL_INLINE_LAMBDA {
            if constexpr (is_last) {
              multiply(row_roots[stride * j], numbers);
            } else if (j > 0 && part > 0) {
              multiply(roots[j - 1], numbers);
            }
            store(y + step * j, numbers);
          });
    }
  }
}

// The transforms of as many rows as a vector has numbers, of lines side by side, from row `row` of so many on.
template <int columns, bool is_scaled, typename T, bool inverse>
UNIHAL_INLINE void run_square(PackedNumbers<T, inverse>* square, int64_t row, int64_t rows, T factor, T* const* to) {
#pragma GCC unroll 2
  for (int i = 0; i < kVectors<T, columns>; ++i) transpose_numbers(square + i * kNumbers<T>);
#pragma GCC unroll 4
  for (int line = 0; line < kLines<T, columns>; ++line) {
    T* const target = to[line] + 2 * row;
    transform_numbers<columns, PackedNumbers<T, inverse>>(
        [=](int j, auto& numbers) UNIHAL_INLINE_LAMBDA { numbers = square[line * columns + j]; },
        [=](int j, auto numbers) UNIHAL_INLINE_LAMBDA {
          if constexpr (is_scaled) numbers = numbers * factor;
          store(target + 2 * rows * j, numbers);
        });
  }
}

// What the next group has at the rows of the square that begins with row `row`. The rows of a pass are in more places
// of a line than a processor looks ahead at by itself.
template <int columns, typename T>
UNIHAL_INLINE void ask_for_square(const FftGroups<T>& groups, int64_t row) {
  const int64_t at = 2 * columns * row;
#pragma GCC unroll 4
  for (int line = 0; line < kLines<T, columns>; ++line) {
    for (int64_t i = at; i < at + 2 * columns * kNumbers<T>; i += kElements<T>) {
      __builtin_prefetch(groups.from[line] + groups.from_step + i, 0);
      __builtin_prefetch(groups.to[line] + groups.to_step + i, 1);
    }
  }
}

// All rows of the first group, of which the last ones of a square before may be transformed again.
template <int columns, bool is_scaled, bool inverse, typename T>
UNIHAL_WIDE void run_rows(int64_t rows, const T* x, T factor, const FftGroups<T>& all_groups) {
  constexpr int kRows = kNumbers<T>, kOfRow = kVectors<T, columns>;
  const FftGroups<T> groups = all_groups;
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t row = std::min(begin, rows - kRows);
    ask_for_square<columns>(groups, begin);
    PackedNumbers<T, inverse> square[kOfRow * kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kOfRow * kRows; ++i) {
      load(x + ((row + i % kRows) * kOfRow + i / kRows) * kElements<T>, square[i]);
    }
    run_square<columns, is_scaled>(square, row, rows, factor, groups.to);
  }
}

// All of groups of lines with so many rows, of one vector each, in registers.
template <int Rows, int columns, bool is_scaled, bool inverse, typename T>
UNIHAL_WIDE void run_in_registers(const VectorRoots<T>* row_roots, T factor, const FftGroups<T>& all_groups) {
  constexpr int kRows = kNumbers<T>, kOfVector = kLines<T, columns>;
  FftGroups<T> groups = all_groups;
  while (groups.count > 0) {
    PackedNumbers<T, inverse> rows[Rows];
    transform_numbers<Rows, PackedNumbers<T, inverse>>(
        [&](int j, auto& numbers)
            UNIHAL_INLINE_LAMBDA { load_lines<kOfVector>(groups.from, 2 * columns * j, numbers); },
        [&](int j, auto numbers) UNIHAL_INLINE_LAMBDA {
          if (j > 0) multiply(row_roots[j], numbers);
          rows[j] = numbers;
        });
#pragma GCC unroll 4
    for (int begin = 0; begin < Rows; begin += kRows) {
      const int row = std::min(begin, Rows - kRows);
      PackedNumbers<T, inverse> square[kRows];
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) square[i] = rows[row + i];
      run_square<columns, is_scaled>(square, row, Rows, factor, groups.to);
    }
#pragma GCC unroll 4
    for (int line = 0; line < kOfVector; ++line) {
      groups.from[line] += groups.from_step;
      groups.to[line] += groups.to_step;
    }
    --groups.count;
  }
}

}  // namespace

template <typename T>
int FftPackedPlan<T>::columns_of(int64_t n) {
  if (!has_wide_vectors() || n > kLongest) return 0;
  for (const int columns : kColumns<T>) {
    const int64_t rows = n / columns;
    if (n % columns != 0 || rows < kNumbers<T>) continue;
    const size_t passes = radices_of_rows(rows).size();
    // Two vectors a row save one of two passes, and cost more squares that are not full.
    const bool is_worth =
        columns <= kNumbers<T> || (passes == 1 && 4 * rows >= 5 * kNumbers<T> && !fit_registers(2 * rows));
    if (passes > 0 && is_worth) return columns;
  }
  return 0;
}

template <typename T>
FftPackedPlan<T>::FftPackedPlan(int64_t n)
    : columns_(columns_of(n)), together_(std::max(kNumbers<T> / columns_, 1)), rows_(n / columns_) {
  const int vectors = std::max(columns_ / kNumbers<T>, 1);
  const RootsOfUnity<T> roots(n);
  // Lines side by side have the same ones.
  for (int64_t i = 0; i < rows_ * vectors; ++i) {
    VectorRoots<T>& of_vector = row_roots_.emplace_back();
    for (int number = 0; number < kNumbers<T>; ++number) {
      const int64_t column = (i % vectors * kNumbers<T> + number) % columns_;
      T *const re = of_vector.re + 2 * number, *const im = of_vector.im + 2 * number;
      roots.get(i / vectors * column, re, im + 1);
      re[1] = re[0];
      im[0] = -im[1];
    }
  }
  with_one_of<kColumns<T>>(columns_, [&](auto columns_constant) {
    constexpr int kColumns = decltype(columns_constant)::value;
    if constexpr (kColumns <= kNumbers<T>) {
      const bool in_registers = with_one_of<kRowsInRegisters>(rows_, [&](auto rows) {
        constexpr int kRows = decltype(rows)::value;
        if constexpr (may_have_columns<T>(kColumns, kRows)) {
          run_in_registers_[0] = run_in_registers<kRows, kColumns, false, false, T>;
          run_in_registers_[1] = run_in_registers<kRows, kColumns, true, false, T>;
          run_in_registers_[2] = run_in_registers<kRows, kColumns, true, true, T>;
        }
      });
      if (in_registers) return;
    }
    run_rows_[0] = run_rows<kColumns, false, false, T>;
    run_rows_[1] = run_rows<kColumns, true, false, T>;
    run_rows_[2] = run_rows<kColumns, true, true, T>;
    int64_t length = rows_;
    for (const int radix : radices_of_rows(rows_)) {
      with_one_of<kRadices>(radix, [&](auto radix_constant) {
        constexpr int kRadix = decltype(radix_constant)::value;
        Pass& pass = passes_.emplace_back();
        pass = {length / radix, vectors * (rows_ / length), roots_.size(), nullptr, nullptr};
        for (int64_t part = 0; part < pass.parts; ++part) {
          for (int j = 1; j < radix; ++j) {
            Root<T>& root = roots_.emplace_back();
            roots.get(part * j * (n / length), &root.re, &root.im[1]);
            root.im[0] = -root.im[1];
          }
        }
        if constexpr (kColumns > kNumbers<T>) {
          if constexpr (kRadix >= kNumbers<T>) {
            pass.run = run_columns<kRadix, kColumns, true, false, T>;
            pass.run_inverse = run_columns<kRadix, kColumns, true, true, T>;
          }
        } else if (passes_.size() == 1) {
          // What lies side by side has an odd number of rows.
          if constexpr (kColumns == kNumbers<T> || kRadix % 2 == 1) {
            pass.run = run_columns<kRadix, kColumns, false, false, T>;
            pass.run_inverse = run_columns<kRadix, kColumns, false, true, T>;
          }
        } else if (pass.parts == 1) {
          pass.run = run_columns<kRadix, 0, true, false, T>;
          pass.run_inverse = run_columns<kRadix, 0, true, true, T>;
        } else {
          pass.run = run_columns<kRadix, 0, false, false, T>;
          pass.run_inverse = run_columns<kRadix, 0, false, true, T>;
        }
        length /= radix;
      });
    }
  });
}

template <typename T>
int64_t FftPackedPlan<T>::buffer_elements() const {
  const int buffers = passes_.empty() ? 0 : passes_.size() > 2 ? 2 : 1;
  return kElements<T> * static_cast<int64_t>(row_roots_.size()) * buffers;
}

template <typename T>
void FftPackedPlan<T>::run(FftGroups<T> groups, bool inverse, T factor, T* buffer) const {
  const VectorRoots<T>* const row_roots = row_roots_.data();
  const int kind = inverse ? 2 : factor != 1 ? 1 : 0;
  if (passes_.empty()) return run_in_registers_[kind](row_roots, factor, groups);
  T* const second = buffer + kElements<T> * row_roots_.size();
  for (; groups.count > 0; groups.advance(1, together_)) {
    T *x = nullptr, *y = buffer;
    for (const Pass& pass : passes_) {
      if (pass.parts == 1 && x != nullptr) y = x;  // in place
      (inverse ? pass.run_inverse : pass.run)(pass.parts, pass.stride, roots_.data() + pass.roots, row_roots,
                                              groups.from, x, y);
      x = y;
      y = x == buffer ? second : buffer;
    }
    run_rows_[kind](rows_, x, factor, groups);
  }
}

template class FftPackedPlan<float>;
template class FftPackedPlan<double>;

}  // namespace unihal::stub
