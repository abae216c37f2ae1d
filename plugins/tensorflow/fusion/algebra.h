// What nodes of a graph compute, as polynomials of a tensor x, of an incoming gradient, of parameters and of sums.
//
// A fusion asks for the polynomial of a node and compares it with that of a formula, whatever ops the node is made of.
// Two ways to sum are known: over all axes but the last, which gives a column (a number per element of the last axis),
// and over the last axis, which gives a row (a number per element of the others, with a last axis of length 1). What
// only moves such numbers into another shape that broadcasts alike (Reshape, Squeeze, Tile, BroadcastTo) is followed
// where its constants prove that; all else has no polynomial.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/tensorflow/fusion/polynomial.h"
#include "plugins/tensorflow/graph.h"

namespace unihal::tensorflow {

// What a tensor's elements stand for. A scalar broadcasts to all others; a column and a row make a full tensor.
enum class Extent { kScalar, kColumn, kRow, kFull };

struct Value {
  Polynomial polynomial;
  Extent extent = Extent::kScalar;
  bool is_vector = false;  // a column, and of rank 1
  // A column only if the axes that were not summed over have length 1, which a Reshape is still to prove.
  bool is_unproved = false;
};

class Algebra {
 public:
  using Edge = Graph::Edge;

  // `x` has `rank` axes; 0 if that is not known, and then only sums over an axis of -1 are understood. All is computed
  // in `type`.
  Algebra(const Graph& graph, Edge x, int rank, TF_DataType type = TF_FLOAT);

  // The tensor that stands for the incoming gradient, of x's shape, and the rank of both.
  void set_gradient(Edge gradient, int rank);

  // The value of an edge; none if it is not understood.
  const std::optional<Value>& value(const Edge& edge);

  // -- atoms and sums, to write formulas with

  Polynomial x() const { return Polynomial::atom(kX); }
  Polynomial gradient() const { return Polynomial::atom(kGradient); }
  // Of how many elements a sum is.
  Polynomial count(Extent result, int exponent) const {
    return Polynomial::atom(result == Extent::kColumn ? kColumnCount : kRowCount, exponent);
  }
  // The sum that leaves a column or a row.
  Polynomial sum(const Polynomial& polynomial, Extent result);
  Polynomial mean(const Polynomial& polynomial, Extent result) { return sum(polynomial, result) * count(result, -1); }

  // The edge of an atom that is one: a variable's value, of a column or a scalar. Else of node -1.
  Edge edge_of(int atom) const { return atoms_[static_cast<size_t>(atom)].edge; }
  Extent extent_of(int atom) const { return atoms_[static_cast<size_t>(atom)].extent; }

  // The atom of a function ("Rsqrt") of a polynomial.
  Polynomial function(std::string_view name, const Polynomial& of, Extent extent) {
    return Polynomial::atom(atom(std::string(name) + " of " + of.text(), extent));
  }

  // Whether an atom is a factor of a term, or of what a sum in it is of.
  bool depends(const Polynomial& polynomial, int atom) const;

  // Whether a sum was understood that shows the rank: into a vector, or over the last axis by its number. Others that
  // keep axes, and are then reshaped to a vector, are those of tensors of more axes too, of length 1.
  bool shows_rank() const { return shows_rank_; }

  // Equality, with what constants of the graph say of counts, to the rounding of constants of the type.
  bool equal(const Polynomial& a, const Polynomial& b) const;

 private:
  enum { kX = 0, kGradient = 1, kColumnCount = 2, kRowCount = 3 };
  struct Atom {
    std::string key;
    Extent extent;
    Edge edge;
    Polynomial of;  // of a sum: of what
  };

  int atom(const std::string& key, Extent extent, Edge edge = {-1, 0});
  std::optional<Value> compute(const Edge& edge);
  std::optional<Value> variable(const Edge& edge);
  std::optional<Value> reduced(int node, bool is_mean);
  std::optional<Value> reshaped(int node);
  std::optional<Value> squeezed(int node);
  std::optional<Value> tiled(int node);
  std::optional<Value> broadcast(int node);
  std::optional<Value> counted(int node);
  bool is_shape_of(const Edge& shape, Extent extent);
  std::optional<Extent> reduction(const Edge& axes, bool* is_partial = nullptr);
  bool note_count(Extent result, double count);
  const std::optional<Value>& input(int node, int index);
  Edge input_edge(int node, int index) const;

  const Graph& graph_;
  Edge x_;
  Edge gradient_ = {-1, 0};
  int rank_;
  TF_DataType type_;
  int64_t channels_ = 0;  // of the variables that are columns
  std::map<Extent, double> counts_;
  std::vector<Atom> atoms_;
  std::map<std::string, int> by_key_;
  std::map<std::pair<int, int>, std::optional<Value>> values_;
  int depth_ = 0;
  bool shows_rank_ = false;
};

}  // namespace unihal::tensorflow
