// Batch, layer and RMS normalization as Keras composes them, and their gradients as TensorFlow derives them:
//
//   y = (x - mean) * rsqrt(variance + epsilon) * scale + offset
//
// The optimizers of TensorFlow leave these sums and products in many orders, so nodes are recognized by what they
// compute (algebra.h): a node whose polynomial is that of y, of x's gradient, of scale's or of offset's is given by one
// op of ours. What nothing reads then is removed.
#include <algorithm>
#include <set>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/search.h"

namespace unihal::tensorflow {
namespace {

enum class NormKind { kBatch, kBatchInference, kLayer, kRms };

class Norm : private AlgebraSearch {
 public:
  Norm(Graph& graph, int root) : AlgebraSearch(graph), rsqrt_(root) {}

  bool fuse();

 private:
  bool find_operand();
  bool find_operand_of_inference(const Edge& variance);
  bool match_statistics();
  void find_result();
  bool is_result(const Polynomial& polynomial, int parameters, Edge* scale, Edge* offset, Edge* mean) const;
  bool find_gradient();
  bool match_gradient(const Edge& gradient, int rank, bool needs_operand);
  bool is_worthwhile();
  void find_statistics();
  void write();

  int rsqrt_;
  NormKind kind_ = NormKind::kBatch;
  int rank_ = 0;
  float epsilon_ = 0;
  Extent extent_ = Extent::kColumn;  // of the statistics
  Polynomial inverse_;               // 1 / standard deviation
  Polynomial mean_;

  int result_ = -1;
  Edge scale_ = kNoEdge, offset_ = kNoEdge, mean_edge_ = kNoEdge, variance_edge_ = kNoEdge;
  Polynomial scale_value_;
  std::vector<Edge> others_;  // terms that are added to y
  std::vector<int> means_, variances_;
  std::vector<Edge> inputs_;  // of the op, with what it waits for

  Edge gradient_ = kNoEdge;
  int x_gradient_ = -1;
  std::vector<Edge> x_gradient_others_;
  std::vector<std::pair<int, Edge>> scale_gradients_;  // nodes, and what the gradient is multiplied by in them
  std::vector<int> offset_gradients_;
  std::vector<Edge> gradient_waits_;
};

// From rsqrt(variance + epsilon) to x, over the variance's mean.
bool Norm::find_operand() {
  const int sum = input(rsqrt_, 0).node;
  if (sum < 0 || (graph_[sum].op != "AddV2" && graph_[sum].op != "Add") || !is_of_type(sum)) return false;
  Edge variance = kNoEdge;
  for (int side = 0; side < 2 && variance.node < 0; ++side) {
    const int constant = input(sum, side).node;
    if (constant >= 0 && graph_.scalar_constant(constant, &epsilon_)) variance = input(sum, 1 - side);
  }
  if (variance.node < 0 || !(epsilon_ > 0)) return false;
  int mean = variance.node;
  while (graph_[mean].op == "Squeeze" || graph_[mean].op == "Reshape") {
    mean = input(mean, 0).node;
    if (mean < 0) return false;
  }
  if (graph_[mean].op != "Mean") return find_operand_of_inference(variance);
  const int square = input(mean, 0).node;
  const int axes = input(mean, 1).node;
  if (square < 0 || axes < 0) return false;
  if (graph_[square].op == "Square") {
    x_ = input(square, 0);
  } else if (graph_[square].op == "SquaredDifference") {
    const Edge first = input(square, 0), second = input(square, 1);
    if (first.node < 0 || second.node < 0) return false;
    x_ = graph_[first.node].op == "Mean" && input(first.node, 0) == second ? second : first;
  } else {
    return false;
  }
  std::vector<int64_t> numbers;
  int32_t single = 0;
  if (graph_.scalar_constant(axes, &single)) {
    numbers = {single};
  } else if (!graph_.vector_constant(axes, &numbers)) {
    return false;
  }
  std::sort(numbers.begin(), numbers.end());
  extent_ = Extent::kRow;
  if (numbers != std::vector<int64_t>{-1}) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] != static_cast<int64_t>(i)) return false;
    }
    extent_ = Extent::kColumn;
    rank_ = static_cast<int>(numbers.size()) + 1;
  }
  return x_.node >= 0;
}

