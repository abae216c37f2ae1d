#include "stub/ops/fft_packed_real.h"

#include <algorithm>

#include "stub/ops/fft_lines.h"

namespace unihal::stub {
namespace {

using namespace fft_numbers;

// Of lines between both steps: what a step has just written is not what it reads next, as long as the first-level cache
// has room for it.
constexpr int64_t kBetween = 4096;

template <typename T>
using Numbers = PackedNumbers<T, false>;

// Numbers in the opposite order, and the same but for the first one, which is another vector's first.
template <typename T>
UNIHAL_INLINE void reverse(const Wide<T>& v, Wide<T>& reversed) {
  if constexpr (sizeof(T) == 4) {
    reversed = UNIHAL_SHUFFLE(v, v, Places16, 14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
  } else {
    reversed = UNIHAL_SHUFFLE(v, v, WidePlaces8, 6, 7, 4, 5, 2, 3, 0, 1);
  }
}

template <typename T>
UNIHAL_INLINE void reverse_after(const Wide<T>& first, const Wide<T>& v, Wide<T>& reversed) {
  if constexpr (sizeof(T) == 4) {
    reversed = UNIHAL_SHUFFLE(v, first, Places16, 16, 17, 14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3);
  } else {
    reversed = UNIHAL_SHUFFLE(v, first, WidePlaces8, 8, 9, 6, 7, 4, 5, 2, 3);
  }
}

// The half spectrum X of a line from the transform Z of its even elements plus i times its odd ones:
// 2 X[k] = Z[k] + conj(Z[m - k]) - i w^k (Z[k] - conj(Z[m - k])), w = exp(-pi i / m), Z[m] = Z[0]. Numbers m - k follow
// from the same sum and difference. Vectors of Z are read as they have been written, one of both ends each time; the
// middle ones may be formed twice.
template <typename T>
UNIHAL_WIDE void form_spectrum(int64_t m, const VectorRoots<T>* roots, const T* z, T factor, bool conjugate, T* x) {
  constexpr int64_t kCount = kNumbers<T>;
  const T half = factor / 2, im_half = conjugate ? -half : half;
  Wide<T> of_difference, written_low, written_high;
  fill_numbers(T(1), T(-1), of_difference);
  fill_numbers(half, im_half, written_low);
  fill_numbers(half, -im_half, written_high);
  Numbers<T> before;
  load(z, before);
  for (int64_t k = 0; k < m / 2; k += kCount, ++roots) {
    Numbers<T> low, high, opposite;
    load(z + 2 * k, low);
    load(z + 2 * (m - k - kCount), high);
    reverse_after<T>(before.v, high.v, opposite.v);
    before = high;
    const Numbers<T> sum = {low.v + opposite.v * of_difference};
    Numbers<T> turned = {low.v - opposite.v * of_difference};
    multiply(*roots, turned);
    store(x + 2 * k, Numbers<T>{(sum + turned).v * written_low});
    Numbers<T> reversed;
    reverse<T>((sum - turned).v * written_high, reversed.v);
    store(x + 2 * (m - k - kCount + 1), reversed);
  }
  x[0] = (z[0] + z[1]) * factor;
  x[2 * m] = (z[0] - z[1]) * factor;
  x[1] = x[2 * m + 1] = 0;
  // The one in the middle has itself as its counterpart, and the root -i.
  if (m % 2 == 0) {
    x[m] = z[m] * factor;
    x[m + 1] = conjugate ? z[m + 1] * factor : -z[m + 1] * factor;
  }
}

// Back: Z[k] = X[k] + conj(X[m - k]) + i conj(w^k) (X[k] - conj(X[m - k])), of X or of its conjugate. Vectors from both
// ends are written as they are read next: those from the far end wait for the number that the following ones have of
// theirs.
template <typename T>
UNIHAL_WIDE void form_halves(int64_t m, const VectorRoots<T>* roots, const T* x, bool conjugate, T* z) {
  constexpr int64_t kCount = kNumbers<T>;
  const T sign = conjugate ? T(-1) : T(1);
  Wide<T> of_low, of_opposite, of_far;
  fill_numbers(T(1), sign, of_low);
  fill_numbers(T(1), -sign, of_opposite);
  fill_numbers(T(1), T(-1), of_far);
  PackedNumbers<T, true> far = {Wide<T>{}}, reversed;
  int64_t k = 0;
  for (; k < m / 2; k += kCount, ++roots) {
    PackedNumbers<T, true> low, high, opposite;
    load(x + 2 * k, low);
    load(x + 2 * (m + 1 - k - kCount), high);
    reverse<T>(high.v, opposite.v);
    if (k == 0) low.v[1] = opposite.v[1] = 0;
    low.v *= of_low;
    const PackedNumbers<T, true> sum = {low.v + opposite.v * of_opposite};
    PackedNumbers<T, true> turned = {low.v - opposite.v * of_opposite};
    multiply(*roots, turned);
    store(z + 2 * k, sum + turned);
    const PackedNumbers<T, true> following = {(sum - turned).v * of_far};
    if (k > 0) {
      reverse_after<T>(following.v, far.v, reversed.v);
      store(z + 2 * (m - k), reversed);
    }
    far = following;
  }
  reverse<T>(far.v, reversed.v);
  store(z + 2 * (m + 1 - k), reversed);
  if (m % 2 == 0) {
    z[m] = 2 * x[m];
    z[m + 1] = -2 * sign * x[m + 1];
  }
}

}  // namespace

template <typename T>
FftPackedRealPlan<T>::FftPackedRealPlan(int64_t length)
    : m_(length / 2), line_elements_((2 * (m_ + 1) + kElements<T> - 1) / kElements<T> * kElements<T>), halves_(m_) {
  const int64_t bytes = line_elements_ * together() * static_cast<int64_t>(sizeof(T));
  groups_ = std::max<int64_t>(kBetween / bytes, 1);
  const RootsOfUnity<T> powers(length);
  for (int64_t begin = 0; begin < m_ / 2; begin += kNumbers<T>) {
    VectorRoots<T>& roots = roots_.emplace_back();
    for (int i = 0; i < kNumbers<T>; ++i) {
      T re, im;
      powers.get(begin + i, &re, &im);
      roots.re[2 * i] = roots.re[2 * i + 1] = im;
      roots.im[2 * i] = re;
      roots.im[2 * i + 1] = -re;
    }
  }
}

template <typename T>
int64_t FftPackedRealPlan<T>::buffer_elements() const {
  return line_elements_ * together() * groups_ + halves_.buffer_elements();
}

template <typename T>
FftGroups<T> FftPackedRealPlan<T>::in_buffer(const FftGroups<T>& groups, int64_t count, bool is_source,
                                             T* buffer) const {
  FftGroups<T> halves = groups;
  halves.count = count;
  (is_source ? halves.from_step : halves.to_step) = line_elements_ * together();
  for (int i = 0; i < together(); ++i) {
    T* const line = buffer + line_elements_ * i;
    if (is_source) halves.from[i] = line;
    if (!is_source) halves.to[i] = line;
  }
  return halves;
}

template <typename T>
void FftPackedRealPlan<T>::run_from_real(FftGroups<T> groups, bool inverse, T factor, T* buffer) const {
  T* const of_halves = buffer + line_elements_ * together() * groups_;
  while (groups.count > 0) {
    const int64_t count = std::min(groups.count, groups_);
    halves_.run(in_buffer(groups, count, false, buffer), false, T(1), of_halves);
    const T* line = buffer;
    for (int64_t group = 0; group < count; ++group, groups.advance(1, together())) {
      for (int i = 0; i < together(); ++i, line += line_elements_) {
        form_spectrum(m_, roots_.data(), line, factor, inverse, groups.to[i]);
      }
    }
  }
}

template <typename T>
void FftPackedRealPlan<T>::run_to_real(FftGroups<T> groups, bool inverse, T factor, T* buffer) const {
  T* const of_halves = buffer + line_elements_ * together() * groups_;
  while (groups.count > 0) {
    const int64_t count = std::min(groups.count, groups_);
    const FftGroups<T> halves = in_buffer(groups, count, true, buffer);
    T* line = buffer;
    for (int64_t group = 0; group < count; ++group, groups.advance(1, together())) {
      for (int i = 0; i < together(); ++i, line += line_elements_) {
        form_halves(m_, roots_.data(), groups.from[i], !inverse, line);
      }
    }
    halves_.run(halves, true, factor, of_halves);
  }
}

template class FftPackedRealPlan<float>;
template class FftPackedRealPlan<double>;

}  // namespace unihal::stub
