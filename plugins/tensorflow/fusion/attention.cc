// Attention as Keras and others compose it, with the gradient that TensorFlow derives, found from its softmax:
//
//   scores = scale * q @ k^T + mask, or where(mask, scale * q @ k^T, a large negative number)
//   y = softmax(scores) @ v
//
// Both become ops that keep no scores. What scores become on the way (a region of the graph: all that has a number for
// each pair of a row and a column) must be read by nothing else, so that it goes as a whole, forward and backward, or
// stays: then the weights are fetched, dropped out, saved for another graph's gradient, or wanted for what is added.
//
// The products may be einsums of any order of axes or products of batches of matrices. Axes have names here: b and h
// (the batch and the heads), m (rows, queries), n (columns, keys), d (features of both), e (features of values).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "plugins/tensorflow/dtype.h"
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/search.h"
#include "unihal/device.h"
#include "unihal/op.h"

namespace unihal::tensorflow {
namespace {

// What hides a score: whatever is left of it is 0 after the softmax.
constexpr float kHidden = -1e4F;

bool is_narrow_or_float(TF_DataType type) { return type == TF_FLOAT || type == TF_HALF || type == TF_BFLOAT16; }

// A product of two operands, with a letter for each axis.
struct Product {
  Edge operands[2];
  std::string letters[2];
  std::string result;
};

// Those of tensors in a region.
enum class RegionKind { kNone, kScores, kWeights, kWeightGradient, kProduct, kRowSum, kDifference, kScoreGradient };

struct RegionValue {
  RegionKind kind = RegionKind::kNone;
  double factor = 1;
  std::string axes;
  bool is_masked = false;
};

class AttentionSearch : private AlgebraSearch {
 public:
  AttentionSearch(Graph& graph, OutputShapes& shapes, const std::set<int>& candidates, int root, bool anyway)
      : AlgebraSearch(graph, graph.main_type(root)),
        shapes_(shapes),
        candidates_(candidates),
        softmax_(root),
        anyway_(anyway) {}

  bool fuse(const std::string& type) {
    if (!find_scores() || !find_result()) return false;
    if (!grow() || !shapes_stay_inside()) return false;
    const bool trains = !terminals_.empty();
    if (trains && (gradient_.node < 0 || !sees_score_gradient_ || bias_.node >= 0)) return false;
    return runs_on(type, trains) && write(trains);
  }

 private:
  const Graph::Node& at(int node) const { return graph_[node]; }

  // A scalar that is a constant, or computed from a size that is known, as 1 / sqrt(cast(shape(x)[-1])) is.
  bool is_number(const Edge& edge, float* number, int depth = 0) const {
    if (edge.node < 0 || edge.port != 0 || depth > 6) return false;
    const int node = edge.node;
    const std::string_view op = at(node).op;
    if (op == "Const") return graph_.scalar_constant(node, graph_.type_attribute(node, "dtype"), number);
    if (op == "StridedSlice") return is_known_size(node, number);
    if (op != "Cast" && op != "Sqrt" && op != "Rsqrt" && op != "Reciprocal" && op != "RealDiv") return false;
    if (!is_number(input(node, 0), number, depth + 1)) return false;
    if (op == "Sqrt") *number = std::sqrt(*number);
    if (op == "Rsqrt") *number = 1 / std::sqrt(*number);
    if (op == "Reciprocal") *number = 1 / *number;
    float divisor = 0;
    if (op == "RealDiv" && !is_number(input(node, 1), &divisor, depth + 1)) return false;
    if (op == "RealDiv") *number /= divisor;
    return true;
  }

  bool is_known_size(int node, float* number) const {
    const Edge shape = input(node, 0), begin = input(node, 1);
    std::vector<int64_t> place;
    if (shape.node < 0 || at(shape.node).op != "Shape" || begin.node < 0) return false;
    if (!graph_.vector_constant(begin.node, &place) || place.size() != 1) return false;
    if (graph_.integer(node, "shrink_axis_mask") != 1) return false;
    const auto known = sizes(input(shape.node, 0));
    if (!known) return false;
    const auto rank = static_cast<int64_t>(known->size());
    const int64_t axis = place.front() < 0 ? place.front() + rank : place.front();
    if (axis < 0 || axis >= rank || (*known)[static_cast<size_t>(axis)] < 0) return false;
    *number = static_cast<float>((*known)[static_cast<size_t>(axis)]);
    return true;
  }

  bool may_go(int node) const { return candidates_.count(node) != 0 && !graph_.is_exposed(node); }

  std::optional<std::vector<int64_t>> sizes(const Edge& edge) const {
    return edge.node < 0 ? std::nullopt : sizes_of(shapes_.of(at(edge.node).name, edge.port));
  }

  // -- products

