// Searching a graph for nodes that compute a formula: what norm.cc and gelu.cc have in common.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plugins/tensorflow/fusion/algebra.h"

namespace unihal::tensorflow {

class AlgebraSearch {
 protected:
  using Edge = Graph::Edge;
  static constexpr Edge kNoEdge = {-1, 0};

  // What is understood of a sum, and its other terms.
  struct Terms {
    Polynomial understood;
    std::vector<Edge> others;
  };

  // Of nodes that compute in `type`.
  explicit AlgebraSearch(Graph& graph, TF_DataType type = TF_FLOAT) : graph_(graph), type_(type) {}

  // A node's data input; kNoEdge if there is none.
  Edge input(int node, int index) const;
  bool is_of_type(int node) const { return graph_.main_type(node) == type_; }
  // The nodes that read an edge, each once.
  std::vector<int> readers(const Edge& edge) const;

  // The terms of a sum: those that the atom is a factor in are understood, and so is one parameter by itself if one may
  // be an offset. Inner sums that nothing else reads are opened. False if nothing is understood, or the node may be
  // fed.
  bool terms_of(int node, const Polynomial& atom, bool takes_offset, Terms* terms);
  // Whether an atom with its exponent is a variable with a number per channel.
  bool is_parameter(const std::pair<int, int>& entry) const;
  static int number_of(const Polynomial& atom) { return atom.terms().begin()->first.front().first; }

  // What multiplies something that is not understood by one of these polynomials gives these candidates for an incoming
  // gradient; searched from the readers of `sources` on.
  std::vector<Edge> gradient_candidates(std::vector<Edge> sources, const std::vector<Polynomial>& slopes);

  // What a new op in the place of these nodes has to wait for: all that they, and what lies between them and `leaves`,
  // waited for by control edges. False if there is too much between them.
  bool waits_before(const std::vector<int>& nodes, const std::vector<Edge>& leaves, std::vector<Edge>* waits) const;

  // Makes a node the sum of an edge and others.
  void write_sum(int node, const Edge& first, const std::vector<Edge>& others);

  Graph& graph_;
  TF_DataType type_;
  Edge x_ = kNoEdge;
  std::optional<Algebra> algebra_;

 private:
  void collect(const Edge& edge, bool is_root, int atom, bool* takes_offset, Terms* terms);
};

}  // namespace unihal::tensorflow
