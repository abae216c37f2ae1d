#include "plugins/tensorflow/fusion/algebra.h"

#include <algorithm>
#include <cmath>

#include "plugins/tensorflow/fusion/pattern.h"

namespace unihal::tensorflow {
namespace {

// How far factors may be from a formula's that are products of three constants, each rounded to a type. GELU's
// constants are rounded before a graph of bfloat16 has them.
double rounding_of(TF_DataType type) { return type == TF_FLOAT ? 1e-6 : type == TF_HALF ? 0x1p-10 : 0x1p-7; }

// What takes longer to follow is no norm.
constexpr int kMaxDepth = 48;
constexpr size_t kMaxPolynomialTerms = 24;

Extent joint_extent(Extent a, Extent b) {
  if (a == b || b == Extent::kScalar) return a;
  return a == Extent::kScalar ? b : Extent::kFull;
}

Value scalar(double number) { return {Polynomial(number), Extent::kScalar, false}; }

}  // namespace

Algebra::Algebra(const Graph& graph, Edge x, int rank, TF_DataType type)
    : graph_(graph), x_(x), rank_(rank), type_(type) {
  atom("x", Extent::kFull);
  atom("gradient", Extent::kFull);
  atom("column count", Extent::kScalar);
  atom("row count", Extent::kScalar);
}

void Algebra::set_gradient(Edge gradient, int rank) {
  gradient_ = gradient;
  rank_ = rank;
  shows_rank_ = false;
  counts_.clear();
  values_.clear();
}

int Algebra::atom(const std::string& key, Extent extent, Edge edge) {
  const auto [found, is_new] = by_key_.emplace(key, static_cast<int>(atoms_.size()));
  if (is_new) atoms_.push_back({key, extent, edge, {}});
  return found->second;
}

Algebra::Edge Algebra::input_edge(int node, int index) const {
  if (static_cast<size_t>(index) >= graph_[node].inputs.size()) return {-1, 0};
  const Edge edge = graph_[node].inputs[static_cast<size_t>(index)];
  return edge.port == Graph::kControl ? Edge{-1, 0} : edge;
}

const std::optional<Value>& Algebra::input(int node, int index) { return value(input_edge(node, index)); }

const std::optional<Value>& Algebra::value(const Edge& edge) {
  static const std::optional<Value> kNone;
  if (edge.node < 0) return kNone;
  const auto found = values_.find({edge.node, edge.port});
  if (found != values_.end()) return found->second;
  if (depth_ >= kMaxDepth) return kNone;
  ++depth_;
  std::optional<Value> result = compute(edge);
  --depth_;
  if (result && result->polynomial.terms().size() > kMaxPolynomialTerms) result.reset();
  return values_[{edge.node, edge.port}] = std::move(result);
}

// Factors that are the same for all elements of a sum stand before it; each term is a sum of its own.
Polynomial Algebra::sum(const Polynomial& polynomial, Extent result) {
  Polynomial total;
  for (const auto& [monomial, factor] : polynomial.terms()) {
    Monomial before, inside;
    for (const auto& entry : monomial) {
      const Extent extent = extent_of(entry.first);
      (extent == Extent::kScalar || extent == result ? before : inside).push_back(entry);
    }
    if (inside.empty()) {
      inside.emplace_back(result == Extent::kColumn ? kColumnCount : kRowCount, 1);
      total.add(before * inside, factor);
      continue;
    }
    Polynomial of;
    of.add(inside, 1);
    const int sum = atom((result == Extent::kColumn ? "column of " : "row of ") + of.text(), result);
    atoms_[static_cast<size_t>(sum)].of = of;
    total.add(before * Monomial{{sum, 1}}, factor);
  }
  return total;
}

bool Algebra::depends(const Polynomial& polynomial, int atom) const {
  const auto& terms = polynomial.terms();
  return std::any_of(terms.begin(), terms.end(), [&](const auto& term) {
    return std::any_of(term.first.begin(), term.first.end(), [&](const auto& entry) {
      return entry.first == atom || depends(atoms_[static_cast<size_t>(entry.first)].of, atom);
    });
  });
}

bool Algebra::equal(const Polynomial& a, const Polynomial& b) const {
  Polynomial first = a, second = b;
  for (const auto& [result, count] : counts_) {
    const int atom = result == Extent::kColumn ? kColumnCount : kRowCount;
    first = first.with(atom, count);
    second = second.with(atom, count);
  }
  return first.equals(second, rounding_of(type_));
}

// Two counts that differ are a contradiction: nothing is understood then.
bool Algebra::note_count(Extent result, double count) {
  return count > 0 && counts_.emplace(result, count).first->second == count;
}

// A variable's value of one axis, or a scalar one, be it through a change of its dtype.
std::optional<Value> Algebra::variable(const Edge& edge) {
  int node = edge.node;
  while (graph_[node].op == "Cast" && input_edge(node, 0).node >= 0) node = input_edge(node, 0).node;
  if (graph_[node].op != "ReadVariableOp") return std::nullopt;
  const auto shape = shape_of_variable(graph_, input_edge(node, 0).node);
  if (!shape || shape->size() > 1) return std::nullopt;
  const Extent extent = shape->empty() ? Extent::kScalar : Extent::kColumn;
  if (extent == Extent::kColumn) {
    if (channels_ == 0) channels_ = shape->front();
    if (shape->front() != channels_) return std::nullopt;
  }
  const std::string key = "variable " + std::to_string(edge.node);
  return Value{Polynomial::atom(atom(key, extent, edge)), extent, extent == Extent::kColumn};
}

// Which sum there is over these axes. Where `is_partial` is wanted, a sum over some of all axes but the last is one
// too.
std::optional<Extent> Algebra::reduction(const Edge& axes, bool* is_partial) {
  std::vector<int64_t> numbers;
  int32_t single = 0;
  if (axes.node < 0) return std::nullopt;
  if (graph_.scalar_constant(axes.node, &single)) {
    numbers = {single};
  } else if (!graph_.vector_constant(axes.node, &numbers)) {
    return std::nullopt;
  }
  if (numbers.size() == 1 && numbers[0] == -1) return Extent::kRow;
  std::sort(numbers.begin(), numbers.end());
  const auto count = static_cast<int>(numbers.size());
  bool leading = count > 0;
  for (int i = 0; i < count; ++i) leading &= numbers[static_cast<size_t>(i)] == i;
  if (leading && rank_ == count + 1) return Extent::kColumn;
  if (count == 1 && numbers[0] > 0 && rank_ == numbers[0] + 1) {
    shows_rank_ = true;
    return Extent::kRow;
  }
  if (is_partial != nullptr && count > 0 && numbers.front() >= 0 && numbers.back() < rank_ - 1) {
    *is_partial = true;
    return Extent::kColumn;
  }
  return std::nullopt;
}

std::optional<Value> Algebra::reduced(int node, bool is_mean) {
  const std::optional<Value> operand = input(node, 0);
  if (!operand || operand->extent != Extent::kFull) return std::nullopt;
  const bool keeps = graph_.flag(node, "keep_dims");
  bool is_partial = false;
  const std::optional<Extent> result = reduction(input_edge(node, 1), is_mean || !keeps ? nullptr : &is_partial);
  if (!result || (*result == Extent::kRow && !keeps)) return std::nullopt;
  if (*result == Extent::kColumn && !keeps) shows_rank_ = true;
  const Polynomial total = is_mean ? mean(operand->polynomial, *result) : sum(operand->polynomial, *result);
  return Value{total, *result, *result == Extent::kColumn && !keeps, is_partial};
}

bool Algebra::is_shape_of(const Edge& shape, Extent extent) {
  if (shape.node < 0) return false;
  int operand = shape.port;
  if (graph_[shape.node].op == "Shape") {
    operand = 0;
  } else if (graph_[shape.node].op != "ShapeN") {
    return false;
  }
  const std::optional<Value> of = input(shape.node, operand);
  return of && of->extent == extent;
}

std::optional<Value> Algebra::reshaped(int node) {
  std::optional<Value> operand = input(node, 0);
  const Edge shape = input_edge(node, 1);
  if (!operand || shape.node < 0) return std::nullopt;
  if (operand->extent == Extent::kFull || operand->extent == Extent::kRow) {
    if (is_shape_of(shape, operand->extent)) return operand;
  }
  std::vector<int64_t> sizes;
  if (!graph_.vector_constant(shape.node, &sizes) || sizes.empty()) return std::nullopt;
  if (operand->extent == Extent::kColumn) {
    if (std::any_of(sizes.begin(), sizes.end() - 1, [](int64_t size) { return size != 1; })) return std::nullopt;
    if (operand->is_unproved && sizes.back() != channels_) return std::nullopt;
    operand->is_vector = sizes.size() == 1;
    operand->is_unproved = false;
    return operand;
  }
  // A row keeps its number of elements and broadcasts with x, so that its sizes are those it had.
  if (operand->extent == Extent::kRow && sizes.back() == 1 && static_cast<int>(sizes.size()) == rank_) return operand;
  return std::nullopt;
}

std::optional<Value> Algebra::squeezed(int node) {
  std::optional<Value> operand = input(node, 0);
  if (!operand || operand->extent != Extent::kColumn || operand->is_vector || operand->is_unproved) return std::nullopt;
  std::vector<int64_t> axes = graph_.integers(node, "squeeze_dims");
  std::sort(axes.begin(), axes.end());
  if (rank_ == 0 || static_cast<int>(axes.size()) != rank_ - 1) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int64_t>(i)) return std::nullopt;
  }
  operand->is_vector = true;
  return operand;
}

