#include "csrc/backends/common/matmul_problem.h"

#include <cmath>
#include <utility>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"

namespace unihal {
namespace {

// Describes a view by the strides of its matrices and, along d's leading axes, of its batch.
MatmulOperand operand_of(const uhal_tensor* view, const uhal_tensor& d) {
  MatmulOperand operand;
  if (view == nullptr) return operand;
  const auto stride = [&](int axis_of_d) {
    const int axis = axis_of_d - d.rank + view->rank;
    return axis < 0 || view->shape[axis] == 1 ? 0 : view->strides[axis];
  };
  operand.data = view->data;
  operand.dtype = view->dtype;
  operand.row_stride = stride(d.rank - 2);
  operand.column_stride = stride(d.rank - 1);
  for (int i = 0; i < d.rank - 2; ++i) operand.batch_strides[i] = stride(i);
  return operand;
}

void drop_batch_axis(MatmulProblem& problem, int axis) {
  --problem.batch_rank;
  for (int i = axis; i < problem.batch_rank; ++i) {
    problem.batch[i] = problem.batch[i + 1];
    for (MatmulOperand& operand : problem.operands) operand.batch_strides[i] = operand.batch_strides[i + 1];
  }
}

void make_innermost_batch_rows(MatmulProblem& problem) {
  if (problem.batch_rank == 0) return;
  const int last = problem.batch_rank - 1;
  bool joins = problem.operands[kMatmulB].batch_strides[last] == 0;
  for (const int i : {kMatmulA, kMatmulC, kMatmulD}) {
    const MatmulOperand& operand = problem.operands[i];
    joins &= problem.m == 1 || operand.batch_strides[last] == operand.row_stride * problem.m;
  }
  if (!joins) return;
  if (problem.m == 1) {  // a single row has no stride of its own
    for (MatmulOperand& operand : problem.operands) {
      if (&operand != &problem.operands[kMatmulB]) operand.row_stride = operand.batch_strides[last];
    }
  }
  problem.m *= problem.batch[last];
  drop_batch_axis(problem, last);
}

// Whether a number is one of int64_t. 2^63 is the first double beyond them.
bool is_whole(double value) { return value >= -0x1p63 && value < 0x1p63 && value == std::trunc(value); }

}  // namespace

uhal_matmul_attributes matmul_attributes(const uhal_op& op) {
  uhal_matmul_attributes defaults = {};
  defaults.alpha = 1;
  defaults.beta = 1;
  return attributes_or(op, defaults);
}

MatmulProblem matmul_problem(const uhal_matmul_attributes& attributes, const uhal_tensor& a, const uhal_tensor& b,
                             const uhal_tensor* c, const uhal_tensor& d) {
  MatmulProblem problem;
  problem.m = d.shape[d.rank - 2];
  problem.n = d.shape[d.rank - 1];
  problem.k = a.shape[a.rank - 1];
  problem.batch_rank = d.rank - 2;
  for (int i = 0; i < problem.batch_rank; ++i) problem.batch[i] = d.shape[i];
  problem.operands[kMatmulA] = operand_of(&a, d);
  // a's columns and b's rows run along k, which is no axis of d.
  problem.operands[kMatmulA].column_stride = a.shape[a.rank - 1] == 1 ? 0 : a.strides[a.rank - 1];
  problem.operands[kMatmulB] = operand_of(&b, d);
  problem.operands[kMatmulB].row_stride = b.shape[b.rank - 2] == 1 ? 0 : b.strides[b.rank - 2];
  problem.operands[kMatmulC] = operand_of(c, d);
  problem.operands[kMatmulD] = operand_of(&d, d);
  problem.alpha = attributes.alpha;
  problem.beta = c != nullptr ? attributes.beta : 0;
  problem.activation = attributes.activation;
  if (a.dtype == UHAL_FLOAT32 && b.dtype == UHAL_FLOAT32) problem.math_mode = attributes.math_mode;
  return problem;
}

void simplify(MatmulProblem& problem) {
  for (int i = problem.batch_rank - 1; i >= 0; --i) {
    if (problem.batch[i] == 1) drop_batch_axis(problem, i);
  }
  for (int i = problem.batch_rank - 1; i > 0; --i) {
    bool nested = true;
    for (const MatmulOperand& operand : problem.operands) {
      nested &= operand.batch_strides[i - 1] == operand.batch_strides[i] * problem.batch[i];
    }
    if (!nested) continue;
    problem.batch[i] *= problem.batch[i - 1];
    drop_batch_axis(problem, i - 1);
  }
  make_innermost_batch_rows(problem);
  const MatmulOperand& d = problem.operands[kMatmulD];
  if (d.column_stride > 1 && d.row_stride == 1) transpose(problem);
}

void transpose(MatmulProblem& problem) {
  std::swap(problem.m, problem.n);
  std::swap(problem.operands[kMatmulA], problem.operands[kMatmulB]);
  for (MatmulOperand& operand : problem.operands) std::swap(operand.row_stride, operand.column_stride);
}

const char* refuse_matmul_operands(const uhal_op& op) {
  const uhal_matmul_attributes attributes = matmul_attributes(op);
  bool integers = true;
  bool complex = false;
  for (int i = 0; i < op.input_count + 1; ++i) {
    const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[0];
    if (view == nullptr) continue;
    if (view->dtype == UHAL_BOOL) return "matmul takes numbers, not bool: cast the operands first";
    complex |= is_complex(view->dtype);
    integers &= is_integer(view->dtype);
  }
  if (complex && attributes.activation != UHAL_ACTIVATION_NONE) {
    return "matmul of complex numbers can fuse no activation: apply it to the result";
  }
  if (integers) {
    if (!is_whole(attributes.alpha) || !is_whole(attributes.beta)) {
      return "matmul of integers takes whole numbers within 64 bits as alpha and beta";
    }
    if (attributes.activation != UHAL_ACTIVATION_NONE && attributes.activation != UHAL_ACTIVATION_RELU) {
      return "matmul of integers can fuse relu only";
    }
  }
  return nullptr;
}

}  // namespace unihal
