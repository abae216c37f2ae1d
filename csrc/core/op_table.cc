#include "csrc/core/op_table.h"

#include <cstring>
#include <string>

#include "csrc/core/op_checks.h"
#include "csrc/core/op_cost.h"

namespace unihal::core {
namespace {

// Attributes that are in force where the caller gave NULL (op.h).
constexpr uhal_fill_attributes kFill = {sizeof kFill, 0, 0};
constexpr uhal_iota_attributes kIota = {sizeof kIota, 0, 1, 0, 1};
constexpr uhal_triangular_attributes kTriangular = {sizeof kTriangular, 0, 0, 0};
constexpr uhal_index_attributes kIndex = {sizeof kIndex, 0, 0, UHAL_REDUCE_NONE, 0, 0, 0};
constexpr uhal_reduce_attributes kReduce = {sizeof kReduce, UHAL_REDUCE_SUM, 0};
constexpr uhal_axis_attributes kAxis = {sizeof kAxis, 0, 0};
constexpr uhal_scan_attributes kScan = {sizeof kScan, 0, UHAL_REDUCE_SUM, 0, 0};
constexpr uhal_matmul_attributes kMatmul = {sizeof kMatmul, 1, 1, UHAL_ACTIVATION_NONE, 0};
constexpr uhal_convolution_attributes kConvolution = {
    sizeof kConvolution, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, UHAL_ACTIVATION_NONE, 0};
constexpr uhal_softmax_attributes kSoftmax = {sizeof kSoftmax, -1, 0};
constexpr uhal_cross_entropy_attributes kCrossEntropy = {sizeof kCrossEntropy, -1, 0, 0};
constexpr uhal_norm_attributes kNorm = {sizeof kNorm, 1e-5, 0.9, 0, 0, -1, UHAL_ACTIVATION_NONE, 1};
constexpr uhal_attention_attributes kAttention = {sizeof kAttention, 0, 0, 0};
constexpr uhal_random_attributes kRandom = {sizeof kRandom, UHAL_RANDOM_UNIFORM, 0, 0, {0, 0}, 0, 1};
constexpr uhal_resize_attributes kResize = {sizeof kResize, UHAL_RESIZE_NEAREST, 0, 0, 0, {0, 0, 0}};
// Without defaults: the structs are required, these only give their sizes.
constexpr uhal_map_attributes kMap = {sizeof kMap};
constexpr uhal_pool_attributes kPool = {sizeof kPool};

// A row as it is written below: operands are names, "?" marks an optional one.
struct RowText {
  uhal_op_kind kind;
  const char* name;
  const char* inputs;
  const char* outputs;
  const void* attributes;
  size_t attributes_size;
  bool attributes_required;
  uint32_t in_place;
  uhal_status (*check)(const OpView& op);
  uint64_t (*flops)(const OpView& op);
};

#define NO_ATTRIBUTES nullptr, 0, false
#define OPTIONAL(attributes) &attributes, sizeof attributes, false
#define REQUIRED(attributes) &attributes, sizeof attributes, true

constexpr uint32_t kNotInPlace = 0;
constexpr uint32_t input_number(int i) { return 1u << i; }                          // any output, of this input
constexpr uint32_t same_number(int i) { return input_number(kOwnPlaceShift + i); }  // output i, of input i
constexpr uint32_t kAnyInput = (1u << kMaxOperands) - 1;

// clang-format off
const RowText kRows[] = {
    {UHAL_OP_MAP, "map", "x0? x1? x2? x3? x4? x5? x6? x7?", "y0 y1? y2? y3?", REQUIRED(kMap), kAnyInput,
     check_map, map_flops},
    {UHAL_OP_COPY, "copy", "x", "y", NO_ATTRIBUTES, kNotInPlace, check_copy, no_flops},
    {UHAL_OP_CAST, "cast", "x", "y", NO_ATTRIBUTES, input_number(0), check_cast, no_flops},
    {UHAL_OP_FILL, "fill", "", "y", OPTIONAL(kFill), kNotInPlace, check_nothing, no_flops},
    {UHAL_OP_IOTA, "iota", "", "y", OPTIONAL(kIota), kNotInPlace, check_iota, no_flops},
    {UHAL_OP_TRIANGULAR, "triangular", "x", "y", OPTIONAL(kTriangular), input_number(0), check_triangular, no_flops},

    {UHAL_OP_GATHER, "gather", "x indices", "y", OPTIONAL(kIndex), kNotInPlace, check_gather, no_flops},
    {UHAL_OP_SCATTER, "scatter", "indices updates", "y", OPTIONAL(kIndex), kNotInPlace, check_scatter, input_1_flops},
    {UHAL_OP_GATHER_ND, "gather_nd", "x indices", "y", OPTIONAL(kIndex), kNotInPlace, check_gather_nd, no_flops},
    {UHAL_OP_SCATTER_ND, "scatter_nd", "indices updates", "y", OPTIONAL(kIndex), kNotInPlace, check_scatter_nd,
     input_1_flops},
    {UHAL_OP_GATHER_ELEMENTS, "gather_elements", "x indices", "y", OPTIONAL(kIndex), kNotInPlace,
     check_gather_elements, no_flops},
    {UHAL_OP_SCATTER_ELEMENTS, "scatter_elements", "indices updates", "y", OPTIONAL(kIndex), kNotInPlace,
     check_scatter_elements, input_1_flops},
    {UHAL_OP_ONE_HOT, "one_hot", "indices", "y", OPTIONAL(kIndex), kNotInPlace, check_one_hot, no_flops},

    {UHAL_OP_REDUCE, "reduce", "x", "y", OPTIONAL(kReduce), kNotInPlace, check_reduce, input_0_flops},
    {UHAL_OP_ARG_REDUCE, "arg_reduce", "x", "y", OPTIONAL(kAxis), kNotInPlace, check_arg_reduce, input_0_flops},
    {UHAL_OP_SCAN, "scan", "x", "y", OPTIONAL(kScan), kNotInPlace, check_scan, input_0_flops},
    {UHAL_OP_SORT, "sort", "x", "values indices?", OPTIONAL(kAxis), kNotInPlace, check_sort, no_flops},
    {UHAL_OP_TOP_K, "top_k", "x", "values indices", OPTIONAL(kAxis), kNotInPlace, check_top_k, no_flops},

    {UHAL_OP_MATMUL, "matmul", "a b c?", "d", OPTIONAL(kMatmul), input_number(2), check_matmul, matmul_flops},

    {UHAL_OP_CONVOLUTION, "convolution", "x w bias?", "y", OPTIONAL(kConvolution), kNotInPlace,
     check_convolution, convolution_flops},
    {UHAL_OP_CONVOLUTION_BACKWARD_DATA, "convolution_backward_data", "dy w", "dx", OPTIONAL(kConvolution),
     kNotInPlace, check_convolution_backward_data, convolution_backward_data_flops},
    {UHAL_OP_CONVOLUTION_BACKWARD_FILTER, "convolution_backward_filter", "x dy", "dw dbias?", OPTIONAL(kConvolution),
     kNotInPlace, check_convolution_backward_filter, convolution_backward_filter_flops},
    {UHAL_OP_POOL, "pool", "x", "y indices?", REQUIRED(kPool), kNotInPlace, check_pool, pool_flops},
    {UHAL_OP_POOL_BACKWARD, "pool_backward", "dy x? y?", "dx", REQUIRED(kPool), kNotInPlace, check_pool_backward,
     pool_backward_flops},

    {UHAL_OP_SOFTMAX, "softmax", "x", "y", OPTIONAL(kSoftmax), input_number(0), check_softmax, softmax_flops},
    {UHAL_OP_SOFTMAX_BACKWARD, "softmax_backward", "y dy", "dx", OPTIONAL(kSoftmax), kNotInPlace,
     check_softmax_backward, softmax_flops},
    {UHAL_OP_CROSS_ENTROPY, "cross_entropy", "logits labels weights?", "loss probabilities? gradient?",
     OPTIONAL(kCrossEntropy), kNotInPlace, check_cross_entropy, softmax_flops},
    {UHAL_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", "probabilities labels dloss", "dlogits",
     OPTIONAL(kCrossEntropy), kNotInPlace, check_cross_entropy_backward, softmax_flops},
    {UHAL_OP_BATCH_NORM, "batch_norm", "x scale? bias? running_mean? running_variance?",
     "y mean? variance? running_mean? running_variance?", OPTIONAL(kNorm), same_number(3) | same_number(4),
     check_batch_norm, norm_flops},
    {UHAL_OP_BATCH_NORM_BACKWARD, "batch_norm_backward", "x dy scale? mean variance", "dx dscale? dbias?",
     OPTIONAL(kNorm), kNotInPlace, check_batch_norm_backward, norm_flops},
    {UHAL_OP_LAYER_NORM, "layer_norm", "x scale? bias?", "y mean? variance?", OPTIONAL(kNorm), kNotInPlace,
     check_layer_norm, norm_flops},
    {UHAL_OP_LAYER_NORM_BACKWARD, "layer_norm_backward", "x dy scale? mean variance", "dx dscale? dbias?",
     OPTIONAL(kNorm), kNotInPlace, check_layer_norm_backward, norm_flops},
    {UHAL_OP_GROUP_NORM, "group_norm", "x scale? bias?", "y mean? variance?", OPTIONAL(kNorm), kNotInPlace,
     check_group_norm, norm_flops},
    {UHAL_OP_GROUP_NORM_BACKWARD, "group_norm_backward", "x dy scale? mean variance", "dx dscale? dbias?",
     OPTIONAL(kNorm), kNotInPlace, check_group_norm_backward, norm_flops},
    {UHAL_OP_RMS_NORM, "rms_norm", "x scale?", "y inverse_rms?", OPTIONAL(kNorm), kNotInPlace, check_rms_norm,
     norm_flops},
    {UHAL_OP_RMS_NORM_BACKWARD, "rms_norm_backward", "x dy scale? inverse_rms", "dx dscale?", OPTIONAL(kNorm),
     kNotInPlace, check_rms_norm_backward, norm_flops},

    {UHAL_OP_ATTENTION, "attention", "q k v mask?", "y logsumexp?", OPTIONAL(kAttention), kNotInPlace,
     check_attention, attention_flops},
    {UHAL_OP_ATTENTION_BACKWARD, "attention_backward", "q k v mask? y logsumexp dy", "dq dk dv",
     OPTIONAL(kAttention), kNotInPlace, check_attention_backward, attention_backward_flops},

    {UHAL_OP_RANDOM, "random", "", "y", OPTIONAL(kRandom), kNotInPlace, check_random, no_flops},
    {UHAL_OP_DROPOUT, "dropout", "x", "y mask", OPTIONAL(kRandom), kNotInPlace, check_dropout, input_0_flops},
    {UHAL_OP_RESIZE, "resize", "x", "y", OPTIONAL(kResize), kNotInPlace, check_resize, output_0_flops},
    {UHAL_OP_RESIZE_BACKWARD, "resize_backward", "dy", "dx", OPTIONAL(kResize), kNotInPlace, check_resize_backward,
     input_0_flops},
};
// clang-format on

// Splits "x w bias?" into names; they live as long as the process.
OperandList parse_operands(const std::string& text) {
  OperandList list;
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find(' ', start);
    if (end == std::string::npos) end = text.size();
    bool optional = text[end - 1] == '?';
    std::string name = text.substr(start, end - start - (optional ? 1 : 0));
    list.names[list.count] = strdup(name.c_str());
    list.optional[list.count] = optional;
    ++list.count;
    if (!optional) list.required = list.count;
    start = end + 1;
  }
  return list;
}

// All kinds by number, parsed once.
struct Rows {
  OpRow rows[UHAL_OP_KIND_LIMIT] = {};
  Rows() {
    for (const RowText& text : kRows) {
      rows[text.kind] = {text.kind,
                         text.name,
                         parse_operands(text.inputs),
                         parse_operands(text.outputs),
                         text.attributes,
                         text.attributes_size,
                         text.attributes_required,
                         text.in_place,
                         text.check,
                         text.flops};
    }
  }
};

}  // namespace

const OpRow* find_op_row(uhal_op_kind kind) {
  static const Rows* const table = new Rows;
  if (kind <= UHAL_OP_INVALID || kind >= UHAL_OP_KIND_LIMIT || table->rows[kind].name == nullptr) return nullptr;
  return &table->rows[kind];
}

}  // namespace unihal::core

const char* uhal_op_kind_name(uhal_op_kind kind) {
  const unihal::core::OpRow* row = unihal::core::find_op_row(kind);
  return row != nullptr ? row->name : "invalid";
}
