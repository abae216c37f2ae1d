// Collectives as tf.distribute composes them: gradients are laid end to end, reduced, and taken apart again, and of
// sparse gradients the ranks first gather the lengths, mostly constants, to see whether they are equal.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tensorflow/collectives.h"
#include "plugins/tensorflow/fusion.h"

namespace unihal::tensorflow {
namespace {

using Nodes = std::vector<int>;

// Nodes of one op by device, in the order of the graph.
std::map<std::string_view, Nodes> by_device(const Graph& graph, const Nodes& candidates, std::string_view op) {
  std::map<std::string_view, Nodes> found;
  for (int node : candidates) {
    if (!graph[node].removed && graph[node].op == op) found[graph[node].device].push_back(node);
  }
  return found;
}

// Whether every device has as many of the nodes as there are on the others, and the devices are all ranks of each
// node's group, so that what is done to all of the nodes is done on all ranks.
bool are_all_ranks(const Graph& graph, const std::map<std::string_view, Nodes>& devices) {
  if (devices.size() < 2) return false;
  for (const auto& [device, nodes] : devices) {
    if (nodes.size() != devices.begin()->second.size()) return false;
    for (int node : nodes) {
      int32_t size = 0;
      const bool is_known = graph.scalar_constant(graph[node].inputs[1].node, &size);
      if (!is_known || size != static_cast<int32_t>(devices.size())) return false;
    }
  }
  return true;
}

// "ring", in whatever case: TensorFlow's own way is asked for.
bool wants_ring(const Graph& graph, int node) {
  const std::string_view hint = graph.text(node, "communication_hint");
  return hint.size() == 4 && (hint[0] | 0x20) == 'r';
}

// -- all-reductions -------------------------------------------------------------------------------------------------

// ConcatV2, CollectiveReduceV2 and SplitV, with the reshapes that made the concatenation's inputs flat.
struct AllReduce {
  Nodes nodes;
  std::vector<Edge> tensors;
};

// Whether all that read an output of a node reshape it, so that it need not be flat.
bool is_reshaped(const Graph& graph, const Edge& edge) {
  for (int consumer : graph[edge.node].consumers) {
    const std::vector<Edge>& inputs = graph[consumer].inputs;
    if (std::find(inputs.begin(), inputs.end(), edge) == inputs.end()) continue;
    if (graph[consumer].op != "Reshape" || inputs[0] != edge || inputs[1] == edge) return false;
  }
  return true;
}

bool is_read_only_by(const Graph& graph, int node, int reader) {
  return std::all_of(graph[node].consumers.begin(), graph[node].consumers.end(),
                     [&](int consumer) { return consumer == reader; });
}

bool match_all_reduce(const Graph& graph, const std::string& type, int reduce, AllReduce* found) {
  const auto dtype = graph.type_attribute(reduce, "T");
  const int concat = graph[reduce].inputs[0].node;
  const Nodes& readers = graph[reduce].consumers;
  const auto is_split = [&](int node) { return graph[node].op == "SplitV" && graph[node].inputs[0].node == reduce; };
  const auto reader = std::find_if(readers.begin(), readers.end(), is_split);
  if (wants_ring(graph, reduce) || graph[concat].op != "ConcatV2" || reader == readers.end()) return false;
  const int split = *reader;
  const bool is_average = graph.text(reduce, "final_op") != "Id";
  if (!accepts_collective(type.c_str(), dtype, is_average) || graph[concat].device != graph[reduce].device ||
      graph[split].device != graph[reduce].device || !is_read_only_by(graph, concat, reduce)) {
    return false;
  }
  for (int other : readers) {  // but for those that wait
    const std::vector<Edge>& inputs = graph[other].inputs;
    if (other != split && std::find(inputs.begin(), inputs.end(), Edge{reduce, 0}) != inputs.end()) return false;
  }
  found->nodes = {reduce, concat, split};
  const auto count = static_cast<size_t>(graph.integer(concat, "N"));
  if (count < 2 || graph[concat].inputs.size() <= count ||
      graph.integer(split, "num_split") != static_cast<int64_t>(count)) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    Edge tensor = graph[concat].inputs[i];
    const bool is_flattened = graph[tensor.node].op == "Reshape" && graph[tensor.node].device == graph[reduce].device &&
                              !graph.is_exposed(tensor.node) && is_read_only_by(graph, tensor.node, concat) &&
                              is_reshaped(graph, {split, static_cast<int>(i)});
    if (is_flattened) {
      found->nodes.push_back(tensor.node);
      tensor = graph[tensor.node].inputs[0];
    }
    found->tensors.push_back(tensor);
  }
  return std::none_of(found->nodes.begin(), found->nodes.end(), [&](int node) { return graph.is_exposed(node); });
}

void rewrite(Graph& graph, const AllReduce& found) {
  const int reduce = found.nodes.front();
  std::vector<Edge> inputs = found.tensors;
  for (size_t i = 1; i < graph[reduce].inputs.size() && graph[reduce].inputs[i].port != Graph::kControl; ++i) {
    inputs.push_back(graph[reduce].inputs[i]);
  }
  Graph::Attributes attributes = graph.attributes_of(reduce);
  attributes.set_integer("N", static_cast<int64_t>(found.tensors.size()));
  // The readers of the split's outputs read the new node's, whose numbers are the same.
  graph.contract(std::string(graph[reduce].name) + "_of_list", "UnihalCollectiveReduce", found.nodes, inputs, {},
                 attributes);
}

}  // namespace

bool fuse_all_reduces(Graph& graph, const std::string& type, const Nodes& candidates) {
  const auto devices = by_device(graph, candidates, "CollectiveReduceV2");
  if (!are_all_ranks(graph, devices)) return false;
  // All of them or none: the ranks of a collective must do the same.
  std::vector<AllReduce> found;
  std::map<std::string_view, std::multiset<size_t>> lengths;
  for (const auto& [device, nodes] : devices) {
    for (int node : nodes) {
      AllReduce one;
      if (!match_all_reduce(graph, type, node, &one) || !graph.can_become_one(one.nodes, one.tensors)) return false;
      lengths[device].insert(one.tensors.size());
      found.push_back(one);
    }
    if (lengths[device] != lengths.begin()->second) return false;
  }
  for (const AllReduce& one : found) rewrite(graph, one);
  return true;
}

bool fold_gathers(Graph& graph, const Nodes& candidates) {
  const auto devices = by_device(graph, candidates, "CollectiveGatherV2");
  if (!are_all_ranks(graph, devices)) return false;
  std::vector<int64_t> common;
  for (const auto& [device, nodes] : devices) {
    for (int node : nodes) {
      std::vector<int64_t> values;
      if (graph.is_exposed(node) || !graph.vector_constant(graph[node].inputs[0].node, &values)) return false;
      if (common.empty()) common = values;
      if (values.empty() || values != common) return false;
    }
  }
  std::vector<int64_t> gathered;
  for (size_t rank = 0; rank < devices.size(); ++rank) gathered.insert(gathered.end(), common.begin(), common.end());
  Graph::Attributes attributes;
  attributes.set_type("dtype", TF_INT32);
  attributes.set_vector("value", gathered);
  for (const auto& [device, nodes] : devices) {
    for (int node : nodes) {
      const int made = graph.add(std::string(graph[node].name) + "_gathered", "Const", device, {}, attributes);
      graph.redirect_data({node, 0}, {made, 0});
      graph.rewrite(node, "NoOp", {}, {});
    }
  }
  return true;
}

}  // namespace unihal::tensorflow
