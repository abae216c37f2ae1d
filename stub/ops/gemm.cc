// The usual scheme: blocks of both operands are packed so that the innermost kernel reads them one after the other,
// and keeps a small tile of the result in registers.
#include "stub/ops/gemm.h"

#include <algorithm>
#include <atomic>

#include "stub/common/activation.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int64_t kVectorBytes = 64;
constexpr int64_t kTileRows = 6;      // 6 accumulators of 64 bytes: all registers of AVX2
constexpr int64_t kWideTileRows = 8;  // with AVX-512, whose tiles then wait less for operands
constexpr int64_t kBlockRows = 240;  // a packed block of a stays in the second-level cache; whole tiles of both heights
constexpr int64_t kBlockColumns = 512;
constexpr int64_t kBlockDepth = 256;

template <typename T>
struct Tile {
  static constexpr int64_t kColumns = kVectorBytes / sizeof(T);
};

// A tile's row in vectors of so many bytes: without AVX-512 it is two, since GCC keeps vectors that no register holds
// in memory.
constexpr int64_t kNarrowBytes = 32;
template <typename T, int64_t bytes>
struct TileRow {
  typedef T Vector __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias));
  static constexpr int64_t kParts = kVectorBytes / bytes, kElements = bytes / static_cast<int64_t>(sizeof(T));
};

// Packs `rows` x `depth` of a matrix into panels of `height` rows, each with its depth outermost; missing rows are 0.
template <typename T>
UNIHAL_VECTORIZED void pack(const T* source, int64_t row_stride, int64_t depth_stride, int64_t rows, int64_t depth,
                            int64_t height, T* packed) {
  if (row_stride == 1 && rows % height == 0) {  // along what is adjacent: its lines lie far from one another
    for (int64_t p = 0; p < depth; ++p) {
      const T* line = source + p * depth_stride;
      for (int64_t row = 0; row < rows; row += height)
        std::copy_n(line + row, height, packed + row * depth + p * height);
    }
    return;
  }
  for (int64_t row = 0; row < rows; row += height) {
    const int64_t present = std::min(height, rows - row);
    const T* panel = source + row * row_stride;
    if (row_stride == 1 && present == height) {
      for (int64_t p = 0; p < depth; ++p) std::copy_n(panel + p * depth_stride, height, packed + p * height);
    } else {
      for (int64_t i = 0; i < height; ++i) {
        for (int64_t p = 0; p < depth; ++p) {
          packed[p * height + i] = i < present ? panel[i * row_stride + p * depth_stride] : T(0);
        }
      }
    }
    packed += height * depth;
  }
}

// sums (kRows x Tile<T>::kColumns, row-major) of `depth` products; a_at(p, i) is an element of a, b is a packed panel.
template <typename T, int64_t kRows, int64_t bytes, class A>
UNIHAL_INLINE void sum_products(int64_t depth, const A& a_at, const T* b, T* tile) {
  using Row = TileRow<T, bytes>;
  using Vector = typename Row::Vector;
  Vector sums[kRows][Row::kParts] = {};
  for (int64_t p = 0; p < depth; ++p) {
    Vector own[Row::kParts];
#pragma GCC unroll 2
    for (int64_t q = 0; q < Row::kParts; ++q) {
      own[q] = *reinterpret_cast<const Vector*>(b + p * Tile<T>::kColumns + q * Row::kElements);
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kRows; ++i) {
      const T factor = a_at(p, i);
#pragma GCC unroll 2
      for (int64_t q = 0; q < Row::kParts; ++q) sums[i][q] += factor * own[q];
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int64_t q = 0; q < Row::kParts; ++q) {
      *reinterpret_cast<Vector*>(tile + i * Tile<T>::kColumns + q * Row::kElements) = sums[i][q];
    }
  }
}

// tile = a @ b over packed panels.
template <typename T, int64_t kRows>
UNIHAL_VECTORIZED void multiply_tile(int64_t depth, const T* a, const T* b, T* tile) {
  constexpr int64_t bytes = kRows == kWideTileRows ? kVectorBytes : kNarrowBytes;
  sum_products<T, kRows, bytes>(
      depth, [=](int64_t p, int64_t i) UNIHAL_INLINE_LAMBDA { return a[p * kRows + i]; }, b, tile);
}

// The same where a is as the caller has it; of rows that are missing the last one again.
template <typename T, int64_t kRows>
UNIHAL_VECTORIZED void multiply_unpacked_tile(int64_t depth, const T* a, int64_t row_stride, int64_t column_stride,
                                              int64_t rows, const T* b, T* tile) {
  constexpr int64_t bytes = kRows == kWideTileRows ? kVectorBytes : kNarrowBytes;
  const T* at[kRows];
  for (int64_t i = 0; i < kRows; ++i) at[i] = a + std::min(i, rows - 1) * row_stride;
  sum_products<T, kRows, bytes>(
      depth, [&](int64_t p, int64_t i) UNIHAL_INLINE_LAMBDA { return at[i][p * column_stride]; }, b, tile);
}

