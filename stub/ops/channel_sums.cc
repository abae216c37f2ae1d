#include "stub/ops/channel_sums.h"

#include <algorithm>

#include "stub/common/activation.h"
#include "stub/common/parallel.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Rows of pixels whose sums are formed together where channels lie side by side; fixed, so that sums do not depend on
// the number of threads.
constexpr int64_t kRowsPerPiece = 256;

// Vectors of 32 bytes: GCC keeps wider ones in memory where no register holds them. kInT of them are added in T, whose
// sum in double is as good as T's; kVectors at a time, since one sum would wait for itself.
template <typename T>
struct Lanes {
  static constexpr int64_t kCount = 32 / sizeof(T);
  typedef double Wide __attribute__((vector_size(kCount * sizeof(double)), aligned(sizeof(double)), may_alias));
  typedef T Values __attribute__((vector_size(kCount * sizeof(T)), aligned(sizeof(T)), may_alias));
};
constexpr int64_t kInT = 16, kVectors = 4;

template <typename T>
UNIHAL_VECTORIZED ChannelSums plane_sums(int64_t count, const T* u, T u_shift, const T* v, T v_shift) {
  using Values = typename Lanes<T>::Values;
  using Wide = typename Lanes<T>::Wide;
  constexpr int64_t step = kVectors * Lanes<T>::kCount;
  double first = 0, second = 0;
  int64_t i = 0;
  while (i + step <= count) {
    Values sums[kVectors] = {}, products[kVectors] = {};
    for (const int64_t end = std::min(i + kInT * step, count - step + 1); i < end; i += step) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < kVectors; ++k) {
        const int64_t at = i + k * Lanes<T>::kCount;
        const Values shifted = *reinterpret_cast<const Values*>(u + at) - u_shift;
        sums[k] += shifted;
        products[k] += shifted * (*reinterpret_cast<const Values*>(v + at) - v_shift);
      }
    }
    Wide wide_sums = {}, wide_products = {};
    for (int64_t k = 0; k < kVectors; ++k) {
      wide_sums += __builtin_convertvector(sums[k], Wide);
      wide_products += __builtin_convertvector(products[k], Wide);
    }
    for (int64_t lane = 0; lane < Lanes<T>::kCount; ++lane) {
      first += wide_sums[lane];
      second += wide_products[lane];
    }
  }
  for (; i < count; ++i) {
    const double shifted = static_cast<double>(u[i]) - static_cast<double>(u_shift);
    first += shifted;
    second += shifted * (static_cast<double>(v[i]) - static_cast<double>(v_shift));
  }
  return {first, second};
}

// Rows whose elements are added while a channel's sums stay in registers: as many as the first-level cache holds.
constexpr int64_t kRowsTogether = 32;

template <typename T>
struct SummedRows {
  int64_t rows, channels;
  const T* u;
  const T* u_shift;  // nullptr: 0
  const T* v;
  const T* v_shift;
};