// With the variance of a variable, x is what 1 / deviation * scale is multiplied by.
bool Norm::find_operand_of_inference(const Edge& variance) {
  Algebra algebra(graph_, kNoEdge, 0);
  const std::optional<Value> value = algebra.value(variance);
  if (!value || value->extent != Extent::kColumn || !value->is_vector) return false;
  kind_ = NormKind::kBatchInference;
  variance_edge_ = variance;
  for (int first : readers({rsqrt_, 0})) {
    for (int node : {rsqrt_, first}) {
      if (graph_[node].op != "Rsqrt" && graph_[node].op != "Mul") continue;
      if (!algebra.value({node, 0})) continue;
      for (int product : readers({node, 0})) {
        if (graph_[product].op != "Mul" || !is_of_type(product)) continue;
        const Edge other = input(product, 0) == Edge{node, 0} ? input(product, 1) : input(product, 0);
        if (other.node >= 0 && !algebra.value(other)) x_ = other;
      }
    }
  }
  return x_.node >= 0;
}

bool Norm::match_statistics() {
  const std::optional<Value> inverse = algebra_->value({rsqrt_, 0});
  const std::optional<Value> variance = algebra_->value(input(rsqrt_, 0));
  if (!inverse || !variance) return false;
  inverse_ = inverse->polynomial;
  if (kind_ == NormKind::kBatchInference) return true;
  if (inverse->extent != extent_) return false;
  const Polynomial x = algebra_->x();
  const Polynomial mean = algebra_->mean(x, extent_);
  const Polynomial squares = algebra_->mean(x * x, extent_) + Polynomial(static_cast<double>(epsilon_));
  if (algebra_->equal(variance->polynomial, squares - mean * mean)) {
    kind_ = extent_ == Extent::kColumn ? NormKind::kBatch : NormKind::kLayer;
    mean_ = mean;
    return true;
  }
  kind_ = NormKind::kRms;
  return extent_ == Extent::kRow && algebra_->equal(variance->polynomial, squares);
}

// Whether a polynomial is that of y, with this many parameters.
bool Norm::is_result(const Polynomial& polynomial, int parameters, Edge* scale, Edge* offset, Edge* mean) const {
  const int inverse = number_of(inverse_);
  Polynomial scale_value = Polynomial(1), offset_value, mean_value = mean_;
  *scale = *offset = *mean = kNoEdge;
  const int x = number_of(algebra_->x());
  for (const auto& [monomial, factor] : polynomial.terms()) {
    Monomial rest;
    bool has_x = false, has_inverse = false;
    for (const auto& entry : monomial) {
      if (entry == std::pair(x, 1)) {
        has_x = true;
      } else if (entry == std::pair(inverse, 1)) {
        has_inverse = true;
      } else {
        rest.push_back(entry);
      }
    }
    if (has_x && has_inverse && rest.size() == 1 && is_parameter(rest[0])) {
      *scale = algebra_->edge_of(rest[0].first);
      scale_value = Polynomial::atom(rest[0].first);
    } else if (!has_x && !has_inverse && rest.size() == 1 && is_parameter(rest[0]) && factor == 1) {
      *offset = algebra_->edge_of(rest[0].first);
      offset_value = Polynomial::atom(rest[0].first);
    }
  }
  if ((scale->node >= 0) + (offset->node >= 0) != parameters) return false;
  if (kind_ == NormKind::kRms && offset->node >= 0) return false;  // the op has none
  if (kind_ == NormKind::kBatchInference) {  // the mean is what else there is beside 1 / deviation and scale
    for (const auto& [monomial, factor] : polynomial.terms()) {
      for (const auto& entry : monomial) {
        if (entry.first == inverse || entry.first == x || !is_parameter(entry)) continue;
        const Edge edge = algebra_->edge_of(entry.first);
        if (edge == *scale || edge == *offset) continue;
        *mean = edge;
        mean_value = Polynomial::atom(entry.first);
      }
    }
    if (mean->node < 0) return false;
  }
  return algebra_->equal(polynomial, (algebra_->x() - mean_value) * inverse_ * scale_value + offset_value);
}

