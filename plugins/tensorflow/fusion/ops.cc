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
};

void infer_nothing(TF_ShapeInferenceContext*, TF_Status*) {}

void infer_first_input(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(context, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

const Definition kDefinitions[] = {
    {"UnihalAdam",
     {"variable: resource", "first: resource", "second: resource", "rate: T", "gradient: T"},
     {},
     {"T: {float}", "first_rate: float", "second_rate: float", "epsilon: float"},
     infer_nothing},
    {"UnihalAdamRate",
     {"learning_rate: T", "step: T"},
     {"rate: T"},
     {"T: {float}", "beta1: float", "beta2: float"},
     infer_first_input},
    {"UnihalMomentum",
     {"variable: resource", "velocity: resource", "rate: T", "gradient: T"},
     {},
     {"T: {float}", "momentum: float", "use_nesterov: bool"},
     infer_nothing},
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
    TF_OpDefinitionBuilderSetIsStateful(builder, definition.outputs.size() == 0);
    TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, definition.infer_shapes);
    TF_RegisterOpDefinition(builder, status);
    if (TF_GetCode(status) != TF_OK) std::fprintf(stderr, "unihal: %s: %s\n", definition.name, TF_Message(status));
  }
  TF_DeleteStatus(status);
}

}  // namespace unihal::tensorflow
