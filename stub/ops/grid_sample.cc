// Sampling of images at given places. Images are computed on with their channels innermost: what a place reads is found
// once for all of them.
#include <algorithm>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/weighted_rows.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int kMaxTaps = 16;  // 2^3, or 4^2
// Channels that one thread adds gradients to.
constexpr int64_t kLanes = 32;

uhal_grid_sample_attributes attributes_of(const uhal_op& op) {
  return attributes_or(op, uhal_grid_sample_attributes{sizeof(uhal_grid_sample_attributes), UHAL_GRID_SAMPLE_LINEAR,
                                                       UHAL_GRID_SAMPLE_ZEROS, 0, 0, 0, 0});
}

// Where a coordinate lies, and what of its gradient reaches the coordinate.
template <typename T>
struct Position {
  T at;
  T slope;
};

// Into [0, n - 1]; NaN becomes 0.
template <typename T>
UNIHAL_INLINE Position<T> clamped(Position<T> p, T last, bool edge_gradient) {
  const bool inside = edge_gradient ? p.at >= 0 && p.at <= last : p.at > 0 && p.at < last;
  if (!inside) p.slope = 0;
  p.at = p.at > 0 ? std::min(p.at, last) : T(0);
  return p;
}

// Mirrored at `low` and `low + span`.
template <typename T>
UNIHAL_INLINE Position<T> reflected(Position<T> p, T low, T span) {
  if (span <= 0) return {0, 0};
  const T distance = std::fabs(p.at - low);
  T rest = distance - std::floor(distance / (2 * span)) * (2 * span);
  if (rest < 0) rest += 2 * span;  // the quotient was rounded
  if (rest >= 2 * span) rest -= 2 * span;
  if (!(rest >= 0 && rest <= 2 * span)) return {0, 0};  // of infinity, NaN, and what floats hold no fractions of
  const bool turns = rest > span;
  if ((p.at < low) != turns) p.slope = -p.slope;
  p.at = (turns ? 2 * span - rest : rest) + low;
  return p;
}

template <typename T>
UNIHAL_INLINE Position<T> position_of(const uhal_grid_sample_attributes& attributes, int64_t length, T coordinate) {
  const T n = static_cast<T>(length), last = n - 1;
  const bool corners = attributes.align_corners != 0, edge_gradient = attributes.edge_gradient != 0;
  Position<T> p;
  p.slope = attributes.in_pixels != 0 ? T(1) : (corners ? last : n) / 2;
  p.at = attributes.in_pixels != 0 ? coordinate
         : corners                 ? (coordinate + 1) * p.slope
                                   : (coordinate + 1) * p.slope - T(0.5);
  switch (attributes.padding) {
    case UHAL_GRID_SAMPLE_BORDER:
      return clamped(p, last, edge_gradient);
    case UHAL_GRID_SAMPLE_REFLECTION:
      return clamped(reflected(p, corners ? T(0) : T(-0.5), corners ? last : n), last, edge_gradient);
    default:
      // Far enough outside that no tap is inside, and no integer overflows.
      if (!(p.at >= -2)) return {-2, 0};
      if (p.at > n + 1) return {n + 1, 0};
      return p;
  }
}

// What is read for a place: up to 2 pixels along each axis, or 4 along each of two.
template <typename T>
struct Taps {
  int count = 0;
  int64_t pixels[kMaxTaps];  // row-major numbers; only those inside
  T weights[kMaxTaps];
  T slopes[3][kMaxTaps];  // of a weight, by each coordinate
};

template <typename T>
struct Geometry {
  uhal_grid_sample_attributes attributes;
  int64_t images, channels;
  int64_t grids;
  bool named;  // grids name their images; else these have their numbers
  const int32_t* image_of;
  int axes;            // spatial
  int64_t lengths[3];  // of x, the first `axes`
  int64_t pixels;      // of an image of x
  int64_t places;      // of an image of y
  const T* grid;       // coordinates side by side

  // Of a grid; -1: x has no such image.
  int64_t image(int64_t number) const {
    if (!named) return number;
    return image_of[number] >= 0 && image_of[number] < images ? image_of[number] : -1;
  }
};

// The pixels along an axis, their weights, and these' slopes.
template <typename T>
struct AxisTaps {
  int count;
  int64_t pixels[4];
  T weights[4];
  T slopes[4];
};

