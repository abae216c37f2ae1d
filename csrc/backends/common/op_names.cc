#include "csrc/backends/common/op_names.h"

#include "csrc/kernels/elementwise.h"

namespace unihal {
namespace {

struct KindName {
  uhal_op_kind kind;
  const char* name;
};

constexpr KindName kKinds[] = {
    {UHAL_OP_MAP, "map"},
    {UHAL_OP_COPY, "copy"},
    {UHAL_OP_CAST, "cast"},
    {UHAL_OP_FILL, "fill"},
    {UHAL_OP_IOTA, "iota"},
    {UHAL_OP_TRIANGULAR, "triangular"},
    {UHAL_OP_GATHER, "gather"},
    {UHAL_OP_SCATTER, "scatter"},
    {UHAL_OP_GATHER_ND, "gather_nd"},
    {UHAL_OP_SCATTER_ND, "scatter_nd"},
    {UHAL_OP_GATHER_ELEMENTS, "gather_elements"},
    {UHAL_OP_SCATTER_ELEMENTS, "scatter_elements"},
    {UHAL_OP_ONE_HOT, "one_hot"},
    {UHAL_OP_REDUCE, "reduce"},
    {UHAL_OP_ARG_REDUCE, "arg_reduce"},
    {UHAL_OP_SCAN, "scan"},
    {UHAL_OP_SORT, "sort"},
    {UHAL_OP_TOP_K, "top_k"},
    {UHAL_OP_MATMUL, "matmul"},
    {UHAL_OP_CONVOLUTION, "convolution"},
    {UHAL_OP_CONVOLUTION_BACKWARD_DATA, "convolution_backward_data"},
    {UHAL_OP_CONVOLUTION_BACKWARD_FILTER, "convolution_backward_filter"},
    {UHAL_OP_POOL, "pool"},
    {UHAL_OP_POOL_BACKWARD, "pool_backward"},
    {UHAL_OP_SOFTMAX, "softmax"},
    {UHAL_OP_SOFTMAX_BACKWARD, "softmax_backward"},
    {UHAL_OP_CROSS_ENTROPY, "cross_entropy"},
    {UHAL_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward"},
    {UHAL_OP_BATCH_NORM, "batch_norm"},
    {UHAL_OP_BATCH_NORM_BACKWARD, "batch_norm_backward"},
    {UHAL_OP_LAYER_NORM, "layer_norm"},
    {UHAL_OP_LAYER_NORM_BACKWARD, "layer_norm_backward"},
    {UHAL_OP_GROUP_NORM, "group_norm"},
    {UHAL_OP_GROUP_NORM_BACKWARD, "group_norm_backward"},
    {UHAL_OP_RMS_NORM, "rms_norm"},
    {UHAL_OP_RMS_NORM_BACKWARD, "rms_norm_backward"},
    {UHAL_OP_ATTENTION, "attention"},
    {UHAL_OP_ATTENTION_BACKWARD, "attention_backward"},
    {UHAL_OP_RANDOM, "random"},
    {UHAL_OP_DROPOUT, "dropout"},
    {UHAL_OP_RESIZE, "resize"},
    {UHAL_OP_RESIZE_BACKWARD, "resize_backward"},
};

constexpr const char* kMapFunctions[] = {
#define UHAL_MAP1(name, domain, flops, expression) #name,
#define UHAL_MAP2(name, domain, flops, expression) #name,
#define UHAL_MAP3(name, domain, flops, expression) #name,
#define UHAL_UPDATE(name, inputs, outputs, flops, ...) #name,
#include "csrc/kernels/elementwise.def"
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
