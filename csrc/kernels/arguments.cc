#include <array>

#include "csrc/kernels/kernel_launch.h"

namespace unihal::kernels {

Arguments& Arguments::real(double value, Compute type) {
  switch (type) {
    case Compute::kFloat:
      return float32(static_cast<float>(value));
    case Compute::kDouble:
      return float64(value);
    case Compute::kComplexFloat:
      return value_of(std::array<float, 2>{static_cast<float>(value), 0});
    case Compute::kComplexDouble:
      return value_of(std::array<double, 2>{value, 0});
    case Compute::kInt64:
      return int64(static_cast<int64_t>(value));
    default:
      return value_of(static_cast<uint64_t>(value));
  }
}

}  // namespace unihal::kernels
