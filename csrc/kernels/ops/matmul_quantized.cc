// UHAL_OP_MATMUL_QUANTIZED: few rows by kernels that read the weights as they are; more as an ordinary product, of
// weights that a kernel before it makes numbers of.
#include <algorithm>
#include <cmath>

#include "csrc/backends/common/quantized_problem.h"
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/map_function.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/teams.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Rows that each weight is multiplied with while it is in a register.
constexpr int64_t kFewRows = 8;
// Channels of a team, where there are so many that all of the device has work.
constexpr int64_t kMostColumns = 4;
// Work-items of a group, and of a unit as few as keep enough loads on their way: each of the team's numbers is then
// read for more channels.
constexpr int32_t kGroup = 128;
constexpr int64_t kItemsPerUnit = 128;
constexpr int64_t kLanes = 32;
constexpr int64_t kChunkBytes = 16;

// How kernels find zero points: ZEROS of the sources.
enum Zeros : int32_t { kOneZero = 0, kZeroArray = 1, kPackedZeros = 2 };

Zeros zeros_of(const QuantizedWeights& weights) {
  if (weights.zero_points.data == nullptr) return kOneZero;
  return weights.packed_zeros ? kPackedZeros : kZeroArray;
}

int32_t shift_of(const QuantizedWeights& weights) {
  int32_t shift = 0;
  while (int64_t{1} << shift < weights.block) ++shift;
  return shift;
}

bool fits(const QuantizedOperand& operand, int64_t rows, int64_t columns) {
  return fits_32_bits(std::abs(operand.row_stride) * rows + std::abs(operand.column_stride) * columns);
}

bool needs_wide_index(const uhal_op& op, const QuantizedWeights& weights) {
  bool narrow = fits(weights.b, weights.k, weights.n) && fits(weights.scales, weights.blocks, weights.n) &&
                fits(weights.zero_points, weights.blocks, weights.n) && fits_32_bits((weights.k + 8) * (weights.n + 8));
  for (const uhal_tensor* view : {op.inputs[0], input_of(op, 4), static_cast<const uhal_tensor*>(op.outputs[0])}) {
    narrow &= view == nullptr || fits_32_bits(*view);
  }
  return !narrow;
}

void define_weights(KernelSpec& spec, const QuantizedWeights& weights, bool wide) {
  const Zeros zeros = zeros_of(weights);
  spec.define("UHAL_WIDE_INDEX", wide).define("BITS", weights.bits).define("IS_SIGNED", weights.is_signed);
  spec.define("ZEROS", zeros).dtype("S", weights.scales.dtype);
  spec.dtype("Z", zeros == kZeroArray ? weights.zero_points.dtype : UHAL_FLOAT32);
}

// -- few rows ---------------------------------------------------------------------------------------------

// Where the rows of a problem lie one behind the other, as they do after simplify(): else there is no such kernel.
bool takes_rows(const MatmulProblem& problem, const QuantizedWeights& weights) {
  return problem.batch_rank == 0 && problem.m <= kFewRows && weights.along_k();
}

// Whether each of `rows` rows begins at a multiple of `bytes`.
bool is_aligned(const void* data, int64_t row_bytes, int64_t rows, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0 &&
         (rows == 1 || row_bytes % bytes == 0);
}

// A problem of few rows, of which there are two kernels.
class FewRows {
 public:
  FewRows(Queue& queue, const uhal_op& op, const MatmulProblem& problem, const QuantizedWeights& weights)
      : queue_(queue),
        traits_(queue.traits()),
        problem_(problem),
        weights_(weights),
        a_(problem.operands[kMatmulA]),
        c_(problem.operands[kMatmulC]),
        d_(problem.operands[kMatmulD]),
        wide_(needs_wide_index(op, weights)) {}

  uhal_status run() const { return takes_matrix() ? run_matrix() : run_teams(); }

 private:
  // Whether 16 bytes of a channel can be read at a time.
  bool wide_weights() const {
    return (weights_.b.row_stride == 1 || weights_.k * weights_.bits <= 8) &&
           is_aligned(weights_.b.data, weights_.b.column_stride, weights_.n, kChunkBytes);
  }

  // Whether the numbers of a row that meet a word of weights can be.
  bool wide_rows() const {
    const int64_t bytes = dtype_size(a_.dtype);
    return (a_.column_stride == 1 || weights_.k == 1) &&
           is_aligned(a_.data, a_.row_stride * bytes, problem_.m, bytes * (32 / weights_.bits));
  }

