#include "plugins/tensorflow/kernels/fused_elementwise.h"

#include <algorithm>

namespace unihal::tensorflow {
namespace {

bool has_shape(const View& view, const Shape& shape) {
  return static_cast<size_t>(view.rank) == shape.size() && std::equal(shape.begin(), shape.end(), view.shape);
}

}  // namespace

FusedElementwise::FusedElementwise(Construction& construction) : Kernel(construction) {
  if (!read_program(construction)) construction.fail(TF_INVALID_ARGUMENT, "its attributes are no program");
}

bool FusedElementwise::read_program(Construction& construction) {
  const Shape functions = construction.integers("functions");
  const Shape operands = construction.integers("operands");
  const Shape results = construction.integers("results");
  const std::vector<float> parameters = construction.reals("parameters");
  const std::vector<TF_DataType> output_types = construction.types("Tout");
  inputs_ = static_cast<int>(construction.types("Tin").size());
  outputs_ = static_cast<int>(output_types.size());
  attributes_.struct_size = sizeof attributes_;
  attributes_.step_count = static_cast<int32_t>(functions.size());
  if (inputs_ < 1 || inputs_ > UHAL_MAP_MAX_INPUTS || outputs_ < 1 || outputs_ > UHAL_MAP_MAX_OUTPUTS ||
      functions.empty() || functions.size() > UHAL_MAP_CHAIN_MAX_STEPS || results.size() != output_types.size() ||
      parameters.size() != 2 * functions.size()) {
    return false;
  }
  size_t next = 0;
  for (size_t step = 0; step < functions.size(); ++step) {
    uhal_map_function_info info = {};
    info.struct_size = sizeof info;
    const auto function = static_cast<uhal_map_function>(functions[step]);
    if (uhal_map_function_get(function, &info) != UHAL_OK || info.output_count != 1) return false;
    attributes_.functions[step] = function;
    arity_[step] = info.input_count;
    for (int i = 0; i < info.input_count; ++i, ++next) {
      if (next >= operands.size() || operands[next] < 0 || operands[next] >= inputs_ + static_cast<int>(step)) {
        return false;
      }
      attributes_.operands[step][i] = static_cast<int32_t>(operands[next]);
    }
    for (size_t i = 0; i < 2; ++i) attributes_.parameters[step][i] = parameters[2 * step + i];
  }
  for (int i = 0; i < outputs_; ++i) {
    const int64_t value = results[static_cast<size_t>(i)];
    if (value < inputs_ || value >= inputs_ + attributes_.step_count) return false;
    attributes_.results[i] = static_cast<int32_t>(value);
    dtypes_[i] = from_tensorflow(output_types[static_cast<size_t>(i)]);
  }
  return true;
}

void FusedElementwise::compute(Context& context) const {
  View inputs[UHAL_MAP_MAX_INPUTS];
  for (int i = 0; i < inputs_; ++i) inputs[i] = context.input(i);
  if (!context.ok()) return;
  // Shapes of all values. In nearly every run there is one large shape, and scalars.
  Shape shapes[UHAL_MAP_MAX_INPUTS + UHAL_MAP_CHAIN_MAX_STEPS];
  Shape joint;
  bool is_joint = true;
  for (int i = 0; i < inputs_; ++i) {
    shapes[i] = shape_of(inputs[i]);
    Shape both;
    is_joint = is_joint && broadcast_shape(joint, shapes[i], &both);
    joint = std::move(both);
  }
  for (int step = 0; step < attributes_.step_count; ++step) {
    Shape& shape = shapes[inputs_ + step];
    for (int i = 0; i < arity_[step]; ++i) {
      const Shape& other = shapes[operand(step, i)];
      Shape both;
      if (!broadcast_shape(shape, other, &both)) {
        return context.fail_invalid("Incompatible shapes: " + to_text(shape) + " vs. " + to_text(other));
      }
      shape = std::move(both);
    }
  }
  for (int i = 0; i < outputs_; ++i) is_joint = is_joint && shapes[attributes_.results[i]] == joint;
  is_joint ? run_chain(context, inputs, joint) : run_steps(context, inputs, shapes);
}

void FusedElementwise::run_chain(Context& context, const View* inputs, const Shape& shape) const {
  View outputs[UHAL_MAP_MAX_OUTPUTS];
  bool taken[UHAL_MAP_MAX_INPUTS] = {};
  const uhal_tensor* operands[UHAL_MAP_MAX_INPUTS];
  const uhal_tensor* results[UHAL_MAP_MAX_OUTPUTS];
  for (int k = 0; k < outputs_; ++k) {
    int candidates[UHAL_MAP_MAX_INPUTS];
    int count = 0;
    for (int i = 0; i < inputs_; ++i) {
      if (!taken[i] && inputs[i].dtype == dtypes_[k] && has_shape(inputs[i], shape)) candidates[count++] = i;
    }
    outputs[k] =
        context.forwarded_output(k, dtypes_[k], shape.data(), static_cast<int>(shape.size()), candidates, count);
    for (int i = 0; i < inputs_; ++i) taken[i] |= outputs[k].data != nullptr && inputs[i].data == outputs[k].data;
    results[k] = &outputs[k];
  }
  for (int i = 0; i < inputs_; ++i) operands[i] = &inputs[i];
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_MAP_CHAIN;
  op.input_count = inputs_;
  op.output_count = outputs_;
  op.inputs = operands;
  op.outputs = results;
  op.attributes = &attributes_;
  op.label = this->op();
  context.launch(op);
}

// What is between the steps is float32, of which 0 and 1 are truth values too.
void FusedElementwise::run_steps(Context& context, const View* inputs, const Shape* shapes) const {
  View values[UHAL_MAP_MAX_INPUTS + UHAL_MAP_CHAIN_MAX_STEPS];
  std::copy_n(inputs, inputs_, values);
  for (int step = 0; step < attributes_.step_count && context.ok(); ++step) {
    const int number = inputs_ + step;
    const auto* found = std::find(attributes_.results, attributes_.results + outputs_, number);
    const auto output = static_cast<int>(found - attributes_.results);
    values[number] = output < outputs_ ? context.output(output, dtypes_[output], shapes[number])
                                       : context.temporary(UHAL_FLOAT32, shapes[number]);
    if (!context.ok()) return;
    const uhal_tensor* operands[UHAL_MAP_MAX_INPUTS];
    for (int i = 0; i < arity_[step]; ++i) operands[i] = &values[operand(step, i)];
    const uhal_tensor* result = &values[number];
    uhal_map_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.function = attributes_.functions[step];
    std::copy_n(attributes_.parameters[step], +UHAL_MAP_MAX_PARAMETERS, attributes.parameters);
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = UHAL_OP_MAP;
    op.input_count = arity_[step];
    op.output_count = 1;
    op.inputs = operands;
    op.outputs = &result;
    op.attributes = &attributes;
    op.label = this->op();
    context.launch(op);
  }
}

}  // namespace unihal::tensorflow
