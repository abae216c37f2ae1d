#include "csrc/kernels/gemm.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"

namespace unihal::kernels {
namespace {

Gemm gemm_of(const DeviceTraits& traits, const uhal_op& op) {
  return {traits, matmul_problem(matmul_attributes(op), *op.inputs[0], *op.inputs[1], input_of(op, 2), *op.outputs[0])};
}

}  // namespace

const char* refuse_matmul(const DeviceTraits&, const uhal_op& op) { return refuse_matmul_operands(op); }

uhal_status run_matmul(Queue& queue, const uhal_op& op) {
  const Gemm gemm = gemm_of(queue.traits(), op);
  void* workspace = nullptr;
  if (gemm.workspace_bytes() != 0) {
    const uhal_status status = queue.workspace(gemm.workspace_bytes(), &workspace);
    if (status != UHAL_OK) return status;
  }
  return gemm.run(queue, workspace);
}

Tunable tunable_matmul(const DeviceTraits& traits, const uhal_op& op) {
  if (refuse_matmul_operands(op) != nullptr) return {};
  const Gemm gemm = gemm_of(traits, op);
  if (!gemm.is_tunable()) return {};
  return {gemm.tuning_key(), Gemm::candidate_count(), Gemm::candidate_name,
          [](const DeviceTraits& device, const uhal_op& given, int32_t number, TuningChoice* choice) {
            return gemm_of(device, given).find_choice(device, number, choice);
          }};
}

}  // namespace unihal::kernels