// Adds rows of all channels to two rows of sums: kInT rows at a time in T. kSquares: v is u, with the same shift.
template <typename T, bool kShifted, bool kSquares>
UNIHAL_VECTORIZED void add_rows(const SummedRows<T>& given, double* first, double* second) {
  using Values = typename Lanes<T>::Values;
  using Wide = typename Lanes<T>::Wide;
  constexpr int64_t kLanes = Lanes<T>::kCount;
  int64_t lane = 0;
  for (; lane + kVectors * kLanes <= given.channels; lane += kVectors * kLanes) {
    for (int64_t row = 0; row < given.rows;) {
      Values sums[kVectors] = {}, products[kVectors] = {};
      for (const int64_t end = std::min(row + kInT, given.rows); row < end; ++row) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < kVectors; ++i) {
          const int64_t channel = lane + i * kLanes, at = row * given.channels + channel;
          Values u = *reinterpret_cast<const Values*>(given.u + at);
          if (kShifted) u -= *reinterpret_cast<const Values*>(given.u_shift + channel);
          Values v = u;
          if (!kSquares) {
            v = *reinterpret_cast<const Values*>(given.v + at) -
                *reinterpret_cast<const Values*>(given.v_shift + channel);
          }
          sums[i] += u;
          products[i] += u * v;
        }
      }
      for (int64_t i = 0; i < kVectors; ++i) {
        const int64_t channel = lane + i * kLanes;
        *reinterpret_cast<Wide*>(first + channel) += __builtin_convertvector(sums[i], Wide);
        *reinterpret_cast<Wide*>(second + channel) += __builtin_convertvector(products[i], Wide);
      }
    }
  }
  for (int64_t row = 0; row < given.rows; ++row) {
    for (int64_t c = lane; c < given.channels; ++c) {
      const int64_t at = row * given.channels + c;
      const double u = static_cast<double>(given.u[at]) - (kShifted ? static_cast<double>(given.u_shift[c]) : 0.0);
      first[c] += u;
      second[c] += u * (static_cast<double>(given.v[at]) - static_cast<double>(given.v_shift[c]));
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void map_plane(int64_t count, const T* u, T u_factor, const T* x, T x_factor, T x_shift, T offset,
                                 T* result) {
  if (u != nullptr) {
    for (int64_t i = 0; i < count; ++i) result[i] = u_factor * u[i] + (x_factor * (x[i] - x_shift) + offset);
  } else {
    for (int64_t i = 0; i < count; ++i) result[i] = x_factor * (x[i] - x_shift) + offset;
  }
}

// Rows of all channels.
template <typename T>
UNIHAL_VECTORIZED void map_rows(int64_t rows, int64_t channels, const T* u, const T* __restrict u_factor, const T* x,
                                const T* __restrict x_factor, const T* __restrict x_shift, const T* __restrict offset,
                                T* result) {
  for (int64_t row = 0; row < rows; ++row, x += channels, result += channels) {
    if (u != nullptr) {
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        result[c] = u_factor[c] * u[c] + (x_factor[c] * (x[c] - x_shift[c]) + offset[c]);
      }
      u += channels;
    } else {
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) result[c] = x_factor[c] * (x[c] - x_shift[c]) + offset[c];
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void relu_row(int64_t count, T* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = x[i] < 0 ? T(0) : x[i];
}

template <typename T>
void activate_row(uhal_activation activation, int64_t count, T* x) {
  if (activation == UHAL_ACTIVATION_NONE) return;
  if (activation == UHAL_ACTIVATION_RELU) {
    relu_row(count, x);
    return;
  }
  for (int64_t i = 0; i < count; ++i) x[i] = activate(activation, x[i]);
}

template <typename T>
bool sums_channels_last(Staging& staging, const ChannelBlocks& blocks, const T* u, const T* u_shift, const T* v,
                        const T* v_shift, ChannelSums* sums) {
  const int64_t pieces = (blocks.pixels + kRowsPerPiece - 1) / kRowsPerPiece;
  // For each piece of each image a row of first and a row of second sums.
  double* partial = staging.take<double>(static_cast<size_t>(blocks.images * pieces * 2 * blocks.channels));
  if (partial == nullptr) return false;
  parallel_for(blocks.images * pieces, kRowsPerPiece * blocks.channels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / pieces;
      const int64_t row = i % pieces * kRowsPerPiece;
      const int64_t rows = std::min(kRowsPerPiece, blocks.pixels - row);
      double* first = partial + i * 2 * blocks.channels;
      std::fill_n(first, 2 * blocks.channels, 0.0);
      const T* own_u_shift = u_shift != nullptr ? u_shift + image * blocks.channels : nullptr;
      for (int64_t r = row; r < row + rows; r += kRowsTogether) {
        const int64_t offset = (image * blocks.pixels + r) * blocks.channels;
        const SummedRows<T> given = {
            std::min(kRowsTogether, row + rows - r), blocks.channels, u + offset, own_u_shift, v + offset,
            v_shift + image * blocks.channels};
        double* second = first + blocks.channels;
        if (u_shift == nullptr) {
          add_rows<T, false, false>(given, first, second);
        } else if (u == v && u_shift == v_shift) {
          add_rows<T, true, true>(given, first, second);
        } else {
          add_rows<T, true, false>(given, first, second);
        }
      }
    }
  });
  for (int64_t image = 0; image < blocks.images; ++image) {
    for (int64_t c = 0; c < blocks.channels; ++c) {
      ChannelSums total = {0, 0};
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const double* first = partial + (image * pieces + piece) * 2 * blocks.channels;
        total.first += first[c];
        total.second += first[blocks.channels + c];
      }
      sums[image * blocks.channels + c] = total;
    }
  }
  return true;
}

}  // namespace

template <typename T>
bool channel_sums(Staging& staging, const ChannelBlocks& blocks, const T* u, const T* u_shift, const T* v,
                  const T* v_shift, ChannelSums* sums) {
  if (blocks.channels_last) return sums_channels_last(staging, blocks, u, u_shift, v, v_shift, sums);
  parallel_for(blocks.count(), blocks.pixels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sums[i] = plane_sums(blocks.pixels, u + i * blocks.pixels, u_shift != nullptr ? u_shift[i] : T(0),
                           v + i * blocks.pixels, v_shift[i]);
    }
  });
  return true;
}

template <typename T>
void channel_map(const ChannelBlocks& blocks, const ChannelMap<T>& map, const T* u, const T* x,
                 uhal_activation activation, T* result) {
  if (blocks.channels_last) {
    parallel_for(blocks.images * blocks.pixels, blocks.channels, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin, rows; row < end; row += rows) {
        const int64_t image = row / blocks.pixels;
        rows = std::min({kRowsTogether, end - row, (image + 1) * blocks.pixels - row});
        const int64_t own = image * blocks.channels;
        const int64_t offset = row * blocks.channels;
        map_rows(rows, blocks.channels, u != nullptr ? u + offset : nullptr, map.u_factor + own, x + offset,
                 map.x_factor + own, map.x_shift + own, map.offset + own, result + offset);
        activate_row(activation, rows * blocks.channels, result + offset);
      }
    });
    return;
  }
  parallel_for(blocks.count(), blocks.pixels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i * blocks.pixels;
      map_plane(blocks.pixels, u != nullptr ? u + offset : nullptr, u != nullptr ? map.u_factor[i] : T(0), x + offset,
                map.x_factor[i], map.x_shift[i], map.offset[i], result + offset);
      activate_row(activation, blocks.pixels, result + offset);
    }
  });
}

template bool channel_sums<float>(Staging&, const ChannelBlocks&, const float*, const float*, const float*,
                                  const float*, ChannelSums*);
template bool channel_sums<double>(Staging&, const ChannelBlocks&, const double*, const double*, const double*,
                                   const double*, ChannelSums*);
template void channel_map<float>(const ChannelBlocks&, const ChannelMap<float>&, const float*, const float*,
                                 uhal_activation, float*);
template void channel_map<double>(const ChannelBlocks&, const ChannelMap<double>&, const double*, const double*,
                                  uhal_activation, double*);

}  // namespace unihal::stub