  bool parse(int node, Product* product) const {
    if (node < 0 || input(node, 1).node < 0) return false;
    *product = {{input(node, 0), input(node, 1)}, {}, {}};
    if (at(node).op == "Einsum") {
      const std::string equation(graph_.text(node, "equation"));
      const size_t comma = equation.find(','), arrow = equation.find("->");
      if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return false;
      product->letters[0] = equation.substr(0, comma);
      product->letters[1] = equation.substr(comma + 1, arrow - comma - 1);
      product->result = equation.substr(arrow + 2);
      if (input(node, 2).node >= 0) return false;
    } else if (at(node).op == "BatchMatMulV2" || at(node).op == "BatchMatMul") {
      const auto first = sizes(product->operands[0]), second = sizes(product->operands[1]);
      if (!first || !second || first->size() != second->size() || first->size() < 3 || first->size() > 4) return false;
      const std::string batch = first->size() == 3 ? "b" : "bh";
      // What certainly broadcasts has gradients of another form.
      for (size_t i = 0; i < batch.size(); ++i) {
        if ((*first)[i] != (*second)[i] && (*first)[i] >= 0 && (*second)[i] >= 0) return false;
      }
      product->letters[0] = batch + (graph_.flag(node, "adj_x") ? "km" : "mk");
      product->letters[1] = batch + (graph_.flag(node, "adj_y") ? "nk" : "kn");
      product->result = batch + "mn";
    } else {
      return false;
    }
    for (const std::string& letters : {product->letters[0], product->letters[1], product->result}) {
      if (letters.size() < 3 || letters.size() > 4) return false;
      if (std::set<char>(letters.begin(), letters.end()).size() != letters.size()) return false;
      if (letters.find('.') != std::string::npos || letters.find(' ') != std::string::npos) return false;
    }
    return true;
  }

  // Whether a product certainly broadcasts nothing, as an einsum never does.
  bool batches_match(int node) const {
    if (node < 0 || at(node).op == "Einsum") return true;
    const auto first = sizes(input(node, 0)), second = sizes(input(node, 1));
    return first && second && std::equal(first->begin(), first->end() - 2, second->begin(), second->end() - 2);
  }

  static bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

  // Renames the axes of a product, one operand of which (`side`) has these names; a letter that it lacks is `other`.
  // False if the product does not sum over the axis of this name and no other.
  static bool rename(const Product& product, int side, const std::string& axes, char other, char summed,
                     std::string* operand, std::string* result) {
    const std::string& known = product.letters[side];
    if (known.size() != axes.size()) return false;
    std::map<char, char> names;
    for (size_t i = 0; i < axes.size(); ++i) names[known[i]] = axes[i];
    int added = 0;
    for (char letter : product.letters[1 - side]) added += names.emplace(letter, other).second ? 1 : 0;
    if (added > 1) return false;
    operand->clear();
    result->clear();
    for (char letter : product.letters[1 - side]) *operand += names[letter];
    for (char letter : product.result) {
      if (names.count(letter) == 0) return false;
      *result += names[letter];
    }
    if (has(*result, summed) || !has(axes, summed) || !has(*operand, summed)) return false;
    // All else is of the result, and the batch of all three.
    for (const std::string& letters : {axes, *operand}) {
      for (char letter : letters) {
        if (letter != summed && !has(*result, letter)) return false;
      }
    }
    for (char letter : {'b', 'h'}) {
      if (has(axes, letter) != has(*operand, letter) || has(axes, letter) != has(*result, letter)) return false;
    }
    return true;
  }

  // -- from the softmax up

  bool find_scores() {
    std::vector<int> order;  // of axes, from the softmax's operand to the product's
    Edge edge = input(softmax_, 0);
    bool scaled = false;
    for (int depth = 0; depth < 12; ++depth) {
      if (edge.node < 0 || edge.port != 0 || !may_go(edge.node)) return false;
      const int node = edge.node;
      const std::string_view op = at(node).op;
      float number = 0;
      chain_.push_back(node);
      if (op == "Cast") {
        if (!is_float_cast(node)) return false;
        edge = input(node, 0);
      } else if (op == "SelectV2") {
        if (scaled || mask_.node >= 0 || bias_.node >= 0 || !order.empty()) return false;
        mask_ = input(node, 0);
        const bool inverted = is_number(input(node, 1), &number);
        if (!inverted && !is_number(input(node, 2), &number)) return false;
        if (!(number <= kHidden)) return false;
        inverted_ = inverted;
        edge = input(node, inverted ? 2 : 1);
      } else if (op == "AddV2" || op == "Add") {
        if (scaled || mask_.node >= 0 || bias_.node >= 0 || !order.empty()) return false;
        const int side = leads_to_product(input(node, 0)) ? 0 : 1;
        bias_ = input(node, 1 - side);
        edge = input(node, side);
        if (bias_.node < 0 || !is_narrow_or_float(graph_.main_type(node))) return false;
      } else if (op == "Mul" || op == "RealDiv") {
        const bool second = is_number(input(node, 1), &number);
        if (!second && (op == "RealDiv" || !is_number(input(node, 0), &number))) return false;
        if (number == 0 || !std::isfinite(number)) return false;
        scale_ *= op == "Mul" ? number : 1 / static_cast<double>(number);
        scaled = true;
        edge = input(node, second ? 0 : 1);
      } else if (op == "Transpose") {
        std::vector<int64_t> axes;
        if (!order.empty() || !graph_.vector_constant(input(node, 1).node, &axes)) return false;
        order.assign(axes.begin(), axes.end());
        edge = input(node, 0);
      } else {
        break;
      }
    }
    Product product;
    scores_ = edge.node;
    if (!parse(scores_, &product)) return false;
    type_ = graph_.main_type(scores_);
    // The softmax's last axis is of columns, which one operand has; the other one's own are rows.
    std::string letters = product.result;
    if (!order.empty()) {
      if (order.size() != letters.size()) return false;
      for (size_t i = 0; i < order.size(); ++i) {
        if (order[i] < 0 || static_cast<size_t>(order[i]) >= letters.size()) return false;
        letters[i] = product.result[static_cast<size_t>(order[i])];
      }
    }
    const char column = letters.back();
    const int side = has(product.letters[0], column) ? 1 : 0;  // of q
    if (has(product.letters[side], column)) return false;
    std::map<char, char> names;
    char batch = 'b';
    for (char letter : letters) {
      const bool of_q = has(product.letters[side], letter), of_k = has(product.letters[1 - side], letter);
      if (of_q && of_k) {
        names[letter] = batch;
        batch = batch == 'b' ? 'h' : 'x';
      } else {
        names[letter] = of_k ? 'n' : 'm';
      }
    }
    for (char letter : product.letters[side]) names.emplace(letter, 'd');
    const auto renamed = [&](const std::string& from) {
      std::string to;
      for (char letter : from) to += names.count(letter) != 0 ? names[letter] : 'x';
      return to;
    };
    q_ = product.operands[side];
    k_ = product.operands[1 - side];
    q_axes_ = renamed(product.letters[side]);
    k_axes_ = renamed(product.letters[1 - side]);
    score_axes_ = renamed(letters);
    for (const std::string& axes : {q_axes_, k_axes_, score_axes_}) {
      if (has(axes, 'x') || std::set<char>(axes.begin(), axes.end()).size() != axes.size()) return false;
    }
    const bool whole = has(q_axes_, 'm') && has(q_axes_, 'd') && has(k_axes_, 'n') && has(k_axes_, 'd') &&
                       q_axes_.size() == k_axes_.size() && score_axes_.size() == q_axes_.size();
    if (!whole || !has(q_axes_, 'b')) return false;
    // The axes of what follows on the product, until one transposes them.
    std::string axes = score_axes_;
    for (int node : chain_) {
      region_[node] = {RegionKind::kScores, 1, axes, false};
      if (at(node).op == "Transpose") axes = renamed(product.result);
    }
    return fits_scores(mask_) && fits_scores(bias_) && peel_mask();
  }

