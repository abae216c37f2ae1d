// Steps of optimizers, and moving averages, of several variables in one op: the executor visits one node instead of
// many. Each op is of lists already, of one variable at first; joined ones differ in nothing but the lists.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"
#include "unihal/op.h"

namespace unihal::tensorflow {
namespace {

// A step waits for the gradients of all its variables, which stay in memory until then.
constexpr size_t kLargestList = 64;

struct StepRow {
  const char* op;
  int variables;  // inputs that are resources
  int lists;      // of which the lists are; what follows is common
  // Whether the step multiplies the last list's item with what follows, so that they may change places.
  bool is_product;
  // Whether the last list may be of a narrow type, as gradients are in mixed precision.
  bool takes_narrow;
};
constexpr StepRow kStepRows[] = {
    {"UnihalAdam", 3, 4, false, true},           {"UnihalAdamWithDecay", 3, 4, false, true},
    {"UnihalMomentum", 2, 3, true, true},        {"UnihalScaledUpdate", 1, 2, true, true},
    {"UnihalMovingAverage", 1, 2, false, false},
};

const StepRow* step_row_of(const Graph& graph, int node) {
  for (const StepRow& row : kStepRows) {
    if (graph[node].op == row.op) return &row;
  }
  return nullptr;
}

// Variables of more axes than a view has are stepped one by one, with runs of axes merged.
bool has_known_shapes(const Graph& graph, int node, const StepRow& row) {
  for (int i = 0; i < row.variables; ++i) {
    const auto shape = shape_of_variable(graph, graph[node].inputs[static_cast<size_t>(i)].node);
    if (!shape || shape->size() > UHAL_MAX_RANK) return false;
  }
  return true;
}

// Puts the rate of a product, which other steps read too, behind the lists. TensorFlow has sorted factors by name.
void sort_factors(Graph& graph, const std::vector<int>& steps) {
  const auto uses = [&](const Edge& edge) {
    return std::count_if(steps.begin(), steps.end(), [&](int step) {
      const std::vector<Edge>& inputs = graph[step].inputs;
      return std::find(inputs.begin(), inputs.end(), edge) != inputs.end();
    });
  };
  for (int step : steps) {
    const StepRow& row = *step_row_of(graph, step);
    const size_t rate = static_cast<size_t>(row.lists);
    std::vector<Edge> inputs = graph[step].inputs;
    if (!row.is_product || uses(inputs[rate - 1]) <= uses(inputs[rate])) continue;
    std::swap(inputs[rate - 1], inputs[rate]);
    graph.rewrite(step, row.op, inputs, graph.attributes_of(step));
  }
}

// Reads a gradient as it was before it was cast to float32, if nothing else reads the cast.
void take_narrow(Graph& graph, int step) {
  const StepRow& row = *step_row_of(graph, step);
  if (!row.takes_narrow) return;
  std::vector<Edge> inputs = graph[step].inputs;
  Edge& gradient = inputs[static_cast<size_t>(row.lists - 1)];
  const int cast = gradient.node;
  const TF_DataType type = graph.type_attribute(cast, "SrcT");
  const bool fits = graph[cast].op == "Cast" && graph[cast].device == graph[step].device &&
                    graph.type_attribute(cast, "DstT") == TF_FLOAT && (type == TF_HALF || type == TF_BFLOAT16);
  if (!fits || graph.is_exposed(cast) || graph[cast].consumers != std::vector<int>{step}) return;
  const std::vector<Edge> before = graph[cast].inputs;
  gradient = before.front();
  inputs.insert(inputs.end(), before.begin() + 1, before.end());  // what the cast waited for
  Graph::Attributes attributes = graph.attributes_of(step);
  attributes.set_type("G", type);
  graph.rewrite(step, row.op, inputs, attributes);
  graph.remove_unused({cast}, {"Cast"});
}

// What steps must have in common. A constant that each has of its own is one by its value.
std::string key_of(const Graph& graph, int node, const StepRow& row) {
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

std::vector<Edge> joint_inputs(const Graph& graph, const std::vector<int>& nodes, const StepRow& row) {
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

// Whether one of the nodes waits for another: then they may be of one variable, and their order matters.
bool are_ordered(const Graph& graph, const std::vector<int>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&](int node) {
    return std::any_of(graph[node].inputs.begin(), graph[node].inputs.end(), [&](const Edge& edge) {
      return std::find(nodes.begin(), nodes.end(), edge.node) != nodes.end();
    });
  });
}

// All of them, or, where something has to run between them, those of either half.
bool join_alike_steps(Graph& graph, const std::vector<int>& nodes, const StepRow& row) {
  if (nodes.size() < 2) return false;
  const std::vector<Edge> inputs = joint_inputs(graph, nodes, row);
  if (nodes.size() > kLargestList || are_ordered(graph, nodes) || !graph.can_become_one(nodes, inputs)) {
    const auto half = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
    const bool first = join_alike_steps(graph, std::vector<int>(nodes.begin(), half), row);
    return join_alike_steps(graph, std::vector<int>(half, nodes.end()), row) || first;
  }
  Graph::Attributes attributes = graph.attributes_of(nodes.front());
  attributes.set_integer("N", static_cast<int64_t>(nodes.size()));
  graph.contract(std::string(graph[nodes.front()].name) + "_and_others", row.op, nodes, inputs, {}, attributes);
  return true;
}

}  // namespace

bool join_steps(Graph& graph, const std::vector<int>& candidates) {
  std::vector<int> steps;
  for (int node : candidates) {
    if (graph[node].removed) continue;
    const StepRow* row = step_row_of(graph, node);
    if (row != nullptr && graph.integer(node, "N") == 1 && has_known_shapes(graph, node, *row)) steps.push_back(node);
  }
  sort_factors(graph, steps);
  for (int step : steps) take_narrow(graph, step);
  std::map<std::string, std::vector<int>> alike;
  for (int step : steps) alike[key_of(graph, step, *step_row_of(graph, step))].push_back(step);
  bool found = false;
  for (const auto& [key, nodes] : alike) found |= join_alike_steps(graph, nodes, *step_row_of(graph, nodes.front()));
  return found;
}

}  // namespace unihal::tensorflow
