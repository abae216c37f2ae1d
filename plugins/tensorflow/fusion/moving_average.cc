// The moving averages of batch normalization, and of Keras' averages of weights:
//
//   variable = variable * momentum + value * (1 - momentum)
#include <cmath>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"

namespace unihal::tensorflow {

bool fuse_moving_average(Graph& graph, int root) {
  if (graph[root].op != "AssignVariableOp" || graph.main_type(root) != TF_FLOAT) return false;
  Pattern pattern(graph, root);
  const Edge variable = pattern.input(root, 0);
  const int sum = pattern.make(root, 1, "AddV2");
  if (sum < 0 || !can_be_updated_together(graph, {variable})) return false;
  for (int side = 0; side < 2; ++side) {
    const Edge kept = pattern.input(sum, side), added = pattern.input(sum, 1 - side);
    float momentum = 0, rate = 0;
    Edge old = {-1, 0}, value = {-1, 0};
    if (kept.node < 0 || added.node < 0 || graph[kept.node].op != "Mul" || graph[added.node].op != "Mul") continue;
    if (!pattern.constant_operand(kept.node, &momentum, &old)) continue;
    if (!pattern.constant_operand(added.node, &rate, &value)) continue;
    if (old.node < 0 || graph[old.node].op != "ReadVariableOp" || pattern.input(old.node, 0) != variable) continue;
    if (std::abs(momentum + rate - 1) > 1e-6F) return false;
    const int product = pattern.make(added, "Mul");
    if (product < 0 || pattern.make(kept, "Mul") < 0 || pattern.read_of(old, variable) < 0) return false;
    const Edge factor = pattern.input(product, 0) == value ? pattern.input(product, 1) : pattern.input(product, 0);
    Graph::Attributes attributes;
    attributes.set_type("T", TF_FLOAT);
    attributes.set_integer("N", 1);
    return graph.replace(pattern.nodes(), "UnihalMovingAverage", {variable, value, factor}, attributes);
  }
  return false;
}

}  // namespace unihal::tensorflow
