// GELU as Keras composes it, and its gradient as TensorFlow derives it, found by what nodes compute as norms are
// (norm.cc):
//
//   y = 0.5 * x * erfc(-x / sqrt(2)), also as 0.5 * x * (1 + erf(x / sqrt(2))), and
//   y = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
#include <set>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/search.h"

namespace unihal::tensorflow {
namespace {

constexpr double kRootOfHalf = 0.70710678118654752440;
constexpr double kRootOfTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

class Gelu : private AlgebraSearch {
 public:
  Gelu(Graph& graph, int root) : AlgebraSearch(graph, graph.main_type(root)), root_(root) {}

  bool fuse() {
    if (!find_operand()) return false;
    algebra_.emplace(graph_, x_, 0, type_);
    if (!match_function() || !find_result()) return false;
    find_gradient();
    if (gradient_.node < 0 && !is_read_only_by_result()) return false;
    inputs_ = {x_};
    if (!waits_before({result_}, {x_}, &inputs_) || graph_.leads_to({{result_, 0}}, inputs_)) return false;
    if (gradient_.node >= 0) {
      std::vector<Edge> leaves = others_;
      leaves.insert(leaves.end(), {x_, gradient_});
      gradient_inputs_ = {x_, gradient_};
      if (!waits_before({x_gradient_}, leaves, &gradient_inputs_)) return false;
      if (graph_.leads_to({{x_gradient_, 0}}, gradient_inputs_)) return false;
    }
    write();
    return true;
  }

 private:
  // The operand of the function is x times numbers, or x plus its cube times one.
  bool find_operand() {
    int node = input(root_, 0).node;
    for (int depth = 0; node >= 0 && depth < 8; ++depth) {
      const std::string_view op = graph_[node].op;
      float number = 0;
      if (op == "Neg") {
        x_ = input(node, 0);
      } else if (op == "Mul" || op == "RealDiv") {
        const Edge a = input(node, 0), b = input(node, 1);
        if (a.node < 0 || b.node < 0) return false;
        x_ = graph_.scalar_constant(a.node, type_, &number) ? b : a;
      } else if (op == "AddV2" || op == "Add") {  // x is what the cube is of
        const Edge a = input(node, 0), b = input(node, 1);
        for (const Edge& cube : {a, b}) {
          Edge inner = cube;
          while (inner.node >= 0 && graph_[inner.node].op == "Mul") {
            const Edge first = input(inner.node, 0);
            const bool is_number = first.node >= 0 && graph_.scalar_constant(first.node, type_, &number);
            inner = is_number ? input(inner.node, 1) : first;
          }
          if (inner.node < 0) continue;
          if (graph_[inner.node].op == "Pow" || graph_[inner.node].op == "Square") inner = input(inner.node, 0);
          if (inner == a && !(inner == cube)) x_ = a;
          if (inner == b && !(inner == cube)) x_ = b;
        }
        return x_.node >= 0;
      } else {
        break;
      }
      node = x_.node;
    }
    return x_.node >= 0;
  }

  bool match_function() {
    const Polynomial x = algebra_->x();
    const std::optional<Value> value = algebra_->value({root_, 0});
    const std::optional<Value> operand = algebra_->value(input(root_, 0));
    if (!value || !operand) return false;
    const Polynomial f = value->polynomial;
    const std::string_view op = graph_[root_].op;
    Polynomial slope;  // of the cumulative distribution
    if (op == "Tanh") {
      const Polynomial argument = Polynomial(kRootOfTwoOverPi) * (x + Polynomial(kCubic) * x * x * x);
      if (!algebra_->equal(operand->polynomial, argument)) return false;
      share_ = Polynomial(0.5) * (Polynomial(1) + f);
      slope = Polynomial(0.5) * (Polynomial(1) - f * f) *
              (Polynomial(kRootOfTwoOverPi) * (Polynomial(1) + Polynomial(3 * kCubic) * x * x));
    } else {
      const double sign = op == "Erfc" ? -1 : 1;
      if (!algebra_->equal(operand->polynomial, Polynomial(sign * kRootOfHalf) * x)) return false;
      share_ = Polynomial(0.5) * (op == "Erfc" ? f : Polynomial(1) + f);
      // The exponent as the graph's constants have it.
      const Polynomial square = operand->polynomial * operand->polynomial;
      slope = Polynomial(0.5 * kRootOfTwoOverPi) * algebra_->function("Exp", square * Polynomial(-1), Extent::kFull);
    }
    function_ = f;
    derivative_ = share_ + x * slope;
    return true;
  }

