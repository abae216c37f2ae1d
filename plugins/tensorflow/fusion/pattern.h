// Words for patterns of nodes, and the list of nodes matched so far.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "plugins/tensorflow/graph.h"

namespace unihal::tensorflow {

class Pattern {
 public:
  // Begins with a node at the end of the pattern. All others must be on its device and, where not said otherwise,
  // compute in float32.
  Pattern(const Graph& graph, int root) : graph_(graph), nodes_{root} {}

  // A node's data input. A node of -1 is a match that failed, and gives an edge from -1.
  Graph::Edge input(int node, int index) const;

  // The node that makes an edge, if it is of this op, by its first output; it then belongs to the pattern. Else -1.
  int make(const Graph::Edge& edge, std::string_view op, TF_DataType type = TF_FLOAT);
  int make(int node, int index, std::string_view op, TF_DataType type = TF_FLOAT) {
    return make(input(node, index), op, type);
  }

  // The operand of a commutative op that is a float32 scalar constant, with its value, and the other operand's edge.
  bool constant_operand(int node, float* constant, Graph::Edge* other) const;
  bool constant(const Graph::Edge& edge, float* value) const;
  bool is_integer(const Graph::Edge& edge, int32_t value) const;

  // The node of `op` on the resource `variable` that `node` waits for through a control edge; it then belongs to the
  // pattern. Else -1.
  int waits_for(int node, std::string_view op, const Graph::Edge& variable);

  // A read of `variable`: the node, which then belongs to the pattern, or -1.
  int read_of(const Graph::Edge& edge, const Graph::Edge& variable);

  const std::vector<int>& nodes() const { return nodes_; }

 private:
  int add(int node);
  bool fits(int node, std::string_view op, TF_DataType type) const;

  const Graph& graph_;
  std::vector<int> nodes_;
};

// The shape of the variable behind a handle, where the node that gives the handle says so.
std::optional<std::vector<int64_t>> shape_of_variable(const Graph& graph, int node);

// Whether no other node is seen to name the variable behind a handle.
bool is_only_handle(const Graph& graph, int node);

// Whether the variables behind resource handles are known to have one shape, and are not seen to be one variable.
bool can_be_updated_together(const Graph& graph, std::initializer_list<Graph::Edge> variables);

}  // namespace unihal::tensorflow
