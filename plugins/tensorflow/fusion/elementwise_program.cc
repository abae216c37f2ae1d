#include "plugins/tensorflow/fusion/elementwise_program.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "plugins/common/view.h"
#include "plugins/tensorflow/kernels/elementwise.h"
#include "unihal/device.h"

namespace unihal::tensorflow {
namespace {

bool is_narrow_float(TF_DataType type) { return type == TF_FLOAT || type == TF_HALF || type == TF_BFLOAT16; }

int data_input_count(const Graph& graph, int node) {
  const std::vector<Edge>& inputs = graph[node].inputs;
  return static_cast<int>(std::count_if(inputs.begin(), inputs.end(), [](const Edge& edge) { return edge.port >= 0; }));
}

// What an op does with a truth value's type is its own affair; of all others T says it.
TF_DataType input_type(const Graph& graph, int node, int index) {
  const std::string_view op = graph[node].op;
  if (op == "Cast") return graph.type_attribute(node, "SrcT");
  if (op == "SelectV2" && index == 0) return TF_BOOL;
  const TF_DataType type = graph.type_attribute(node, "T");
  return type == 0 ? TF_BOOL : type;
}

TF_DataType output_type(const Graph& graph, int node) {
  if (graph[node].op == "Cast") return graph.type_attribute(node, "DstT");
  const MapRow* row = find_map_row(graph[node].op);
  if (row != nullptr && row->result == kTruth) return TF_BOOL;
  return graph.type_attribute(node, "T");
}

constexpr size_t kMaxAddends = 4;  // of an AddN

// The functions of a binary op with a constant as its second operand, or first, as one of parameters. A sum with -0 is
// the other term to the last bit.
struct WithConstant {
  const char* op;
  bool constant_first;
  uhal_map_function function;
  float (*first)(float);
  float (*second)(float);
};

float itself(float c) { return c; }
float negated(float c) { return -c; }
float one(float) { return 1; }
float minus_one(float) { return -1; }
float minus_zero(float) { return -0.0f; }
float infinity(float) { return std::numeric_limits<float>::infinity(); }
float minus_infinity(float) { return -std::numeric_limits<float>::infinity(); }

constexpr WithConstant kWithConstant[] = {
    {"Mul", false, uhal_map_scale, itself, minus_zero},        {"Mul", true, uhal_map_scale, itself, minus_zero},
    {"AddV2", false, uhal_map_add_then_scale, one, itself},    {"AddV2", true, uhal_map_add_then_scale, one, itself},
    {"Add", false, uhal_map_add_then_scale, one, itself},      {"Add", true, uhal_map_add_then_scale, one, itself},
    {"Sub", false, uhal_map_add_then_scale, one, negated},     {"Sub", true, uhal_map_scale, minus_one, itself},
    {"Maximum", false, uhal_map_clip, itself, infinity},       {"Maximum", true, uhal_map_clip, itself, infinity},
    {"Minimum", false, uhal_map_clip, minus_infinity, itself}, {"Minimum", true, uhal_map_clip, minus_infinity, itself},
    {"Pow", false, uhal_map_power_scalar, itself, itself},
};

class Builder {
 public:
  Builder(const Graph& graph, const std::vector<int>& nodes) : graph_(graph), nodes_(nodes) {}

  std::optional<ElementwiseProgram> build() {
    for (int node : nodes_) find_inputs(node);
    if (program_.inputs.empty() || program_.inputs.size() > UHAL_MAP_MAX_INPUTS) return std::nullopt;
    next_ = static_cast<int64_t>(program_.inputs.size());
    for (int node : nodes_) write(node);
    if (program_.functions.size() > UHAL_MAP_CHAIN_MAX_STEPS) return std::nullopt;
    for (int node : nodes_) {
      if (!is_read_outside(node)) continue;
      program_.nodes.push_back(node);
      program_.results.push_back(values_.at(node));
      program_.output_types.push_back(output_type(graph_, node));
    }
    if (program_.nodes.empty() || program_.nodes.size() > UHAL_MAP_MAX_OUTPUTS) return std::nullopt;
    // Of truth values alone a chain would compute with integers.
    const auto is_float = [](TF_DataType type) { return type != TF_BOOL; };
    if (std::none_of(program_.input_types.begin(), program_.input_types.end(), is_float) &&
        std::none_of(program_.output_types.begin(), program_.output_types.end(), is_float)) {
      return std::nullopt;
    }
    return program_;
  }

 private:
  bool is_inside(int node) const { return std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end(); }

  bool is_read_outside(int node) const {
    for (int consumer : graph_[node].consumers) {
      if (is_inside(consumer)) continue;
      for (const Edge& edge : graph_[consumer].inputs) {
        if (edge.node == node && edge.port != Graph::kControl) return true;
      }
    }
    return false;
  }