// A pixel of a cubic's: padding is the taps', not the place's. A pixel outside stays one where outside are zeros.
inline int64_t padded(const uhal_grid_sample_attributes& attributes, int64_t pixel, int64_t length) {
  if (attributes.padding == UHAL_GRID_SAMPLE_BORDER) return std::clamp<int64_t>(pixel, 0, length - 1);
  if (attributes.padding != UHAL_GRID_SAMPLE_REFLECTION) return pixel;
  const bool corners = attributes.align_corners != 0;
  const int64_t period = corners ? 2 * length - 2 : 2 * length;
  if (period == 0) return 0;
  const int64_t rest = (pixel % period + period) % period;
  return rest < length ? rest : (corners ? period : period - 1) - rest;
}

// Cubic convolution (Keys 1981) with a = -0.75: the weight of pixel `k` of the four around a place that lies `fraction`
// behind the second one.
template <typename T>
constexpr T kCubic = T(-0.75);

template <typename T>
UNIHAL_INLINE T cubic_weight(int k, T fraction) {
  constexpr T a = kCubic<T>;
  const T d = std::fabs(fraction + 1 - static_cast<T>(k));  // the distance to the pixel
  return k == 1 || k == 2 ? (1 - d) * (1 + d - (a + 2) * d * d) : a * (d - 1) * (2 - d) * (2 - d);
}

// Where a coordinate lies, in pixels.
template <typename T>
UNIHAL_INLINE T cubic_place(const uhal_grid_sample_attributes& attributes, T n, T coordinate) {
  const bool corners = attributes.align_corners != 0;
  return attributes.in_pixels != 0 ? coordinate
                                   : (coordinate + 1) * ((corners ? n - 1 : n) / 2) - (corners ? T(0) : T(0.5));
}

template <typename T>
AxisTaps<T> cubic_taps(const uhal_grid_sample_attributes& attributes, int64_t length, T coordinate) {
  constexpr T a = kCubic<T>;
  const T n = static_cast<T>(length);
  const bool corners = attributes.align_corners != 0;
  T scale = attributes.in_pixels != 0 ? T(1) : (corners ? n - 1 : n) / 2;
  T at = cubic_place(attributes, n, coordinate);
  if (!std::isfinite(at)) {
    at = attributes.padding == UHAL_GRID_SAMPLE_ZEROS ? T(-4) : T(0);
    scale = 0;
  }
  const T floored = std::floor(at), fraction = at - floored;
  // To where no integer overflows and the same pixels are read.
  const T period = corners ? 2 * n - 2 : 2 * n;
  const bool reflects = attributes.padding == UHAL_GRID_SAMPLE_REFLECTION && period > 0;
  const T near = reflects ? floored - std::floor(floored / period) * period : std::clamp(floored, T(-4), n + 2);
  AxisTaps<T> taps = {4, {}, {}, {}};
  for (int k = 0; k < 4; ++k) {
    const T d = std::fabs(fraction + 1 - static_cast<T>(k));  // the distance to the pixel
    const bool inner = k == 1 || k == 2;
    taps.pixels[k] = padded(attributes, static_cast<int64_t>(near) - 1 + k, length);
    taps.weights[k] = cubic_weight(k, fraction);
    const T slope = inner ? (3 * (a + 2) * d - 2 * (a + 3)) * d : a * (2 - d) * (4 - 3 * d);
    taps.slopes[k] = (k < 2 ? slope : -slope) * scale;
  }
  return taps;
}

template <typename T>
UNIHAL_INLINE AxisTaps<T> axis_taps(const uhal_grid_sample_attributes& attributes, int64_t length, T coordinate) {
  if (attributes.mode == UHAL_GRID_SAMPLE_CUBIC) return cubic_taps(attributes, length, coordinate);
  const Position<T> p = position_of(attributes, length, coordinate);
  if (attributes.mode == UHAL_GRID_SAMPLE_NEAREST) {
    return {1, {static_cast<int64_t>(std::nearbyint(p.at))}, {1}, {0}};
  }
  const T before = std::floor(p.at), fraction = p.at - before;
  const auto pixel = static_cast<int64_t>(before);
  return {2, {pixel, pixel + 1}, {1 - fraction, fraction}, {-p.slope, p.slope}};
}