std::optional<Value> Algebra::tiled(int node) {
  std::optional<Value> operand = input(node, 0);
  const Edge shape = input_edge(node, 1);
  std::vector<int64_t> times;
  if (!operand || operand->is_vector || operand->is_unproved || shape.node < 0 ||
      !graph_.vector_constant(shape.node, &times)) {
    return std::nullopt;
  }
  if (times.empty() || (rank_ != 0 && static_cast<int>(times.size()) != rank_)) return std::nullopt;
  double product = 1;
  for (size_t i = 0; i + 1 < times.size(); ++i) product *= static_cast<double>(times[i]);
  const auto last = static_cast<double>(times.back());
  const bool fits = operand->extent == Extent::kColumn
                        ? last == 1 && note_count(Extent::kColumn, product)
                        : operand->extent == Extent::kRow && product == 1 && note_count(Extent::kRow, last);
  if (!fits) return std::nullopt;
  operand->extent = Extent::kFull;
  return operand;
}

std::optional<Value> Algebra::broadcast(int node) {
  std::optional<Value> operand = input(node, 0);
  if (!operand || operand->is_unproved || !is_shape_of(input_edge(node, 1), Extent::kFull)) return std::nullopt;
  operand->extent = Extent::kFull;
  operand->is_vector = false;
  return operand;
}

