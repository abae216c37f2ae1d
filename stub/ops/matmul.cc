#include "stub/ops/matmul.h"

#include <atomic>

#include "csrc/backends/common/complex_matmul.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/implementation_note.h"
#include "csrc/tables/elementwise.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/gemm.h"

namespace unihal::stub {
namespace {

template <typename T>
uhal_status run_with_gemm(const MatmulProblem& problem) {
  Epilogue<T> epilogue;
  epilogue.alpha = static_cast<T>(problem.alpha);
  epilogue.beta = static_cast<T>(problem.beta);
  epilogue.activation = problem.activation;
  std::atomic<bool> out_of_memory{false};
  note_implementation(host(), "built-in gemm");
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

uhal_op two_operand_op(uhal_op_kind kind, const uhal_tensor* const* inputs, const uhal_tensor* const* outputs) {
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.input_count = op.output_count = 1;
  op.inputs = inputs;
  op.outputs = outputs;
  return op;
}

uhal_status run_complex(const Launch& launch) {
  ComplexMatmul complex(launch.op);
  ScratchFrame frame;
  void* memory = frame.take(complex.bytes());
  if (memory == nullptr) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "matmul needs %zu bytes of temporary host memory, and the host has none left",
                complex.bytes());
  }
  complex.use(memory);
  const auto convert = [&](const uhal_tensor& from, const uhal_tensor& to) {
    const uhal_tensor* inputs[] = {&from};
    const uhal_tensor* outputs[] = {&to};
    return run_copy({two_operand_op(UHAL_OP_CAST, inputs, outputs), launch.stream});
  };
  const auto negate = [&](const uhal_tensor& from, const uhal_tensor& to) {
    const uhal_tensor* inputs[] = {&from};
    const uhal_tensor* outputs[] = {&to};
    uhal_map_attributes negative = {};
    negative.struct_size = sizeof negative;
    negative.function = uhal_map_negative;
    uhal_op op = two_operand_op(UHAL_OP_MAP, inputs, outputs);
    op.attributes = &negative;
    return run_map({op, launch.stream});
  };
  uhal_status status = complex.prepare(convert, negate);
  if (status == UHAL_OK) status = run_matmul({complex.product(), launch.stream});
  return status == UHAL_OK ? complex.finish(convert) : status;
}

}  // namespace

const char* refuse_matmul(const uhal_op& op) { return refuse_matmul_operands(op); }

uhal_status run_matmul(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_matmul_attributes attributes = matmul_attributes(op);
  if (element_count(*op.outputs[0]) == 0) return UHAL_OK;
  if (is_complex_matmul(op)) return run_complex(launch);
  const uhal_dtype dtype = arithmetic_dtype(op);

  Staging staging(launch);
  const uhal_tensor* a = staging.input(0, dtype);
  const uhal_tensor* b = staging.input(1, dtype);
  const uhal_tensor* c = attributes.beta != 0 ? staging.input(2, dtype) : nullptr;
  const uhal_tensor* d = staging.output(0, dtype);
  if (staging.status() != UHAL_OK) return staging.status();

  MatmulProblem problem = matmul_problem(attributes, *a, *b, c, *d);
  simplify(problem);

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
