// Before keras.ops.argmax and argmin look at x, they make negative zeros smaller than positive ones:
//
//   where(x == 0 and signbit(x), smallest, x)        with signbit(x) = (bitcast(x, int32) & 0x80000000) < 0
//
// TensorFlow compares int32 in host memory, so that this took two copies to the host and back in every training step.
#include <cstdint>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"

namespace unihal::tensorflow {

bool fuse_negative_zero(Graph& graph, int root) {
  if (graph[root].op != "SelectV2" || graph.main_type(root) != TF_FLOAT) return false;
  Pattern pattern(graph, root);
  const Edge x = pattern.input(root, 2);
  float replacement = 0;
  const int both = pattern.make(root, 0, "LogicalAnd", static_cast<TF_DataType>(0));
  if (both < 0 || !pattern.constant(pattern.input(root, 1), &replacement)) return false;
  for (int side = 0; side < 2; ++side) {
    const int is_zero = pattern.make(both, side, "Equal");
    if (is_zero < 0) continue;
    const int is_negative = pattern.make(both, 1 - side, "Less", TF_INT32);
    const int sign = pattern.make(is_negative, 0, "BitwiseAnd", TF_INT32);
    float zero = 1;
    Edge compared = {-1, 0};
    if (!pattern.constant_operand(is_zero, &zero, &compared) || zero != 0 || compared != x) return false;
    if (!pattern.is_integer(pattern.input(is_negative, 1), 0)) return false;
    for (int bits = 0; bits < 2; ++bits) {
      const int cast = pattern.make(sign, bits, "Bitcast");
      if (cast < 0) continue;
      if (pattern.input(cast, 0) != x || graph.type_attribute(cast, "type") != TF_INT32) return false;
      if (!pattern.is_integer(pattern.input(sign, 1 - bits), INT32_MIN)) return false;
      Graph::Attributes attributes;
      attributes.set_type("T", TF_FLOAT);
      attributes.set_float("replacement", replacement);
      return graph.replace(pattern.nodes(), "UnihalReplaceNegativeZero", {x}, attributes);
    }
  }
  return false;
}

}  // namespace unihal::tensorflow