// Adds a tile to d, or starts d with it.
template <typename T>
UNIHAL_VECTORIZED void store_tile(const T* tile, int64_t rows, int64_t columns, T alpha, bool add, T* d,
                                  int64_t row_stride, int64_t column_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* from = tile + i * Tile<T>::kColumns;
    T* to = d + i * row_stride;
    if (column_stride == 1) {
      for (int64_t j = 0; j < columns; ++j) to[j] = alpha * from[j] + (add ? to[j] : T(0));
    } else {
      for (int64_t j = 0; j < columns; ++j) {
        T& element = to[j * column_stride];
        element = alpha * from[j] + (add ? element : T(0));
      }
    }
  }
}

struct Block {
  int64_t row, column, rows, columns;
};

// d = beta * c, where c is not read if beta is 0: it may be absent.
template <typename T>
void start_with_c(const Block& block, Matrix<T> d, const Epilogue<T>& epilogue) {
  for (int64_t i = block.row; i < block.row + block.rows; ++i) {
    for (int64_t j = block.column; j < block.column + block.columns; ++j) {
      d.at(i, j) = epilogue.beta != T(0) ? epilogue.beta * epilogue.c.at(i, j) : T(0);
    }
  }
}

template <typename T>
void finish_with_activation(const Block& block, Matrix<T> d, uhal_activation activation) {
  for (int64_t i = block.row; i < block.row + block.rows; ++i) {
    for (int64_t j = block.column; j < block.column + block.columns; ++j) {
      d.at(i, j) = activate(activation, d.at(i, j));
    }
  }
}

// A block of any number of rows: b is packed once for all of them, a by kBlockRows.
template <typename T, int64_t kRows>
void multiply_block(const Block& block, int64_t k, Matrix<const T> a, Matrix<const T> b, Matrix<T> d,
                    const Epilogue<T>& epilogue, T* packed_a, T* packed_b) {
  constexpr int64_t kColumns = Tile<T>::kColumns;
  // What is read a few times only is not worth a copy.
  constexpr int64_t kFewColumns = 4 * kColumns, kFewMultiplications = 1 << 18;
  const bool packs = block.columns > kFewColumns || block.rows * block.columns * k > kFewMultiplications;
  bool add = epilogue.beta != T(0);
  if (add || k == 0) start_with_c(block, d, epilogue);
  for (int64_t p = 0; p < k; p += kBlockDepth) {
    const int64_t depth = std::min(kBlockDepth, k - p);
    pack(&b.at(p, block.column), b.column_stride, b.row_stride, block.columns, depth, kColumns, packed_b);
    for (int64_t first = 0; first < block.rows; first += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, block.rows - first);
      const T* const own = &a.at(block.row + first, p);
      if (packs) pack(own, a.row_stride, a.column_stride, rows, depth, kRows, packed_a);
      for (int64_t j = 0; j < block.columns; j += kColumns) {
        for (int64_t i = 0; i < rows; i += kRows) {
          T tile[kRows * kColumns];
          if (packs) {
            multiply_tile<T, kRows>(depth, packed_a + i * depth, packed_b + j * depth, tile);
          } else {
            multiply_unpacked_tile<T, kRows>(depth, own + i * a.row_stride, a.row_stride, a.column_stride, rows - i,
                                             packed_b + j * depth, tile);
          }
          store_tile(tile, std::min(kRows, rows - i), std::min(kColumns, block.columns - j), epilogue.alpha, add,
                     &d.at(block.row + first + i, block.column + j), d.row_stride, d.column_stride);
        }
      }
    }
    add = true;
  }
  if (epilogue.activation != UHAL_ACTIVATION_NONE) finish_with_activation(block, d, epilogue.activation);
}

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The columns of one packed panel, of at most kRows rows; the last one again where there are no more.
template <typename T, int64_t bytes, int64_t kRows>
UNIHAL_INLINE void multiply_rows_of_panel(const RowsProduct<T>& product, const T* panel, int64_t row, int64_t column) {
  constexpr int64_t kColumns = Tile<T>::kColumns;
  const T* a[kRows];
  for (int64_t i = 0; i < kRows; ++i) a[i] = product.a + std::min(row + i, product.m - 1) * product.a_stride;
  T tile[kRows * kColumns];
  sum_products<T, kRows, bytes>(
      product.k, [&](int64_t p, int64_t i) UNIHAL_INLINE_LAMBDA { return a[i][p]; }, panel, tile);
  store_tile(tile, std::min(kRows, product.m - row), std::min(kColumns, product.n - column), T(1), product.add,
             product.d + row * product.d_stride + column, product.d_stride, int64_t{1});
}

