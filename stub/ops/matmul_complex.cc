// Products of complex numbers in vectors of 64 bytes: a panel of b at a time, with the parts of its numbers apart,
// meets all rows of a as they lie.
#include <algorithm>
#include <complex>

#include "csrc/backends/common/implementation_note.h"
#include "stub/common/parallel.h"
#include "stub/ops/matmul.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int kBytes = 64;
template <typename R>
using Wide = typename VectorOf<R, kBytes>::type;
template <typename R>
using LooseWide = typename VectorOf<R, kBytes>::loose;
// A tile of the result in registers: both parts of so many rows and columns.
constexpr int kRows = 8;
template <typename R>
constexpr int kColumns = kBytes / static_cast<int>(sizeof(R));
// Rows of a panel of b, which half of the first-level cache holds.
template <typename R>
constexpr int64_t kDepth = 1024 / static_cast<int64_t>(sizeof(R));
// Fewer multiplications of real numbers, rows or columns are not worth a panel. Of a larger a, which each panel meets
// from a cache behind the second level, BLAS is faster: it has blocks of a.
constexpr int64_t kFewest = int64_t{1} << 11, kFewestRows = 4, kFewestColumns = 8;
constexpr int64_t kMostBytes = int64_t{2} << 20;

// The parts of `columns` numbers of `depth` rows, and zeros behind them.
template <typename R>
UNIHAL_WIDE void pack_panel(int64_t depth, int64_t columns, const R* b, int64_t row_stride, int64_t column_stride,
                            R* panel) {
  constexpr int64_t kRow = 2 * kColumns<R>;
  if (columns == kColumns<R> && column_stride == 1) {
    for (int64_t p = 0; p < depth; ++p, b += 2 * row_stride, panel += kRow) {
      const Wide<R> low = *reinterpret_cast<const LooseWide<R>*>(b);
      const Wide<R> high = *reinterpret_cast<const LooseWide<R>*>(b + kColumns<R>);
      part_pairs(low, high, *reinterpret_cast<Wide<R>*>(panel), *reinterpret_cast<Wide<R>*>(panel + kColumns<R>));
    }
    return;
  }
  if (columns < kColumns<R>) std::fill_n(panel, depth * kRow, R(0));
  for (int64_t j = 0; j < columns; ++j) {
    const R* const column = b + 2 * j * column_stride;
    for (int64_t p = 0; p < depth; ++p) {
      panel[p * kRow + j] = column[2 * p * row_stride];
      panel[p * kRow + kColumns<R> + j] = column[2 * p * row_stride + 1];
    }
  }
}

// The sums of `depth` products for some rows of a, of which the last one is taken again where there are no more.
template <typename R>
UNIHAL_WIDE void multiply_tile(int64_t depth, int64_t rows, const R* a, int64_t row_stride, int64_t column_stride,
                               const R* panel, R* tile) {
  Wide<R> re[kRows] = {}, im[kRows] = {};
  const R* row[kRows];
  for (int i = 0; i < kRows; ++i) row[i] = a + 2 * std::min<int64_t>(i, rows - 1) * row_stride;
  for (int64_t p = 0; p < depth; ++p, panel += 2 * kColumns<R>) {
    const Wide<R> panel_re = *reinterpret_cast<const Wide<R>*>(panel);
    const Wide<R> panel_im = *reinterpret_cast<const Wide<R>*>(panel + kColumns<R>);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const R own_re = row[i][2 * p * column_stride], own_im = row[i][2 * p * column_stride + 1];
      re[i] += own_re * panel_re;
      im[i] += own_re * panel_im;
      re[i] -= own_im * panel_im;
      im[i] += own_im * panel_re;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i, tile += 2 * kColumns<R>) {
    join_pairs(re[i], im[i], *reinterpret_cast<Wide<R>*>(tile), *reinterpret_cast<Wide<R>*>(tile + kColumns<R>));
  }
}

// One matrix of each operand, by elements of R; c is nullptr where it counts for nothing.
template <typename R>
struct Matrices {
  const MatmulProblem& problem;
  const R* a;
  const R* b;
  const R* c;
  R* d;
};

