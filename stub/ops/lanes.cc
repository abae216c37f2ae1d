#include "stub/ops/lanes.h"

#include <type_traits>

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

// The columns from `begin` to `end` of `rows` rows, less tau v v^T of them, where v is `reflector` with a 1 in row
// `first` and nothing above it. Several columns at a time: their sums do not wait for each other.
template <typename T>
UNIHAL_INLINE void reflect(int64_t rows, int64_t first, const typename LaneTypes<T>::Numbers* reflector,
                           const typename LaneTypes<T>::Numbers* tau, int64_t begin, int64_t end,
                           typename LaneTypes<T>::Numbers* elements) {
  using Numbers = typename LaneTypes<T>::Numbers;
  const auto reflect_some = [&](int64_t at, auto together) UNIHAL_INLINE_LAMBDA {
    constexpr int kColumns = decltype(together)::value;
    Numbers* column[kColumns];
    Numbers product[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      column[c] = elements + (at + c) * rows;
      product[c] = column[c][first];
    }
    for (int64_t i = first + 1; i < rows; ++i) {
      for (int c = 0; c < kColumns; ++c) product[c] += reflector[i] * column[c][i];
    }
    for (int c = 0; c < kColumns; ++c) {
      product[c] *= *tau;
      column[c][first] -= product[c];
    }
    for (int64_t i = first + 1; i < rows; ++i) {
      for (int c = 0; c < kColumns; ++c) column[c][i] -= reflector[i] * product[c];
    }
  };
  for (; begin + 4 <= end; begin += 4) reflect_some(begin, std::integral_constant<int, 4>());
  for (; begin < end; ++begin) reflect_some(begin, std::integral_constant<int, 1>());
}

template <typename T>
UNIHAL_VECTORIZED void factorize_qr(int64_t m, int64_t n, T* a, T* tau, bool* sure) {
  using Numbers = typename LaneTypes<T>::Numbers;
  using Places = typename LaneTypes<T>::Places;
  auto* const elements = reinterpret_cast<Numbers*>(a);
  auto* const factors = reinterpret_cast<Numbers*>(tau);
  // The square of a number that is not below it has all its digits, and so has one less by a factor of the precision.
  const T least = std::sqrt(std::numeric_limits<T>::min()) / std::numeric_limits<T>::epsilon();
  Places small = {};
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    Numbers* const column = elements + k * m;
    Numbers squares = {}, largest = {};
    for (int64_t i = k + 1; i < m; ++i) {
      const Numbers size = column[i] < 0 ? -column[i] : column[i];
      largest = size > largest ? size : largest;
      squares += column[i] * column[i];
    }
    const Places none = largest == 0;  // below the diagonal: nothing is to be reflected
    small |= (largest != 0) & (largest < least);
    const Numbers alpha = column[k], square = alpha * alpha + squares;
    Numbers norm;
    for (int64_t lane = 0; lane < kLanes<T>; ++lane) norm[lane] = std::sqrt(square[lane]);
    const Numbers beta = none ? alpha : alpha < 0 ? norm : -norm;
    const Numbers divisor = none ? Numbers{} + 1 : alpha - beta;
    factors[k] = none ? Numbers{} : (beta - alpha) / beta;
    column[k] = beta;
    for (int64_t i = k + 1; i < m; ++i) column[i] /= divisor;
    reflect<T>(m, k, column, factors + k, k + 1, n, elements);
  }
  for (int64_t lane = 0; lane < kLanes<T>; ++lane) sure[lane] = small[lane] == 0;
}

template <typename T>
UNIHAL_VECTORIZED void form_q(int64_t m, int64_t columns, int64_t reflectors, T* q, const T* tau) {
  using Numbers = typename LaneTypes<T>::Numbers;
  auto* const elements = reinterpret_cast<Numbers*>(q);
  const auto* const factors = reinterpret_cast<const Numbers*>(tau);
  for (int64_t j = reflectors; j < columns; ++j) {
    for (int64_t i = 0; i < m; ++i) elements[j * m + i] = Numbers{} + static_cast<T>(i == j ? 1 : 0);
  }
  for (int64_t k = reflectors - 1; k >= 0; --k) {
    Numbers* const column = elements + k * m;
    reflect<T>(m, k, column, factors + k, k + 1, columns, elements);
    for (int64_t i = 0; i < k; ++i) column[i] = Numbers{};
    column[k] = 1 - factors[k];
    for (int64_t i = k + 1; i < m; ++i) column[i] *= -factors[k];
  }
}

template <typename T>
UNIHAL_INLINE void take_roots(typename LaneTypes<T>::Numbers* squares) {
  for (int64_t lane = 0; lane < kLanes<T>; ++lane) (*squares)[lane] = std::sqrt((*squares)[lane]);
}