// Finds y among what comes from 1 / deviation: the node with the most parameters.
void Norm::find_result() {
  std::vector<int> waiting = readers({rsqrt_, 0});
  std::set<int> seen;
  int best = -1;
  while (!waiting.empty() && seen.size() < 64) {
    const int node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second) continue;
    Terms terms;
    if (terms_of(node, inverse_, kind_ != NormKind::kRms, &terms)) {
      Edge scale, offset, mean;
      for (int parameters = 0; parameters <= 2; ++parameters) {
        const bool is_better = parameters > best || (parameters == best && terms.others.size() < others_.size());
        if (!is_better || !is_result(terms.understood, parameters, &scale, &offset, &mean)) continue;
        best = parameters;
        result_ = node;
        scale_ = scale;
        offset_ = offset;
        mean_edge_ = mean;
        others_ = terms.others;
      }
    }
    // A sum of which terms are understood may be a part of a larger one.
    const bool is_known = algebra_->value({node, 0}).has_value();
    if (is_known || graph_[node].op == "AddN" || graph_[node].op == "AddV2") {
      for (int reader : readers({node, 0})) waiting.push_back(reader);
    }
  }
  scale_value_ = Polynomial(1);
  if (scale_.node >= 0) scale_value_ = algebra_->value(scale_)->polynomial;
}

// The gradient of y is what TensorFlow multiplies by y's derivative.
bool Norm::find_gradient() {
  std::vector<Edge> sources{{rsqrt_, 0}};
  if (scale_.node >= 0) sources.push_back(scale_);
  const std::vector<Edge> found = gradient_candidates(sources, {inverse_ * scale_value_, inverse_, scale_value_});
  // Constants of a gradient count axes from the front. A wrong rank understands none of its sums.
  const std::vector<int> ranks = extent_ == Extent::kRow ? std::vector<int>{3, 2, 4, 5} : std::vector<int>{rank_};
  // A wrong one may understand those of scale and offset alone, so what has x's gradient too comes first.
  for (bool needs_operand : {true, false}) {
    for (int rank : ranks) {
      for (const Edge& edge : found) {
        if (match_gradient(edge, rank, needs_operand)) return true;
      }
    }
  }
  return false;
}

bool Norm::match_gradient(const Edge& gradient, int rank, bool needs_operand) {
  Algebra& algebra = *algebra_;
  algebra.set_gradient(gradient, rank);
  x_gradient_ = -1;
  x_gradient_others_.clear();
  scale_gradients_.clear();
  offset_gradients_.clear();

  const Polynomial x = algebra.x(), dy = algebra.gradient(), r = inverse_, g = scale_value_, m = mean_;
  const bool by_row = extent_ == Extent::kRow;
  // The sums are those of the gradient with respect to (x - mean) / deviation.
  const Polynomial sums = algebra.sum(g * dy, extent_);
  const Polynomial products = algebra.sum(g * x * dy, extent_) - m * sums;
  const Polynomial n = algebra.count(extent_, -1);
  Polynomial dx = g * r * dy - n * r * r * r * (x - m) * products;
  if (kind_ != NormKind::kRms) dx = dx - n * r * sums;
  const Polynomial column_products = algebra.sum(by_row ? r * x * dy - r * m * dy : x * dy, Extent::kColumn) -
                                     (by_row ? Polynomial() : m * algebra.sum(dy, Extent::kColumn));
  const Polynomial dscale = by_row ? column_products : r * column_products;
  const Polynomial doffset = algebra.sum(dy, Extent::kColumn);

  std::vector<int> waiting = readers(gradient);
  std::set<int> seen;
  while (!waiting.empty() && seen.size() < 256) {
    const int node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second || !is_of_type(node)) continue;
    const std::optional<Value> value = algebra.value({node, 0});
    if (value && value->is_vector && !value->is_unproved && !graph_.is_exposed(node)) {
      if (scale_.node >= 0 && algebra.equal(value->polynomial, dscale)) {
        scale_gradients_.emplace_back(node, kNoEdge);
        continue;
      }
      if (offset_.node >= 0 && algebra.equal(value->polynomial, doffset)) offset_gradients_.push_back(node);
      // A learning rate may have been multiplied in before the gradient was complete.
      for (int side = 0; side < 2 && scale_.node >= 0 && graph_[node].op == "Mul"; ++side) {
        std::set<int> atoms;
        for (const auto& [monomial, factor] : value->polynomial.terms()) {
          for (const auto& entry : monomial) {
            if (entry.second == 1 && algebra.extent_of(entry.first) == Extent::kScalar) atoms.insert(entry.first);
          }
        }
        for (int atom : atoms) {
          const Edge rate = algebra.edge_of(atom);
          if (rate.node < 0 || !algebra.equal(value->polynomial, dscale * Polynomial::atom(atom))) continue;
          scale_gradients_.emplace_back(node, rate);
          side = 2;
          break;
        }
      }
    }
    Terms terms;
    if (x_gradient_ < 0 && terms_of(node, dy, false, &terms) && algebra.equal(terms.understood, dx)) {
      x_gradient_ = node;
      x_gradient_others_ = terms.others;
      continue;
    }
    if (value) {
      for (int reader : readers({node, 0})) waiting.push_back(reader);
    } else if (graph_[node].op == "AddN" || graph_[node].op == "AddV2") {
      for (int reader : readers({node, 0})) waiting.push_back(reader);
    }
  }
  const bool has_parameters =
      (scale_.node < 0 || !scale_gradients_.empty()) && (offset_.node < 0 || !offset_gradients_.empty());
  const bool found = has_parameters && (x_gradient_ >= 0 || (!needs_operand && !scale_gradients_.empty()));
  if (found) {
    gradient_ = gradient;
    // Over the last axis the op computes the same whatever the rank, which the sums may not show; other sums that were
    // looked at on the way do not count.
    algebra.set_gradient(gradient, rank);
    Terms terms;
    if (x_gradient_ >= 0) static_cast<void>(terms_of(x_gradient_, dy, false, &terms));
    for (const auto& [node, rate] : scale_gradients_) static_cast<void>(algebra.value({node, 0}));
    for (int node : offset_gradients_) static_cast<void>(algebra.value({node, 0}));
    rank_ = by_row && !algebra.shows_rank() ? 0 : rank;
  } else {
    algebra.set_gradient(kNoEdge, rank_);
    x_gradient_ = -1;
    scale_gradients_.clear();
    offset_gradients_.clear();
  }
  return found;
}

