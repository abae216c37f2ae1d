#include "stub/matmul.h"

#include <atomic>
#include <cmath>
#include <utility>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/gemm.h"
#include "stub/parallel.h"
#include "stub/staging.h"

namespace unihal::stub {
namespace {

uhal_matmul_attributes attributes_of(const uhal_op& op) {
  uhal_matmul_attributes defaults = {};
  defaults.alpha = 1;
  defaults.beta = 1;
  return attributes_or(op, defaults);
}

// Describes a view by the strides of its matrices and, along d's leading axes, of its batch.
MatmulOperand operand_of(const uhal_tensor* view, const uhal_tensor& d) {
  MatmulOperand operand;
  if (view == nullptr) return operand;
  const auto stride = [&](int axis_of_d) {
    const int axis = axis_of_d - d.rank + view->rank;
    return axis < 0 || view->shape[axis] == 1 ? 0 : view->strides[axis];
  };
  operand.data = view->data;
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

// Drops batch axes of length 1, joins those that lie one inside the other, and makes the innermost one part of the
// rows where b is the same for all of it: one large product is faster than many small ones.
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

// Makes d row-major where it is column-major: d^T = b^T @ a^T.
void transpose_if_column_major(MatmulProblem& problem) {
  const MatmulOperand& d = problem.operands[kMatmulD];
  if (d.column_stride <= 1 || d.row_stride != 1) return;
  std::swap(problem.m, problem.n);
  std::swap(problem.operands[kMatmulA], problem.operands[kMatmulB]);
  for (MatmulOperand& operand : problem.operands) std::swap(operand.row_stride, operand.column_stride);
}

template <typename T>
uhal_status run_with_gemm(const MatmulProblem& problem) {
  Epilogue<T> epilogue;
  epilogue.alpha = static_cast<T>(problem.alpha);
  epilogue.beta = static_cast<T>(problem.beta);
  epilogue.activation = problem.activation;
  std::atomic<bool> out_of_memory{false};
  const int64_t work = problem.m * problem.n * (problem.k + 1) / 8 + 1;
  parallel_for(problem.batch_count(), work, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      T* data[kMatmulOperands];
      for (int i = 0; i < kMatmulOperands; ++i) {
        data[i] = static_cast<T*>(problem.operands[i].data);
        int64_t rest = index;
        for (int axis = problem.batch_rank - 1; axis >= 0 && data[i] != nullptr; --axis) {
          data[i] += rest % problem.batch[axis] * problem.operands[i].batch_strides[axis];
          rest /= problem.batch[axis];
        }
      }
      const auto matrix = [&](int i) {
        return Matrix<T>{data[i], problem.operands[i].row_stride, problem.operands[i].column_stride};
      };
      const auto constant = [&](int i) {
        return Matrix<const T>{data[i], problem.operands[i].row_stride, problem.operands[i].column_stride};
      };
      Epilogue<T> own = epilogue;
      own.c = constant(kMatmulC);
      if (!gemm<T>(problem.m, problem.n, problem.k, constant(kMatmulA), constant(kMatmulB), matrix(kMatmulD), own)) {
        out_of_memory = true;
      }
    }
  });
  return out_of_memory ? fail(UHAL_RESOURCE_EXHAUSTED, "matmul: the host has no memory left for packed blocks")
                       : UHAL_OK;
}

// Whether a number is one of int64_t. 2^63 is the first double beyond them.
bool is_whole(double value) { return value >= -0x1p63 && value < 0x1p63 && value == std::trunc(value); }

}  // namespace

const char* refuse_matmul(const uhal_op& op) {
  const uhal_matmul_attributes attributes = attributes_of(op);
  bool integers = true;
  for (const uhal_tensor* view : {input_of(op, 0), input_of(op, 1), input_of(op, 2), output_of(op, 0)}) {
    if (view == nullptr) continue;
    if (!is_real(view->dtype) || view->dtype == UHAL_BOOL) {
      return "matmul takes integers and floating point, not bool or complex: cast the operands first";
    }
    integers &= is_integer(view->dtype);
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

uhal_status run_matmul(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_matmul_attributes attributes = attributes_of(op);
  if (element_count(*op.outputs[0]) == 0) return UHAL_OK;
  const uhal_dtype dtype = arithmetic_dtype(op);

  Staging staging(launch);
  const uhal_tensor* a = staging.input(0, dtype);
  const uhal_tensor* b = staging.input(1, dtype);
  const uhal_tensor* c = attributes.beta != 0 ? staging.input(2, dtype) : nullptr;
  const uhal_tensor* d = staging.output(0, dtype);
  if (staging.status() != UHAL_OK) return staging.status();

  MatmulProblem problem;
  problem.m = d->shape[d->rank - 2];
  problem.n = d->shape[d->rank - 1];
  problem.k = a->shape[a->rank - 1];
  problem.batch_rank = d->rank - 2;
  for (int i = 0; i < problem.batch_rank; ++i) problem.batch[i] = d->shape[i];
  problem.operands[kMatmulA] = operand_of(a, *d);
  // a's columns and b's rows run along k, which is no axis of d.
  problem.operands[kMatmulA].column_stride = a->shape[a->rank - 1] == 1 ? 0 : a->strides[a->rank - 1];
  problem.operands[kMatmulB] = operand_of(b, *d);
  problem.operands[kMatmulB].row_stride = b->shape[b->rank - 2] == 1 ? 0 : b->strides[b->rank - 2];
  problem.operands[kMatmulC] = operand_of(c, *d);
  problem.operands[kMatmulD] = operand_of(d, *d);
  problem.alpha = attributes.alpha;
  problem.beta = c != nullptr ? attributes.beta : 0;
  problem.activation = attributes.activation;
  simplify(problem);
  transpose_if_column_major(problem);

  uhal_status status;
  if (dtype == UHAL_FLOAT64) {
    status = run_with_gemm<double>(problem);
  } else if (dtype == UHAL_INT64) {
    status = run_with_gemm<int64_t>(problem);
  } else if (!matmul_with_onednn(launch, problem, &status)) {
    status = run_with_gemm<float>(problem);
  }
  return status == UHAL_OK ? staging.finish() : status;
}

}  // namespace unihal::stub