// All rows, in tiles of six as long as six or more than eight are left: seven and eight are twice four.
template <typename T, int64_t bytes>
UNIHAL_VECTORIZED void multiply_panel(const RowsProduct<T>& product, const T* panel, int64_t column) {
  for (int64_t row = 0; row < product.m;) {
    const int64_t rest = product.m - row;
    if (rest <= 2) {
      multiply_rows_of_panel<T, bytes, 2>(product, panel, row, column);
      row += 2;
    } else if (rest <= 4 || rest == 7 || rest == 8) {
      multiply_rows_of_panel<T, bytes, 4>(product, panel, row, column);
      row += 4;
    } else {
      multiply_rows_of_panel<T, bytes, kTileRows>(product, panel, row, column);
      row += kTileRows;
    }
  }
}

}  // namespace

template <typename T>
int64_t packed_elements(int64_t n, int64_t k) {
  return divide_up(n, Tile<T>::kColumns) * Tile<T>::kColumns * k;
}

template <typename T>
void pack_columns(int64_t n, int64_t k, Matrix<const T> b, T* packed) {
  pack(b.data, b.column_stride, b.row_stride, n, k, Tile<T>::kColumns, packed);
}

template <typename T>
void multiply_rows(const RowsProduct<T>& product) {
  constexpr int64_t kColumns = Tile<T>::kColumns;
  if (product.m == 0) return;
  const auto multiply = has_wide_vectors() ? multiply_panel<T, kVectorBytes> : multiply_panel<T, kNarrowBytes>;
  parallel_for(divide_up(product.n, kColumns), product.m * product.k * kColumns / 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      multiply(product, product.packed + i * kColumns * product.k, i * kColumns);
    }
  });
}

template <typename T>
bool gemm(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, Matrix<T> d,
          const Epilogue<T>& epilogue) {
  constexpr int64_t kColumns = Tile<T>::kColumns;
  const int64_t columns = std::min(kBlockColumns, divide_up(n, kColumns) * kColumns);
  const int64_t depth = std::min(kBlockDepth, k);
  const int64_t column_blocks = divide_up(n, columns);
  // Blocks of as many rows as leave some to every thread.
  const int64_t row_blocks = divide_up(4 * (kThreads ? omp_get_max_threads() : 1), column_blocks);
  const int64_t rows = std::max(kBlockRows, divide_up(divide_up(m, row_blocks), kBlockRows) * kBlockRows);
  const bool wide = has_wide_vectors();
  const int64_t height = wide ? kWideTileRows : kTileRows;
  const int64_t packed_rows = std::min(kBlockRows, divide_up(m, height) * height);
  std::atomic<bool> out_of_memory{false};
  parallel_for(divide_up(m, rows) * column_blocks, rows * columns * k / 8, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    T* packed_a = frame.take<T>(packed_rows * depth);
    T* packed_b = frame.take<T>(columns * depth);
    if (packed_a == nullptr || packed_b == nullptr) {
      out_of_memory = true;
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      Block block;
      block.row = i / column_blocks * rows;
      block.column = i % column_blocks * columns;
      block.rows = std::min(rows, m - block.row);
      block.columns = std::min(columns, n - block.column);
      const auto multiply = wide ? multiply_block<T, kWideTileRows> : multiply_block<T, kTileRows>;
      multiply(block, k, a, b, d, epilogue, packed_a, packed_b);
    }
  });
  return !out_of_memory;
}

template bool gemm<float>(int64_t, int64_t, int64_t, Matrix<const float>, Matrix<const float>, Matrix<float>,
                          const Epilogue<float>&);
template bool gemm<double>(int64_t, int64_t, int64_t, Matrix<const double>, Matrix<const double>, Matrix<double>,
                           const Epilogue<double>&);
template bool gemm<int64_t>(int64_t, int64_t, int64_t, Matrix<const int64_t>, Matrix<const int64_t>, Matrix<int64_t>,
                            const Epilogue<int64_t>&);

template int64_t packed_elements<float>(int64_t, int64_t);
template int64_t packed_elements<double>(int64_t, int64_t);
template void pack_columns<float>(int64_t, int64_t, Matrix<const float>, float*);
template void pack_columns<double>(int64_t, int64_t, Matrix<const double>, double*);
template void multiply_rows<float>(const RowsProduct<float>&);
template void multiply_rows<double>(const RowsProduct<double>&);

}  // namespace unihal::stub