  // Whether the path from an edge to a product is one of attention's scores.
  bool leads_to_product(Edge edge) const {
    for (int depth = 0; depth < 6 && edge.node >= 0 && edge.port == 0; ++depth) {
      const std::string_view op = at(edge.node).op;
      float number = 0;
      if (op == "Einsum" || op == "BatchMatMulV2" || op == "BatchMatMul") return true;
      if (op == "Mul" || op == "RealDiv") {
        edge = input(edge.node, is_number(input(edge.node, 0), &number) ? 1 : 0);
      } else if (op == "Cast" || op == "Transpose") {
        edge = input(edge.node, 0);
      } else {
        return false;
      }
    }
    return false;
  }

  // Whether nothing that is known says that a tensor does not broadcast to the scores; the op looks again.
  bool fits_scores(const Edge& edge) const {
    if (edge.node < 0) return true;
    const auto own = sizes(edge), product = sizes({scores_, 0});
    if (!own || !product) return true;
    if (own->size() > score_axes_.size() || product->size() != score_axes_.size()) return false;
    const std::string& axes = region_.at(scores_).axes;
    for (size_t i = 1; i <= own->size(); ++i) {
      const int64_t mine = (*own)[own->size() - i];
      const int64_t theirs = (*product)[axes.find(score_axes_[score_axes_.size() - i])];
      if (mine != 1 && mine != theirs && mine >= 0 && theirs >= 0) return false;
    }
    return true;
  }

  bool is_float_cast(int node) const {
    return at(node).op == "Cast" && !graph_.flag(node, "Truncate") &&
           is_narrow_or_float(graph_.type_attribute(node, "SrcT")) &&
           is_narrow_or_float(graph_.type_attribute(node, "DstT"));
  }

  // -- masks

  bool is_true(const Edge& edge) const {
    bool value = false;
    if (edge.node < 0) return false;
    if (at(edge.node).op == "Fill") return is_true(input(edge.node, 1));
    return graph_.scalar_constant(edge.node, &value) && value;
  }

  // Leaves out of a mask what only gives it the scores' shape, and of the causal one what makes it.
  bool peel_mask() {
    if (mask_.node < 0) return true;
    seen_ = mask_;
    while (seen_.port == 0) {
      const int node = seen_.node;
      const std::string_view op = at(node).op;
      if (op == "LogicalAnd" && (is_true(input(node, 0)) || is_true(input(node, 1)))) {
        seen_ = input(node, is_true(input(node, 0)) ? 1 : 0);
      } else if (op == "BroadcastTo") {
        seen_ = input(node, 0);
      } else {
        break;
      }
    }
    if (look_at_constant() || inverted_ || !is_causal(seen_)) return true;
    causal_ = true;
    return true;
  }