  // The row for a node with a constant operand, and which operand is none.
  const WithConstant* with_constant(int node, float* constant, int* other) const {
    const TF_DataType type = graph_.type_attribute(node, "T");
    for (const WithConstant& row : kWithConstant) {
      if (graph_[node].op != row.op) continue;
      const Edge& edge = graph_[node].inputs[row.constant_first ? 0 : 1];
      if (edge.port != 0 || !graph_.scalar_constant(edge.node, type, constant) || !std::isfinite(*constant)) continue;
      *other = row.constant_first ? 1 : 0;
      return &row;
    }
    return nullptr;
  }

  void find_inputs(int node) {
    float constant = 0;
    int other = 0;
    const bool has_constant = with_constant(node, &constant, &other) != nullptr;
    for (int i = 0; i < data_input_count(graph_, node); ++i) {
      if (has_constant && i != other) continue;
      const Edge& edge = graph_[node].inputs[static_cast<size_t>(i)];
      if (is_inside(edge.node)) continue;
      if (std::find(program_.inputs.begin(), program_.inputs.end(), edge) != program_.inputs.end()) continue;
      program_.inputs.push_back(edge);
      program_.input_types.push_back(input_type(graph_, node, i));
    }
  }

  int64_t value(int node, int index) const {
    const Edge& edge = graph_[node].inputs[static_cast<size_t>(index)];
    if (is_inside(edge.node)) return values_.at(edge.node);
    return std::find(program_.inputs.begin(), program_.inputs.end(), edge) - program_.inputs.begin();
  }

  int64_t step(uhal_map_function function, const std::vector<int64_t>& operands, float first = 0, float second = 0) {
    program_.functions.push_back(function);
    program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
    program_.parameters.push_back(first);
    program_.parameters.push_back(second);
    return next_++;
  }

  void write(int node) {
    const std::string_view op = graph_[node].op;
    float constant = 0;
    int other = 0;
    if (const WithConstant* row = with_constant(node, &constant, &other)) {
      values_[node] = step(row->function, {value(node, other)}, row->first(constant), row->second(constant));
    } else if (op == "Cast") {
      values_[node] = step(uhal_map_identity, {value(node, 0)});
    } else if (op == "AddN") {
      int64_t sum = value(node, 0);
      for (int i = 1; i < data_input_count(graph_, node); ++i) sum = step(uhal_map_add, {sum, value(node, i)});
      values_[node] = sum;
    } else if (op == "BiasAdd") {
      values_[node] = step(uhal_map_add, {value(node, 0), value(node, 1)});
    } else {
      const MapRow& row = *find_map_row(op);
      std::vector<int64_t> operands;
      for (int i = 0; i < data_input_count(graph_, node); ++i) operands.push_back(value(node, i));
      if (row.order == kSwapped) std::swap(operands[0], operands[1]);
      auto first = static_cast<float>(row.parameters[0]);
      if (row.parameter_attribute != nullptr) first = graph_.real(node, row.parameter_attribute);
      values_[node] = step(row.function, operands, first, static_cast<float>(row.parameters[1]));
    }
  }