// What is read for a place of images with kAxes spatial axes, 1 << kBits pixels along each, or one; kSlopes: the
// weights' slopes too.
template <int kAxes, int kBits, bool kSlopes, typename T>
UNIHAL_INLINE void combine_taps(const Geometry<T>& g, const AxisTaps<T>* axes, Taps<T>* taps) {
  const int combinations = axes[0].count == 1 ? 1 : 1 << (kBits * kAxes);  // all axes have as many
  int count = 0;
#pragma GCC unroll 8
  for (int combination = 0; combination < combinations; ++combination) {
    int64_t pixel = 0;
    T weight = 1;
    int chosen[kAxes];
    bool inside = true;
#pragma GCC unroll 3
    for (int a = 0; a < kAxes; ++a) {
      chosen[a] = combination >> (kBits * a) & ((1 << kBits) - 1);
      const int64_t at = axes[a].pixels[chosen[a]];
      inside = inside && at >= 0 && at < g.lengths[a];
      pixel = pixel * g.lengths[a] + at;
      weight *= axes[a].weights[chosen[a]];
    }
    if (!inside) continue;
    for (int a = 0; kSlopes && a < kAxes; ++a) {
      T slope = axes[a].slopes[chosen[a]];
      for (int b = 0; b < kAxes; ++b) slope *= b == a ? T(1) : axes[b].weights[chosen[b]];
      taps->slopes[a][count] = slope;
    }
    taps->pixels[count] = pixel;
    taps->weights[count++] = weight;
  }
  taps->count = count;
}

template <int kAxes, bool kSlopes, typename T>
UNIHAL_INLINE void find_taps(const Geometry<T>& g, int64_t place, Taps<T>* taps) {
  AxisTaps<T> axes[kAxes];
#pragma GCC unroll 3
  for (int a = 0; a < kAxes; ++a) {  // the last axis' coordinate comes first
    axes[a] = axis_taps(g.attributes, g.lengths[a], g.grid[place * kAxes + kAxes - 1 - a]);
  }
  if (kAxes == 2 && axes[0].count == 4) return combine_taps<2, 2, kSlopes>(g, axes, taps);
  combine_taps<kAxes, 1, kSlopes>(g, axes, taps);
}

template <bool kSlopes, typename T>
UNIHAL_VECTORIZED void find_taps(const Geometry<T>& g, int64_t place, Taps<T>* taps) {
  if (g.axes == 3) return find_taps<3, kSlopes>(g, place, taps);
  return find_taps<2, kSlopes>(g, place, taps);
}

// Of places in a row the pixels before their coordinates along an axis and how far beyond these they lie, as
// axis_taps() has them with zeros outside: many side by side.
constexpr int64_t kPlaces = 64;
template <typename T>
struct Coordinates {
  int32_t pixels[kPlaces];
  T fractions[kPlaces];
};

template <typename T>
UNIHAL_INLINE void find_coordinates(const Geometry<T>& g, int axis, int64_t place, int64_t count,
                                    Coordinates<T>* result) {
  const T n = static_cast<T>(g.lengths[axis]);
  const bool in_pixels = g.attributes.in_pixels != 0, corners = g.attributes.align_corners != 0;
  const T slope = (corners ? n - 1 : n) / 2, shift = corners ? T(0) : T(0.5);
  const T* const coordinates = g.grid + place * 2 + 1 - axis;
  for (int64_t i = 0; i < count; ++i) {
    const T given = coordinates[2 * i];
    const T at = in_pixels ? given : (given + 1) * slope - shift;
    const T kept = !(at >= -2) ? T(-2) : at > n + 1 ? n + 1 : at;
    const T before = std::floor(kept);
    result->pixels[i] = static_cast<int32_t>(before);
    result->fractions[i] = kept - before;
  }
}

// Whether the numbers of pixels fit find_coordinates() and find_cubic_coordinates().
template <typename T>
bool fits_coordinates(const Geometry<T>& g) {
  return g.axes == 2 && g.lengths[0] < (1 << 22) && g.lengths[1] < (1 << 22);
}

