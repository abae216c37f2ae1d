// UHAL_OP_MATMUL_QUANTIZED: few rows by a kernel that reads the weights as they are; more as an ordinary product, of
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
// Work-items of a unit that keep enough loads on their way.
constexpr int64_t kItemsPerUnit = 512;
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

uhal_status run_rows(Queue& queue, const uhal_op& op, const MatmulProblem& problem, const QuantizedWeights& weights) {
  const DeviceTraits& traits = queue.traits();
  const MatmulOperand& a = problem.operands[kMatmulA];
  const MatmulOperand& c = problem.operands[kMatmulC];
  const MatmulOperand& d = problem.operands[kMatmulD];
  const bool wide = needs_wide_index(op, weights);
  int64_t rows = 1;
  while (rows < problem.m) rows *= 2;

  Teams teams(traits);
  const int64_t chunks = weights.k * weights.bits / 8 / kChunkBytes;
  teams.lanes =
      static_cast<int32_t>(std::min({kLanes, int64_t{teams.group}, power_of_two_from(std::max<int64_t>(1, chunks))}));
  int64_t columns = rows == 1 ? kMostColumns : rows <= 4 ? 2 : 1;
  while (columns > 1 && weights.n / columns * teams.lanes < kItemsPerUnit * traits.compute_units) columns /= 2;

  const int64_t a_bytes = dtype_size(a.dtype);
  const bool wide_weights = (weights.b.row_stride == 1 || weights.k * weights.bits <= 8) &&
                            is_aligned(weights.b.data, weights.b.column_stride, weights.n, kChunkBytes);
  const bool wide_rows = (a.column_stride == 1 || weights.k == 1) &&
                         is_aligned(a.data, a.row_stride * a_bytes, problem.m, a_bytes * (32 / weights.bits));
  const uhal_dtype zeros = weights.zero_points.dtype;
  const bool whole_zeros = weights.zero_points.data != nullptr ? zeros == UHAL_INT8 || zeros == UHAL_UINT8
                                                               : weights.zero_point == std::trunc(weights.zero_point) &&
                                                                     std::abs(weights.zero_point) <= 255;

  KernelSpec spec(sources::quantized_rows, "quantized_rows");
  define_weights(spec, weights, wide);
  spec.dtype("A", a.dtype).dtype("D", d.dtype).dtype("C", c.data != nullptr ? c.dtype : UHAL_FLOAT32);
  spec.define("ROWS", rows).define("COLUMNS", columns).define("WIDE", wide_weights).define("A_WIDE", wide_rows);
  spec.define("PARTS", weights.bits == 4 && weights.block == 16 ? 2 : 1).define("WHOLE_ZEROS", whole_zeros);
  define_activation(spec, problem.activation);
  teams.define(spec);

  const int64_t shape[] = {weights.n,
                           weights.k,
                           a.row_stride,
                           a.column_stride,
                           weights.b.row_stride,
                           weights.b.column_stride,
                           weights.scales.row_stride,
                           weights.scales.column_stride,
                           weights.zero_points.row_stride,
                           weights.zero_points.column_stride,
                           c.row_stride,
                           c.column_stride,
                           d.row_stride,
                           d.column_stride};
  Arguments arguments;
  arguments.pointer(a.data).pointer(weights.b.data).pointer(weights.scales.data).pointer(weights.zero_points.data);
  arguments.pointer(c.data).pointer(d.data);
  append_indices(arguments, shape, 14, wide);
  arguments.real(weights.zero_point, Compute::kFloat).int32(shift_of(weights));
  arguments.int32(static_cast<int32_t>(problem.m)).int32(c.data != nullptr);
  teams.append(arguments);
  note_implementation("quantized_rows");
  return queue.run(spec, arguments, teams.grid((weights.n + columns - 1) / columns));
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

// A place for the weights before there is one: aligned as a workspace is.
void* const kSomewhere = reinterpret_cast<void*>(size_t{1} << 20);

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
    return run_rows(queue, op, rows, weights);
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
