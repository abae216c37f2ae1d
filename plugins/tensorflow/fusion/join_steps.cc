// Steps of optimizers, and moving averages, of several variables in one op: the executor visits one node instead of
// many. Each op is of lists already, of one variable at first; joined ones differ in nothing but the lists.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"
#include "unihal/op.h"

namespace unihal::tensorflow {
namespace {

using Edge = Graph::Edge;

// A step waits for the gradients of all its variables, which stay in memory until then.
constexpr size_t kLargestList = 64;

struct Row {
  const char* op;
  int variables;  // inputs that are resources
  int lists;      // of which the lists are; what follows is common
};
constexpr Row kRows[] = {
    {"UnihalAdam", 3, 4},         {"UnihalAdamWithDecay", 3, 4}, {"UnihalMomentum", 2, 3},
    {"UnihalScaledUpdate", 1, 2}, {"UnihalMovingAverage", 1, 2},
};

const Row* row_of(const Graph& graph, int node) {
  for (const Row& row : kRows) {
    if (graph[node].op == row.op) return &row;
  }
  return nullptr;
}

// Variables of more axes than a view has are stepped one by one, with runs of axes merged.
bool has_known_shapes(const Graph& graph, int node, const Row& row) {
  for (int i = 0; i < row.variables; ++i) {
    const auto shape = shape_of_variable(graph, graph[node].inputs[static_cast<size_t>(i)].node);
    if (!shape || shape->size() > UHAL_MAX_RANK) return false;
  }
  return true;
}

// What steps must have in common. A constant that each has of its own is one by its value.
std::string key_of(const Graph& graph, int node, const Row& row) {
  std::string key(graph[node].op);
  key += graph[node].device;
  key += graph.attributes_of(node).encoded();
  const std::vector<Edge>& inputs = graph[node].inputs;
  for (size_t i = static_cast<size_t>(row.lists); i < inputs.size() && inputs[i].port != Graph::kControl; ++i) {
    float value = 0;
    if (graph.scalar_constant(inputs[i].node, &value)) {
      key += "=" + std::string(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      key += "@" + std::to_string(inputs[i].node) + ":" + std::to_string(inputs[i].port);
    }
  }
  return key;
}

std::vector<Edge> joint_inputs(const Graph& graph, const std::vector<int>& nodes, const Row& row) {
  std::vector<Edge> joint;
  for (int list = 0; list < row.lists; ++list) {
    for (int node : nodes) joint.push_back(graph[node].inputs[static_cast<size_t>(list)]);
  }
  const std::vector<Edge>& first = graph[nodes.front()].inputs;
  for (size_t i = static_cast<size_t>(row.lists); i < first.size() && first[i].port != Graph::kControl; ++i) {
    joint.push_back(first[i]);
  }
  return joint;
}

// All of them, or, where something has to run between them, those of either half.
bool join(Graph& graph, const std::vector<int>& nodes, const Row& row) {
  if (nodes.size() < 2) return false;
  const std::vector<Edge> inputs = joint_inputs(graph, nodes, row);
  if (nodes.size() > kLargestList || !graph.can_become_one(nodes, inputs)) {
    const auto half = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
    const bool first = join(graph, std::vector<int>(nodes.begin(), half), row);
    return join(graph, std::vector<int>(half, nodes.end()), row) || first;
  }
  Graph::Attributes attributes = graph.attributes_of(nodes.front());
  attributes.set_integer("N", static_cast<int64_t>(nodes.size()));
  graph.contract(std::string(graph[nodes.front()].name) + "_and_others", row.op, nodes, inputs, {}, attributes);
  return true;
}

}  // namespace

bool join_steps(Graph& graph, const std::vector<int>& candidates) {
  std::map<std::string, std::vector<int>> alike;
  for (int node : candidates) {
    if (graph[node].removed) continue;
    const Row* row = row_of(graph, node);
    if (row == nullptr || graph.integer(node, "N") != 1 || !has_known_shapes(graph, node, *row)) continue;
    alike[key_of(graph, node, *row)].push_back(node);
  }
  bool found = false;
  for (const auto& [key, nodes] : alike) found |= join(graph, nodes, *row_of(graph, nodes.front()));
  return found;
}

}  // namespace unihal::tensorflow
