#include "csrc/core/op/table.h"

#include <cstring>
#include <string>

#include "csrc/core/op/checks.h"
#include "csrc/core/op/cost.h"
#include "csrc/tables/attributes.h"

namespace unihal::core {
namespace {

// Attributes that are in force where the caller gave NULL (op.h).
constexpr uhal_fill_attributes kFill = {sizeof kFill, 0, 0};
constexpr uhal_iota_attributes kIota = {sizeof kIota, 0, 1, 0, 1};
constexpr uhal_triangular_attributes kTriangular = {sizeof kTriangular, 0, 0, 0};
constexpr uhal_index_attributes kIndex = {sizeof kIndex, 0, 0, UHAL_REDUCE_NONE, 0, 0, 0};
constexpr uhal_segment_attributes kSegment = {sizeof kSegment, UHAL_REDUCE_SUM, UHAL_SEGMENT_UNSORTED, 0, 0, 0, 0};
constexpr uhal_reduce_attributes kReduce = {sizeof kReduce, UHAL_REDUCE_SUM, 0};
constexpr uhal_axis_attributes kAxis = {sizeof kAxis, 0, 0};
constexpr uhal_scan_attributes kScan = {sizeof kScan, 0, UHAL_REDUCE_SUM, 0, 0};
constexpr uhal_matmul_attributes kMatmul = {sizeof kMatmul, 1, 1, UHAL_ACTIVATION_NONE, 0};
constexpr uhal_matmul_quantized_attributes kMatmulQuantized = {sizeof kMatmulQuantized, 8, UHAL_ACTIVATION_NONE, 0, 0};
constexpr uhal_triangular_solve_attributes kTriangularSolve = {sizeof kTriangularSolve, 0, 0, 0, 0};
constexpr uhal_triangle_attributes kTriangle = {sizeof kTriangle, 0, 0};
constexpr uhal_convolution_attributes kConvolution = {
    sizeof kConvolution, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, UHAL_ACTIVATION_NONE, 0};
constexpr uhal_softmax_attributes kSoftmax = {sizeof kSoftmax, -1, 0};
constexpr uhal_cross_entropy_attributes kCrossEntropy = {sizeof kCrossEntropy, -1, 0, 0};
constexpr uhal_norm_attributes kNorm = {sizeof kNorm, 1e-5, 0.9, 0, 0, -1, UHAL_ACTIVATION_NONE, 1};
constexpr uhal_attention_attributes kAttention = {sizeof kAttention, 0, 0, 0};
constexpr uhal_random_attributes kRandom = {sizeof kRandom, UHAL_RANDOM_UNIFORM, 0, 0, {0, 0}, 0, 1};
constexpr uhal_random_distribution_attributes kRandomDistribution = {
    sizeof kRandomDistribution, UHAL_RANDOM_GAMMA, 0, 0, {0, 0}};
constexpr uhal_resize_attributes kResize = {sizeof kResize, UHAL_RESIZE_NEAREST, 0, 0, 0, {0, 0, 0}};
constexpr uhal_grid_sample_attributes kGridSample = {
    sizeof kGridSample, UHAL_GRID_SAMPLE_LINEAR, UHAL_GRID_SAMPLE_ZEROS, 0, 0, 0, 0};
constexpr uhal_roi_align_attributes kRoiAlign = {sizeof kRoiAlign, 1, 0, 0};
constexpr uhal_roi_pool_attributes kRoiPool = {sizeof kRoiPool, 1, UHAL_ROI_POOL_MAX, 0};
constexpr uhal_non_max_suppression_attributes kNonMaxSuppression = {sizeof kNonMaxSuppression, 0.5, 1, 0, 0, 0};
constexpr uhal_fft_attributes kFft = {sizeof kFft, UHAL_FFT_FORWARD, UHAL_FFT_UNSCALED, 1, {-1, -1, -1}};
constexpr uhal_search_attributes kSearch = {sizeof kSearch, 0, 0};
constexpr uhal_ctc_attributes kCtc = {sizeof kCtc, 0, 0};
constexpr uhal_rnn_attributes kRnn = {sizeof kRnn, UHAL_RNN_LSTM, 0, 0, UHAL_MATH_STRICT, 0};
// Without defaults: the structs are required, these only give their sizes.
constexpr uhal_map_attributes kMap = {sizeof kMap};
constexpr uhal_map_chain_attributes kMapChain = {sizeof kMapChain};
constexpr uhal_pool_attributes kPool = {sizeof kPool};

// A row as it is written below: operands are names, "?" marks an optional one.
struct RowText {
  uhal_op_kind kind;
  const char* name;
  const char* inputs;
  const char* outputs;
  const void* attributes;
  size_t attributes_size;
  size_t first_attributes_size;
  uint32_t grown_minor;
  bool attributes_required;
  uint32_t in_place;
  uhal_status (*check)(const OpView& op);
  uint64_t (*flops)(const OpView& op);
};

#define NO_ATTRIBUTES nullptr, 0, 0, 0, false
#define OPTIONAL(attributes) &attributes, sizeof attributes, sizeof attributes, 0, false
#define REQUIRED(attributes) &attributes, sizeof attributes, sizeof attributes, 0, true
#define GROWN(attributes, first_size, minor) &attributes, sizeof attributes, first_size, minor, false

constexpr uint32_t kNotInPlace = 0;
constexpr uint32_t input_number(int i) { return 1u << i; }                          // any output, of this input
constexpr uint32_t same_number(int i) { return input_number(kOwnPlaceShift + i); }  // output i, of input i
constexpr uint32_t kAnyInput = (1u << kMaxOperands) - 1;

const RowText kRowTexts[] = {
#define UHAL_OP_KIND(number, KIND, name, family, inputs, outputs, attributes, in_place, flops) \
  {UHAL_OP_##KIND, #name, inputs, outputs, attributes, in_place, check_##name, flops},
#include "csrc/tables/op_kinds.def"
};

#define UHAL_OP_KIND(number, KIND, name, ...) static_assert(UHAL_OP_##KIND == number, "op.h and op_kinds.def differ");
#include "csrc/tables/op_kinds.def"

#undef NO_ATTRIBUTES
#undef OPTIONAL
#undef REQUIRED
#undef GROWN
#define NO_ATTRIBUTES 0
#define OPTIONAL(attributes) sizeof attributes
#define REQUIRED(attributes) sizeof attributes
#define GROWN(attributes, first_size, minor) \
  (sizeof attributes <= kLongestGrownAttributes ? sizeof attributes : SIZE_MAX)
#define UHAL_OP_KIND(number, KIND, name, family, inputs, outputs, attributes, ...) \
  static_assert((attributes) <= kLongestAttributes, "there is no room for the attributes where they are kept");
#include "csrc/tables/op_kinds.def"
#undef NO_ATTRIBUTES
#undef OPTIONAL
#undef REQUIRED
#undef GROWN

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

}  // namespace

const OpRow* parse_op_rows() {
  auto* const rows = new OpRow[UHAL_OP_KIND_LIMIT]();
  for (const RowText& text : kRowTexts) {
    OpRow& row = rows[text.kind];
    row.name = text.name;
    row.kind = text.kind;
    row.in_place = text.in_place;
    row.check = text.check;
    row.default_attributes = text.attributes;
    row.attributes_size = text.attributes_size;
    row.inputs = parse_operands(text.inputs);
    row.outputs = parse_operands(text.outputs);
    row.first_attributes_size = text.first_attributes_size;
    row.grown_minor = text.grown_minor;
    row.attributes_required = text.attributes_required;
    row.flops = text.flops;
  }
  return rows;
}

}  // namespace unihal::core

const char* uhal_op_kind_name(uhal_op_kind kind) {
  const unihal::core::OpRow* row = unihal::core::find_op_row(kind);
  return row != nullptr ? row->name : "invalid";
}
