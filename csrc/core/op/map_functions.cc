// The table of map functions, made from the lines of elementwise.def.
#include <cstring>

#include "csrc/core/base/struct_size.h"
#include "csrc/core/op/table.h"
#include "csrc/tables/elementwise.h"
#include "unihal/op.h"

namespace {

enum Domain { FLOATING = 0, INTEGER = 1 };

// By number; NULL where a function has no complex form.
struct ComplexForms {
  const char* of[uhal_map_function_limit] = {};
  constexpr ComplexForms() {
#define UHAL_COMPLEX1(name, expression) of[uhal_map_##name] = #expression;
#define UHAL_COMPLEX2 UHAL_COMPLEX1
#define UHAL_COMPLEX3 UHAL_COMPLEX1
#include "csrc/tables/complex.def"
#undef UHAL_COMPLEX1
#undef UHAL_COMPLEX2
#undef UHAL_COMPLEX3
  }
};
constexpr ComplexForms kComplexForms;

}  // namespace

namespace unihal::core {

const uhal_map_function_info map_function_rows[] = {
#define UHAL_MAP1(name, domain, flops, expression) \
  {sizeof(uhal_map_function_info), #name, 1, 1, domain, flops, #expression, kComplexForms.of[uhal_map_##name]},
#define UHAL_MAP2(name, domain, flops, expression) \
  {sizeof(uhal_map_function_info), #name, 2, 1, domain, flops, #expression, kComplexForms.of[uhal_map_##name]},
#define UHAL_MAP3(name, domain, flops, expression) \
  {sizeof(uhal_map_function_info), #name, 3, 1, domain, flops, #expression, kComplexForms.of[uhal_map_##name]},
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) \
  {sizeof(uhal_map_function_info), #name, inputs, outputs, FLOATING, flops, #__VA_ARGS__, nullptr},
#include "csrc/tables/elementwise.def"
#undef UHAL_MAP1
#undef UHAL_MAP2
#undef UHAL_MAP3
#undef UHAL_UPDATE
};

static_assert(sizeof map_function_rows / sizeof *map_function_rows == uhal_map_function_limit,
              "a row for each function");

}  // namespace unihal::core

size_t uhal_map_function_count(void) { return uhal_map_function_limit; }

uhal_status uhal_map_function_get(uhal_map_function function, uhal_map_function_info* info) {
  if (function < 0 || function >= uhal_map_function_limit) {
    return UHAL_FAIL(UHAL_OUT_OF_RANGE, "There is no map function number %d; they go from 0 to %d.", function,
                     uhal_map_function_limit - 1);
  }
  return unihal::core::copy_out(unihal::core::map_function_rows[function], info, "info");
}

uhal_map_function uhal_map_function_find(const char* name) {
  for (uhal_map_function i = 0; name != nullptr && i < uhal_map_function_limit; ++i) {
    if (strcmp(unihal::core::map_function_rows[i].name, name) == 0) return i;
  }
  return -1;
}
