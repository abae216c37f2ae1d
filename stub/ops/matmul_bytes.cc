// Products of numbers of 8 bits, summed in 32: both operands are packed as pairs of 16 bits along k, or as quads of
// bytes where the processor multiplies those.
#include <algorithm>
#include <atomic>
#include <limits>

#include "csrc/backends/common/implementation_note.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/matmul.h"
#include "stub/vector/byte_quads.h"
#include "stub/vector/compute.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int64_t kBlockDepth = 512;  // whole quads
constexpr int64_t kLeastLines = 4;    // of fewer rows or columns a tile is mostly zeros

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Panels of `height` lines, each with the pairs along the depth outermost; what is missing is 0.
template <class Byte, int64_t height>
UNIHAL_VECTORIZED void pack_pairs(const Byte* source, int64_t line_stride, int64_t depth_stride, int64_t lines,
                                  int64_t depth, int16_t* packed) {
  for (int64_t line = 0; line < lines; line += height) {
    const int64_t present = std::min(height, lines - line);
    for (int64_t p = 0; p < depth; p += 2, packed += 2 * height) {
      const Byte* const from = source + line * line_stride + p * depth_stride;
      if (present < height || p + 1 == depth) {
        for (int64_t i = 0; i < height; ++i) {
          packed[2 * i] = i < present ? from[i * line_stride] : 0;
          packed[2 * i + 1] = i < present && p + 1 < depth ? from[i * line_stride + depth_stride] : 0;
        }
      } else if (line_stride == 1) {
        for (int64_t i = 0; i < height; ++i) {
          packed[2 * i] = from[i];
          packed[2 * i + 1] = from[i + depth_stride];
        }
      } else {
        for (int64_t i = 0; i < height; ++i) {
          packed[2 * i] = from[i * line_stride];
          packed[2 * i + 1] = from[i * line_stride + depth_stride];
        }
      }
    }
  }
}

template <int64_t height>
void pack_operand(const MatmulOperand& operand, int64_t offset, int64_t line_stride, int64_t depth_stride,
                  int64_t lines, int64_t depth, int16_t* packed) {
  if (operand.dtype == UHAL_INT8) {
    pack_pairs<int8_t, height>(static_cast<const int8_t*>(operand.data) + offset, line_stride, depth_stride, lines,
                               depth, packed);
  } else {
    pack_pairs<uint8_t, height>(static_cast<const uint8_t*>(operand.data) + offset, line_stride, depth_stride, lines,
                                depth, packed);
  }
}

// How operands are packed and tiles of the result are multiplied: as pairs of 16 bits...
struct Pairs {
  static constexpr int64_t kRows = kByteTileRows, kColumns = kByteTileColumns;
  static constexpr int64_t kBlockRows = 240, kBlockColumns = 256;  // whole tiles
  static constexpr int64_t kWorkPerStep = 16;
  using Packed = int16_t;
  static constexpr int64_t panel(int64_t height, int64_t depth) { return height * 2 * divide_up(depth, 2); }

  static void pack_rows(const MatmulOperand& a, const MatmulOperand& /*b*/, int64_t offset, int64_t lines,
                        int64_t depth, Packed* packed) {
    pack_operand<kRows>(a, offset, a.row_stride, a.column_stride, lines, depth, packed);
  }
  static void pack_columns(const MatmulOperand& /*a*/, const MatmulOperand& b, int64_t offset, int64_t lines,
                           int64_t depth, Packed* packed) {
    pack_operand<kColumns>(b, offset, b.column_stride, b.row_stride, lines, depth, packed);
  }
  static void multiply(int64_t depth, const Packed* a, const Packed* b, int32_t* tile) {
    vectors().byte_tile(divide_up(depth, 2), a, b, tile);
  }
};

