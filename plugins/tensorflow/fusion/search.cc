#include "plugins/tensorflow/fusion/search.h"

#include <algorithm>
#include <set>
#include <string>

namespace unihal::tensorflow {

Edge AlgebraSearch::input(int node, int index) const {
  const std::vector<Edge>& inputs = graph_[node].inputs;
  if (static_cast<size_t>(index) >= inputs.size()) return kNoEdge;
  const Edge edge = inputs[static_cast<size_t>(index)];
  return edge.port == Graph::kControl ? kNoEdge : edge;
}

std::vector<int> AlgebraSearch::readers(const Edge& edge) const {
  std::set<int> found;
  for (int consumer : graph_[edge.node].consumers) {
    const std::vector<Edge>& inputs = graph_[consumer].inputs;
    if (std::find(inputs.begin(), inputs.end(), edge) != inputs.end()) found.insert(consumer);
  }
  return {found.begin(), found.end()};
}

void AlgebraSearch::collect(const Edge& edge, bool is_root, int atom, bool* takes_offset, Terms* terms) {
  const int node = edge.node;
  const std::string_view op = graph_[node].op;
  const bool is_sum = (op == "AddV2" || op == "Add" || op == "AddN") && edge.port == 0 && is_of_type(node);
  if (is_sum && (is_root || (graph_[node].consumers.size() == 1 && !graph_.is_exposed(node)))) {
    for (const Edge& next : graph_[node].inputs) {
      if (next.port != Graph::kControl) collect(next, false, atom, takes_offset, terms);
    }
    return;
  }
  const std::optional<Value> value = algebra_->value(edge);
  if (value && !value->is_unproved) {
    const auto& all = value->polynomial.terms();
    const bool has_atom = algebra_->depends(value->polynomial, atom);
    const bool is_offset = *takes_offset && all.size() == 1 && all.begin()->second == 1 &&
                           all.begin()->first.size() == 1 && is_parameter(all.begin()->first.front());
    if (has_atom || is_offset) {
      if (!has_atom) *takes_offset = false;
      terms->understood = terms->understood + value->polynomial;
      return;
    }
  }
  terms->others.push_back(edge);
}

bool AlgebraSearch::terms_of(int node, const Polynomial& atom, bool takes_offset, Terms* terms) {
  *terms = Terms();
  if (!is_of_type(node) || graph_.is_exposed(node)) return false;
  collect({node, 0}, true, number_of(atom), &takes_offset, terms);
  return terms->others != std::vector<Edge>{{node, 0}};
}

bool AlgebraSearch::is_parameter(const std::pair<int, int>& entry) const {
  return entry.second == 1 && algebra_->edge_of(entry.first).node >= 0 &&
         algebra_->extent_of(entry.first) == Extent::kColumn;
}

std::vector<Edge> AlgebraSearch::gradient_candidates(std::vector<Edge> sources, const std::vector<Polynomial>& slopes) {
  std::set<int> seen;
  std::vector<Edge> found;
  while (!sources.empty() && seen.size() < 64) {
    const Edge source = sources.back();
    sources.pop_back();
    for (int node : readers(source)) {
      if (!seen.insert(node).second || !is_of_type(node)) continue;
      if (algebra_->value({node, 0})) {
        sources.push_back({node, 0});
        continue;
      }
      if (graph_[node].op != "Mul") continue;
      for (int side = 0; side < 2; ++side) {
        const std::optional<Value> factor = algebra_->value(input(node, side));
        Edge other = input(node, 1 - side);
        if (!factor || other.node < 0) continue;
        const auto is_factor = [&](const Polynomial& slope) { return algebra_->equal(factor->polynomial, slope); };
        if (std::none_of(slopes.begin(), slopes.end(), is_factor)) continue;
        // A gradient that is given the shape that it has.
        while (graph_[other.node].op == "Reshape" && input(other.node, 1).node >= 0) {
          const int shape = input(other.node, 1).node;
          if (graph_[shape].op != "Shape") break;
          const std::optional<Value> shaped = algebra_->value(input(shape, 0));
          if (!shaped || shaped->extent != Extent::kFull) break;
          other = input(other.node, 0);
        }
        if (std::find(found.begin(), found.end(), other) == found.end()) found.push_back(other);
      }
    }
  }
  return found;
}

bool AlgebraSearch::waits_before(const std::vector<int>& nodes, const std::vector<Edge>& leaves,
                                 std::vector<Edge>* waits) const {
  std::vector<int> waiting = nodes;
  std::set<int> between, before;
  while (!waiting.empty()) {
    const int node = waiting.back();
    waiting.pop_back();
    if (!between.insert(node).second) continue;
    if (between.size() > 512) return false;
    for (const Edge& edge : graph_[node].inputs) {
      if (std::find(leaves.begin(), leaves.end(), edge) != leaves.end()) continue;
      const std::string_view op = graph_[edge.node].op;
      // An op that took the place of something which two formulas share has waited for what that did.
      if (edge.port == Graph::kControl || op.substr(0, 6) == "Unihal" || op == "ReadVariableOp") {
        before.insert(edge.node);
      } else {
        waiting.push_back(edge.node);
      }
    }
  }
  for (int node : before) {
    if (between.count(node) == 0) waits->push_back({node, Graph::kControl});
  }
  return true;
}

void AlgebraSearch::write_sum(int node, const Edge& first, const std::vector<Edge>& others) {
  if (others.empty()) return graph_.redirect_data({node, 0}, first);
  Graph::Attributes attributes;
  attributes.set_type("T", type_);
  Edge sum = first;
  for (size_t i = 0; i + 1 < others.size(); ++i) {
    const std::string name = std::string(graph_[node].name) + "/unihal_sum";
    sum = {graph_.add(name, "AddV2", graph_[node].device, {sum, others[i]}, attributes), 0};
  }
  graph_.rewrite(node, "AddV2", {sum, others.back()}, attributes);
}

}  // namespace unihal::tensorflow
