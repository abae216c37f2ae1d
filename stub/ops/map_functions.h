// The rows of elementwise.def as the stub's kernels need them, and parameters in the type that a function computes in.
#pragma once

#include <cstring>
#include <type_traits>

#include "csrc/backends/common/map_rules.h"
#include "stub/vector/compute.h"

namespace unihal::stub {

struct MapFunctionInfo {
  const char* name;
  int32_t inputs;
  int32_t outputs;
  bool integer;
  int32_t flops;
};

enum MapDomain { INTEGER, FLOATING };

inline constexpr MapFunctionInfo kMapFunctions[] = {
#define UHAL_MAP1(name, domain, flops, expression) {#name, 1, 1, domain == INTEGER, flops},
#define UHAL_MAP2(name, domain, flops, expression) {#name, 2, 1, domain == INTEGER, flops},
#define UHAL_MAP3(name, domain, flops, expression) {#name, 3, 1, domain == INTEGER, flops},
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) {#name, inputs, outputs, false, flops},
#include "csrc/tables/elementwise.def"
#undef UHAL_MAP1
#undef UHAL_MAP2
#undef UHAL_MAP3
#undef UHAL_UPDATE
};

// The enumerators of both are in one order.
inline ComputeType compute_type_of(Arithmetic arithmetic) {
  static_assert(int{kFloat} == static_cast<int>(Arithmetic::kFloat) &&
                int{kComplexDouble} == static_cast<int>(Arithmetic::kComplexDouble));
  return static_cast<ComputeType>(arithmetic);
}

template <class T>
void convert_map_parameters_to(const double* from, void* to) {
  for (int i = 0; i < UHAL_MAP_MAX_PARAMETERS; ++i) {
    T value;
    if constexpr (std::is_integral_v<T>) {
      value = integer_parameter<T>(from[i]);
    } else {
      value = static_cast<T>(from[i]);
    }
    std::memcpy(static_cast<char*>(to) + i * static_cast<int>(sizeof(T)), &value, sizeof value);
  }
}

// UHAL_MAP_MAX_PARAMETERS parameters of a compute type, or of its parts, as a MapLoop takes them.
inline void convert_map_parameters(ComputeType type, const double* from, double* to) {
  switch (type) {
    case kFloat:
    case kComplexFloat:
    case kFloat16:
    case kBfloat16:
      return convert_map_parameters_to<float>(from, to);
    case kDouble:
    case kComplexDouble:
      return convert_map_parameters_to<double>(from, to);
    default:
      return convert_map_parameters_to<int64_t>(from, to);
  }
}

}  // namespace unihal::stub
