// The functions of elementwise.def as text, for kernels that are compiled at run time.
#ifndef UNIHAL_KERNELS_MAP_FUNCTION_H_
#define UNIHAL_KERNELS_MAP_FUNCTION_H_

#include "csrc/kernels/kernel_spec.h"
#include "csrc/tables/elementwise.h"

namespace unihal::kernels {

struct MapFunction {
  const char* name;
  int32_t inputs;
  int32_t outputs;
  bool integer;  // domain INTEGER of elementwise.def
  // Statements that set r0, r1, ... . They read x0, x1, ... (x, y and z are other names of the first three) and the
  // parameters p0, p1, ..., and call what prelude/map_functions.h defines.
  const char* text;
  const char* complex_text;  // the same on complex numbers; nullptr where the function has no complex form
};

inline constexpr int kMapFunctionCount = uhal_map_function_limit;

// `function` is a number of elementwise.h.
const MapFunction& map_function(uhal_map_function function);

// The map function that an activation is; the identity for none.
uhal_map_function activation_function(uhal_activation activation);

// Whether a value that was rounded before becomes the same as one that is rounded afterwards.
inline bool commutes_with_rounding(uhal_activation activation) {
  return activation == UHAL_ACTIVATION_NONE || activation == UHAL_ACTIVATION_RELU ||
         activation == UHAL_ACTIVATION_RELU6;
}

// Makes uhal_activate(x) of prelude/map_functions.h this activation, of the same text as the map function.
void define_activation(KernelSpec& spec, uhal_activation activation);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_MAP_FUNCTION_H_
