#include "plugins/tensorflow/fusion/pattern.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "plugins/tensorflow/graph_messages.h"
#include "plugins/tensorflow/protobuf.h"

namespace unihal::tensorflow {

Edge Pattern::input(int node, int index) const {
  if (node < 0 || static_cast<size_t>(index) >= graph_[node].inputs.size()) return {-1, 0};
  const Edge edge = graph_[node].inputs[static_cast<size_t>(index)];
  return edge.port == Graph::kControl ? Edge{-1, 0} : edge;
}

bool Pattern::fits(int node, std::string_view op, TF_DataType type) const {
  return graph_[node].op == op && graph_[node].device == graph_[nodes_.front()].device &&
         graph_.main_type(node) == type;
}

int Pattern::make(const Edge& edge, std::string_view op, TF_DataType type) {
  return edge.node >= 0 && edge.port == 0 && fits(edge.node, op, type) ? add(edge.node) : -1;
}

int Pattern::add(int node) {
  if (std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end()) nodes_.push_back(node);
  return node;
}

bool Pattern::constant(const Edge& edge, float* value) const {
  return edge.node >= 0 && graph_.scalar_constant(edge.node, value);
}

bool Pattern::is_integer(const Edge& edge, int32_t value) const {
  int32_t found = 0;
  return edge.node >= 0 && graph_.scalar_constant(edge.node, &found) && found == value;
}

bool Pattern::constant_operand(int node, float* constant_value, Edge* other) const {
  for (int side = 0; side < 2; ++side) {
    if (!constant(input(node, side), constant_value)) continue;
    *other = input(node, 1 - side);
    return true;
  }
  return false;
}

int Pattern::waits_for(int node, std::string_view op, const Edge& variable) {
  if (node < 0) return -1;
  for (const Edge& edge : graph_[node].inputs) {
    if (edge.port != Graph::kControl || !fits(edge.node, op, TF_FLOAT) || input(edge.node, 0) != variable) continue;
    return add(edge.node);
  }
  return -1;
}

int Pattern::read_of(const Edge& edge, const Edge& variable) {
  if (edge.node < 0 || input(edge.node, 0) != variable) return -1;
  return make(edge, "ReadVariableOp");
}

namespace {

std::optional<std::vector<int64_t>> parse_shape(std::string_view message) {
  std::vector<int64_t> shape;
  ProtobufReader fields(message);
  while (fields.next()) {
    if (fields.number() == kShapeUnknownRank && fields.value() != 0) return std::nullopt;
    if (fields.number() != kShapeDimension) continue;
    int64_t size = 0;
    ProtobufReader parts(fields.bytes());
    while (parts.next()) {
      if (parts.number() == kDimensionSize) size = static_cast<int64_t>(parts.value());
    }
    if (size < 0) return std::nullopt;
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

std::optional<std::vector<int64_t>> shape_of_variable(const Graph& graph, int node) {
  std::string_view shape;
  int count = 0;
  if (graph[node].op == "VarHandleOp") {
    ProtobufReader fields(graph.attribute(node, "shape"));
    while (fields.next()) {
      if (fields.number() == kValueShape) shape = fields.bytes(), ++count;
    }
  } else if (graph[node].op == "_Arg") {
    ProtobufReader fields(graph.attribute(node, "_handle_shapes"));
    while (fields.next()) {
      if (fields.number() != kValueList) continue;
      ProtobufReader entries(fields.bytes());
      while (entries.next()) {
        if (entries.number() == kListShapes) shape = entries.bytes(), ++count;
      }
    }
  }
  return count == 1 ? parse_shape(shape) : std::nullopt;
}

namespace {

// What tells the variable behind a handle from others: several nodes may name one variable.
std::pair<std::string_view, std::string_view> identity_of_variable(const Graph& graph, int node) {
  const std::string_view name = graph.attribute(node, "shared_name");
  if (graph[node].op != "VarHandleOp" || name.empty()) return {graph[node].name, ""};
  return {name, graph.attribute(node, "container")};
}

}  // namespace

bool is_only_handle(const Graph& graph, int node) {
  if (graph[node].op != "_Arg" && graph[node].op != "VarHandleOp") return false;
  for (int other = 0; other < graph.size(); ++other) {
    if (other == node || graph[other].removed || graph[other].op != "VarHandleOp") continue;
    if (identity_of_variable(graph, other) == identity_of_variable(graph, node)) return false;
  }
  return true;
}

bool can_be_updated_together(const Graph& graph, std::initializer_list<Edge> variables) {
  const auto shape = shape_of_variable(graph, variables.begin()->node);
  if (!shape) return false;
  std::set<std::pair<std::string_view, std::string_view>> identities;
  for (const Edge& variable : variables) {
    if (shape_of_variable(graph, variable.node) != shape) return false;
    if (!identities.insert(identity_of_variable(graph, variable.node)).second) return false;
  }
  return true;
}

}  // namespace unihal::tensorflow