  const Graph& graph_;
  const std::vector<int>& nodes_;
  ElementwiseProgram program_;
  std::map<int, int64_t> values_;  // of nodes
  int64_t next_ = 0;
};

}  // namespace

const std::string& ShapeClasses::of(const Edge& edge) {
  if (known_.size() <= static_cast<size_t>(edge.node)) known_.resize(static_cast<size_t>(graph_.size()));
  if (known_[static_cast<size_t>(edge.node)].size() <= static_cast<size_t>(edge.port)) {
    known_[static_cast<size_t>(edge.node)].resize(static_cast<size_t>(edge.port) + 1);
  }
  const auto entry = [&]() -> std::string& {
    return known_[static_cast<size_t>(edge.node)][static_cast<size_t>(edge.port)];
  };
  if (entry().empty()) {
    std::string found = find(edge);
    entry() = std::move(found);
  }
  return entry();
}

std::string ShapeClasses::find(const Edge& edge) {
  std::string shape = shapes_.of(graph_[edge.node].name, edge.port);
  if (!shape.empty()) return shape;
  const std::string own = std::to_string(edge.node) + ":" + std::to_string(edge.port);
  const std::string_view op = graph_[edge.node].op;
  const bool keeps = op == "Cast" || op == "AddN" || op == "BiasAdd" || op == "Identity" || find_map_row(op) != nullptr;
  if (!keeps || depth_ > 32) return own;
  // The operands' common class, scalars left out.
  ++depth_;
  std::string common;
  for (const Edge& input : graph_[edge.node].inputs) {
    if (input.port == Graph::kControl || (op == "BiasAdd" && !common.empty())) continue;
    const std::string& other = of(input);
    if (other == "[]" || other == common) continue;
    if (!common.empty()) {
      common = own;
      break;
    }
    common = other;
  }
  --depth_;
  return common.empty() ? own : common;
}

bool is_elementwise(const Graph& graph, int node, ShapeClasses& classes) {
  const std::string_view op = graph[node].op;
  if (graph[node].removed || graph.is_exposed(node)) return false;
  const int count = data_input_count(graph, node);
  if (op == "Cast") {
    const TF_DataType from = graph.type_attribute(node, "SrcT"), to = graph.type_attribute(node, "DstT");
    return is_narrow_float(to) && (is_narrow_float(from) || from == TF_BOOL) && !graph.flag(node, "Truncate");
  }
  if (op == "AddN") {
    return is_narrow_float(graph.type_attribute(node, "T")) && count > 1 && count <= static_cast<int>(kMaxAddends);
  }
  if (op == "BiasAdd") {  // over the last axis, as sums broadcast
    constexpr std::string_view kChannelsFirst = "NCHW";
    if (graph.attribute(node, "data_format").find(kChannelsFirst) != std::string_view::npos) return false;
    if (!is_narrow_float(graph.type_attribute(node, "T"))) return false;
    const std::string x = classes.of(graph[node].inputs[0]), bias = classes.of(graph[node].inputs[1]);
    return bias.size() > 2 && bias.front() == '[' && x.size() >= bias.size() &&
           x.compare(x.size() - bias.size() + 1, std::string::npos, bias, 1, std::string::npos) == 0 &&
           (x.size() == bias.size() || x[x.size() - bias.size()] == ',');
  }
  const MapRow* row = find_map_row(op);
  if (row == nullptr) return false;
  const TF_DataType type = graph.type_attribute(node, "T");
  if (row->dtypes != 0 && (!is_narrow_float(type) || !contains(row->dtypes, from_tensorflow(type)))) return false;
  if ((op == "Equal" || op == "NotEqual") && !graph.attribute(node, "incompatible_shape_error").empty() &&
      !graph.flag(node, "incompatible_shape_error")) {
    return false;  // of shapes that do not broadcast they have an answer
  }
  if (!row->is_gradient()) return true;
  const std::string first = classes.of(graph[node].inputs[0]);
  return first == classes.of(graph[node].inputs[1]);
}

std::optional<ElementwiseProgram> ElementwiseProgram::make(const Graph& graph, const std::vector<int>& nodes) {
  return Builder(graph, nodes).build();
}

bool ElementwiseProgram::runs_on(const std::string& type) const {
  std::string own = type;  // unihal's name of it
  std::transform(own.begin(), own.end(), own.begin(), [](unsigned char c) { return std::tolower(c); });
  uhal_device* device = nullptr;
  if (uhal_device_get(own.c_str(), 0, &device) != UHAL_OK) return false;
  uhal_map_chain_attributes program = {};
  program.struct_size = sizeof program;
  program.step_count = static_cast<int32_t>(functions.size());
  size_t next = 0;
  for (size_t i = 0; i < functions.size(); ++i) {
    program.functions[i] = static_cast<uhal_map_function>(functions[i]);
    uhal_map_function_info info = {};
    info.struct_size = sizeof info;
    if (uhal_map_function_get(program.functions[i], &info) != UHAL_OK) return false;
    for (int k = 0; k < info.input_count; ++k) program.operands[i][k] = static_cast<int32_t>(operands[next++]);
    for (size_t k = 0; k < 2; ++k) program.parameters[i][k] = static_cast<double>(parameters[2 * i + k]);
  }
  for (size_t i = 0; i < results.size(); ++i) program.results[i] = static_cast<int32_t>(results[i]);
  uhal_tensor views[UHAL_MAP_MAX_INPUTS + UHAL_MAP_MAX_OUTPUTS] = {};
  const uhal_tensor* pointers[UHAL_MAP_MAX_INPUTS + UHAL_MAP_MAX_OUTPUTS];
  for (size_t i = 0; i < inputs.size() + nodes.size(); ++i) {
    views[i].struct_size = sizeof views[i];
    views[i].dtype = from_tensorflow(i < inputs.size() ? input_types[i] : output_types[i - inputs.size()]);
    views[i].rank = 1;
    views[i].shape[0] = 64;
    views[i].strides[0] = 1;
    pointers[i] = &views[i];
  }
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_MAP_CHAIN;
  op.input_count = static_cast<int32_t>(inputs.size());
  op.output_count = static_cast<int32_t>(nodes.size());
  op.inputs = pointers;
  op.outputs = pointers + inputs.size();
  op.attributes = &program;
  return uhal_supports(device, &op) == UHAL_OK;
}

Graph::Attributes ElementwiseProgram::attributes() const {
  Graph::Attributes attributes;
  attributes.set_types("Tin", input_types);
  attributes.set_types("Tout", output_types);
  attributes.set_integers("functions", functions);
  attributes.set_integers("operands", operands);
  attributes.set_floats("parameters", parameters);
  attributes.set_integers("results", results);
  return attributes;
}

}  // namespace unihal::tensorflow
