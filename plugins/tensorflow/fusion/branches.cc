// Branches whose condition is known: TensorFlow chose between them in each run, by copies of what they give between
// device and host where that is of int32, and left what comes after them to no fusion.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "plugins/tensorflow/fusion.h"

namespace unihal::tensorflow {
namespace {

// Of each Switch with a known condition the output that has the data.
using Choices = std::map<int, int>;

Choices find_choices(const Graph& graph) {
  Choices choices;
  for (int node = 0; node < graph.size(); ++node) {
    bool condition = false;
    if (!graph[node].removed && graph[node].op == "Switch" &&
        graph.scalar_constant(graph[node].inputs[1].node, &condition)) {
      choices[node] = condition ? 1 : 0;
    }
  }
  return choices;
}

// Loops go around, and references are variables of old graphs: neither is looked at.
bool is_plain(const Graph& graph) {
  static const std::set<std::string_view> others = {"Enter", "RefEnter", "RefSwitch", "RefMerge", "_SwitchN"};
  for (int node = 0; node < graph.size(); ++node) {
    if (!graph[node].removed && others.count(graph[node].op) != 0) return false;
  }
  return true;
}

// What never runs.
class Dead {
 public:
  Dead(const Graph& graph, const Choices& choices)
      : graph_(graph), choices_(choices), dead_(static_cast<size_t>(graph.size())) {
    std::vector<int> waiting;
    for (const auto& [node, port] : choices) waiting.push_back(node);
    while (!waiting.empty()) {
      const int node = waiting.back();
      waiting.pop_back();
      for (int consumer : graph[node].consumers) {
        if (dead_[static_cast<size_t>(consumer)] || !never_runs(consumer)) continue;
        dead_[static_cast<size_t>(consumer)] = 1;
        waiting.push_back(consumer);
      }
    }
  }

  bool operator()(int node) const { return dead_[static_cast<size_t>(node)] != 0; }
  bool operator()(const Edge& edge) const {
    if ((*this)(edge.node)) return true;
    const auto choice = choices_.find(edge.node);
    return choice != choices_.end() && edge.port != Graph::kControl && edge.port != choice->second;
  }

 private:
  // As TensorFlow has it: a node runs if all its inputs come; a Merge if one does, and waits for what never runs, too.
  bool never_runs(int node) const {
    const std::vector<Edge>& inputs = graph_[node].inputs;
    const auto is_dead = [&](const Edge& edge) { return (*this)(edge); };
    if (graph_[node].op != "Merge") return std::any_of(inputs.begin(), inputs.end(), is_dead);
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](const Edge& edge) { return edge.port == Graph::kControl || is_dead(edge); });
  }

  const Graph& graph_;
  const Choices& choices_;
  std::vector<char> dead_;
};

bool is_read(const Graph& graph, const Edge& edge) {
  const std::vector<int>& consumers = graph[edge.node].consumers;
  return std::any_of(consumers.begin(), consumers.end(), [&](int consumer) {
    const std::vector<Edge>& inputs = graph[consumer].inputs;
    return std::find(inputs.begin(), inputs.end(), edge) != inputs.end();
  });
}

// Lets the readers of a node's output read what the node hands on. Where it waits for something, or its condition does,
// its readers do still.
void step_aside(Graph& graph, int node, int port, Edge data) {
  const std::vector<Edge>& inputs = graph[node].inputs;
  bool waits = std::any_of(inputs.begin(), inputs.end(), [](const Edge& e) { return e.port == Graph::kControl; });
  std::vector<Edge> read = {data};
  if (graph[node].op == "Switch" && !graph[inputs[1].node].inputs.empty()) {
    read.push_back({inputs[1].node, Graph::kControl});
    waits = true;
  }
  if (waits) {
    Graph::Attributes attributes;
    attributes.set_type("T", graph.type_attribute(node, "T"));
    graph.redirect_data({node, port}, {node, 0});
    graph.rewrite(node, "Identity", read, attributes);
  } else {
    graph.redirect_data({node, port}, data);
    graph.rewrite(node, "NoOp", {{data.node, Graph::kControl}}, {});
  }
}

}  // namespace

bool take_known_branches(Graph& graph) {
  const Choices choices = find_choices(graph);
  if (choices.empty() || !is_plain(graph)) return false;
  const Dead is_dead(graph, choices);
  const auto is_alive = [&](const Edge& edge) { return edge.port != Graph::kControl && !is_dead(edge); };
  std::vector<int> dead, merged;
  for (int node = 0; node < graph.size(); ++node) {
    if (graph[node].removed) continue;
    if (is_dead(node)) {
      if (graph.is_exposed(node)) return false;
      dead.push_back(node);
      continue;
    }
    if (graph[node].op != "Merge") continue;
    const std::vector<Edge>& inputs = graph[node].inputs;
    const auto alive = std::count_if(inputs.begin(), inputs.end(), [&](const Edge& e) { return is_alive(e); });
    if (alive == graph.integer(node, "N")) continue;
    if (alive != 1 || graph.is_exposed(node) || is_read(graph, {node, 1})) return false;
    merged.push_back(node);
  }
  for (const auto& [node, port] : choices) {
    if (graph.is_exposed(node)) return false;
  }
  graph.remove(dead);
  for (int node : merged) {
    const std::vector<Edge>& inputs = graph[node].inputs;
    step_aside(graph, node, 0, *std::find_if(inputs.begin(), inputs.end(), is_alive));
  }
  for (const auto& [node, port] : choices) {
    if (!is_dead(node)) step_aside(graph, node, port, graph[node].inputs[0]);
  }
  return true;
}

}  // namespace unihal::tensorflow