// ...or as quads of bytes.
struct Quads {
  static constexpr int64_t kRows = kQuadRows, kColumns = kQuadColumns;
  static constexpr int64_t kBlockRows = 256, kBlockColumns = 480;
  static constexpr int64_t kWorkPerStep = 64;
  using Packed = uint8_t;
  static constexpr int64_t panel(int64_t height, int64_t depth) { return quad_panel_bytes(height, depth); }

  static void pack_rows(const MatmulOperand& a, const MatmulOperand& b, int64_t offset, int64_t lines, int64_t depth,
                        Packed* packed) {
    pack_quad_rows({static_cast<const uint8_t*>(a.data) + offset, a.row_stride, a.column_stride, a.dtype == UHAL_INT8,
                    b.dtype == UHAL_INT8},
                   lines, depth, packed);
  }
  static void pack_columns(const MatmulOperand& a, const MatmulOperand& b, int64_t offset, int64_t lines, int64_t depth,
                           Packed* packed) {
    pack_quad_columns({static_cast<const uint8_t*>(b.data) + offset, b.column_stride, b.row_stride,
                       b.dtype == UHAL_INT8, a.dtype == UHAL_INT8},
                      lines, depth, packed);
  }
  static void multiply(int64_t depth, const Packed* a, const Packed* b, int32_t* tile) {
    multiply_quads(depth, a, b, tile);
  }
};

// A tile, whose rows are `pitch` apart, becomes a part of d, or is added to it: sums wrap.
template <bool add>
UNIHAL_INLINE void store_tile_by(const int32_t* tile, int64_t pitch, int64_t rows, int64_t columns, bool relu,
                                 int32_t* d, int64_t row_stride, int64_t column_stride) {
  const int32_t least = relu ? 0 : std::numeric_limits<int32_t>::min();
  const auto store = [&](int32_t number, int32_t& to) UNIHAL_INLINE_LAMBDA {
    const uint32_t sum = static_cast<uint32_t>(number) + (add ? static_cast<uint32_t>(to) : 0);
    to = std::max(static_cast<int32_t>(sum), least);
  };
  for (int64_t i = 0; i < rows; ++i, tile += pitch, d += row_stride) {
    if (column_stride == 1) {
      for (int64_t j = 0; j < columns; ++j) store(tile[j], d[j]);
    } else {
      for (int64_t j = 0; j < columns; ++j) store(tile[j], d[j * column_stride]);
    }
  }
}

UNIHAL_VECTORIZED void store_tile(const int32_t* tile, int64_t pitch, int64_t rows, int64_t columns, bool add,
                                  bool relu, int32_t* d, int64_t row_stride, int64_t column_stride) {
  if (add) {
    store_tile_by<true>(tile, pitch, rows, columns, relu, d, row_stride, column_stride);
  } else {
    store_tile_by<false>(tile, pitch, rows, columns, relu, d, row_stride, column_stride);
  }
}

struct Block {
  int64_t row, column, rows, columns;
  int64_t offsets[kMatmulOperands];  // of the batch's matrices
};

template <class Tiles>
void multiply_block(const MatmulProblem& problem, const Block& block, typename Tiles::Packed* packed_a,
                    typename Tiles::Packed* packed_b) {
  const MatmulOperand &a = problem.operands[kMatmulA], &b = problem.operands[kMatmulB], &d = problem.operands[kMatmulD];
  for (int64_t p = 0; p == 0 || p < problem.k; p += kBlockDepth) {
    const int64_t depth = std::min(kBlockDepth, problem.k - p);
    const bool relu = problem.activation == UHAL_ACTIVATION_RELU && p + depth == problem.k;
    Tiles::pack_rows(a, b, block.offsets[kMatmulA] + block.row * a.row_stride + p * a.column_stride, block.rows, depth,
                     packed_a);
    Tiles::pack_columns(a, b, block.offsets[kMatmulB] + p * b.row_stride + block.column * b.column_stride,
                        block.columns, depth, packed_b);
    const auto* panel_b = packed_b;
    for (int64_t j = 0; j < block.columns; j += Tiles::kColumns, panel_b += Tiles::panel(Tiles::kColumns, depth)) {
      const auto* panel_a = packed_a;
      for (int64_t i = 0; i < block.rows; i += Tiles::kRows, panel_a += Tiles::panel(Tiles::kRows, depth)) {
        alignas(64) int32_t tile[Tiles::kRows * Tiles::kColumns];
        Tiles::multiply(depth, panel_a, panel_b, tile);
        store_tile(tile, Tiles::kColumns, std::min(Tiles::kRows, block.rows - i),
                   std::min(Tiles::kColumns, block.columns - j), p > 0, relu,
                   static_cast<int32_t*>(d.data) + block.offsets[kMatmulD] + (block.row + i) * d.row_stride +
                       (block.column + j) * d.column_stride,
                   d.row_stride, d.column_stride);
      }
    }
  }
}

