// Products of numbers of 8 bits, summed in 32: both operands are packed as pairs of 16 bits along k.
#include <algorithm>
#include <atomic>

#include "csrc/backends/common/implementation_note.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/matmul.h"
#include "stub/vector/compute.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int64_t kBlockRows = 240;  // whole tiles
constexpr int64_t kBlockColumns = 256;
constexpr int64_t kBlockDepth = 512;  // even
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

// A tile becomes a part of d, or is added to it: sums wrap.
void store_tile(const int32_t* tile, int64_t rows, int64_t columns, bool add, bool relu, int32_t* d, int64_t row_stride,
                int64_t column_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      int32_t& to = d[i * row_stride + j * column_stride];
      const uint32_t sum =
          static_cast<uint32_t>(tile[i * kByteTileColumns + j]) + (add ? static_cast<uint32_t>(to) : 0);
      const auto number = static_cast<int32_t>(sum);
      to = relu && number < 0 ? 0 : number;
    }
  }
}

struct Block {
  int64_t row, column, rows, columns;
  int64_t offsets[kMatmulOperands];  // of the batch's matrices
};

void multiply_block(const MatmulProblem& problem, const Block& block, int16_t* packed_a, int16_t* packed_b) {
  const MatmulOperand &a = problem.operands[kMatmulA], &b = problem.operands[kMatmulB], &d = problem.operands[kMatmulD];
  const ByteTile multiply = vectors().byte_tile;
  for (int64_t p = 0; p == 0 || p < problem.k; p += kBlockDepth) {
    const int64_t depth = std::min(kBlockDepth, problem.k - p), pairs = divide_up(depth, 2);
    const bool relu = problem.activation == UHAL_ACTIVATION_RELU && p + depth == problem.k;
    pack_operand<kByteTileRows>(a, block.offsets[kMatmulA] + block.row * a.row_stride + p * a.column_stride,
                                a.row_stride, a.column_stride, block.rows, depth, packed_a);
    pack_operand<kByteTileColumns>(b, block.offsets[kMatmulB] + p * b.row_stride + block.column * b.column_stride,
                                   b.column_stride, b.row_stride, block.columns, depth, packed_b);
    for (int64_t j = 0; j < block.columns; j += kByteTileColumns) {
      for (int64_t i = 0; i < block.rows; i += kByteTileRows) {
        int32_t tile[kByteTileRows * kByteTileColumns];
        multiply(pairs, packed_a + i * 2 * pairs, packed_b + j * 2 * pairs, tile);
        store_tile(tile, std::min(kByteTileRows, block.rows - i), std::min(kByteTileColumns, block.columns - j), p > 0,
                   relu,
                   static_cast<int32_t*>(d.data) + block.offsets[kMatmulD] + (block.row + i) * d.row_stride +
                       (block.column + j) * d.column_stride,
                   d.row_stride, d.column_stride);
      }
    }
  }
}

}  // namespace

bool has_byte_products(int64_t m, int64_t n) { return vectors().byte_tile != nullptr && std::min(m, n) >= kLeastLines; }

bool matmul_of_bytes(const MatmulProblem& problem, uhal_status* status) {
  if (!has_byte_products(problem.m, problem.n)) return false;
  const int64_t row_blocks = divide_up(problem.m, kBlockRows), column_blocks = divide_up(problem.n, kBlockColumns);
  const int64_t work = std::min(problem.m, kBlockRows) * std::min(problem.n, kBlockColumns) * (problem.k + 1) / 16 + 1;
  std::atomic<bool> out_of_memory{false};
  note_implementation(host(), "built-in gemm");
  parallel_for(problem.batch_count() * row_blocks * column_blocks, work, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    auto* packed_a = frame.take<int16_t>(kBlockRows * kBlockDepth);
    auto* packed_b = frame.take<int16_t>(kBlockColumns * kBlockDepth);
    if (packed_a == nullptr || packed_b == nullptr) {
      out_of_memory = true;
      return;
    }
    for (int64_t item = begin; item < end; ++item) {
      Block block = {};
      block.column = item % column_blocks * kBlockColumns;
      block.row = item / column_blocks % row_blocks * kBlockRows;
      block.rows = std::min(kBlockRows, problem.m - block.row);
      block.columns = std::min(kBlockColumns, problem.n - block.column);
      int64_t rest = item / column_blocks / row_blocks;
      for (int axis = problem.batch_rank - 1; axis >= 0; --axis) {
        for (int i = 0; i < kMatmulOperands; ++i) {
          block.offsets[i] += rest % problem.batch[axis] * problem.operands[i].batch_strides[axis];
        }
        rest /= problem.batch[axis];
      }
      multiply_block(problem, block, packed_a, packed_b);
    }
  });
  *status =
      out_of_memory ? fail(UHAL_RESOURCE_EXHAUSTED, "matmul: the host has no memory left for packed blocks") : UHAL_OK;
  return true;
}

}  // namespace unihal::stub