  // What a mask that is a constant hides. False if it is none.
  bool look_at_constant() {
    std::vector<int64_t> shape;
    std::vector<char> seen;
    if (seen_.port != 0 || !graph_.truth_constant(seen_.node, &shape, &seen) || shape.empty()) return false;
    const auto columns = static_cast<size_t>(shape.back());
    if (columns == 0) return true;
    sees_something_ = true;
    causal_ = !inverted_ && shape.size() >= 2 && shape[shape.size() - 2] == shape.back() && columns > 1;
    for (size_t i = 0; i < seen.size(); i += columns) {
      const auto row = seen.begin() + static_cast<std::ptrdiff_t>(i), end = row + static_cast<std::ptrdiff_t>(columns);
      sees_something_ &= std::find(row, end, inverted_ ? 0 : 1) != end;
      const auto diagonal = row + static_cast<std::ptrdiff_t>(i / columns % columns) + 1;
      causal_ &= std::all_of(row, diagonal, [](char c) { return c != 0; }) &&
                 std::all_of(diagonal, end, [](char c) { return c == 0; });
    }
    // The scores have as many rows and columns, if there are more than one.
    const auto scores = sizes({scores_, 0});
    if (causal_ && (!scores || (*scores)[region_[scores_].axes.find('m')] != shape.back())) causal_ = false;
    return true;
  }

  // tf.linalg.band_part(tf.ones((rows, columns), "bool"), -1, 0)[None, None]
  bool is_causal(const Edge& edge) const {
    int node = edge.node;
    const std::string_view op = at(node).op;
    if (op == "StridedSlice" || op == "ExpandDims" || op == "Reshape") node = input(node, 0).node;
    if (node < 0 || at(node).op != "MatrixBandPart" || !is_true(input(node, 0))) return false;
    if (!is_integer(input(node, 1), -1) || !is_integer(input(node, 2), 0)) return false;
    const int ones = input(node, 0).node, packed = input(ones, 0).node;
    if (at(ones).op != "Fill" || packed < 0 || at(packed).op != "Pack" || input(packed, 2).node >= 0) return false;
    return is_size_of_scores(input(packed, 0), 'm') && is_size_of_scores(input(packed, 1), 'n');
  }

  bool is_integer(const Edge& edge, int64_t value) const {
    int32_t narrow = 0;
    int64_t wide = 0;
    if (edge.node < 0) return false;
    return (graph_.scalar_constant(edge.node, &narrow) && narrow == value) ||
           (graph_.scalar_constant(edge.node, &wide) && wide == value);
  }

  // tf.shape(scores)[place of the axis]
  bool is_size_of_scores(const Edge& size, char axis) const {
    if (size.node < 0 || at(size.node).op != "StridedSlice") return false;
    const Edge shape = input(size.node, 0), begin = input(size.node, 1);
    std::vector<int64_t> place;
    if (shape.node < 0 || at(shape.node).op != "Shape" || begin.node < 0) return false;
    const auto of = region_.find(input(shape.node, 0).node);
    if (of == region_.end() || graph_.integer(size.node, "shrink_axis_mask") != 1) return false;
    return graph_.vector_constant(begin.node, &place) && place.size() == 1 &&
           place.front() == static_cast<int64_t>(of->second.axes.find(axis));
  }

  // -- the region

  bool find_result() {
    region_[softmax_] = {RegionKind::kWeights, 1, score_axes_, false};
    std::vector<int> weights{softmax_};
    for (size_t i = 0; i < weights.size() && i < 4; ++i) {
      for (int reader : readers({weights[i], 0})) {
        Product product;
        if (parse(reader, &product)) {
          const RegionValue value = value_of({weights[i], 0});
          for (int side = 0; side < 2; ++side) {
            std::string operand, result;
            if (product.operands[side] != Edge{weights[i], 0}) continue;
            if (!rename(product, side, value.axes, 'e', 'n', &operand, &result)) continue;
            if (!is_close(value.factor, 1) || (result_ >= 0 && result_ != reader)) return false;
            result_ = reader;
            v_ = product.operands[1 - side];
            v_axes_ = operand;
            y_axes_ = result;
            zero_rows_ = value.is_masked;
          }
        } else if (value_of({reader, 0}).kind == RegionKind::kWeights) {
          weights.push_back(reader);
        }
      }
    }
    unknown_.clear();  // now that the values are known
    broadcasts_ = result_ >= 0 && at(scores_).op != "Einsum" && at(result_).op != "Einsum";
    if (!broadcasts_ && !(batches_match(scores_) && batches_match(result_))) return false;
    return result_ >= 0 && may_go(result_) && graph_.main_type(result_) == type_ && has(v_axes_, 'e') &&
           has(v_axes_, 'n') && is_narrow_or_float(type_);
  }

  const RegionValue& value_of(const Edge& edge) {
    static const RegionValue kNothing;
    if (edge.node < 0 || edge.port != 0) return kNothing;
    const auto found = region_.find(edge.node);
    if (found != region_.end()) return found->second;
    if (unknown_.count(edge.node) != 0 || depth_ > 24 || !may_go(edge.node)) return kNothing;
    if (at(edge.node).device != at(softmax_).device) return kNothing;
    ++depth_;
    const RegionValue value = compute(edge.node);
    --depth_;
    if (value.kind == RegionKind::kNone) {
      unknown_.insert(edge.node);
      return kNothing;
    }
    added_.push_back(edge.node);
    return region_[edge.node] = value;
  }