  int64_t chunk_weights() const { return 8 * kChunkBytes / weights_.bits; }

  // By quantized_rows_matrix.cl: chunks are whole, and no block is shorter than one. Its factors have the bits of a
  // float16's subnormal numbers, or four of a bfloat16's. One row with short blocks is as fast without it, or faster.
  bool takes_matrix() const {
    if (problem_.m == 1 && weights_.block < 4 * chunk_weights()) return false;
    if (!has_mma(traits_.matrix_form) || !wide_weights() || !wide_rows()) return false;
    if (weights_.k == 0 || weights_.k % chunk_weights() != 0 || weights_.block < chunk_weights()) return false;
    return a_.dtype == UHAL_FLOAT16 || (a_.dtype == UHAL_BFLOAT16 && weights_.bits == 4);
  }

  KernelSpec spec(const Source& source, const char* entry) const {
    KernelSpec spec(source, entry);
    define_weights(spec, weights_, wide_);
    spec.dtype("A", a_.dtype).dtype("D", d_.dtype).dtype("C", c_.data != nullptr ? c_.dtype : UHAL_FLOAT32);
    define_activation(spec, problem_.activation);
    return spec;
  }

  Arguments arguments() const {
    const int64_t shape[] = {weights_.n,
                             weights_.k,
                             a_.row_stride,
                             a_.column_stride,
                             weights_.b.row_stride,
                             weights_.b.column_stride,
                             weights_.scales.row_stride,
                             weights_.scales.column_stride,
                             weights_.zero_points.row_stride,
                             weights_.zero_points.column_stride,
                             c_.row_stride,
                             c_.column_stride,
                             d_.row_stride,
                             d_.column_stride};
    Arguments arguments;
    arguments.pointer(a_.data).pointer(weights_.b.data).pointer(weights_.scales.data);
    arguments.pointer(weights_.zero_points.data).pointer(c_.data).pointer(d_.data);
    append_indices(arguments, shape, 14, wide_);
    arguments.real(weights_.zero_point, Compute::kFloat).int32(shift_of(weights_));
    arguments.int32(static_cast<int32_t>(problem_.m)).int32(c_.data != nullptr);
    return arguments;
  }

  uhal_status run_teams() const;
  uhal_status run_matrix() const;

  Queue& queue_;
  const DeviceTraits& traits_;
  const MatmulProblem& problem_;
  const QuantizedWeights& weights_;
  const MatmulOperand &a_, &c_, &d_;
  const bool wide_;
};

uhal_status FewRows::run_teams() const {
  int64_t rows = 1;
  while (rows < problem_.m) rows *= 2;

  Teams teams(traits_);
  teams.group = std::min(teams.group, kGroup);
  const int64_t chunks = weights_.k / chunk_weights();
  teams.lanes =
      static_cast<int32_t>(std::min({kLanes, int64_t{teams.group}, power_of_two_from(std::max<int64_t>(1, chunks))}));
  int64_t columns = rows == 1 ? kMostColumns : rows <= 4 ? 2 : 1;
  while (columns > 1 && weights_.n / columns * teams.lanes < kItemsPerUnit * traits_.compute_units) columns /= 2;
  const uhal_dtype zeros = weights_.zero_points.dtype;
  const bool whole_zeros =
      weights_.zero_points.data != nullptr
          ? zeros == UHAL_INT8 || zeros == UHAL_UINT8
          : weights_.zero_point == std::trunc(weights_.zero_point) && std::abs(weights_.zero_point) <= 255;

  KernelSpec rows_spec = spec(sources::quantized_rows, "quantized_rows");
  rows_spec.define("ROWS", rows).define("COLUMNS", columns);
  rows_spec.define("WIDE", wide_weights()).define("A_WIDE", wide_rows());
  rows_spec.define("PARTS", weights_.bits == 4 && weights_.block == 16 ? 2 : 1).define("WHOLE_ZEROS", whole_zeros);
  teams.define(rows_spec);
  Arguments given = arguments();
  teams.append(given);
  note_implementation("quantized_rows");
  return queue_.run(rows_spec, given, teams.grid((weights_.n + columns - 1) / columns));
}