// Without a gradient there is something to win only if nothing else reads what y is made of.
bool Norm::is_worthwhile() {
  if (gradient_.node >= 0) return true;
  std::vector<int> waiting{rsqrt_};
  std::set<int> seen{rsqrt_};
  std::set<int> before;  // y and what it is computed from
  std::vector<int> sources{result_};
  while (!sources.empty()) {
    const int node = sources.back();
    sources.pop_back();
    if (!before.insert(node).second || before.size() > 64) continue;
    for (const Edge& edge : graph_[node].inputs) {
      if (edge.port != Graph::kControl && edge != x_) sources.push_back(edge.node);
    }
  }
  while (!waiting.empty()) {
    const int node = waiting.back();
    waiting.pop_back();
    if (node == result_) continue;
    for (int reader : readers({node, 0})) {
      if (before.count(reader) == 0) return false;
      if (seen.insert(reader).second) waiting.push_back(reader);
    }
  }
  return true;
}

// The mean and the variance of a batch as vectors, which moving averages read.
void Norm::find_statistics() {
  const Polynomial x = algebra_->x();
  const Polynomial variance = algebra_->mean(x * x, extent_) - mean_ * mean_;
  std::vector<int> waiting = readers(x_);
  std::set<int> seen;
  while (!waiting.empty() && seen.size() < 64) {
    const int node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second) continue;
    const std::optional<Value> value = algebra_->value({node, 0});
    if (!value) continue;
    const bool is_statistic = value->is_vector && !value->is_unproved && !graph_.is_exposed(node);
    if (is_statistic && algebra_->equal(value->polynomial, mean_)) {
      means_.push_back(node);
    } else if (is_statistic && algebra_->equal(value->polynomial, variance)) {
      variances_.push_back(node);
    } else {
      for (int reader : readers({node, 0})) waiting.push_back(reader);
    }
  }
}