  RegionValue compute(int node) {
    const std::string_view op = at(node).op;
    float number = 0;
    if (op == "Cast") return is_float_cast(node) ? after_scores(value_of(input(node, 0))) : RegionValue();
    if (op == "Mul" || op == "RealDiv") {
      for (int side = 0; side < (op == "Mul" ? 2 : 1); ++side) {
        if (!is_number(input(node, 1 - side), &number)) continue;
        RegionValue value = after_scores(value_of(input(node, side)));
        value.factor *= op == "Mul" ? number : 1 / static_cast<double>(number);
        return value;
      }
      return op == "Mul" ? multiplied(value_of(input(node, 0)), value_of(input(node, 1))) : RegionValue();
    }
    if (op == "Sub") {
      const RegionValue gradient = value_of(input(node, 0)), sum = value_of(input(node, 1));
      const bool fits = gradient.kind == RegionKind::kWeightGradient && sum.kind == RegionKind::kRowSum &&
                        gradient.axes == sum.axes && is_close(gradient.factor, sum.factor);
      return fits ? RegionValue{RegionKind::kDifference, gradient.factor, gradient.axes, false} : RegionValue();
    }
    if (op == "SelectV2") {
      const int side = inverted_ ? 2 : 1;
      if (mask_.node < 0 || input(node, 0) != mask_ || !is_number(input(node, 3 - side), &number) || number != 0)
        return {};
      RegionValue value = after_scores(value_of(input(node, side)));
      value.is_masked = true;
      return value;
    }
    if (op == "Sum") return summed(node);
    if (op == "Reshape") {  // to the shape that it has
      return is_shape_of_scores(input(node, 1)) ? after_scores(value_of(input(node, 0))) : RegionValue();
    }
    if (op == "Transpose") {
      std::vector<int64_t> order;
      RegionValue value = after_scores(value_of(input(node, 0)));
      if (value.kind == RegionKind::kNone || !graph_.vector_constant(input(node, 1).node, &order)) return {};
      if (order.size() != value.axes.size()) return {};
      const std::string axes = value.axes;
      for (size_t i = 0; i < order.size(); ++i) {
        if (order[i] < 0 || static_cast<size_t>(order[i]) >= axes.size()) return {};
        value.axes[i] = axes[static_cast<size_t>(order[i])];
      }
      return value;
    }
    return weight_gradient(node);
  }

  // What scores became before the softmax has one reader each, which is known.
  static RegionValue after_scores(const RegionValue& value) {
    return value.kind == RegionKind::kScores ? RegionValue() : value;
  }

  static bool is_close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(a); }

  static RegionValue multiplied(const RegionValue& a, const RegionValue& b) {
    if (b.kind == RegionKind::kWeights && a.kind != RegionKind::kWeights) return multiplied(b, a);
    if (a.kind != RegionKind::kWeights || a.axes != b.axes) return {};
    const double factor = a.factor * b.factor;
    if (b.kind == RegionKind::kWeightGradient) return {RegionKind::kProduct, factor, a.axes, false};
    if (b.kind == RegionKind::kDifference) return {RegionKind::kScoreGradient, factor, a.axes, a.is_masked};
    return {};
  }

  // gradient @ v^T
  RegionValue weight_gradient(int node) {
    Product product;
    if (v_.node < 0 || !parse(node, &product) || graph_.main_type(node) != type_) return {};
    for (int side = 0; side < 2; ++side) {
      std::string operand, result;
      const Edge other = product.operands[1 - side];
      if (product.operands[side] != v_ || !rename(product, side, v_axes_, 'm', 'e', &operand, &result)) continue;
      if (!is_gradient(other, operand)) continue;
      return {RegionKind::kWeightGradient, 1, result, false};
    }
    return {};
  }

  RegionValue summed(int node) {
    const Edge axes = input(node, 1);
    RegionValue value = after_scores(value_of(input(node, 0)));
    if (value.kind == RegionKind::kNone || axes.node < 0) return {};
    // Over what the scores were broadcast to, which is nothing.
    if (at(axes.node).op == "BroadcastGradientArgs") {
      return is_shape_of_scores(input(axes.node, axes.port)) ? value : RegionValue();
    }
    std::vector<int64_t> list;
    int32_t axis = 0;
    if (graph_.scalar_constant(axes.node, &axis)) {
      list = {axis};
    } else if (!graph_.vector_constant(axes.node, &list) || list.size() != 1) {
      return {};
    }
    const auto rank = static_cast<int64_t>(value.axes.size());
    const int64_t at = list.front() < 0 ? list.front() + rank : list.front();
    if (value.kind != RegionKind::kProduct || at < 0 || at >= rank || !graph_.flag(node, "keep_dims")) return {};
    if (value.axes[static_cast<size_t>(at)] != 'n') return {};
    return {RegionKind::kRowSum, value.factor, value.axes, false};
  }

  // The scores' shape, or the part of it that products of matrices broadcast.
  bool is_shape_of_scores(Edge shape) {
    if (shape.node >= 0 && at(shape.node).op == "StridedSlice") shape = input(shape.node, 0);
    if (shape.node < 0 || at(shape.node).op != "Shape") return false;
    const Edge of = input(shape.node, 0);
    const RegionValue& value = value_of(of);
    return value.kind != RegionKind::kNone && value.kind != RegionKind::kRowSum;
  }

