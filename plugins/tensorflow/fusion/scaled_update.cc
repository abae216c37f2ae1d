// The step of gradient descent, and of decay of weights, for each variable:
//
//   variable -= value * rate
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"

namespace unihal::tensorflow {

bool fuse_scaled_update(Graph& graph, int root) {
  if (graph[root].op != "AssignSubVariableOp" || graph.main_type(root) != TF_FLOAT) return false;
  Pattern pattern(graph, root);
  const Edge variable = pattern.input(root, 0);
  const int product = pattern.make(root, 1, "Mul");
  if (product < 0 || !can_be_updated_together(graph, {variable})) return false;
  Graph::Attributes attributes;
  attributes.set_type("T", TF_FLOAT);
  attributes.set_integer("N", 1);
  return graph.replace(pattern.nodes(), "UnihalScaledUpdate",
                       {variable, pattern.input(product, 0), pattern.input(product, 1)}, attributes);
}

}  // namespace unihal::tensorflow
