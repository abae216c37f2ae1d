#include <cstdio>
#include <initializer_list>

#include "plugins/tensorflow/fusion.h"
#include "tensorflow/c/ops.h"

namespace unihal::tensorflow {
namespace {

struct Definition {
  const char* name;
  std::initializer_list<const char*> inputs;
  std::initializer_list<const char*> outputs;
  std::initializer_list<const char*> attributes;
  void (*infer_shapes)(TF_ShapeInferenceContext*, TF_Status*);
  bool has_effects = false;  // besides its outputs; an op without outputs has
};

void infer_nothing(TF_ShapeInferenceContext*, TF_Status*) {}

void infer_first_input(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(context, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

void infer_unknown(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeInferenceContextSetUnknownShape(context, status);
}

// y has x's shape; the other outputs' follow from it, and nobody asks for them.
void infer_first_output(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeInferenceContextSetUnknownShape(context, status);
  if (TF_GetCode(status) == TF_OK) infer_first_input(context, status);
}

// What may be narrow in mixed precision, and what norms keep wide beside it.
constexpr const char* kNarrow = "T: {bfloat16, float, half}";
constexpr const char* kWide = "U: {float} = DT_FLOAT";
// What gradients are in mixed precision, of variables of float32.
constexpr const char* kGradient = "G: {bfloat16, float, half} = DT_FLOAT";
// Of what is added to attention's scores, and where its operands have the axes of the ABI's op.
constexpr const char* kMaskType = "U: {bfloat16, float, half} = DT_FLOAT";
constexpr const char* kAttentionAxes[] = {"q_axes: list(int)", "k_axes: list(int)", "v_axes: list(int)",
                                          "y_axes: list(int)", "score_axes: list(int)"};

const Definition kDefinitions[] = {
    {"UnihalBatchNorm",
     {"x: T", "parameters: count * U"},
     {"y: T", "mean: U", "variance: U"},
     {kNarrow, kWide, "count: int >= 0", "has_scale: bool", "epsilon: float", "rank: int"},
     infer_first_output},
    {"UnihalBatchNormInference",
     {"x: T", "mean: U", "variance: U", "parameters: count * U"},
     {"y: T"},
     {kNarrow, kWide, "count: int >= 0", "has_scale: bool", "epsilon: float"},
     infer_first_output},
    {"UnihalBatchNormGrad",
     {"x: T", "gradient: T", "mean: U", "variance: U", "parameters: count * U"},
     {"x_gradient: T", "scale_gradient: U", "offset_gradient: U"},
     {kNarrow, kWide, "count: int >= 0", "has_scale: bool", "epsilon: float", "rank: int"},
     infer_first_output},
    {"UnihalLayerNorm",
     {"x: T", "parameters: count * U"},
     {"y: T", "mean: U", "variance: U"},
     {kNarrow, kWide, "count: int >= 0", "has_scale: bool", "epsilon: float"},
     infer_first_output},
    {"UnihalLayerNormGrad",
     {"x: T", "gradient: T", "mean: U", "variance: U", "parameters: count * U"},
     {"x_gradient: T", "scale_gradient: U", "offset_gradient: U"},
     {kNarrow, kWide, "count: int >= 0", "has_scale: bool", "epsilon: float", "rank: int"},
     infer_first_output},
    {"UnihalRmsNorm",
     {"x: T", "parameters: count * U"},
     {"y: T", "inverse: U"},
     {kNarrow, kWide, "count: int >= 0", "has_scale: bool", "epsilon: float"},
     infer_first_output},
    {"UnihalRmsNormGrad",
     {"x: T", "gradient: T", "inverse: U", "parameters: count * U"},
     {"x_gradient: T", "scale_gradient: U"},
     {kNarrow, kWide, "count: int >= 0", "has_scale: bool", "epsilon: float", "rank: int"},
     infer_first_output},
    {"UnihalGelu", {"x: T"}, {"y: T"}, {kNarrow, "approximate: bool"}, infer_first_input},
    {"UnihalGeluGrad", {"x: T", "gradient: T"}, {"x_gradient: T"}, {kNarrow, "approximate: bool"}, infer_first_input},
    {"UnihalSoftmaxGrad", {"y: T", "gradient: T"}, {"x_gradient: T"}, {kNarrow, "axis: int"}, infer_first_input},
    {"UnihalAttentionMask",
     {"mask: bool"},
     {"additive: float", "rows: bool"},
     {"opens: bool", "finite: bool", "inverted: bool"},
     infer_first_output},
    {"UnihalAttention",
     {"q: T", "k: T", "v: T", "mask: mask_count * U", "rows: row_count * bool"},
     {"y: T", "logsumexp: float"},
     {kNarrow, kMaskType, "mask_count: int >= 0", "row_count: int >= 0", kAttentionAxes[0], kAttentionAxes[1],
      kAttentionAxes[2], kAttentionAxes[3], kAttentionAxes[4], "scale: float", "causal: bool", "broadcasts: bool"},
     infer_unknown},
    {"UnihalAttentionGrad",
     {"q: T", "k: T", "v: T", "mask: mask_count * U", "rows: row_count * bool", "y: T", "logsumexp: float",
      "gradient: T"},
     {"q_gradient: T", "k_gradient: T", "v_gradient: T"},
     {kNarrow, kMaskType, "mask_count: int >= 0", "row_count: int >= 0", kAttentionAxes[0], kAttentionAxes[1],
      kAttentionAxes[2], kAttentionAxes[3], kAttentionAxes[4], "dy_axes: list(int)", "dq_axes: list(int)",
      "dk_axes: list(int)", "dv_axes: list(int)", "scale: float", "causal: bool", "broadcasts: bool"},
     infer_unknown},
    {"UnihalScaledUpdate",
     {"variables: N * resource", "values: N * G", "rate: T"},
     {},
     {"T: {float}", kGradient, "N: int >= 1"},
     infer_nothing},
    {"UnihalMovingAverage",
     {"variables: N * resource", "values: N * T", "rate: T"},
     {},
     {"T: {float}", "N: int >= 1"},
     infer_nothing},
    {"UnihalAdam",
     {"variables: N * resource", "firsts: N * resource", "seconds: N * resource", "gradients: N * G", "rate: T"},
     {},
     {"T: {float}", kGradient, "N: int >= 1", "first_rate: float", "second_rate: float", "epsilon: float"},
     infer_nothing},
    {"UnihalAdamWithDecay",
     {"variables: N * resource", "firsts: N * resource", "seconds: N * resource", "gradients: N * G", "rate: T",
      "decay: T"},
     {},
     {"T: {float}", kGradient, "N: int >= 1", "first_rate: float", "second_rate: float", "epsilon: float"},
     infer_nothing},
    {"UnihalAdamRate",
     {"learning_rate: T", "step: T"},
     {"rate: T"},
     {"T: {float}", "beta1: float", "beta2: float"},
     infer_first_input},
    {"UnihalMomentum",
     {"variables: N * resource", "velocities: N * resource", "gradients: N * G", "rate: T"},
     {},
     {"T: {float}", kGradient, "N: int >= 1", "momentum: float", "use_nesterov: bool"},
     infer_nothing},
    {"UnihalCollectiveReduce",
     {"inputs: N * T", "group_size: int32", "group_key: int32", "instance_key: int32",
      "ordering_token: Nordering_token * resource"},
     {"outputs: N * T"},
     {"T: {bfloat16, float, half, double, int32, int64}", "N: int >= 1", "merge_op: string", "final_op: string",
      "communication_hint: string", "timeout_seconds: float", "is_stateless: bool", "Nordering_token: int >= 0",
      "max_subdivs_per_device: int"},
     infer_unknown,
     true},
    {"UnihalElementwise",
     {"inputs: Tin"},
     {"outputs: Tout"},
     {"Tin: list({float, half, bfloat16, bool})", "Tout: list({float, half, bfloat16, bool})", "functions: list(int)",
      "operands: list(int)", "parameters: list(float)", "results: list(int)"},
     infer_unknown},
    {"UnihalMatMul",
     {"a: T", "b: T", "bias: T", "shape: count * int32"},
     {"y: T"},
     {"T: {bfloat16, float, half, double}", "count: int >= 0", "batched: bool", "transpose_a: bool",
      "transpose_b: bool", "activation: int"},
     infer_unknown},
    {"UnihalMatMulSum", {"x: T", "y: T"}, {"sum: T"}, {"T: {bfloat16, float, half, double}"}, infer_unknown},
    {"UnihalConvolution",
     {"x: T", "filter: T", "bias: T"},
     {"y: T"},
     {"T: {bfloat16, float, half, double}", "strides: list(int)", "use_cudnn_on_gpu: bool", "padding: string",
      "explicit_paddings: list(int)", "data_format: string", "dilations: list(int)", "activation: int"},
     infer_unknown},
    {"UnihalDepthwiseConvolution",
     {"x: T", "filter: T", "bias: T"},
     {"y: T"},
     {"T: {bfloat16, float, half, double}", "strides: list(int)", "use_cudnn_on_gpu: bool", "padding: string",
      "explicit_paddings: list(int)", "data_format: string", "dilations: list(int)", "activation: int"},
     infer_unknown},
    {"UnihalConvolutionFilterGrad",
     {"x: T", "filter_sizes: int32", "gradient: T"},
     {"filter_gradient: T", "bias_gradient: T"},
     {"T: {bfloat16, float, half, double}", "strides: list(int)", "use_cudnn_on_gpu: bool", "padding: string",
      "explicit_paddings: list(int)", "data_format: string", "dilations: list(int)"},
     infer_unknown},
    {"UnihalRandomKeys",
     {"seeds: N * int64"},
     {"keys: N * uint64", "counters: N * uint64"},
     {"N: int >= 1", "modulus: int >= 1"},
     infer_unknown},
    {"UnihalSubmitted", {}, {"signal: int32"}, {}, infer_unknown, true},
    {"UnihalReplaceNegativeZero", {"x: T"}, {"y: T"}, {"T: {float}", "replacement: float"}, infer_first_input},
};

}  // namespace

void register_fused_ops() {
  static bool registered = false;
  if (registered) return;
  registered = true;
  TF_Status* status = TF_NewStatus();
  for (const Definition& definition : kDefinitions) {
    TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(definition.name);
    for (const char* input : definition.inputs) TF_OpDefinitionBuilderAddInput(builder, input);
    for (const char* output : definition.outputs) TF_OpDefinitionBuilderAddOutput(builder, output);
    for (const char* attribute : definition.attributes) TF_OpDefinitionBuilderAddAttr(builder, attribute);
    TF_OpDefinitionBuilderSetIsStateful(builder, definition.has_effects || definition.outputs.size() == 0);
    TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, definition.infer_shapes);
    TF_RegisterOpDefinition(builder, status);
    if (TF_GetCode(status) != TF_OK) std::fprintf(stderr, "unihal: %s: %s\n", definition.name, TF_Message(status));
  }
  TF_DeleteStatus(status);
}

}  // namespace unihal::tensorflow
