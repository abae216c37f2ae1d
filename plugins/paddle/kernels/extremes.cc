// The larger and the smaller of two numbers where a NaN counts for nothing.
#include "plugins/paddle/kernels/maps.h"

namespace unihal::paddle {

KernelTable extreme_kernels() {
  return {
      UNIHAL_KERNEL("fmax", kNumbers, binary<uhal_map_fmax>),
      UNIHAL_KERNEL("fmin", kNumbers, binary<uhal_map_fmin>),
  };
}

}  // namespace unihal::paddle
