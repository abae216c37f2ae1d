// Waits of the host for a device that nobody needs. A control edge from one device to another is a copy of no bytes for
// TensorFlow, which comes to an end when all work before it does; where both are of one device it is an order of
// submission. A function on several devices returns its results behind such edges from each of them, so that it
// returned when the devices had finished, and they stood still while the next step began.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tensorflow/fusion.h"

namespace unihal::tensorflow {
namespace {

bool is_on_host(const Graph& graph, int node) { return is_on(graph[node].device, "CPU"); }

// Whether a node passes on what comes from the host to readers on the host.
bool is_between_host_nodes(const Graph& graph, int node) {
  const Graph::Node& self = graph[node];
  if (self.op != "Identity" || !is_on_host(graph, self.inputs[0].node)) return false;
  bool is_read = false;
  for (int consumer : self.consumers) {
    const std::vector<Edge>& inputs = graph[consumer].inputs;
    if (std::find(inputs.begin(), inputs.end(), Edge{node, 0}) == inputs.end()) continue;
    if (!is_on_host(graph, consumer)) return false;
    is_read = true;
  }
  return is_read;
}

// The nodes that those on other devices wait for by control edges, by who waits and the device of the nodes.
using Waits = std::map<std::pair<int, std::string_view>, std::vector<int>>;

Waits find_waits(const Graph& graph, const std::vector<int>& candidates) {
  Waits waits;
  for (int node : candidates) {
    if (graph[node].removed) continue;
    const std::set<int> consumers(graph[node].consumers.begin(), graph[node].consumers.end());
    for (int consumer : consumers) {
      const std::vector<Edge>& inputs = graph[consumer].inputs;
      if (graph[consumer].device.empty() || graph[consumer].device == graph[node].device) continue;
      if (std::find(inputs.begin(), inputs.end(), Edge{node, Graph::kControl}) == inputs.end()) continue;
      waits[{consumer, graph[node].device}].push_back(node);
    }
  }
  return waits;
}

}  // namespace

bool drop_waits(Graph& graph, const std::vector<int>& candidates) {
  bool found = false;
  for (int node : candidates) {
    if (graph[node].removed || !is_between_host_nodes(graph, node)) continue;
    graph.move(node, std::string(graph[graph[node].inputs[0].node].device));
    found = true;
  }
  for (const auto& [wait, nodes] : find_waits(graph, candidates)) {
    const auto& [consumer, device] = wait;
    std::vector<Edge> before;
    for (int node : nodes) before.push_back({node, Graph::kControl});
    const std::string name = std::string(graph[consumer].name) + "_waits";
    const int signal = graph.add(name, "UnihalSubmitted", device, before, {});
    Graph::Attributes attributes;
    attributes.set_type("T", TF_INT32);
    const int received = graph.add(name, "Identity", graph[consumer].device, {{signal, 0}}, attributes);
    graph.redirect_waits(consumer, nodes, received);
    found = true;
  }
  return found;
}

}  // namespace unihal::tensorflow
