// Factorizations, which have no kernels: the host's run, counted.

#include "csrc/kernels/ops.h"

namespace unihal::kernels {

#define UNIHAL_NO_KERNEL(family, what)                               \
  const char* refuse_##family(const DeviceTraits&, const uhal_op&) { \
    return refusal("there is no kernel for " what " yet");           \
  }                                                                  \
  uhal_status run_##family(Queue&, const uhal_op&) { return fail(UHAL_INTERNAL, what " has no kernel"); }

UNIHAL_NO_KERNEL(triangular_solve, "triangular_solve")
UNIHAL_NO_KERNEL(cholesky, "cholesky")
UNIHAL_NO_KERNEL(lu, "lu")
UNIHAL_NO_KERNEL(qr, "qr")
UNIHAL_NO_KERNEL(eigen_symmetric, "eigen_symmetric")
UNIHAL_NO_KERNEL(svd, "svd")
UNIHAL_NO_KERNEL(eigen, "eigen")

#undef UNIHAL_NO_KERNEL

}  // namespace unihal::kernels