void Norm::write() {
  std::vector<Edge> parameters;
  if (scale_.node >= 0) parameters.push_back(scale_);
  if (offset_.node >= 0) parameters.push_back(offset_);
  Graph::Attributes attributes;
  attributes.set_type("T", TF_FLOAT);
  attributes.set_type("U", TF_FLOAT);
  attributes.set_float("epsilon", epsilon_);
  attributes.set_bool("has_scale", scale_.node >= 0);

  Graph::Attributes forward = attributes;
  forward.set_integer("count", static_cast<int64_t>(parameters.size()));
  if (kind_ == NormKind::kBatch) forward.set_integer("rank", rank_);
  static constexpr const char* kOps[] = {"UnihalBatchNorm", "UnihalBatchNormInference", "UnihalLayerNorm",
                                         "UnihalRmsNorm"};
  static constexpr const char* kGradients[] = {"UnihalBatchNormGrad", "", "UnihalLayerNormGrad", "UnihalRmsNormGrad"};
  const auto kind = static_cast<size_t>(kind_);
  const std::string name = std::string(graph_[result_].name) + "/unihal";
  const int y = graph_.add(name, kOps[kind], graph_[result_].device, inputs_, forward);

  for (int node : means_) graph_.redirect_data({node, 0}, {y, 1});
  for (int node : variances_) graph_.redirect_data({node, 0}, {y, 2});
  if (gradient_.node >= 0) {
    std::vector<Edge> operands{x_, gradient_, {y, 1}};
    if (kind_ != NormKind::kRms) operands.push_back({y, 2});
    if (scale_.node >= 0) operands.push_back(scale_);
    operands.insert(operands.end(), gradient_waits_.begin(), gradient_waits_.end());
    Graph::Attributes backward = attributes;
    backward.set_integer("count", scale_.node >= 0 ? 1 : 0);
    backward.set_integer("rank", rank_);
    const int named = x_gradient_ >= 0 ? x_gradient_ : scale_gradients_.front().first;
    const std::string gradient_name = std::string(graph_[named].name) + "/unihal";
    const int dx = graph_.add(gradient_name, kGradients[kind], graph_[named].device, operands, backward);
    if (x_gradient_ >= 0) write_sum(x_gradient_, {dx, 0}, x_gradient_others_);
    for (const auto& [node, rate] : scale_gradients_) {
      if (rate.node < 0) {
        graph_.redirect_data({node, 0}, {dx, 1});
      } else {
        Graph::Attributes product;
        product.set_type("T", TF_FLOAT);
        graph_.rewrite(node, "Mul", {{dx, 1}, rate}, product);
      }
    }
    for (int node : offset_gradients_) graph_.redirect_data({node, 0}, {dx, 2});
  }
  write_sum(result_, {y, 0}, others_);
}

bool Norm::fuse() {
  if (!find_operand()) return false;
  algebra_.emplace(graph_, x_, rank_);
  if (!match_statistics()) return false;
  find_result();
  if (result_ < 0) return false;
  if (kind_ != NormKind::kBatchInference) find_gradient();
  if (!is_worthwhile()) return false;
  // One op for several results must not have to wait for what reads one of them.
  std::vector<Edge> operands{x_};
  if (kind_ == NormKind::kBatchInference) operands.insert(operands.end(), {mean_edge_, variance_edge_});
  for (const Edge& edge : {scale_, offset_}) {
    if (edge.node >= 0) operands.push_back(edge);
  }
  inputs_ = operands;
  std::vector<Edge> leaves = operands;
  leaves.insert(leaves.end(), others_.begin(), others_.end());
  std::vector<Edge> results{{result_, 0}};
  if (kind_ == NormKind::kBatch) find_statistics();
  for (int node : means_) results.push_back({node, 0});
  for (int node : variances_) results.push_back({node, 0});
  std::vector<int> nodes;
  for (const Edge& edge : results) nodes.push_back(edge.node);
  if (!waits_before(nodes, leaves, &inputs_) || graph_.leads_to(results, inputs_)) return false;
  if (gradient_.node >= 0) {
    nodes.clear();
    if (x_gradient_ >= 0) nodes.push_back(x_gradient_);
    for (const auto& [node, rate] : scale_gradients_) nodes.push_back(node);
    nodes.insert(nodes.end(), offset_gradients_.begin(), offset_gradients_.end());
    leaves = x_gradient_others_;
    leaves.insert(leaves.end(), operands.begin(), operands.end());
    leaves.push_back(gradient_);
    std::vector<Edge> waits;
    for (const auto& [node, rate] : scale_gradients_) {
      if (rate.node >= 0) leaves.push_back(rate);
    }
    if (!waits_before(nodes, leaves, &gradient_waits_)) return false;
    // What the other op waits for, this one does too.
    waits = gradient_waits_;
    waits.insert(waits.end(), inputs_.begin(), inputs_.end());
    waits.push_back(gradient_);
    for (const auto& [node, rate] : scale_gradients_) {
      if (rate.node >= 0) waits.push_back(rate);
    }
    results.clear();
    for (int node : nodes) results.push_back({node, 0});
    if (graph_.leads_to(results, waits)) return false;
  }
  write();
  return true;
}

}  // namespace

bool fuse_norm(Graph& graph, int root) {
  if (graph[root].op != "Rsqrt" || graph.main_type(root) != TF_FLOAT || graph.is_exposed(root)) return false;
  return Norm(graph, root).fuse();
}

}  // namespace unihal::tensorflow