  // Follows all that reads the region to the products that leave it. False if something else does.
  bool grow() {
    std::vector<int> waiting = chain_;
    waiting.push_back(softmax_);
    waiting.insert(waiting.end(), added_.begin(), added_.end());
    std::set<int> seen;
    while (!waiting.empty()) {
      const int node = waiting.back();
      waiting.pop_back();
      if (!seen.insert(node).second) continue;
      if (seen.size() > 64 || !may_go(node) || at(node).device != at(softmax_).device) return false;
      for (int reader : readers({node, 0})) {
        if (reader == result_) continue;
        if (region_.count(reader) != 0) {
          waiting.push_back(reader);
          continue;
        }
        if (at(reader).op == "Shape") {
          shape_nodes_.insert(reader);
          continue;
        }
        added_.clear();
        if (value_of({reader, 0}).kind == RegionKind::kNone && !note_terminal(reader, node)) return false;
        waiting.insert(waiting.end(), added_.begin(), added_.end());
      }
    }
    return true;
  }

  // A product with a value of the region that gives an operand's gradient.
  bool note_terminal(int node, int source) {
    Product product;
    if (!parse(node, &product) || !may_go(node) || graph_.main_type(node) != type_) return false;
    const RegionValue value = value_of({source, 0});
    for (int side = 0; side < 2; ++side) {
      if (product.operands[side] != Edge{source, 0}) continue;
      const Edge other = product.operands[1 - side];
      std::string operand, result;
      int output = -1;
      if (value.kind == RegionKind::kWeights) {
        if (!is_close(value.factor, 1) || value.is_masked != zero_rows_) return false;
        if (!rename(product, side, value.axes, 'e', 'm', &operand, &result)) continue;
        if (!is_gradient(other, operand) || !are_same(result, v_axes_)) return false;
        output = 2;
      } else if (value.kind == RegionKind::kScoreGradient) {
        // A row that sees nothing has no gradient.
        if (!is_close(value.factor, scale_) || (mask_.node >= 0 && !value.is_masked)) return false;
        const bool of_q = rename(product, side, value.axes, 'd', 'n', &operand, &result) && other == k_;
        if (of_q) {
          if (operand != k_axes_ || !are_same(result, q_axes_)) return false;
          output = 0;
        } else {
          if (!rename(product, side, value.axes, 'd', 'm', &operand, &result) || other != q_) return false;
          if (operand != q_axes_ || !are_same(result, k_axes_)) return false;
          output = 1;
        }
        sees_score_gradient_ = true;
      } else {
        return false;
      }
      const int end = result == *operand_axes(output) ? end_of(node, output == 0 ? q_ : output == 1 ? k_ : v_) : node;
      gradient_axes_[output] = result;
      return terminals_.emplace(output, end).second;
    }
    return false;
  }

  static bool are_same(std::string a, std::string b) {
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    return a == b;
  }

  const std::string* operand_axes(int output) const {
    return output == 0 ? &q_axes_ : output == 1 ? &k_axes_ : &v_axes_;
  }

  // Notes y's gradient, of which there is one.
  bool is_gradient(const Edge& edge, const std::string& axes) {
    if (!are_same(axes, y_axes_) || (gradient_.node >= 0 && (gradient_ != edge || axes != dy_axes_))) return false;
    gradient_ = edge;
    dy_axes_ = axes;
    return true;
  }

  // Behind a product of matrices, what would sum over a batch that an operand was broadcast to, and which it was not.
  int end_of(int node, const Edge& operand) {
    const std::vector<int> sums = readers({node, 0});
    if (sums.size() != 1 || at(sums[0]).op != "Sum" || !may_go(sums[0])) return node;
    const Edge axes = input(sums[0], 1);
    if (axes.node < 0 || at(axes.node).op != "BroadcastGradientArgs") return node;
    const std::vector<int> reshapes = readers({sums[0], 0});
    if (reshapes.size() != 1 || at(reshapes[0]).op != "Reshape" || !may_go(reshapes[0])) return node;
    const int shape = input(reshapes[0], 1).node;
    if (shape < 0 || at(shape).op != "Shape" || input(shape, 0) != operand) return node;
    ends_.insert(sums[0]);
    return reshapes[0];
  }

  // Whether shapes of the region are asked for by what goes with it only.
  bool shapes_stay_inside() const {
    static constexpr std::string_view kOps[] = {"Shape",       "StridedSlice",   "BroadcastGradientArgs",
                                                "Pack",        "Fill",           "LogicalAnd",
                                                "BroadcastTo", "MatrixBandPart", "ExpandDims"};
    std::vector<int> waiting(shape_nodes_.begin(), shape_nodes_.end());
    std::set<int> seen;
    while (!waiting.empty()) {
      const int node = waiting.back();
      waiting.pop_back();
      if (region_.count(node) != 0 || ends_.count(node) != 0 || !seen.insert(node).second) continue;
      const bool is_known = std::find(std::begin(kOps), std::end(kOps), at(node).op) != std::end(kOps);
      if (!is_known || !may_go(node) || seen.size() > 64) return false;
      for (int reader : at(node).consumers) waiting.push_back(reader);
    }
    return true;
  }

  // -- the ops

