// Elementwise nodes of a graph as a program of UHAL_OP_MAP_CHAIN.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/tensorflow/graph.h"
#include "plugins/tensorflow/output_shapes.h"

namespace unihal::tensorflow {

// Shapes that are known to be equal, by class: what shape inference says, or, where it says nothing, an operand's shape
// that an op keeps.
class ShapeClasses {
 public:
  ShapeClasses(const Graph& graph, OutputShapes& shapes) : graph_(graph), shapes_(shapes) {}
  // Of output 0 of an elementwise node, or of any output of another.
  const std::string& of(const Graph::Edge& edge);

 private:
  std::string find(const Graph::Edge& edge);

  const Graph& graph_;
  OutputShapes& shapes_;
  std::vector<std::vector<std::string>> known_;  // by node and port; empty: not asked yet
  int depth_ = 0;
};

// Whether a node can be part of a program: its op is a function, its types are float32, float16, bfloat16 or bool.
bool is_elementwise(const Graph& graph, int node, ShapeClasses& classes);

// A program of some nodes, in the order of execution.
struct ElementwiseProgram {
  std::vector<Graph::Edge> inputs;
  std::vector<TF_DataType> input_types, output_types;
  std::vector<int64_t> functions, operands;  // operands of all steps, one after the other
  std::vector<float> parameters;             // two a step
  std::vector<int> nodes;                    // whose values are the outputs
  std::vector<int64_t> results;              // their numbers

  // nullopt if the nodes take more inputs, steps or outputs than a chain has, or nothing reads them.
  static std::optional<ElementwiseProgram> make(const Graph& graph, const std::vector<int>& nodes);
  // Whether the first device of a type runs it.
  bool runs_on(const std::string& type) const;
  Graph::Attributes attributes() const;
};

}  // namespace unihal::tensorflow
