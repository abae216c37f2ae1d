#include <algorithm>
#include <cmath>

#include "stub/ops/fft_lines.h"

namespace unihal::stub {

template <typename T>
RootsOfUnity<T>::RootsOfUnity(int64_t n) {
  while ((int64_t{1} << (2 * shift_)) < n) ++shift_;
  const auto fill = [n](std::vector<Root>& roots, int64_t count, int64_t step) {
    const Precise turn = 2 * std::acos(Precise(-1)) / static_cast<Precise>(n);
    for (int64_t k = 0; k < count; ++k) {
      const Precise angle = turn * static_cast<Precise>(k * step);
      roots.push_back({std::cos(angle), -std::sin(angle)});
    }
  };
  fill(low_, std::min(n, int64_t{1} << shift_), 1);
  fill(high_, ((n - 1) >> shift_) + 1, int64_t{1} << shift_);
}

template <typename T>
void RootsOfUnity<T>::get(int64_t k, T* re, T* im) const {
  const Root& low = low_[static_cast<size_t>(k & ((int64_t{1} << shift_) - 1))];
  const Root& high = high_[static_cast<size_t>(k >> shift_)];
  *re = static_cast<T>(low.re * high.re - low.im * high.im);
  *im = static_cast<T>(low.re * high.im + low.im * high.re);
}

template <typename T>
std::vector<T> fft_chirp(int64_t n) {
  const RootsOfUnity<T> roots(2 * n);
  std::vector<T> chirp(static_cast<size_t>(2 * n));
  for (int64_t k = 0; k < n; ++k) {
    const auto power = static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) % (2 * n));
    roots.get(power, &chirp[2 * k], &chirp[2 * k + 1]);
  }
  return chirp;
}

template <typename T>
std::vector<T> fft_conjugate_chirp(int64_t n, int64_t length, const std::vector<T>& chirp) {
  std::vector<T> filter(static_cast<size_t>(2 * length), T(0));
  for (int64_t k = 0; k < n; ++k) {
    const int64_t back = k == 0 ? 0 : length - k;
    filter[2 * k] = filter[2 * back] = chirp[2 * k] / static_cast<T>(length);
    filter[2 * k + 1] = filter[2 * back + 1] = -chirp[2 * k + 1] / static_cast<T>(length);
  }
  return filter;
}

#define UNIHAL_INSTANTIATE(T)                 \
  template class RootsOfUnity<T>;             \
  template std::vector<T> fft_chirp(int64_t); \
  template std::vector<T> fft_conjugate_chirp(int64_t, int64_t, const std::vector<T>&);
UNIHAL_INSTANTIATE(float)
UNIHAL_INSTANTIATE(double)

}  // namespace unihal::stub
