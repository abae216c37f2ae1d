#include "stub/ops/matmul.h"

#include <algorithm>
#include <atomic>
#include <complex>

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

// Products of numbers of 8 bits, summed in 32.
bool is_byte_product(const uhal_op& op, const uhal_matmul_attributes& attributes) {
  const auto is_byte = [](uhal_dtype dtype) { return dtype == UHAL_INT8 || dtype == UHAL_UINT8; };
  return is_byte(op.inputs[0]->dtype) && is_byte(op.inputs[1]->dtype) && op.outputs[0]->dtype == UHAL_INT32 &&
         attributes.alpha == 1 && (attributes.beta == 0 || input_of(op, 2) == nullptr);
}

// A view of [first, first + count) of an axis.
uhal_tensor part_of(const uhal_tensor& view, int axis, int64_t first, int64_t count) {
  uhal_tensor part = view;
  part.data = static_cast<char*>(view.data) + first * view.strides[axis] * dtype_size(view.dtype);
  part.shape[axis] = count;
  return part;
}

// By float32 where there are no tiles of bytes, a part of k at a time of which it has all sums exactly.
uhal_status run_bytes(const Launch& launch, const uhal_matmul_attributes& given) {
  MatmulProblem problem =
      matmul_problem(given, *launch.op.inputs[0], *launch.op.inputs[1], nullptr, *launch.op.outputs[0]);
  simplify(problem);
  uhal_status tiled;
  if (matmul_of_bytes(problem, &tiled)) return tiled;
  Staging staging(launch);
  const uhal_tensor* a = staging.input(0, UHAL_FLOAT32);
  const uhal_tensor* b = staging.input(1, UHAL_FLOAT32);
  const AxisOrder order = row_major(launch.op.outputs[0]->rank);
  const uhal_tensor* d = staging.output(0, UHAL_INT32, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  const int64_t count = element_count(*d);
  uhal_tensor product = *d;
  product.dtype = UHAL_FLOAT32;
  set_packed_strides(product, order);
  float* products = staging.take<float>(static_cast<size_t>(count));
  if (products == nullptr) return staging.status();
  product.data = products;
  const auto largest = [](const uhal_tensor* view) { return view->dtype == UHAL_INT8 ? 128 : 255; };
  const int64_t part = (1 << 24) / (largest(launch.op.inputs[0]) * largest(launch.op.inputs[1]));
  uhal_matmul_attributes attributes = {};
  attributes.alpha = 1;
  const int64_t k = a->shape[a->rank - 1];
  auto* sums = static_cast<uint32_t*>(d->data);
  for (int64_t first = 0; first == 0 || first < k; first += part) {
    const int64_t terms = std::min(part, k - first);
    const uhal_tensor left = part_of(*a, a->rank - 1, first, terms);
    const uhal_tensor right = part_of(*b, b->rank - 2, first, terms);
    const uhal_status status = matmul_float32(matmul_problem(attributes, left, right, nullptr, product));
    if (status != UHAL_OK) return status;
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto whole = static_cast<uint32_t>(static_cast<int32_t>(products[i]));
        sums[i] = first == 0 ? whole : sums[i] + whole;
      }
    });
  }
  if (given.activation == UHAL_ACTIVATION_RELU) {
    for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<int32_t>(sums[i]) < 0 ? 0 : sums[i];
  }
  return staging.finish();
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

// A product whose operands all are of one complex dtype.
bool run_complex_as_it_is(const uhal_op& op, const uhal_matmul_attributes& attributes) {
  const uhal_tensor &a = *op.inputs[0], &b = *op.inputs[1], &d = *op.outputs[0];
  const uhal_tensor* c = attributes.beta != 0 ? input_of(op, 2) : nullptr;
  if (a.dtype != d.dtype || b.dtype != d.dtype || (c != nullptr && c->dtype != d.dtype)) return false;
  MatmulProblem problem = matmul_problem(attributes, a, b, c, d);
  simplify(problem);
  if (d.dtype == UHAL_COMPLEX64) {
    return matmul_of_complex<float>(problem) || matmul_with_blas<std::complex<float>>(problem);
  }
  return matmul_of_complex<double>(problem) || matmul_with_blas<std::complex<double>>(problem);
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

uhal_status matmul_float32(MatmulProblem problem) {
  simplify(problem);
  uhal_status status;
  return matmul_with_onednn(problem, &status) ? status : run_with_gemm<float>(problem);
}

const char* refuse_matmul(const uhal_op& op) { return refuse_matmul_operands(op); }

uhal_status run_matmul(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_matmul_attributes attributes = matmul_attributes(op);
  if (element_count(*op.outputs[0]) == 0) return UHAL_OK;
  if (is_complex_matmul(op)) return run_complex_as_it_is(op, attributes) ? UHAL_OK : run_complex(launch);
  if (is_byte_product(op, attributes)) return run_bytes(launch, attributes);
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
    status = matmul_with_blas<double>(problem) ? UHAL_OK : run_with_gemm<double>(problem);
  } else if (dtype == UHAL_INT64) {
    status = run_with_gemm<int64_t>(problem);
  } else if (!matmul_with_onednn(problem, &status)) {
    status = run_with_gemm<float>(problem);
  }
  return status == UHAL_OK ? staging.finish() : status;
}

}  // namespace unihal::stub
