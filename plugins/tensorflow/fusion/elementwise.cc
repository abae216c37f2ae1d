// Clusters of elementwise ops of one shape, each of which becomes one op.
//
// A cluster grows from a node over the values between elementwise nodes. It must be convex: nothing outside may come
// after one of its nodes and before another, be it through data, control edges or clusters that were found before. To
// see that, nodes are kept in an order of execution, in which a finished cluster's stand together: a path back into a
// cluster only leads through what stands after its first node.
#include <algorithm>
#include <map>
#include <utility>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/elementwise_program.h"

namespace unihal::tensorflow {
namespace {

constexpr size_t kMaxSearch = 20000;  // nodes that are looked at for one more node of a cluster

class Clusters {
 public:
  Clusters(Graph& graph, const std::string& type, const std::vector<int>& candidates, OutputShapes& shapes)
      : graph_(graph),
        type_(type),
        classes_(graph, shapes),
        fits_(static_cast<size_t>(graph.size())),
        cluster_(static_cast<size_t>(graph.size()), kNone),
        seen_(static_cast<size_t>(graph.size())) {
    for (int node : candidates) at(fits_, node) = is_elementwise(graph, node, classes_) ? 1 : 0;
  }

  bool fuse() {
    if (!sort()) return false;
    const std::vector<int> seeds = order_;
    for (int seed : seeds) {
      if (is_free(seed)) grow(seed);
    }
    std::map<int, Edge> moved;  // values of nodes that are gone
    for (auto& [nodes, program] : found_) {
      for (Edge& input : program.inputs) {
        const auto now = moved.find(input.node);
        if (now != moved.end()) input = now->second;
      }
      std::vector<Edge> results;
      for (int node : program.nodes) results.push_back({node, 0});
      const std::string name = std::string(graph_[nodes.back()].name) + "/unihal";
      const int made = graph_.contract(name, "UnihalElementwise", nodes, program.inputs, results, program.attributes());
      for (size_t i = 0; i < program.nodes.size(); ++i) moved[program.nodes[i]] = {made, static_cast<int>(i)};
    }
    return !found_.empty();
  }

 private:
  static constexpr int kNone = -1;

  template <class T>
  static T& at(std::vector<T>& values, int index) {
    return values[static_cast<size_t>(index)];
  }

  bool is_free(int node) { return at(fits_, node) != 0 && at(cluster_, node) == kNone; }

  // False if there are loops.
  bool sort() {
    std::vector<int> waiting(static_cast<size_t>(graph_.size()));
    size_t count = 0;
    for (int node = 0; node < graph_.size(); ++node) {
      if (graph_[node].removed) continue;
      ++count;
      at(waiting, node) = static_cast<int>(graph_[node].inputs.size());
      if (graph_[node].inputs.empty()) order_.push_back(node);
    }
    for (size_t i = 0; i < order_.size(); ++i) {
      for (int consumer : graph_[order_[i]].consumers) {
        if (--at(waiting, consumer) == 0) order_.push_back(consumer);
      }
    }
    position_.resize(static_cast<size_t>(graph_.size()));
    for (size_t i = 0; i < order_.size(); ++i) at(position_, order_[i]) = i;
    return order_.size() == count;
  }

  void grow(int seed) {
    std::vector<int> nodes{seed};
    std::optional<ElementwiseProgram> program = ElementwiseProgram::make(graph_, nodes);
    const std::string shape = classes_.of({seed, 0});
    std::vector<int> tried{seed};
    for (;;) {
      const int next = neighbour(nodes, tried, shape);
      if (next == kNone) break;
      tried.push_back(next);
      std::vector<int> more = nodes;
      more.insert(std::upper_bound(more.begin(), more.end(), next,
                                   [&](int a, int b) { return at(position_, a) < at(position_, b); }),
                  next);
      if (!is_convex(more)) continue;
      std::optional<ElementwiseProgram> longer = ElementwiseProgram::make(graph_, more);
      if (!longer) continue;
      nodes = std::move(more);
      program = std::move(longer);
    }
    // A sum of more than two terms is worth it by itself: each step is a launch.
    if (!program || program->functions.size() < 2 || !program->runs_on(type_)) return;
    gather(nodes);
    for (int node : nodes) at(cluster_, node) = static_cast<int>(found_.size());
    found_.emplace_back(std::move(nodes), std::move(*program));
  }

