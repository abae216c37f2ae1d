#include "csrc/kernels/map_function.h"

namespace unihal::kernels {
namespace {

enum Domain { FLOATING = 0, INTEGER = 1 };

// By number; nullptr where a function has no complex form.
struct ComplexTexts {
  const char* of[uhal_map_function_limit] = {};
  constexpr ComplexTexts() {
#define UHAL_COMPLEX1(name, expression) of[uhal_map_##name] = "r0 = " #expression;
#define UHAL_COMPLEX2 UHAL_COMPLEX1
#define UHAL_COMPLEX3 UHAL_COMPLEX1
#include "csrc/tables/complex.def"
#undef UHAL_COMPLEX1
#undef UHAL_COMPLEX2
#undef UHAL_COMPLEX3
  }
};
constexpr ComplexTexts kComplexTexts;

constexpr MapFunction kFunctions[] = {
#define UHAL_MAP1(name, domain, flops, expression) \
  {#name, 1, 1, domain == INTEGER, "r0 = " #expression, kComplexTexts.of[uhal_map_##name]},
#define UHAL_MAP2(name, domain, flops, expression) \
  {#name, 2, 1, domain == INTEGER, "r0 = " #expression, kComplexTexts.of[uhal_map_##name]},
#define UHAL_MAP3(name, domain, flops, expression) \
  {#name, 3, 1, domain == INTEGER, "r0 = " #expression, kComplexTexts.of[uhal_map_##name]},
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) {#name, inputs, outputs, false, #__VA_ARGS__, nullptr},
#include "csrc/tables/elementwise.def"
#undef UHAL_MAP1
#undef UHAL_MAP2
#undef UHAL_MAP3
#undef UHAL_UPDATE
};

static_assert(sizeof kFunctions / sizeof *kFunctions == uhal_map_function_limit, "a row for each function");

// By uhal_activation.
constexpr uhal_map_function kActivations[] = {
    uhal_map_identity, uhal_map_relu, uhal_map_gelu_erf, uhal_map_gelu_tanh,
    uhal_map_sigmoid,  uhal_map_tanh, uhal_map_silu,     uhal_map_relu6,
};

}  // namespace

const MapFunction& map_function(uhal_map_function function) { return kFunctions[function]; }

uhal_map_function activation_function(uhal_activation activation) { return kActivations[activation]; }

void define_activation(KernelSpec& spec, uhal_activation activation) {
  spec.define("UHAL_ACTIVATION", activation);
  if (activation != UHAL_ACTIVATION_NONE) {
    spec.define_text("UHAL_ACTIVATION_EXPRESSION", map_function(activation_function(activation)).text);
  }
}

}  // namespace unihal::kernels