// The number of elements of a mean, as TensorFlow's gradient of it counts them: the product of sizes gathered from a
// shape.
std::optional<Value> Algebra::counted(int node) {
  const Edge product = input_edge(node, 0);
  if (product.node < 0 || graph_[product.node].op != "Prod") return std::nullopt;
  const Edge sizes = input_edge(product.node, 0);
  std::vector<int64_t> axes;
  int32_t zero = 0;
  const Edge product_axes = input_edge(product.node, 1);
  if (product_axes.node < 0 || !graph_.vector_constant(product_axes.node, &axes) || axes != std::vector<int64_t>{0}) {
    return std::nullopt;
  }
  if (sizes.node < 0 || graph_[sizes.node].op != "GatherV2") return std::nullopt;
  const Edge axis = input_edge(sizes.node, 2);
  if (axis.node < 0 || !graph_.scalar_constant(axis.node, &zero) || zero != 0) return std::nullopt;
  const std::optional<Extent> result = reduction(input_edge(sizes.node, 1));
  if (!result || !is_shape_of(input_edge(sizes.node, 0), Extent::kFull)) return std::nullopt;
  return Value{count(*result, 1), Extent::kScalar, false};
}

std::optional<Value> Algebra::compute(const Edge& edge) {
  if (edge == x_) return Value{x(), Extent::kFull, false};
  if (edge == gradient_) return Value{gradient(), Extent::kFull, false};
  const int node = edge.node;
  const std::string_view op = graph_[node].op;
  if (edge.port == 2 && (op == "UnihalBatchNormGrad" || op == "UnihalLayerNormGrad")) {
    // The sum of a gradient that two norms share, which the first one gives.
    const std::optional<Value> gradient = input(node, 1);
    if (!gradient || gradient->extent != Extent::kFull) return std::nullopt;
    return Value{sum(gradient->polynomial, Extent::kColumn), Extent::kColumn, true};
  }
  if (edge.port != 0 || graph_.is_exposed(node)) return std::nullopt;
  if (op == "Cast") {
    if (graph_.type_attribute(node, "DstT") != type_) return std::nullopt;
    if (graph_.type_attribute(node, "SrcT") == TF_INT32) return counted(node);
    return variable(edge);
  }
  if (graph_.main_type(node) != type_) return std::nullopt;
  if (op == "ReadVariableOp") return variable(edge);
  if (op == "Const") {
    float number = 0;
    if (graph_.scalar_constant(node, type_, &number)) return scalar(static_cast<double>(number));
    return std::nullopt;
  }
  if (op == "Mean" || op == "Sum") return reduced(node, op == "Mean");
  if (op == "Reshape") return reshaped(node);
  if (op == "Squeeze") return squeezed(node);
  if (op == "Tile") return tiled(node);
  if (op == "BroadcastTo") return broadcast(node);

  const std::optional<Value> a = input(node, 0);
  if (!a || a->is_unproved) return std::nullopt;
  if (op == "Identity" || op == "StopGradient") return a;
  if (op == "Neg") return Value{a->polynomial * Polynomial(-1), a->extent, a->is_vector};
  if (op == "Square") return Value{a->polynomial * a->polynomial, a->extent, a->is_vector};
  if (op == "Rsqrt" || op == "Erf" || op == "Erfc" || op == "Exp" || op == "Tanh") {
    return Value{function(op, a->polynomial, a->extent), a->extent, a->is_vector};
  }
  if (op == "AddN") {
    Value total = *a;
    for (int i = 1; input_edge(node, i).node >= 0; ++i) {
      const std::optional<Value> next = input(node, i);
      if (!next || next->is_unproved || next->extent != total.extent || next->is_vector != total.is_vector)
        return std::nullopt;
      total.polynomial = total.polynomial + next->polynomial;
    }
    return total;
  }
  const std::optional<Value> b = input(node, 1);
  if (!b || b->is_unproved) return std::nullopt;
  Value result;
  result.extent = joint_extent(a->extent, b->extent);
  result.is_vector = result.extent == Extent::kColumn && (a->extent == Extent::kScalar || a->is_vector) &&
                     (b->extent == Extent::kScalar || b->is_vector);
  if (op == "Add" || op == "AddV2") {
    result.polynomial = a->polynomial + b->polynomial;
  } else if (op == "Sub") {
    result.polynomial = a->polynomial - b->polynomial;
  } else if (op == "Mul") {
    result.polynomial = a->polynomial * b->polynomial;
  } else if (op == "SquaredDifference") {
    const Polynomial difference = a->polynomial - b->polynomial;
    result.polynomial = difference * difference;
  } else if (op == "RealDiv") {
    Polynomial inverse;
    if (!b->polynomial.reciprocal(&inverse)) return std::nullopt;
    result.polynomial = a->polynomial * inverse;
  } else if (op == "TanhGrad") {  // (y, dy)
    result.polynomial = b->polynomial * (Polynomial(1) - a->polynomial * a->polynomial);
  } else if (op == "Pow") {
    const Polynomial& p = b->polynomial;
    const bool is_cube = p.equals(Polynomial(3));
    if (!is_cube && !p.equals(Polynomial(2))) return std::nullopt;
    result.polynomial = a->polynomial * a->polynomial;
    if (is_cube) result.polynomial = result.polynomial * a->polynomial;
    result.extent = a->extent;
    result.is_vector = a->is_vector;
  } else if (op == "RsqrtGrad") {  // (y, dy)
    result.polynomial = Polynomial(-0.5) * b->polynomial * a->polynomial * a->polynomial * a->polynomial;
  } else {
    return std::nullopt;
  }
  return result;
}

}  // namespace unihal::tensorflow