template <typename T>
UNIHAL_INLINE bool are_any(const typename LaneTypes<T>::Places& places) {
  auto bits = places[0];
  for (int64_t lane = 1; lane < kLanes<T>; ++lane) bits |= places[lane];
  return bits != 0;
}

// The rotation that makes of the symmetric (p, beside; beside, q) a diagonal one, where `turns`; elsewhere none.
// `apart` is q - p. Golub and Van Loan, Matrix Computations, 8.5.2.
template <typename T>
struct Rotation {
  using Numbers = typename LaneTypes<T>::Numbers;
  Numbers tangent, cosine, sine;

  UNIHAL_INLINE void find(const Numbers& apart, const Numbers& beside, const typename LaneTypes<T>::Places& turns) {
    const Numbers slope = apart / (2 * (turns ? beside : Numbers{} + 1));
    Numbers steep = 1 + slope * slope;
    take_roots<T>(&steep);
    steep += slope < 0 ? -slope : slope;
    tangent = turns ? (slope < 0 ? -1 / steep : 1 / steep) : Numbers{};
    Numbers secant = 1 + tangent * tangent;
    take_roots<T>(&secant);
    cosine = 1 / secant;
    sine = tangent * cosine;
  }

  UNIHAL_INLINE void turn(Numbers* p, Numbers* q) const {
    const Numbers of_p = *p, of_q = *q;
    *p = cosine * of_p - sine * of_q;
    *q = sine * of_p + cosine * of_q;
  }
};

// Whether squares of numbers up to the largest, and of those that count beside it, are in range.
template <typename T>
bool has_squares_in_range(T largest, int64_t count) {
  const T least = std::sqrt(std::numeric_limits<T>::min()) / std::numeric_limits<T>::epsilon();
  const T most = std::sqrt(std::numeric_limits<T>::max()) / static_cast<T>(2 * count);
  return largest == 0 || (largest > least && largest < most);
}

template <typename T>
UNIHAL_INLINE void set_identity(int64_t n, typename LaneTypes<T>::Numbers* vectors) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i)
      vectors[j * n + i] = typename LaneTypes<T>::Numbers{} + static_cast<T>(i == j ? 1 : 0);
  }
}

constexpr int kMostSweeps = 30;  // five to eight are enough

// Sweeps over all pairs, of which those that are negligible are left out, so that a lane that is done stays as it is.
template <typename T>
UNIHAL_VECTORIZED void find_eigen(int64_t n, T* a, T* v, bool* sure) {
  using Numbers = typename LaneTypes<T>::Numbers;
  using Places = typename LaneTypes<T>::Places;
  auto* const elements = reinterpret_cast<Numbers*>(a);
  auto* const vectors = reinterpret_cast<Numbers*>(v);
  Numbers squares = {}, largest = {};
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i < n; ++i) {
      const Numbers number = elements[j * n + i], size = number < 0 ? -number : number;
      largest = size > largest ? size : largest;
      squares += number * number * static_cast<T>(i == j ? 1 : 2);
    }
  }
  Numbers negligible = squares;
  take_roots<T>(&negligible);
  negligible *= std::numeric_limits<T>::epsilon() / static_cast<T>(2 * n);
  if (v != nullptr) set_identity<T>(n, vectors);
  Places turned = {};
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    turned = Places{};
    for (int64_t p = 0; p + 1 < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const Numbers beside = elements[p * n + q];
        const Places turns = (beside < 0 ? -beside : beside) > negligible;
        if (!are_any<T>(turns)) continue;
        turned |= turns;
        Rotation<T> rotation;
        rotation.find(elements[q * n + q] - elements[p * n + p], beside, turns);
        elements[p * n + p] -= rotation.tangent * beside;
        elements[q * n + q] += rotation.tangent * beside;
        elements[p * n + q] = turns ? Numbers{} : beside;
        for (int64_t i = 0; i < p; ++i) rotation.turn(elements + i * n + p, elements + i * n + q);
        for (int64_t i = p + 1; i < q; ++i) rotation.turn(elements + p * n + i, elements + i * n + q);
        for (int64_t i = q + 1; i < n; ++i) rotation.turn(elements + p * n + i, elements + q * n + i);
        if (v == nullptr) continue;
        for (int64_t i = 0; i < n; ++i) rotation.turn(vectors + p * n + i, vectors + q * n + i);
      }
    }
    if (!are_any<T>(turned)) break;
  }
  for (int64_t lane = 0; lane < kLanes<T>; ++lane) {
    sure[lane] = has_squares_in_range(largest[lane], n) && turned[lane] == 0;
  }
}

