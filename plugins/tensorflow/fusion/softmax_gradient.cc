// The gradient of a softmax y, as TensorFlow derives it:
//
//   (gradient - sum(gradient * y, axis, keepdims=True)) * y
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"

namespace unihal::tensorflow {

bool fuse_softmax_gradient(Graph& graph, int root) {
  const TF_DataType type = graph.main_type(root);
  if (graph[root].op != "Mul" || !(type == TF_FLOAT || type == TF_HALF || type == TF_BFLOAT16)) return false;
  for (int side = 0; side < 2; ++side) {
    Pattern pattern(graph, root);
    const Edge y = pattern.input(root, side);
    if (y.node < 0 || y.port != 0 || graph[y.node].op != "Softmax") continue;
    const int difference = pattern.make(root, 1 - side, "Sub", type);
    const Edge gradient = pattern.input(difference, 0);
    const int sum = pattern.make(difference, 1, "Sum", type);
    const int product = pattern.make(sum, 0, "Mul", type);
    if (product < 0 || gradient.node < 0 || !graph.flag(sum, "keep_dims")) continue;
    const Edge first = pattern.input(product, 0), second = pattern.input(product, 1);
    if (!((first == y && second == gradient) || (first == gradient && second == y))) continue;
    std::vector<int64_t> axes;
    int32_t axis = 0;
    const int axes_node = pattern.input(sum, 1).node;
    if (graph.scalar_constant(axes_node, &axis)) {
      axes = {axis};
    } else if (!graph.vector_constant(axes_node, &axes)) {
      continue;
    }
    if (axes.size() != 1) continue;
    Graph::Attributes attributes;
    attributes.set_type("T", type);
    attributes.set_integer("axis", axes.front());
    return graph.replace(pattern.nodes(), "UnihalSoftmaxGrad", {y, gradient}, attributes);
  }
  return false;
}

}  // namespace unihal::tensorflow
