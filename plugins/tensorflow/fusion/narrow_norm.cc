// Norms of narrow numbers. In mixed precision Keras casts what a norm is given to float32, and what it gives back; so
// do the gradients:
//
//   y = cast(norm(cast(x)))
//
// An op of ours that reads and writes float16 or bfloat16 computes in float32 alike, and no float32 copy of x, y or a
// gradient is in memory. Statistics, scale and offset, and their gradients, stay float32.
#include <algorithm>
#include <iterator>

#include "plugins/tensorflow/fusion.h"

namespace unihal::tensorflow {
namespace {

struct NormRow {
  const char* op;
  size_t tensors;  // inputs that x's type is of
};
constexpr NormRow kNormRows[] = {
    {"UnihalBatchNorm", 1},     {"UnihalBatchNormInference", 1}, {"UnihalLayerNorm", 1},   {"UnihalRmsNorm", 1},
    {"UnihalBatchNormGrad", 2}, {"UnihalLayerNormGrad", 2},      {"UnihalRmsNormGrad", 2},
};

bool is_narrow(TF_DataType type) { return type == TF_HALF || type == TF_BFLOAT16; }

bool is_cast(const Graph& graph, int node, int beside) {
  return graph[node].op == "Cast" && graph[node].device == graph[beside].device && !graph.flag(node, "Truncate");
}

// The narrow type that an edge was cast to float32 from; 0 if it was not.
TF_DataType type_before(const Graph& graph, const Edge& edge, int beside) {
  if (!is_cast(graph, edge.node, beside) || graph.type_attribute(edge.node, "DstT") != TF_FLOAT) return TF_DataType{};
  const TF_DataType type = graph.type_attribute(edge.node, "SrcT");
  return is_narrow(type) ? type : TF_DataType{};
}

// Whether all that reads a node's first output casts it to a type; gives these nodes.
bool is_only_cast_to(const Graph& graph, int node, TF_DataType type, std::vector<int>* casts) {
  for (int consumer : graph[node].consumers) {
    const std::vector<Edge>& inputs = graph[consumer].inputs;
    if (std::find(inputs.begin(), inputs.end(), Edge{node, 0}) == inputs.end()) continue;
    if (!is_cast(graph, consumer, node) || graph.type_attribute(consumer, "DstT") != type) return false;
    if (std::find(casts->begin(), casts->end(), consumer) == casts->end()) casts->push_back(consumer);
  }
  return true;
}

bool narrow(Graph& graph, int node, const NormRow& row, std::vector<int>* casts) {
  const TF_DataType type = type_before(graph, graph[node].inputs[0], node);
  std::vector<int> after;
  if (type == 0 || graph.is_exposed(node) || !is_only_cast_to(graph, node, type, &after)) return false;
  std::vector<Edge> inputs = graph[node].inputs, waits;
  for (size_t i = 0; i < row.tensors; ++i) {
    const int cast = inputs[i].node;
    if (type_before(graph, inputs[i], node) != type) return false;
    casts->push_back(cast);
    // What the cast waited for, the norm waits for.
    for (const Edge& edge : graph[cast].inputs) {
      if (edge.port == Graph::kControl) waits.push_back(edge);
    }
    inputs[i] = graph[cast].inputs[0];
  }
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(), [](const Edge& e) { return e.port == Graph::kControl; }),
               inputs.end());
  inputs.insert(inputs.end(), waits.begin(), waits.end());
  Graph::Attributes attributes = graph.attributes_of(node);
  attributes.set_type("T", type);
  graph.rewrite(node, row.op, inputs, attributes);
  // A cast that is waited for, or whose value is fetched, stays as what gives the value on.
  Graph::Attributes same;
  same.set_type("T", type);
  for (int cast : after) {
    graph.rewrite(cast, "Identity", {{node, 0}}, same);
    graph.redirect_data({cast, 0}, {node, 0});
    casts->push_back(cast);
  }
  return true;
}

}  // namespace

bool narrow_norms(Graph& graph, const std::vector<int>& candidates) {
  std::vector<int> casts;
  for (int node : candidates) {
    const auto* row = std::find_if(std::begin(kNormRows), std::end(kNormRows),
                                   [&](const NormRow& r) { return graph[node].op == r.op; });
    if (row == std::end(kNormRows) || graph[node].removed || graph.type_attribute(node, "T") != TF_FLOAT) continue;
    narrow(graph, node, *row, &casts);
  }
  graph.prune(casts, {"Cast", "Identity"});
  return !casts.empty();
}

}  // namespace unihal::tensorflow