  // The first free node of a shape, in the order of execution, that takes a cluster's value or gives it one.
  int neighbour(const std::vector<int>& nodes, const std::vector<int>& tried, const std::string& shape) {
    int best = kNone;
    const auto look_at = [&](int node) {
      if (!is_free(node) || (best != kNone && at(position_, node) >= at(position_, best))) return;
      if (std::find(tried.begin(), tried.end(), node) != tried.end()) return;
      if (graph_[node].device != graph_[nodes.front()].device || classes_.of({node, 0}) != shape) return;
      best = node;
    };
    for (int node : nodes) {
      for (const Edge& edge : graph_[node].inputs) {
        if (edge.port != Graph::kControl) look_at(edge.node);
      }
      for (int consumer : graph_[node].consumers) {
        const std::vector<Edge>& inputs = graph_[consumer].inputs;
        if (std::find(inputs.begin(), inputs.end(), Edge{node, 0}) != inputs.end()) look_at(consumer);
      }
    }
    return best;
  }

  // Calls visit(input) for what a node, with all of its cluster, waits for.
  template <class Visit>
  void each_input(int node, const Visit& visit) {
    if (at(cluster_, node) == kNone) {
      for (const Edge& edge : graph_[node].inputs) visit(edge.node);
      return;
    }
    for (int member : found_[static_cast<size_t>(at(cluster_, node))].first) {
      for (const Edge& edge : graph_[member].inputs) visit(edge.node);
    }
  }

  // Marks what is before the nodes, among what stands after the first of them, with turn_ in seen_, and the nodes with
  // -turn_. False if one of the nodes is before another by way of something else, or there is too much to search.
  bool is_convex(const std::vector<int>& nodes) {
    const size_t first = at(position_, nodes.front());
    std::vector<int> waiting;
    size_t visited = 0;
    bool convex = true;
    ++turn_;
    for (int node : nodes) at(seen_, node) = -turn_;
    const auto visit = [&](int input) {
      if (at(seen_, input) == turn_ || at(position_, input) < first) return;
      waiting.push_back(input);
      ++visited;
      at(seen_, input) = turn_;
      if (at(cluster_, input) == kNone) return;
      for (int member : found_[static_cast<size_t>(at(cluster_, input))].first) at(seen_, member) = turn_;
    };
    for (int node : nodes) {
      for (const Edge& edge : graph_[node].inputs) {
        if (at(seen_, edge.node) != -turn_) visit(edge.node);
      }
    }
    while (!waiting.empty() && convex) {
      const int node = waiting.back();
      waiting.pop_back();
      each_input(node, [&](int input) {
        if (at(seen_, input) == -turn_) {
          convex = false;
        } else {
          visit(input);
        }
      });
      convex = convex && visited <= kMaxSearch;
    }
    return convex;
  }

  // Lets a cluster's nodes stand together: after what is before them, before the rest of what stood between them.
  void gather(const std::vector<int>& nodes) {
    is_convex(nodes);
    const size_t first = at(position_, nodes.front()), last = at(position_, nodes.back());
    std::vector<int> sorted;
    const auto take = [&](bool wanted_earlier, bool wanted_inside) {
      for (size_t i = first; i <= last; ++i) {
        const int node = order_[i];
        const bool is_inside = at(seen_, node) == -turn_;
        if (is_inside == wanted_inside && (at(seen_, node) == turn_) == wanted_earlier) sorted.push_back(node);
      }
    };
    take(true, false);
    take(false, true);
    take(false, false);
    for (size_t i = 0; i < sorted.size(); ++i) {
      order_[first + i] = sorted[i];
      at(position_, sorted[i]) = first + i;
    }
  }

  Graph& graph_;
  const std::string& type_;
  ShapeClasses classes_;
  std::vector<char> fits_;
  std::vector<int> cluster_;
  std::vector<int> order_;
  std::vector<size_t> position_;
  std::vector<int> seen_;  // by the last search: turn_, or -turn_ for the nodes that it began with
  int turn_ = 0;
  std::vector<std::pair<std::vector<int>, ElementwiseProgram>> found_;
};

}  // namespace

bool fuse_elementwise(Graph& graph, const std::string& type, const std::vector<int>& candidates, OutputShapes& shapes) {
  return Clusters(graph, type, candidates, shapes).fuse();
}

}  // namespace unihal::tensorflow
