#include "csrc/kernels/gemm.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"

namespace unihal::kernels {

const char* refuse_matmul(const DeviceTraits&, const uhal_op& op) { return refuse_matmul_operands(op); }

uhal_status run_matmul(Queue& queue, const uhal_op& op) {
  const Gemm gemm(queue.traits(),
                  matmul_problem(matmul_attributes(op), *op.inputs[0], *op.inputs[1], input_of(op, 2), *op.outputs[0]));
  void* workspace = nullptr;
  if (gemm.workspace_bytes() != 0) {
    const uhal_status status = queue.workspace(gemm.workspace_bytes(), &workspace);
    if (status != UHAL_OK) return status;
  }
  return gemm.run(queue, workspace);
}

}  // namespace unihal::kernels
