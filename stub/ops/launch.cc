#include "stub/ops/launch.h"

#include <new>

#include "csrc/backends/common/dtype.h"

namespace unihal::stub {
namespace {

constexpr Kernel kKernels[] = {
    {UHAL_OP_MAP, refuse_map, run_map},
    {UHAL_OP_COPY, refuse_copy, run_copy},
    {UHAL_OP_CAST, refuse_copy, run_copy},
    {UHAL_OP_FILL, refuse_generate, run_generate},
    {UHAL_OP_IOTA, refuse_generate, run_generate},
    {UHAL_OP_TRIANGULAR, refuse_generate, run_generate},
    {UHAL_OP_GATHER, refuse_index, run_index},
    {UHAL_OP_SCATTER, refuse_index, run_index},
    {UHAL_OP_GATHER_ND, refuse_index, run_index},
    {UHAL_OP_SCATTER_ND, refuse_index, run_index},
    {UHAL_OP_GATHER_ELEMENTS, refuse_index, run_index},
    {UHAL_OP_SCATTER_ELEMENTS, refuse_index, run_index},
    {UHAL_OP_ONE_HOT, refuse_generate, run_generate},
    {UHAL_OP_REDUCE, refuse_reduce, run_reduce},
    {UHAL_OP_ARG_REDUCE, refuse_axis, run_axis},
    {UHAL_OP_SCAN, refuse_axis, run_axis},
    {UHAL_OP_SORT, refuse_axis, run_axis},
    {UHAL_OP_TOP_K, refuse_axis, run_axis},
    {UHAL_OP_MATMUL, refuse_matmul, run_matmul},
    {UHAL_OP_CONVOLUTION, refuse_convolution, run_convolution},
    {UHAL_OP_CONVOLUTION_BACKWARD_DATA, refuse_convolution, run_convolution},
    {UHAL_OP_CONVOLUTION_BACKWARD_FILTER, refuse_convolution, run_convolution},
    {UHAL_OP_POOL, refuse_pool, run_pool},
    {UHAL_OP_POOL_BACKWARD, refuse_pool, run_pool},
    {UHAL_OP_SOFTMAX, refuse_softmax, run_softmax},
    {UHAL_OP_SOFTMAX_BACKWARD, refuse_softmax, run_softmax},
    {UHAL_OP_CROSS_ENTROPY, refuse_softmax, run_softmax},
    {UHAL_OP_CROSS_ENTROPY_BACKWARD, refuse_softmax, run_softmax},
    {UHAL_OP_BATCH_NORM, refuse_norm, run_norm},
    {UHAL_OP_BATCH_NORM_BACKWARD, refuse_norm, run_norm},
    {UHAL_OP_LAYER_NORM, refuse_norm, run_norm},
    {UHAL_OP_LAYER_NORM_BACKWARD, refuse_norm, run_norm},
    {UHAL_OP_GROUP_NORM, refuse_norm, run_norm},
    {UHAL_OP_GROUP_NORM_BACKWARD, refuse_norm, run_norm},
    {UHAL_OP_RMS_NORM, refuse_norm, run_norm},
    {UHAL_OP_RMS_NORM_BACKWARD, refuse_norm, run_norm},
    {UHAL_OP_ATTENTION, refuse_attention, run_attention},
    {UHAL_OP_ATTENTION_BACKWARD, refuse_attention, run_attention},
    {UHAL_OP_RANDOM, refuse_random, run_random},
    {UHAL_OP_DROPOUT, refuse_random, run_random},
    {UHAL_OP_RESIZE, refuse_resize, run_resize},
    {UHAL_OP_RESIZE_BACKWARD, refuse_resize, run_resize},
};

// The rows by kind, so that a launch finds its own without a search.
struct Index {
  const Kernel* rows[UHAL_OP_KIND_LIMIT] = {};
  constexpr Index() {
    for (const Kernel& kernel : kKernels) rows[kernel.kind] = &kernel;
  }
};
constexpr Index kIndex;

const Kernel* find(uhal_op_kind kind) { return kind > 0 && kind < UHAL_OP_KIND_LIMIT ? kIndex.rows[kind] : nullptr; }

const char* refuse(const Kernel* kernel, const uhal_op& op) {
  return kernel == nullptr ? refusal("the stub has no kernel for op kind %d", op.kind) : kernel->refuse(op);
}

}  // namespace

uhal_status supports(const uhal_op& op) {
  const char* reason = refuse(find(op.kind), op);
  return reason == nullptr ? UHAL_OK : fail(UHAL_UNIMPLEMENTED, "%s", reason);
}

uhal_status launch(uhal_stream* stream, const uhal_op& op) {
  const Kernel* kernel = find(op.kind);
  const char* reason = refuse(kernel, op);
  if (reason != nullptr) return fail(UHAL_UNIMPLEMENTED, "%s", reason);
  try {
    return kernel->run({op, stream});
  } catch (const std::bad_alloc&) {  // the cache of oneDNN's primitives grows
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left to prepare the op");
  }
}

}  // namespace unihal::stub