  bool find_result() {
    const Polynomial y = algebra_->x() * share_;
    std::vector<int> waiting = readers({root_, 0});
    std::set<int> seen;
    while (!waiting.empty() && seen.size() < 32) {
      const int node = waiting.back();
      waiting.pop_back();
      if (!seen.insert(node).second) continue;
      const std::optional<Value> value = algebra_->value({node, 0});
      if (!value) continue;
      if (!graph_.is_exposed(node) && algebra_->equal(value->polynomial, y)) {
        result_ = node;
        return true;
      }
      for (int reader : readers({node, 0})) waiting.push_back(reader);
    }
    return false;
  }

  void find_gradient() {
    const Polynomial x = algebra_->x();
    const Polynomial half = Polynomial(0.5) * x;
    const std::vector<Polynomial> slopes{share_, function_, half, x, Polynomial(1) + function_, x * share_};
    for (const Edge& candidate : gradient_candidates({{root_, 0}, x_}, slopes)) {
      algebra_->set_gradient(candidate, 0);
      const Polynomial dx = algebra_->gradient() * derivative_;
      std::vector<int> waiting = readers(candidate);
      std::set<int> seen;
      while (!waiting.empty() && seen.size() < 64) {
        const int node = waiting.back();
        waiting.pop_back();
        if (!seen.insert(node).second) continue;
        Terms terms;
        if (terms_of(node, algebra_->gradient(), false, &terms) && algebra_->equal(terms.understood, dx)) {
          gradient_ = candidate;
          x_gradient_ = node;
          others_ = terms.others;
          return;
        }
        const bool is_sum = graph_[node].op == "AddN" || graph_[node].op == "AddV2";
        if (!algebra_->value({node, 0}) && !is_sum) continue;
        for (int reader : readers({node, 0})) waiting.push_back(reader);
      }
    }
    algebra_->set_gradient(kNoEdge, 0);
  }

  // Without a gradient there is something to win only if nothing else reads the function.
  bool is_read_only_by_result() const {
    std::vector<int> waiting = readers({root_, 0});
    std::set<int> seen;
    while (!waiting.empty()) {
      const int node = waiting.back();
      waiting.pop_back();
      if (node == result_ || !seen.insert(node).second) continue;
      const std::vector<int> next = readers({node, 0});
      if (next.empty() || seen.size() > 8) return false;
      waiting.insert(waiting.end(), next.begin(), next.end());
    }
    return true;
  }

  void write() {
    Graph::Attributes attributes;
    attributes.set_type("T", type_);
    attributes.set_bool("approximate", graph_[root_].op == "Tanh");
    const std::string name = std::string(graph_[result_].name) + "/unihal";
    const int y = graph_.add(name, "UnihalGelu", graph_[result_].device, inputs_, attributes);
    if (gradient_.node >= 0) {
      const std::string gradient_name = std::string(graph_[x_gradient_].name) + "/unihal";
      const int dx =
          graph_.add(gradient_name, "UnihalGeluGrad", graph_[x_gradient_].device, gradient_inputs_, attributes);
      write_sum(x_gradient_, {dx, 0}, others_);
    }
    write_sum(result_, {y, 0}, {});
  }

  int root_;
  Polynomial function_;    // erf, erfc or tanh
  Polynomial share_;       // y / x
  Polynomial derivative_;  // of y
  int result_ = -1;
  Edge gradient_ = kNoEdge;
  int x_gradient_ = -1;
  std::vector<Edge> inputs_, gradient_inputs_;  // of the new ops, with what they wait for
  std::vector<Edge> others_;                    // terms that are added to x's gradient
};

}  // namespace

bool fuse_gelu(Graph& graph, int root) {
  const std::string_view op = graph[root].op;
  const bool fits = op == "Erfc" || op == "Erf" || op == "Tanh";
  const TF_DataType type = graph.main_type(root);
  if (!fits || graph.is_exposed(root) || !(type == TF_FLOAT || type == TF_HALF || type == TF_BFLOAT16)) return false;
  return Gelu(graph, root).fuse();
}

}  // namespace unihal::tensorflow