// Whole tiles of one of the fewest blocks of at most `most` lines.
constexpr int64_t lines_of_block(int64_t lines, int64_t most, int64_t tile) {
  return divide_up(divide_up(lines, divide_up(lines, most)), tile) * tile;
}

template <class Tiles>
uhal_status multiply_blocks(const MatmulProblem& problem) {
  const int64_t block_rows = lines_of_block(problem.m, Tiles::kBlockRows, Tiles::kRows);
  const int64_t block_columns = lines_of_block(problem.n, Tiles::kBlockColumns, Tiles::kColumns);
  const int64_t row_blocks = divide_up(problem.m, block_rows), column_blocks = divide_up(problem.n, block_columns);
  const int64_t work =
      std::min(problem.m, block_rows) * std::min(problem.n, block_columns) * (problem.k + 1) / Tiles::kWorkPerStep + 1;
  std::atomic<bool> out_of_memory{false};
  note_implementation(host(), "built-in gemm");
  parallel_for(problem.batch_count() * row_blocks * column_blocks, work, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    auto* packed_a =
        frame.take<typename Tiles::Packed>(block_rows / Tiles::kRows * Tiles::panel(Tiles::kRows, kBlockDepth));
    auto* packed_b = frame.take<typename Tiles::Packed>(block_columns / Tiles::kColumns *
                                                        Tiles::panel(Tiles::kColumns, kBlockDepth));
    if (packed_a == nullptr || packed_b == nullptr) {
      out_of_memory = true;
      return;
    }
    for (int64_t item = begin; item < end; ++item) {
      Block block = {};
      block.column = item % column_blocks * block_columns;
      block.row = item / column_blocks % row_blocks * block_rows;
      block.rows = std::min(block_rows, problem.m - block.row);
      block.columns = std::min(block_columns, problem.n - block.column);
      int64_t rest = item / column_blocks / row_blocks;
      for (int axis = problem.batch_rank - 1; axis >= 0; --axis) {
        for (int i = 0; i < kMatmulOperands; ++i) {
          block.offsets[i] += rest % problem.batch[axis] * problem.operands[i].batch_strides[axis];
        }
        rest /= problem.batch[axis];
      }
      multiply_block<Tiles>(problem, block, packed_a, packed_b);
    }
  });
  return out_of_memory ? fail(UHAL_RESOURCE_EXHAUSTED, "matmul: the host has no memory left for packed blocks")
                       : UHAL_OK;
}

}  // namespace

bool has_byte_products(int64_t m, int64_t n) {
  return (has_byte_quads() || vectors().byte_tile != nullptr) && std::min(m, n) >= kLeastLines;
}

bool matmul_of_bytes(const MatmulProblem& problem, uhal_status* status) {
  if (!has_byte_products(problem.m, problem.n)) return false;
  *status = has_byte_quads() ? multiply_blocks<Quads>(problem) : multiply_blocks<Pairs>(problem);
  return true;
}

}  // namespace unihal::stub
