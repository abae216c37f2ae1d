// The seeds of Keras' dropout. Each layer keeps two int64 numbers in a variable, and each step makes of them what the
// generator begins with, in host memory:
//
//   StatelessRandomGetKeyCounter(cast(seed * 1 mod (2^31 - 2), int32))
//
// That is three launches and a copy that the host waits for, in each layer. One op reads the seeds of all layers, waits
// once and computes the rest on the host.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "plugins/tensorflow/fusion.h"

namespace unihal::tensorflow {
namespace {

struct Seed {
  std::vector<int> nodes;  // the first gives key and counter
  Edge value = {-1, 0};
  int64_t modulus = 0;
};

// The node of an op that makes a node's data input, on the same device and for it alone; -1 if there is none.
int made_by(const Graph& graph, int node, int index, std::string_view op) {
  const Edge edge = graph[node].inputs[static_cast<size_t>(index)];
  if (edge.port != 0 || graph[edge.node].op != op || graph[edge.node].device != graph[node].device) return -1;
  if (graph.is_exposed(edge.node)) return -1;
  for (int consumer : graph[edge.node].consumers) {
    const std::vector<Edge>& inputs = graph[consumer].inputs;
    if (consumer != node && std::find(inputs.begin(), inputs.end(), Edge{edge.node, 0}) != inputs.end()) return -1;
  }
  return edge.node;
}

bool match_seed(const Graph& graph, int root, Seed* seed) {
  if (graph[root].op != "StatelessRandomGetKeyCounter" || graph.is_exposed(root)) return false;
  const int cast = made_by(graph, root, 0, "Cast");
  if (cast < 0 || graph.type_attribute(cast, "SrcT") != TF_INT64 || graph.type_attribute(cast, "DstT") != TF_INT32) {
    return false;
  }
  const int remainder = made_by(graph, cast, 0, "FloorMod");
  if (remainder < 0 || !graph.scalar_constant(graph[remainder].inputs[1].node, &seed->modulus)) return false;
  if (seed->modulus <= 0 || seed->modulus > INT32_MAX) return false;
  seed->nodes = {root, cast, remainder};
  seed->value = graph[remainder].inputs[0];
  const int product = made_by(graph, remainder, 0, "Mul");
  for (int side = 0; product >= 0 && side < 2; ++side) {
    int64_t one = 0;
    if (!graph.scalar_constant(graph[product].inputs[static_cast<size_t>(side)].node, &one) || one != 1) continue;
    seed->nodes.push_back(product);
    seed->value = graph[product].inputs[static_cast<size_t>(1 - side)];
    break;
  }
  return true;
}

// All of them, or, where something has to run between them, those of either half.
bool join_seeds(Graph& graph, const std::vector<Seed>& seeds) {
  std::vector<int> nodes;
  std::vector<Edge> inputs, results;
  for (const Seed& seed : seeds) {
    nodes.insert(nodes.end(), seed.nodes.begin(), seed.nodes.end());
    inputs.push_back(seed.value);
  }
  if (!graph.can_become_one(nodes, inputs)) {
    if (seeds.size() < 2) return false;
    const auto half = seeds.begin() + static_cast<std::ptrdiff_t>(seeds.size() / 2);
    const bool first = join_seeds(graph, std::vector<Seed>(seeds.begin(), half));
    return join_seeds(graph, std::vector<Seed>(half, seeds.end())) || first;
  }
  for (int port = 0; port < 2; ++port) {
    for (const Seed& seed : seeds) results.push_back({seed.nodes.front(), port});
  }
  Graph::Attributes attributes;
  attributes.set_integer("N", static_cast<int64_t>(seeds.size()));
  attributes.set_integer("modulus", seeds.front().modulus);
  const std::string name = std::string(graph[nodes.front()].name) + "/unihal";
  graph.contract(name, "UnihalRandomKeys", nodes, inputs, results, attributes);
  return true;
}

}  // namespace

bool fuse_seeds(Graph& graph, const std::vector<int>& candidates) {
  std::map<std::pair<std::string_view, int64_t>, std::vector<Seed>> alike;
  for (int node : candidates) {
    Seed seed;
    if (graph[node].removed || !match_seed(graph, node, &seed)) continue;
    alike[{graph[node].device, seed.modulus}].push_back(seed);
  }
  bool found = false;
  for (const auto& [key, seeds] : alike) found |= join_seeds(graph, seeds);
  return found;
}

}  // namespace unihal::tensorflow