  bool runs_on(const std::string& type, bool trains) const {
    std::string own = type;  // unihal's name of it
    std::transform(own.begin(), own.end(), own.begin(), [](unsigned char c) { return std::tolower(c); });
    uhal_device* device = nullptr;
    if (uhal_device_get(own.c_str(), 0, &device) != UHAL_OK) return false;
    if (!anyway_ && trains && !is_worthwhile(device)) return false;
    const auto depth = sizes(q_), width = sizes(v_);
    const int64_t d = depth ? (*depth)[q_axes_.find('d')] : -1, e = width ? (*width)[v_axes_.find('e')] : -1;
    const uhal_dtype dtype = from_tensorflow(type_);
    const auto tensor = [](uhal_dtype of, std::initializer_list<int64_t> shape) {
      uhal_tensor view = {};
      view.struct_size = sizeof view;
      view.dtype = of;
      view.rank = static_cast<int32_t>(shape.size());
      std::copy(shape.begin(), shape.end(), view.shape);
      int64_t stride = 1;
      for (int i = view.rank - 1; i >= 0; --i) view.strides[i] = stride, stride *= view.shape[i];
      return view;
    };
    constexpr int64_t kRows = 64;
    const uhal_tensor q = tensor(dtype, {1, 1, kRows, d > 0 ? d : 64}),
                      v = tensor(dtype, {1, 1, kRows, e > 0 ? e : 64});
    const uhal_tensor mask = tensor(UHAL_FLOAT32, {1, 1, kRows, kRows}), sums = tensor(UHAL_FLOAT32, {1, 1, kRows});
    const bool has_mask = (mask_.node >= 0 && !causal_) || bias_.node >= 0;
    uhal_attention_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.scale = scale_;
    attributes.causal = causal_ ? 1 : 0;
    const uhal_tensor* inputs[] = {&q, &q, &v, has_mask ? &mask : nullptr, &v, &sums, &v};
    const uhal_tensor* outputs[] = {&v, &sums};
    const uhal_tensor* gradients[] = {&q, &q, &v};
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = UHAL_OP_ATTENTION;
    op.input_count = 4;
    op.output_count = 2;
    op.inputs = inputs;
    op.outputs = outputs;
    op.attributes = &attributes;
    if (uhal_supports(device, &op) != UHAL_OK) return false;
    op.kind = UHAL_OP_ATTENTION_BACKWARD;
    op.input_count = 7;
    op.output_count = 3;
    op.outputs = gradients;
    return terminals_.empty() || uhal_supports(device, &op) == UHAL_OK;
  }

  // The gradient computes the scores once more, which is one product of seven. A device does more than make up for it:
  // what it saves is traffic. On a processor that stands in for one, the products are nearly all, so that only causal
  // rows, for which half of each product is left out, are worth it, from the length on that blocks of rows are short
  // of.
  bool is_worthwhile(uhal_device* device) const {
    constexpr int64_t kLeastColumns = 128;
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    if (uhal_device_properties_get(device, &properties) != UHAL_OK) return false;
    if (properties.is_stub == 0) return true;
    const auto keys = sizes(k_);
    return causal_ && keys && (*keys)[k_axes_.find('n')] >= kLeastColumns;
  }

  // Where the axes of these names are in a tensor's.
  static std::vector<int64_t> places(const std::string& axes, const char* names) {
    std::vector<int64_t> result;
    for (const char* name = names; *name != 0; ++name) {
      const size_t place = axes.find(*name);
      result.push_back(place == std::string::npos ? -1 : static_cast<int64_t>(place));
    }
    return result;
  }

  bool is_mask_needed() const { return mask_.node >= 0 && !causal_; }

  // The op that makes a mask what is added, one for all that read the mask.
  int find_or_add_mask(bool opens, bool finite) {
    for (int reader : readers(seen_)) {
      const Graph::Node& node = at(reader);
      if (node.op == "UnihalAttentionMask" && node.device == at(softmax_).device &&
          graph_.flag(reader, "opens") == opens && graph_.flag(reader, "finite") == finite &&
          graph_.flag(reader, "inverted") == inverted_) {
        return reader;
      }
    }
    Graph::Attributes attributes;
    attributes.set_bool("opens", opens);
    attributes.set_bool("finite", finite);
    attributes.set_bool("inverted", inverted_);
    const std::string name = std::string(at(seen_.node).name) + "/unihal_mask";
    return graph_.add(name, "UnihalAttentionMask", at(softmax_).device, {seen_}, attributes);
  }

