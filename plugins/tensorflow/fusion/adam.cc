// Adam as Keras composes it, for each variable:
//
//   rate = learning_rate * sqrt(1 - beta2^step) / (1 - beta1^step)
//   first  += (gradient - first) * (1 - beta1)
//   second += (gradient^2 - second) * (1 - beta2)
//   variable -= first * rate / (sqrt(second) + epsilon)
//
// and AdamW before that, by itself
//
//   variable -= variable * decay
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"

namespace unihal::tensorflow {
namespace {

// A running mean: variable += (value - variable) * rate.
struct Mean {
  Edge variable = {-1, 0};
  Edge value = {-1, 0};
  float rate = 0;
};

// Whether an edge is the read of a running mean right after its update.
bool match_mean(Pattern* pattern, const Edge& edge, Mean* mean) {
  mean->variable = pattern->input(edge.node, 0);
  const int read = pattern->make(edge, "ReadVariableOp");
  const int update = pattern->waits_for(read, "AssignAddVariableOp", mean->variable);
  const int change = pattern->make(update, 1, "Mul");
  Edge rest = {-1, 0};
  if (!pattern->constant_operand(change, &mean->rate, &rest)) return false;
  const int difference = pattern->make(rest, "Sub");
  mean->value = pattern->input(difference, 0);
  return pattern->read_of(pattern->input(difference, 1), mean->variable) >= 0;
}

// The operand whose square an edge is.
Edge square_root_of(Pattern* pattern, const Edge& edge) {
  if (const int square = pattern->make(edge, "Square"); square >= 0) return pattern->input(square, 0);
  const int product = pattern->make(edge, "Mul");
  const Edge operand = pattern->input(product, 0);
  return operand == pattern->input(product, 1) ? operand : Edge{-1, 0};
}

// The whole pattern, with the first moment as this operand of its product with the rate.
bool fuse_adam_with(Graph& graph, int root, int side) {
  Pattern pattern(graph, root);
  const int step = pattern.make(root, 1, "RealDiv");
  const int numerator = pattern.make(step, 0, "Mul");
  const int denominator = pattern.make(step, 1, "AddV2");
  Mean first, second;
  float epsilon = 0;
  Edge rest = {-1, 0};
  if (numerator < 0 || !pattern.constant_operand(denominator, &epsilon, &rest)) return false;
  const int deviation = pattern.make(rest, "Sqrt");
  if (!match_mean(&pattern, pattern.input(numerator, side), &first)) return false;
  if (!match_mean(&pattern, pattern.input(deviation, 0), &second)) return false;
  const Edge gradient = first.value;
  if (gradient.node < 0 || square_root_of(&pattern, second.value) != gradient) return false;
  const Edge variable = pattern.input(root, 0);
  if (!can_be_updated_together(graph, {variable, first.variable, second.variable})) return false;

  Graph::Attributes attributes;
  attributes.set_type("T", TF_FLOAT);
  attributes.set_integer("N", 1);
  attributes.set_float("first_rate", first.rate);
  attributes.set_float("second_rate", second.rate);
  attributes.set_float("epsilon", epsilon);
  const Edge rate = pattern.input(numerator, 1 - side);
  return graph.replace(pattern.nodes(), "UnihalAdam", {variable, first.variable, second.variable, gradient, rate},
                       attributes);
}

}  // namespace

bool fuse_adam(Graph& graph, int root) {
  if (graph[root].op != "AssignSubVariableOp" || graph.main_type(root) != TF_FLOAT) return false;
  return fuse_adam_with(graph, root, 0) || fuse_adam_with(graph, root, 1);
}

bool fuse_adam_decay(Graph& graph, int root) {
  if (graph[root].op != "UnihalAdam") return false;
  const Edge variable = graph[root].inputs.front();
  int decay = -1;
  std::vector<Edge> reads;
  for (int user : graph[variable.node].consumers) {
    const std::string_view op = graph[user].op;
    if (op == "ReadVariableOp") {
      reads.push_back({user, 0});
      reads.push_back({user, Graph::kControl});
    } else if (op == "AssignSubVariableOp" && decay < 0) {
      decay = user;
    } else if (user != root) {
      return false;
    }
  }
  if (decay < 0 || !is_only_handle(graph, variable.node)) return false;
  Pattern pattern(graph, decay);
  const int product = pattern.make(decay, 1, "Mul");
  if (product < 0) return false;
  for (int side = 0; side < 2; ++side) {
    const Edge read = pattern.input(product, side);
    const Edge rate = pattern.input(product, 1 - side);
    if (graph[read.node].op != "ReadVariableOp" || pattern.input(read.node, 0) != variable) continue;
    // Nobody sees the variable between the decay and the step.
    const std::vector<Edge> after{{decay, Graph::kControl}};
    if (rate == read || graph.leads_to(after, reads) || !graph.leads_to(after, {{root, 0}})) return false;
    graph.extend(root, "UnihalAdamWithDecay", {rate});
    graph.absorb(decay, root);
    return true;
  }
  return false;
}

bool fuse_adam_rate(Graph& graph, int root) {
  if (graph[root].op != "RealDiv" || graph.main_type(root) != TF_FLOAT) return false;
  Pattern pattern(graph, root);
  // 1 - beta^step; the edge is the step's.
  const auto match_correction = [&pattern](const Edge& edge, float* beta) {
    float one = 0;
    const int difference = pattern.make(edge, "Sub");
    const int power = pattern.make(difference, 1, "Pow");
    const bool fits = pattern.constant(pattern.input(difference, 0), &one) && one == 1 &&
                      pattern.constant(pattern.input(power, 0), beta);
    return fits ? pattern.input(power, 1) : Edge{-1, 0};
  };
  float beta1 = 0, beta2 = 0;
  const Edge step = match_correction(pattern.input(root, 1), &beta1);
  const int product = pattern.make(root, 0, "Mul");
  if (step.node < 0 || product < 0) return false;
  for (int side = 0; side < 2; ++side) {
    const int root_of_correction = pattern.make(product, side, "Sqrt");
    if (root_of_correction < 0) continue;
    if (match_correction(pattern.input(root_of_correction, 0), &beta2) != step) return false;
    Graph::Attributes attributes;
    attributes.set_type("T", TF_FLOAT);
    attributes.set_float("beta1", beta1);
    attributes.set_float("beta2", beta2);
    return graph.replace(pattern.nodes(), "UnihalAdamRate", {pattern.input(product, 1 - side), step}, attributes);
  }
  return false;
}

}  // namespace unihal::tensorflow