// Jacobi's rotations of a^T a without forming it (Hestenes).
template <typename T>
UNIHAL_VECTORIZED void find_singular(int64_t m, int64_t n, T* a, T* values, T* v, bool* sure) {
  using Numbers = typename LaneTypes<T>::Numbers;
  using Places = typename LaneTypes<T>::Places;
  auto* const elements = reinterpret_cast<Numbers*>(a);
  auto* const found = reinterpret_cast<Numbers*>(values);
  auto* const vectors = reinterpret_cast<Numbers*>(v);
  Numbers largest = {};
  for (int64_t i = 0; i < m * n; ++i) {
    const Numbers size = elements[i] < 0 ? -elements[i] : elements[i];
    largest = size > largest ? size : largest;
  }
  if (v != nullptr) set_identity<T>(n, vectors);
  const T negligible = std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<T>(m));  // beside both columns' norms
  Places turned = {};
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    turned = Places{};
    for (int64_t p = 0; p + 1 < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        Numbers* const left = elements + p * m;
        Numbers* const right = elements + q * m;
        // Of rows with even and with odd numbers, whose sums do not wait for each other.
        Numbers of_left = {}, of_right = {}, beside = {}, of_odd_left = {}, of_odd_right = {}, odd_beside = {};
        int64_t row = 0;
        for (; row + 2 <= m; row += 2) {
          const Numbers *const l = left + row, *const r = right + row;
          of_left += l[0] * l[0];
          of_odd_left += l[1] * l[1];
          of_right += r[0] * r[0];
          of_odd_right += r[1] * r[1];
          beside += l[0] * r[0];
          odd_beside += l[1] * r[1];
        }
        if (row < m) {
          of_left += left[row] * left[row];
          of_right += right[row] * right[row];
          beside += left[row] * right[row];
        }
        of_left += of_odd_left;
        of_right += of_odd_right;
        beside += odd_beside;
        Numbers norm = of_left, other_norm = of_right;
        take_roots<T>(&norm);
        take_roots<T>(&other_norm);
        const Places turns = (beside < 0 ? -beside : beside) > negligible * norm * other_norm;
        if (!are_any<T>(turns)) continue;
        turned |= turns;
        Rotation<T> rotation;
        rotation.find(of_right - of_left, beside, turns);
        for (int64_t i = 0; i < m; ++i) rotation.turn(left + i, right + i);
        if (v == nullptr) continue;
        for (int64_t i = 0; i < n; ++i) rotation.turn(vectors + p * n + i, vectors + q * n + i);
      }
    }
    if (!are_any<T>(turned)) break;
  }
  Numbers most = {};
  Numbers least = Numbers{} + std::numeric_limits<T>::max();
  for (int64_t j = 0; j < n; ++j) {
    Numbers norm = {};
    for (int64_t i = 0; i < m; ++i) norm += elements[j * m + i] * elements[j * m + i];
    take_roots<T>(&norm);
    found[j] = norm;
    most = norm > most ? norm : most;
    least = norm < least ? norm : least;
    if (v == nullptr) continue;
    const Numbers divisor = norm == 0 ? Numbers{} + 1 : norm;
    for (int64_t i = 0; i < m; ++i) elements[j * m + i] /= divisor;
  }
  const Places has_digits = least > most * (std::numeric_limits<T>::epsilon() * static_cast<T>(m));
  for (int64_t lane = 0; lane < kLanes<T>; ++lane) {
    sure[lane] =
        has_squares_in_range(largest[lane], m * n) && turned[lane] == 0 && (v == nullptr || has_digits[lane] != 0);
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

template <typename T>
void factorize_qr_in_lanes(int64_t m, int64_t n, T* a, T* tau, bool* sure) {
  factorize_qr(m, n, a, tau, sure);
}

template <typename T>
void form_q_in_lanes(int64_t m, int64_t columns, int64_t reflectors, T* q, const T* tau) {
  form_q(m, columns, reflectors, q, tau);
}

template <typename T>
void find_eigen_in_lanes(int64_t n, T* a, T* v, bool* sure) {
  find_eigen(n, a, v, sure);
}

template <typename T>
void find_singular_in_lanes(int64_t m, int64_t n, T* a, T* values, T* v, bool* sure) {
  find_singular(m, n, a, values, v, sure);
}

#define UNIHAL_LANES(T)                                                             \
  template void find_finite_lanes<T>(int64_t, const T*, bool*);                     \
  template void factorize_lu_in_lanes<T>(int64_t, int64_t, T*, int32_t*, int32_t*); \
  template void factorize_qr_in_lanes<T>(int64_t, int64_t, T*, T*, bool*);          \
  template void form_q_in_lanes<T>(int64_t, int64_t, int64_t, T*, const T*);        \
  template void find_eigen_in_lanes<T>(int64_t, T*, T*, bool*);                     \
  template void find_singular_in_lanes<T>(int64_t, int64_t, T*, T*, T*, bool*);
UNIHAL_LANES(float)
UNIHAL_LANES(double)

}  // namespace unihal::stub