// Whether places read 2x2 pixels, zeros being outside, which find_coordinates() finds.
template <typename T>
bool reads_squares(const Geometry<T>& g) {
  return fits_coordinates(g) && g.attributes.mode == UHAL_GRID_SAMPLE_LINEAR &&
         g.attributes.padding == UHAL_GRID_SAMPLE_ZEROS;
}

// The 2x2 pixels of places in a row.
template <typename T>
struct Squares {
  Coordinates<T> down, across;
};

template <typename T>
UNIHAL_INLINE void find_squares(const Geometry<T>& g, int64_t place, int64_t count, Squares<T>* squares) {
  find_coordinates(g, 0, place, count, &squares->down);
  find_coordinates(g, 1, place, count, &squares->across);
}

// Whether all four are in the image, as of most places.
template <typename T>
UNIHAL_INLINE bool is_inner(const Geometry<T>& g, const Squares<T>& squares, int64_t i) {
  const int32_t row = squares.down.pixels[i], column = squares.across.pixels[i];
  return row >= 0 && row + 1 < g.lengths[0] && column >= 0 && column + 1 < g.lengths[1];
}

// The number of the first one.
template <typename T>
UNIHAL_INLINE int64_t first_pixel(const Geometry<T>& g, const Squares<T>& squares, int64_t i) {
  return squares.down.pixels[i] * g.lengths[1] + squares.across.pixels[i];
}

// The same of a cubic's: the first of four pixels, which are read as they are if all lie in the image, and their
// weights.
template <typename T>
struct CubicCoordinates {
  int32_t pixels[kPlaces];
  T weights[4][kPlaces];
};

template <typename T>
UNIHAL_INLINE void find_cubic_coordinates(const Geometry<T>& g, int axis, int64_t place, int64_t count,
                                          CubicCoordinates<T>* result) {
  const T n = static_cast<T>(g.lengths[axis]);
  const uhal_grid_sample_attributes attributes = g.attributes;
  const T* const coordinates = g.grid + place * 2 + 1 - axis;
  for (int64_t i = 0; i < count; ++i) {
    const T at = cubic_place(attributes, n, coordinates[2 * i]);
    const T kept = !(at >= 0) ? T(0) : at > n ? n : at;  // those outside are not taken from here
    const T before = std::floor(kept), fraction = kept - before;
    result->pixels[i] = static_cast<int32_t>(before) - 1;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) result->weights[k][i] = cubic_weight(k, fraction);
  }
}

// The sum over four rows of pixels of that over four pixels of each.
template <typename T>
UNIHAL_INLINE void sum_square(int64_t channels, const T* first, int64_t row, const T* down, const T* across, T* y) {
  constexpr int64_t kChunk = 32 / sizeof(T);
  int64_t c = 0;
  for (; c + kChunk <= channels; c += kChunk) {
    T sums[kChunk] = {};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const T* const from = first + i * row + c;
      for (int64_t lane = 0; lane < kChunk; ++lane) {
        sums[lane] += down[i] * (across[0] * from[lane] + across[1] * from[lane + channels] +
                                 across[2] * from[lane + 2 * channels] + across[3] * from[lane + 3 * channels]);
      }
    }
    for (int64_t lane = 0; lane < kChunk; ++lane) y[c + lane] = sums[lane];
  }
  for (; c < channels; ++c) {
    T sum = 0;
    for (int i = 0; i < 4; ++i) {
      const T* const from = first + i * row + c;
      sum += down[i] * (across[0] * from[0] + across[1] * from[channels] + across[2] * from[2 * channels] +
                        across[3] * from[3 * channels]);
    }
    y[c] = sum;
  }
}