  bool write(bool trains) {
    std::vector<Edge> operands{q_, k_, v_};
    if (is_mask_needed()) operands.push_back(seen_);
    if (bias_.node >= 0) operands.push_back(bias_);
    std::vector<Edge> leaves = operands, inputs = operands, gradient_inputs = operands;
    if (mask_.node >= 0) leaves.push_back(mask_);
    if (!waits_before({result_}, leaves, &inputs)) return false;
    // Neither may an operand come after the scores, be it by their shape.
    if (graph_.leads_to({{result_, 0}}, inputs) || graph_.leads_to({{scores_, 0}}, operands)) return false;
    std::vector<int> ends;
    for (const auto& [output, node] : terminals_) ends.push_back(node);
    if (trains) {
      leaves.push_back(gradient_);
      gradient_inputs.push_back(gradient_);
      if (!waits_before(ends, leaves, &gradient_inputs)) return false;
      std::vector<Edge> results, all = gradient_inputs;
      for (int node : ends) results.push_back({node, 0});
      all.insert(all.end(), inputs.begin(), inputs.end());
      if (graph_.leads_to(results, all)) return false;
    }

    Graph::Attributes attributes;
    attributes.set_type("T", type_);
    attributes.set_type("U", bias_.node >= 0 ? graph_.main_type(chain_of_bias()) : TF_FLOAT);
    attributes.set_integers("q_axes", places(q_axes_, "bhmd"));
    attributes.set_integers("k_axes", places(k_axes_, "bhnd"));
    attributes.set_integers("v_axes", places(v_axes_, "bhne"));
    attributes.set_integers("y_axes", places(y_axes_, "bhme"));
    attributes.set_integers("score_axes", places(score_axes_, "bhmn"));
    attributes.set_float("scale", static_cast<float>(scale_));
    attributes.set_bool("causal", causal_);
    attributes.set_bool("broadcasts", broadcasts_);
    const bool may_see_nothing = is_mask_needed() && !zero_rows_ && !sees_something_;
    const bool opens = may_see_nothing && trains, finite = may_see_nothing && !trains;
    attributes.set_integer("mask_count", is_mask_needed() || bias_.node >= 0 ? 1 : 0);
    attributes.set_integer("row_count", opens ? 1 : 0);

    std::vector<Edge> data{q_, k_, v_};
    if (bias_.node >= 0) data.push_back(bias_);
    if (is_mask_needed()) {
      const int mask = find_or_add_mask(opens, finite);
      data.push_back({mask, 0});
      if (opens) data.push_back({mask, 1});
    }
    const auto with_waits = [](std::vector<Edge> edges, const std::vector<Edge>& waits) {
      for (const Edge& edge : waits) {
        if (edge.port == Graph::kControl) edges.push_back(edge);
      }
      return edges;
    };
    const std::string name = std::string(at(result_).name) + "/unihal";
    const int y = graph_.add(name, "UnihalAttention", at(result_).device, with_waits(data, inputs), attributes);
    if (trains) {
      std::vector<Edge> all = data;
      all.insert(all.end(), {Edge{y, 0}, Edge{y, 1}, gradient_});
      for (int output = 0; output < 3; ++output) {
        if (terminals_.count(output) == 0) gradient_axes_[output] = *operand_axes(output);
      }
      attributes.set_integers("dy_axes", places(dy_axes_, "bhme"));
      attributes.set_integers("dq_axes", places(gradient_axes_[0], "bhmd"));
      attributes.set_integers("dk_axes", places(gradient_axes_[1], "bhnd"));
      attributes.set_integers("dv_axes", places(gradient_axes_[2], "bhne"));
      const std::string gradient_name = std::string(at(ends.front()).name) + "/unihal";
      const int made = graph_.add(gradient_name, "UnihalAttentionGrad", at(result_).device,
                                  with_waits(all, gradient_inputs), attributes);
      for (const auto& [output, node] : terminals_) graph_.redirect_data({node, 0}, {made, output});
    }
    graph_.redirect_data({result_, 0}, {y, 0});
    return true;
  }

  int chain_of_bias() const {
    for (int node : chain_) {
      if (input(node, 0) == bias_ || input(node, 1) == bias_) return node;
    }
    return softmax_;
  }

  OutputShapes& shapes_;
  const std::set<int>& candidates_;
  int softmax_, scores_ = -1, result_ = -1;
  bool anyway_;             // whatever it costs
  std::vector<int> chain_;  // from the softmax's operand to the product's
  Edge q_ = kNoEdge, k_ = kNoEdge, v_ = kNoEdge, gradient_ = kNoEdge;
  std::string q_axes_, k_axes_, v_axes_, y_axes_, dy_axes_, score_axes_;
  std::string gradient_axes_[3];  // of the gradients of q, k and v
  double scale_ = 1;
  Edge mask_ = kNoEdge;  // as scores and gradients are selected by it
  Edge seen_ = kNoEdge;  // what is left of it, where all that is broadcast has been left out
  Edge bias_ = kNoEdge;  // what is added to scores
  bool inverted_ = false, causal_ = false;
  bool sees_something_ = false;  // each row of the mask does
  bool broadcasts_ = false;      // whether batches of one matrix may meet others
  bool zero_rows_ = false;       // rows that see nothing are given zeros after the softmax
  std::map<int, RegionValue> region_;
  std::set<int> unknown_;         // what is not of the region
  std::vector<int> added_;        // to the region, since it was cleared
  std::map<int, int> terminals_;  // by output: the gradients of q, k and v
  std::set<int> shape_nodes_, ends_;
  bool sees_score_gradient_ = false;
  int depth_ = 0;
};

}  // namespace

bool fuse_attention(Graph& graph, const std::string& type, const std::vector<int>& candidates, OutputShapes& shapes,
                    bool anyway) {
  const std::set<int> known(candidates.begin(), candidates.end());
  bool found = false;
  for (int node : candidates) {
    if (graph[node].removed || graph[node].op != "Softmax" || graph.is_exposed(node)) continue;
    found |= AttentionSearch(graph, shapes, known, node, anyway).fuse(type);
  }
  return found;
}

}  // namespace unihal::tensorflow