// Starts d with alpha times a tile, and beta times c, or adds it.
template <typename R>
UNIHAL_WIDE void store_tile(const Matrices<R>& matrices, int64_t row, int64_t rows, int64_t column, int64_t columns,
                            bool add, const R* tile) {
  const R alpha = static_cast<R>(matrices.problem.alpha), beta = static_cast<R>(matrices.problem.beta);
  const MatmulOperand &c = matrices.problem.operands[kMatmulC], &d = matrices.problem.operands[kMatmulD];
  for (int64_t i = 0; i < rows; ++i, tile += 2 * kColumns<R>) {
    R* const to = matrices.d + 2 * ((row + i) * d.row_stride + column * d.column_stride);
    if (d.column_stride == 1 && (add || matrices.c == nullptr)) {
      for (int64_t j = 0; j < 2 * columns; ++j) to[j] = add ? to[j] + alpha * tile[j] : alpha * tile[j];
      continue;
    }
    for (int64_t j = 0; j < 2 * columns; ++j) {
      const int64_t part = j % 2, place = j / 2;
      R& element = to[2 * place * d.column_stride + part];
      R sum = alpha * tile[j];
      if (add) {
        sum += element;
      } else if (matrices.c != nullptr) {
        sum += beta * matrices.c[2 * ((row + i) * c.row_stride + (column + place) * c.column_stride) + part];
      }
      element = sum;
    }
  }
}

// Some columns of d.
template <typename R>
void multiply_panel(const Matrices<R>& matrices, int64_t column, R* panel) {
  const MatmulProblem& problem = matrices.problem;
  const MatmulOperand &a = problem.operands[kMatmulA], &b = problem.operands[kMatmulB];
  const int64_t columns = std::min<int64_t>(kColumns<R>, problem.n - column);
  alignas(kBytes) R tile[kRows * 2 * kColumns<R>];
  for (int64_t p = 0; p < problem.k; p += kDepth<R>) {
    const int64_t depth = std::min(kDepth<R>, problem.k - p);
    pack_panel(depth, columns, matrices.b + 2 * (p * b.row_stride + column * b.column_stride), b.row_stride,
               b.column_stride, panel);
    for (int64_t row = 0; row < problem.m; row += kRows) {
      const int64_t rows = std::min<int64_t>(kRows, problem.m - row);
      multiply_tile(depth, rows, matrices.a + 2 * (row * a.row_stride + p * a.column_stride), a.row_stride,
                    a.column_stride, panel, tile);
      store_tile(matrices, row, rows, column, columns, p > 0, tile);
    }
  }
}

}  // namespace

template <typename R>
bool matmul_of_complex(const MatmulProblem& problem) {
  const int64_t multiplications = 4 * problem.m * problem.n * problem.k;
  if (!has_wide_vectors() || problem.alpha == 0 || problem.k == 0) return false;
  if (problem.m < kFewestRows || problem.n < kFewestColumns) return false;
  if (multiplications < kFewest || problem.m * problem.k > kMostBytes / (2 * static_cast<int64_t>(sizeof(R))))
    return false;
  note_implementation(host(), "built-in gemm");
  const int64_t panels = (problem.n + kColumns<R> - 1) / kColumns<R>;
  parallel_for(problem.batch_count() * panels, multiplications / panels / 8 + 1, [&](int64_t begin, int64_t end) {
    alignas(kBytes) R panel[kDepth<R> * 2 * kColumns<R>];
    for (int64_t index = begin; index < end; ++index) {
      R* data[kMatmulOperands];
      for (int i = 0; i < kMatmulOperands; ++i) {
        data[i] = static_cast<R*>(problem.operands[i].data);
        int64_t rest = index / panels;
        for (int axis = problem.batch_rank - 1; axis >= 0 && data[i] != nullptr; --axis) {
          data[i] += 2 * (rest % problem.batch[axis]) * problem.operands[i].batch_strides[axis];
          rest /= problem.batch[axis];
        }
      }
      const R* const c = problem.beta != 0 ? data[kMatmulC] : nullptr;
      const Matrices<R> matrices = {problem, data[kMatmulA], data[kMatmulB], c, data[kMatmulD]};
      multiply_panel(matrices, index % panels * kColumns<R>, panel);
    }
  });
  return true;
}

template bool matmul_of_complex<float>(const MatmulProblem&);
template bool matmul_of_complex<double>(const MatmulProblem&);

}  // namespace unihal::stub
