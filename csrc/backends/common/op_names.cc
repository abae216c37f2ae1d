#include "csrc/backends/common/op_names.h"

#include "csrc/tables/elementwise.h"

namespace unihal {
namespace {

struct KindName {
  uhal_op_kind kind;
  const char* name;
};

constexpr KindName kKinds[] = {
#define UHAL_OP_KIND(number, KIND, name, ...) {UHAL_OP_##KIND, #name},
#include "csrc/tables/op_kinds.def"
};

constexpr const char* kMapFunctions[] = {
#define UHAL_MAP1(name, domain, flops, expression) #name,
#define UHAL_MAP2(name, domain, flops, expression) #name,
#define UHAL_MAP3(name, domain, flops, expression) #name,
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) #name,
#include "csrc/tables/elementwise.def"
#undef UHAL_MAP1
#undef UHAL_MAP2
#undef UHAL_MAP3
#undef UHAL_UPDATE
};

}  // namespace

const char* op_kind_name(uhal_op_kind kind) {
  for (const KindName& row : kKinds) {
    if (row.kind == kind) return row.name;
  }
  return nullptr;
}

const char* map_function_name(uhal_map_function function) {
  return function >= 0 && function < uhal_map_function_limit ? kMapFunctions[function] : nullptr;
}

std::string op_name(const uhal_op& op) {
  const char* kind = op_kind_name(op.kind);
  if (kind == nullptr) return "op kind " + std::to_string(op.kind);
  if (op.kind != UHAL_OP_MAP || op.attributes == nullptr) return kind;
  const char* function = map_function_name(static_cast<const uhal_map_attributes*>(op.attributes)->function);
  return function == nullptr ? kind : std::string(kind) + "." + function;
}

bool find_op(const std::string& name, uhal_op_kind* kind, uhal_map_function* function) {
  constexpr char kMapPrefix[] = "map.";
  constexpr size_t kPrefixLength = sizeof kMapPrefix - 1;
  *function = -1;
  for (const KindName& row : kKinds) {
    if (name != row.name) continue;
    *kind = row.kind;
    return true;
  }
  if (name.compare(0, kPrefixLength, kMapPrefix) != 0) return false;
  for (uhal_map_function i = 0; i < uhal_map_function_limit; ++i) {
    if (name.compare(kPrefixLength, std::string::npos, kMapFunctions[i]) != 0) continue;
    *kind = UHAL_OP_MAP;
    *function = i;
    return true;
  }
  return false;
}

}  // namespace unihal
