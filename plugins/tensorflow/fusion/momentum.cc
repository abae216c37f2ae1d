// Stochastic gradient descent with momentum as Keras composes it, for each variable:
//
//   velocity = momentum * velocity - rate * gradient
//   variable += velocity                                     or, with Nesterov's look ahead,
//   variable += momentum * velocity - rate * gradient
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"

namespace unihal::tensorflow {
namespace {

// momentum * velocity - rate * gradient
struct Blend {
  Edge velocity = {-1, 0};  // a read of the variable
  float momentum = 0;
  Edge gradient = {-1, 0};
  Edge rate = {-1, 0};
};

bool match_blend(Pattern* pattern, const Edge& edge, Blend* blend) {
  const int difference = pattern->make(edge, "Sub");
  const int kept = pattern->make(difference, 0, "Mul");
  const int step = pattern->make(difference, 1, "Mul");
  if (step < 0 || !pattern->constant_operand(kept, &blend->momentum, &blend->velocity)) return false;
  blend->gradient = pattern->input(step, 0);
  blend->rate = pattern->input(step, 1);
  return true;
}

}  // namespace

bool fuse_momentum(Graph& graph, int root) {
  if (graph[root].op != "AssignAddVariableOp" || graph.main_type(root) != TF_FLOAT) return false;
  Pattern pattern(graph, root);
  const Edge variable = pattern.input(root, 0);
  // The velocity is read after it was assigned.
  Blend ahead;
  const Edge added = pattern.input(root, 1);
  const bool nesterov = match_blend(&pattern, added, &ahead);
  const Edge read_again = nesterov ? ahead.velocity : added;
  const Edge velocity = pattern.input(read_again.node, 0);
  const int assignment = pattern.waits_for(pattern.make(read_again, "ReadVariableOp"), "AssignVariableOp", velocity);
  Blend blend;
  if (assignment < 0 || !match_blend(&pattern, pattern.input(assignment, 1), &blend)) return false;
  if (pattern.read_of(blend.velocity, velocity) < 0) return false;
  if (nesterov && (ahead.momentum != blend.momentum || ahead.gradient != blend.gradient || ahead.rate != blend.rate)) {
    return false;
  }
  if (!can_be_updated_together(graph, {variable, velocity})) return false;

  Graph::Attributes attributes;
  attributes.set_type("T", TF_FLOAT);
  attributes.set_integer("N", 1);
  attributes.set_float("momentum", blend.momentum);
  attributes.set_bool("use_nesterov", nesterov);
  return graph.replace(pattern.nodes(), "UnihalMomentum", {variable, velocity, blend.gradient, blend.rate}, attributes);
}

}  // namespace unihal::tensorflow
