#include "stub/ops/lanes.h"

#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

template <typename T>
struct LaneTypes;
template <>
struct LaneTypes<float> {
  typedef float Numbers __attribute__((vector_size(32)));
  typedef int32_t Places __attribute__((vector_size(32)));
};
template <>
struct LaneTypes<double> {
  typedef double Numbers __attribute__((vector_size(32)));
  typedef int64_t Places __attribute__((vector_size(32)));
};

template <typename T>
UNIHAL_VECTORIZED void find_finite(int64_t count, const T* lanes, bool* finite) {
  using Numbers = typename LaneTypes<T>::Numbers;
  const auto* elements = reinterpret_cast<const Numbers*>(lanes);
  Numbers sum = {};  // of zeros, and of NaN for each number that is not finite
  for (int64_t i = 0; i < count; ++i) sum += elements[i] * 0;
  for (int64_t lane = 0; lane < kLanes<T>; ++lane) finite[lane] = sum[lane] == 0;
}

template <typename T>
UNIHAL_VECTORIZED void factorize_lu(int64_t m, int64_t n, T* a, int32_t* pivots, int32_t* info) {
  using Numbers = typename LaneTypes<T>::Numbers;
  using Places = typename LaneTypes<T>::Places;
  using Place = decltype(Places()[0] + 0);
  constexpr int64_t kCount = kLanes<T>;
  auto* const elements = reinterpret_cast<Numbers*>(a);
  const int64_t steps = std::min(m, n);
  for (int64_t lane = 0; lane < kCount; ++lane) info[lane] = 0;
  for (int64_t k = 0; k < steps; ++k) {
    Numbers* const column = elements + k * m;
    Numbers best = column[k] < 0 ? -column[k] : column[k];
    Places place = Places{} + static_cast<Place>(k);  // of the first of the largest
    for (int64_t i = k + 1; i < m; ++i) {
      const Numbers size = column[i] < 0 ? -column[i] : column[i];
      const Places larger = size > best;
      best = larger ? size : best;
      place = larger ? Places{} + static_cast<Place>(i) : place;
    }
    int64_t from[kCount];  // where the pivot rows are, from the beginning of a column
    Numbers pivot;
    for (int64_t lane = 0; lane < kCount; ++lane) {
      from[lane] = place[lane] * kCount + lane;
      pivot[lane] = a[k * m * kCount + from[lane]];
      pivots[lane * steps + k] = static_cast<int32_t>(place[lane]);
      if (pivot[lane] == 0 && info[lane] == 0) info[lane] = static_cast<int32_t>(k + 1);
    }
    const Numbers divisor = pivot == 0 ? Numbers{} + 1 : pivot;  // all below are 0 then
    const Numbers above = column[k];
    column[k] = pivot;
    for (int64_t i = k + 1; i < m; ++i) {
      const Places here = place == Places{} + static_cast<Place>(i);
      column[i] = (here ? above : column[i]) / divisor;
    }
    for (int64_t j = k + 1; j < n; ++j) {
      Numbers* const right = elements + j * m;
      Numbers u;
      for (int64_t lane = 0; lane < kCount; ++lane) u[lane] = a[j * m * kCount + from[lane]];
      const Numbers moved = right[k];
      right[k] = u;
      for (int64_t i = k + 1; i < m; ++i) {
        const Places here = place == Places{} + static_cast<Place>(i);
        right[i] = (here ? moved : right[i]) - column[i] * u;
      }
    }
  }
}

}  // namespace

template <typename T>
void find_finite_lanes(int64_t count, const T* lanes, bool* finite) {
  find_finite(count, lanes, finite);
}

template <typename T>
void factorize_lu_in_lanes(int64_t m, int64_t n, T* a, int32_t* pivots, int32_t* info) {
  factorize_lu(m, n, a, pivots, info);
}

#define UNIHAL_LANES(T)                                         \
  template void find_finite_lanes<T>(int64_t, const T*, bool*); \
  template void factorize_lu_in_lanes<T>(int64_t, int64_t, T*, int32_t*, int32_t*);
UNIHAL_LANES(float)
UNIHAL_LANES(double)

}  // namespace unihal::stub