// The places [begin, end) of all grids.
template <int kAxes, typename T>
UNIHAL_VECTORIZED void sample_places(const Geometry<T>& given, int64_t begin, int64_t end, const T* x, T* y) {
  const Geometry<T> g = given;  // nothing that is written could be part of it
  const int64_t channels = g.channels;
  const bool together = kAxes == 2 && reads_squares(g);
  const bool cubic = kAxes == 2 && fits_coordinates(g) && g.attributes.mode == UHAL_GRID_SAMPLE_CUBIC;
  Squares<T> squares;
  CubicCoordinates<T> cubic_down, cubic_across;
  for (int64_t place = begin, next; place < end; place = next) {
    const int64_t grid = place / g.places, number = g.image(grid);
    next = std::min({end, (grid + 1) * g.places, place + kPlaces});
    const T* const image = x + std::max<int64_t>(number, 0) * g.pixels * channels;
    if (together) {
      find_squares(g, place, next - place, &squares);
    } else if (cubic) {
      find_cubic_coordinates(g, 0, place, next - place, &cubic_down);
      find_cubic_coordinates(g, 1, place, next - place, &cubic_across);
    }
    for (int64_t i = 0; place < next; ++i, ++place) {
      Taps<T> taps;
      const T* rows[kMaxTaps];
      if (together && number >= 0 && is_inner(g, squares, i)) {
        rows[0] = image + first_pixel(g, squares, i) * channels;
        rows[1] = rows[0] + g.lengths[1] * channels;
        rows[2] = rows[0] + channels;
        rows[3] = rows[1] + channels;
        const T low = squares.down.fractions[i], right = squares.across.fractions[i];
        const T weights[4] = {(1 - low) * (1 - right), low * (1 - right), (1 - low) * right, low * right};
        sum_rows(channels, 4, rows, weights, y + place * channels);
        continue;
      }
      if (cubic && number >= 0) {
        const int64_t row = cubic_down.pixels[i], column = cubic_across.pixels[i];
        if (row >= 0 && row + 3 < g.lengths[0] && column >= 0 && column + 3 < g.lengths[1]) {
          T rows_weigh[4], columns_weigh[4];
          for (int k = 0; k < 4; ++k) {
            rows_weigh[k] = cubic_down.weights[k][i];
            columns_weigh[k] = cubic_across.weights[k][i];
          }
          sum_square(channels, image + (row * g.lengths[1] + column) * channels, g.lengths[1] * channels, rows_weigh,
                     columns_weigh, y + place * channels);
          continue;
        }
      }
      taps.count = 0;
      if (number >= 0) find_taps<kAxes, false>(g, place, &taps);
      for (int t = 0; t < taps.count; ++t) rows[t] = image + taps.pixels[t] * channels;
      sum_rows(channels, taps.count, rows, taps.weights, y + place * channels);
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void spread(const Taps<T>& taps, int64_t channels, int64_t lanes, const T* dy, T* dx) {
  for (int t = 0; t < taps.count; ++t) {
    T* to = dx + taps.pixels[t] * channels;
    for (int64_t c = 0; c < lanes; ++c) to[c] += taps.weights[t] * dy[c];
  }
}

// What the places [begin, end) of one grid give to some channels of its image.
template <typename T>
UNIHAL_VECTORIZED void spread_places(const Geometry<T>& given, int64_t begin, int64_t end, int64_t lanes, const T* dy,
                                     T* dx) {
  const Geometry<T> g = given;
  const int64_t channels = g.channels, row = g.lengths[1] * channels;
  const bool together = reads_squares(g);
  Squares<T> squares;
  for (int64_t place = begin, next; place < end; place = next) {
    next = std::min(end, place + kPlaces);
    if (together) find_squares(g, place, next - place, &squares);
    for (int64_t i = 0; place < next; ++i, ++place) {
      const T* const from = dy + place * channels;
      if (!together || !is_inner(g, squares, i)) {
        Taps<T> taps;
        find_taps<false>(g, place, &taps);
        spread(taps, channels, lanes, from, dx);
        continue;
      }
      T* const to = dx + first_pixel(g, squares, i) * channels;
      const T low = squares.down.fractions[i], right = squares.across.fractions[i];
      const T weights[2][2] = {{(1 - low) * (1 - right), (1 - low) * right}, {low * (1 - right), low * right}};
      for (int down = 0; down < 2; ++down) {
        for (int across = 0; across < 2; ++across) {
          T* const pixel = to + down * row + across * channels;
#pragma GCC ivdep
          for (int64_t c = 0; c < lanes; ++c) pixel[c] += weights[down][across] * from[c];
        }
      }
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED T dot(int64_t channels, const T* x, const T* y) {
  constexpr int kSums = 16;  // side by side in vector registers
  T sums[kSums] = {};
  const int64_t whole = channels / kSums * kSums;
  for (int64_t c = 0; c < whole; c += kSums) {
    for (int i = 0; i < kSums; ++i) sums[i] += x[c + i] * y[c + i];
  }
  for (int64_t c = whole; c < channels; ++c) sums[c - whole] += x[c] * y[c];
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

// What dy says of a place between 2x2 pixels: for each coordinate the sum over channels of dy times x's slope.
template <typename T>
UNIHAL_INLINE void slopes_of_square(int64_t channels, const T* dy, const T* x, int64_t row, T low, T right, T* down,
                                    T* across) {
  constexpr int kSums = 16;
  T downs[kSums] = {}, acrosses[kSums] = {};
  const T *const beside = x + channels, *const below = x + row, *const beside_below = below + channels;
  const auto add = [&](int64_t c, int64_t i) {  // weighted as the pixels are, so that an infinite one stays infinite
    acrosses[i] += dy[c] * ((1 - low) * (beside[c] - x[c]) + low * (beside_below[c] - below[c]));
    downs[i] += dy[c] * ((1 - right) * (below[c] - x[c]) + right * (beside_below[c] - beside[c]));
  };
  const int64_t whole = channels / kSums * kSums;
  for (int64_t c = 0; c < whole; c += kSums) {
    for (int64_t i = 0; i < kSums; ++i) add(c + i, i);
  }
  for (int64_t c = whole; c < channels; ++c) add(c, c - whole);
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      downs[i] += downs[i + width];
      acrosses[i] += acrosses[i + width];
    }
  }
  *down = downs[0];
  *across = acrosses[0];
}

// The gradients of the places [begin, end) of all grids.
template <typename T>
UNIHAL_VECTORIZED void slope_places(const Geometry<T>& given, int64_t begin, int64_t end, const T* dy, const T* x,
                                    T* dgrid) {
  const Geometry<T> g = given;
  const int64_t channels = g.channels;
  const bool together = reads_squares(g);
  const T down_slope = position_of(g.attributes, g.lengths[0], T(0)).slope;
  const T across_slope = position_of(g.attributes, g.lengths[1], T(0)).slope;
  Squares<T> squares;
  for (int64_t place = begin, next; place < end; place = next) {
    const int64_t grid = place / g.places, number = g.image(grid);
    next = std::min({end, (grid + 1) * g.places, place + kPlaces});
    const T* const image = x + std::max<int64_t>(number, 0) * g.pixels * channels;
    if (together) find_squares(g, place, next - place, &squares);
    for (int64_t i = 0; place < next; ++i, ++place) {
      T sums[3] = {0, 0, 0};
      if (together && number >= 0 && is_inner(g, squares, i)) {
        slopes_of_square(channels, dy + place * channels, image + first_pixel(g, squares, i) * channels,
                         g.lengths[1] * channels, squares.down.fractions[i], squares.across.fractions[i], &sums[0],
                         &sums[1]);
        sums[0] *= down_slope;
        sums[1] *= across_slope;
      } else {
        Taps<T> taps;
        if (number >= 0) find_taps<true>(g, place, &taps);
        for (int t = 0; t < taps.count; ++t) {
          const T product = dot(channels, dy + place * channels, image + taps.pixels[t] * channels);
          for (int a = 0; a < g.axes; ++a) sums[a] += taps.slopes[a][t] * product;
        }
      }
      for (int a = 0; a < g.axes; ++a) dgrid[place * g.axes + g.axes - 1 - a] = sums[a];
    }
  }
}

template <typename T>
Geometry<T> geometry_of(const uhal_op& op, const uhal_tensor& x, const uhal_tensor& grid, const uhal_tensor* images) {
  Geometry<T> g = {};
  g.attributes = attributes_of(op);
  g.images = x.shape[0];
  g.channels = x.shape[1];
  g.grids = grid.shape[0];
  g.named = images != nullptr;
  g.image_of = data_of<const int32_t>(images);
  g.axes = x.rank - 2;
  g.pixels = 1;
  g.places = 1;
  for (int a = 0; a < g.axes; ++a) {
    g.lengths[a] = x.shape[2 + a];
    g.pixels *= x.shape[2 + a];
    g.places *= grid.shape[1 + a];
  }
  g.grid = data_of<const T>(&grid);
  return g;
}

template <typename T>
void run_forward(const Geometry<T>& g, const T* x, T* y) {
  parallel_for(g.grids * g.places, g.channels << g.axes, [&](int64_t begin, int64_t end) {
    g.axes == 3 ? sample_places<3>(g, begin, end, x, y) : sample_places<2>(g, begin, end, x, y);
  });
}

// A thread has some channels of an image, whose places it goes through in order.
template <typename T>
void run_backward_data(const Geometry<T>& g, const T* dy, T* dx) {
  std::fill_n(dx, g.images * g.pixels * g.channels, T(0));
  const int64_t strips = (g.channels + kLanes - 1) / kLanes;
  const int64_t work = (std::min(kLanes, g.channels) << g.axes) * g.places * g.grids / std::max<int64_t>(g.images, 1);
  parallel_for(g.images * strips, work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / strips, first = i % strips * kLanes;
      const int64_t lanes = std::min(kLanes, g.channels - first);
      T* const to = dx + image * g.pixels * g.channels + first;
      const int64_t begin_grid = g.named ? 0 : image;
      const int64_t end_grid = g.named ? g.grids : image + 1;
      for (int64_t grid = begin_grid; grid < end_grid; ++grid) {
        if (g.image(grid) != image) continue;
        spread_places(g, grid * g.places, (grid + 1) * g.places, lanes, dy + first, to);
      }
    }
  });
}

template <typename T>
void run_backward_grid(const Geometry<T>& g, const T* dy, const T* x, T* dgrid) {
  parallel_for(g.grids * g.places, g.channels << g.axes,
               [&](int64_t begin, int64_t end) { slope_places(g, begin, end, dy, x, dgrid); });
}

template <typename T>
uhal_status grid_sample(const Launch& launch, uhal_dtype dtype) {
  const uhal_op& op = launch.op;
  const int rank = op.inputs[0]->rank;
  const AxisOrder images = channels_innermost(rank), grids = row_major(rank);
  Staging staging(launch);
  const auto input = [&](int i, const AxisOrder& order) { return staging.input(i, dtype, &order); };
  const AxisOrder list = row_major(1);
  const auto numbers = [&](int i) { return staging.input(i, UHAL_INT32, &list); };
  const auto output = [&](const AxisOrder& order) { return staging.output(0, dtype, &order); };
  if (op.kind == UHAL_OP_GRID_SAMPLE) {
    const uhal_tensor *x = input(0, images), *grid = input(1, grids), *of = numbers(2), *y = output(images);
    if (staging.status() != UHAL_OK) return staging.status();
    run_forward(geometry_of<T>(op, *x, *grid, of), data_of<const T>(x), data_of<T>(y));
  } else if (op.kind == UHAL_OP_GRID_SAMPLE_BACKWARD_DATA) {
    const uhal_tensor *dy = input(0, images), *grid = input(1, grids), *of = numbers(2), *dx = output(images);
    if (staging.status() != UHAL_OK) return staging.status();
    run_backward_data(geometry_of<T>(op, *dx, *grid, of), data_of<const T>(dy), data_of<T>(dx));
  } else {
    const uhal_tensor *dy = input(0, images), *x = input(1, images), *grid = input(2, grids), *of = numbers(3);
    const uhal_tensor* dgrid = output(grids);
    if (staging.status() != UHAL_OK) return staging.status();
    run_backward_grid(geometry_of<T>(op, *x, *grid, of), data_of<const T>(dy), data_of<const T>(x), data_of<T>(dgrid));
  }
  return staging.finish();
}

}  // namespace

const char* refuse_grid_sample(const uhal_op& op) {
  const int numbers = op.kind == UHAL_OP_GRID_SAMPLE_BACKWARD_GRID ? 3 : 2;  // the operand `images`
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
    if (i != numbers || i >= op.input_count) {
      if (!is_floating(view->dtype)) return "sampling takes floating point only: cast the operands first";
    }
  }
  return nullptr;
}

uhal_status run_grid_sample(const Launch& launch) {
  if (element_count(*launch.op.outputs[0]) == 0) return UHAL_OK;
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  return dtype == UHAL_FLOAT64 ? grid_sample<double>(launch, dtype) : grid_sample<float>(launch, dtype);
}

}  // namespace unihal::stub