uhal_status FewRows::run_matrix() const {
  constexpr int64_t kChannels = 16, kWarps = 4;  // of a group
  const int64_t step = 4 * chunk_weights();
  const int64_t block = int64_t{1} << shift_of(weights_);
  KernelSpec matrix_spec = spec(sources::quantized_rows_matrix, "quantized_rows_matrix");
  matrix_spec.define("UHAL_MATRIX_FORM", static_cast<int>(MatrixForm::kMma)).define("WARPS", kWarps);
  matrix_spec.define("BY_SETS", block < step).define("SETS", block < step ? block / chunk_weights() : 4);
  Grid grid;
  grid.groups[0] = (weights_.n + kChannels - 1) / kChannels;
  grid.group_size[0] = static_cast<int32_t>(kWarps * 32);
  note_implementation("quantized_rows_matrix");
  return queue_.run(matrix_spec, arguments(), grid);
}

// -- many rows --------------------------------------------------------------------------------------------

int64_t pitch_of(const QuantizedWeights& weights) { return weights.along_k() ? (weights.k + 7) / 8 * 8 : weights.n; }

size_t dense_bytes(const QuantizedWeights& weights, uhal_dtype dtype) {
  const int64_t lines = weights.along_k() ? weights.n : weights.k;
  return static_cast<size_t>((pitch_of(weights) * lines * dtype_size(dtype) + 255) / 256 * 256);
}

uhal_status make_dense(Queue& queue, const uhal_op& op, const QuantizedWeights& weights, uhal_dtype dtype,
                       void* dense) {
  const bool wide = needs_wide_index(op, weights);
  KernelSpec spec(sources::quantized_weights, "quantized_weights");
  define_weights(spec, weights, wide);
  spec.dtype("Y", dtype).define("ALONG_K", weights.along_k());
  const int64_t eights = (weights.k + 7) / 8;
  const int64_t count = eights * weights.n;
  if (count == 0) return UHAL_OK;
  const int64_t shape[] = {weights.n,
                           weights.k,
                           eights,
                           pitch_of(weights),
                           weights.b.row_stride,
                           weights.b.column_stride,
                           weights.scales.row_stride,
                           weights.scales.column_stride,
                           weights.zero_points.row_stride,
                           weights.zero_points.column_stride};
  Arguments arguments;
  arguments.pointer(weights.b.data).pointer(weights.scales.data).pointer(weights.zero_points.data).pointer(dense);
  append_indices(arguments, shape, 10, wide);
  append_index(arguments, count, wide);
  arguments.real(weights.zero_point, Compute::kFloat).int32(shift_of(weights));
  return queue.run(spec, arguments, linear_grid(count, std::min(256, queue.traits().max_group_size)));
}

MatmulProblem problem_of(const uhal_op& op, const QuantizedWeights& weights, void* dense) {
  const uhal_tensor& a = *op.inputs[0];
  uhal_matmul_attributes attributes = {};
  attributes.alpha = attributes.beta = 1;
  attributes.activation = matmul_quantized_attributes(op).activation;
  const uhal_tensor b = dense_weights(weights, a.dtype, dense, pitch_of(weights));
  return matmul_problem(attributes, a, b, input_of(op, 4), *op.outputs[0]);
}

}  // namespace

const char* refuse_matmul_quantized(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_matmul_quantized(Queue& queue, const uhal_op& op) {
  const uhal_tensor& d = *op.outputs[0];
  if (std::find(d.shape, d.shape + d.rank, 0) != d.shape + d.rank) return UHAL_OK;
  const QuantizedWeights weights = quantized_weights(op);
  MatmulProblem rows = problem_of(op, weights, kSomewhere);
  simplify(rows);
  if (rows.operands[kMatmulB].data == kSomewhere && takes_rows(rows, weights)) {
    return FewRows(queue, op, rows, weights).run();
  }
  const uhal_dtype dtype = op.inputs[0]->dtype;
  const size_t bytes = dense_bytes(weights, dtype);
  const Gemm planned(queue.traits(), problem_of(op, weights, kSomewhere));
  void* workspace;
  if (const uhal_status status = queue.workspace(bytes + planned.workspace_bytes(), &workspace); status != UHAL_OK) {
    return status;
  }
  if (const uhal_status status = make_dense(queue, op, weights, dtype, workspace); status != UHAL_OK) return status;
  const Gemm product(queue.traits(), problem_of(op, weights, workspace));
  return product.run(queue, static_cast<char*>(workspace) + bytes);
}

}  // namespace unihal::kernels
