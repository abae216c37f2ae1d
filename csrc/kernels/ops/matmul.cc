#include <algorithm>

#include "csrc/backends/common/complex_matmul.h"
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/map_chain.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"
#include "csrc/kernels/views.h"
#include "csrc/tables/elementwise.h"

namespace unihal::kernels {
namespace {

Gemm gemm_of(const DeviceTraits& traits, const uhal_op& op, Gemm::Padding padding = Gemm::Padding::kNever) {
  const uhal_tensor* const c = input_of(op, 2);
  return {traits, matmul_problem(matmul_attributes(op), *op.inputs[0], *op.inputs[1], c, *op.outputs[0]), padding};
}

uhal_status run_in_workspace(Queue& queue, const Gemm& gemm) {
  void* workspace = nullptr;
  if (gemm.workspace_bytes() != 0) {
    const uhal_status status = queue.workspace(gemm.workspace_bytes(), &workspace);
    if (status != UHAL_OK) return status;
  }
  return gemm.run(queue, workspace);
}

MapChain negative(const uhal_tensor& x, const uhal_tensor& y) {
  MapChain chain;
  const int from = chain.input(x);
  chain.output(chain.step(uhal_map_negative, {from}), y);
  return chain;
}

uhal_status run_complex(Queue& queue, const uhal_op& op) {
  const uhal_tensor& d = *op.outputs[0];
  if (std::find(d.shape, d.shape + d.rank, 0) != d.shape + d.rank) return UHAL_OK;
  ComplexMatmul complex(op);
  complex.use(kSomewhere);
  const size_t own_bytes = (complex.bytes() + 255) / 256 * 256;
  void* workspace;
  uhal_status status =
      queue.workspace(own_bytes + gemm_of(queue.traits(), complex.product()).workspace_bytes(), &workspace);
  if (status != UHAL_OK) return status;
  complex.use(workspace);
  const auto convert = [&](const uhal_tensor& from, const uhal_tensor& to) { return cast_views(queue, from, to); };
  const auto negate = [&](const uhal_tensor& from, const uhal_tensor& to) {
    return run_map_chain(queue, negative(from, to));
  };
  status = complex.prepare(convert, negate);
  if (status != UHAL_OK) return status;
  status = gemm_of(queue.traits(), complex.product()).run(queue, static_cast<char*>(workspace) + own_bytes);
  return status == UHAL_OK ? complex.finish(convert) : status;
}

}  // namespace

const char* refuse_matmul(const DeviceTraits&, const uhal_op& op) { return refuse_matmul_operands(op); }

uhal_status run_matmul(Queue& queue, const uhal_op& op) {
  if (is_complex_matmul(op)) return run_complex(queue, op);
  const Gemm gemm = gemm_of(queue.traits(), op, Gemm::Padding::kWhereFaster);
  const uhal_status status = run_in_workspace(queue, gemm);
  if (status != UHAL_RESOURCE_EXHAUSTED || !gemm.is_padded()) return status;
  return run_in_workspace(queue, gemm_of(queue.traits(), op));
}

Tunable tunable_matmul(const DeviceTraits& traits, const uhal_op& op) {
  if (refuse_matmul_operands(op) != nullptr || is_complex_matmul(op)) return {};
  const Gemm gemm = gemm_of(traits, op);
  if (!gemm.is_tunable()) return {};
  return {gemm.tuning_key(), Gemm::candidate_count(), Gemm::candidate_name,
          [](const DeviceTraits& device, const uhal_op& given, int32_t number, TuningChoice* choice) {
            return gemm_of(device, given).find_choice(device, number, choice);
          }};
}

}  // namespace unihal::kernels
