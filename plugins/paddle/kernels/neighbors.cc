// Neighbors of nodes in graphs, all of them or some drawn at random, and the graphs that these make. A graph has for
// each node where its neighbors begin in a list, and where the last one's end.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/row_groups.h"

namespace unihal::paddle {
namespace {

class Integers64 : public Scratch {
 public:
  Integers64(const Context& context, int64_t count) : Scratch(context, UHAL_INT64, {count}) {}
  Integers64(const Context& context, const View& x) : Integers64(context, x.elements()) {
    copy_or_cast(context, flat(x), *this);
  }
};

// For elements in groups of so many each, one behind the other: the group of each, and which of the group it is.
class Owners {
 public:
  Owners(const Context& context, const View& counts, int64_t total)
      : group(context, total), place(context, total), begins(context, counts.elements()) {
    if (total == 0) return;
    const Integers64 ends(context, counts.elements()), numbers(context, total);
    sum_up(context, counts, ends);
    context.map(uhal_map_subtract, {&ends, &counts}, {&begins});
    count_up(context, numbers);
    // An element's group is how many have ended where it lies; the last one ends behind all.
    const Constant one(context, UHAL_INT64, 1);
    View ones = one;
    ones.rank = 1;
    ones.shape[0] = counts.elements();
    ones.strides[0] = 0;
    auto add = index_attributes(0);
    add.reduction = UHAL_REDUCE_SUM;
    add.ignore_out_of_range = 1;
    fill_zero(context, group);
    context.run(UHAL_OP_SCATTER, {&ends, &ones}, {&group}, &add);
    sum_up(context, group, group);
    take(context, begins, group, place);
    context.map(uhal_map_subtract, {&numbers, &place}, {&place});
  }
  const Integers64 group, place, begins;
};

int64_t total_of(const Context& context, const View& counts) {
  if (counts.elements() == 0) return 0;
  const Integers64 sum(context, 1);
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&counts}, {&sum}, &attributes);
  return static_cast<int64_t>(read_number(context, sum));
}

struct NeighborGraph {
  View neighbors, begins, ids, weights;  // ids and weights of edges have no elements where there are none

  NeighborGraph(const Context& context, const View& row, const View& colptr, const OptionalInput& edge_ids,
                bool with_ids)
      : neighbors(flat(row)), begins(flat(colptr)) {
    if (begins.elements() < 1) invalid(context, "colptr has not an element more than there are nodes");
    if (!with_ids) return;
    if (!edge_ids || edge_ids.elements() != neighbors.elements())
      invalid(context, "eids has not a number for each edge");
    ids = flat(edge_ids.view());
  }
};

// The neighbors of some nodes: numbers of edges, those of one node behind those of another.
class Neighbors {
 public:
  // At most `limit` of each node, drawn at random; below 0: all. Edges of larger weight are more likely (Efraimidis and
  // Spirakis 2006).
  Neighbors(const Context& context, const NeighborGraph& graph, const View& nodes, int64_t limit)
      : counts(context, nodes.elements()) {
    const int64_t many = nodes.elements();
    if (many == 0) {
      edges.emplace(context, 0);
      return;
    }
    const Scratch table(context, UHAL_INT64, {4, many});
    const Degrees found = find_starts(context, graph, flat(nodes), table);
    const View starts = row(table, 0), degrees = row(table, 1);
    const int64_t candidates = found.total;
    if (limit < 0) {
      copy_or_cast(context, degrees, counts);
      const Owners of(context, degrees, candidates);
      edges.emplace(context, candidates);
      take(context, starts, of.group, *edges);
      if (candidates > 0) context.map(uhal_map_add, {&*edges, &of.place}, {&*edges});
      return;
    }
    const Constant most(context, UHAL_INT64, static_cast<double>(limit));
    context.map(uhal_map_minimum, {&degrees, &most}, {&counts});
    // As rows of a matrix, unless most of it were empty.
    constexpr int64_t kMostOfMatrix = 4;
    const int64_t wanted = std::min(limit, found.most);
    if (wanted > 0 && graph.weights.rank == 0 && many * found.most <= kMostOfMatrix * candidates) {
      draw_rows(context, starts, degrees, found, wanted, most);
    } else {
      draw(context, graph, starts, degrees, candidates, most);
    }
  }

  Integers64 counts;                // of each node
  std::optional<Integers64> edges;  // of all

 private:
  struct Degrees {
    int64_t least, most, total;
  };

  static View row(const View& table, int64_t number) { return table.sliced(0, number, 1).reshaped({table.shape[1]}); }

  // The table's rows = where the nodes' edges begin, how many they have, and, so that least numbers tell of largest
  // ones, minus where they end and minus how many they have.
  static Degrees find_starts(const Context& context, const NeighborGraph& graph, const View& at, const View& table) {
    View ends_of = graph.begins.reshaped({graph.begins.elements() - 1, 2});  // each is the beginning of the next node
    ends_of.strides[0] = 1;
    const Scratch ends(context, graph.begins.dtype, {at.elements(), 2});
    take(context, ends_of, at, ends);
    View begin = ends.sliced(1, 0, 1), end = ends.sliced(1, 1, 1);
    begin.rank = end.rank = 1;
    const View rows[] = {row(table, 0), row(table, 1), row(table, 2), row(table, 3)};
    Chain program(2);
    const int degree = program.step(uhal_map_subtract, {1, 0});
    const int minus_end = program.step(uhal_map_negative, {1}),
              minus_degree = program.step(uhal_map_negative, {degree});
    context.run(UHAL_OP_MAP_CHAIN, {&begin, &end}, {&rows[0], &rows[1], &rows[2], &rows[3]},
                program.program({0, degree, minus_end, minus_degree}));
    const Integers64 numbers(context, 5);
    const View least = numbers.sliced(0, 0, 4).reshaped({4, 1}), sum = numbers.sliced(0, 4, 1);
    const auto minimum = reduce_attributes(UHAL_REDUCE_MINIMUM), add = reduce_attributes(UHAL_REDUCE_SUM);
    context.run(UHAL_OP_REDUCE, {&table}, {&least}, &minimum);
    context.run(UHAL_OP_REDUCE, {&rows[1]}, {&sum}, &add);
    const std::vector<int64_t> found = read_integers(context, numbers);
    if (found[0] < 0 || -found[2] > graph.neighbors.elements() || found[1] < 0) {
      invalid(context,
              "colptr does not ascend, or leads beyond the " + std::to_string(graph.neighbors.elements()) + " edges");
    }
    return {found[1], -found[3], found[4]};
  }

  // A node's neighbors are a row of a matrix. Each has a random key, and those of the smallest are taken; where there
  // are not more than wanted, the key is the place, which keeps the order.
  void draw_rows(const Context& context, const View& starts, const View& degrees, const Degrees& found, int64_t wanted,
                 const View& limit) {
    const int64_t many = starts.elements(), width = found.most;
    const Scratch keys(context, UHAL_FLOAT32, {many, width}), best(context, UHAL_FLOAT32, {many, wanted}),
        places(context, UHAL_FLOAT32, {1, width}), chosen(context, UHAL_INT64, {many, wanted});
    const Context::RandomSequence sequence = context.random_sequence();
    const auto uniform = random_attributes(UHAL_RANDOM_UNIFORM, 0, 1, sequence.key, 0);
    context.run(UHAL_OP_RANDOM, {sequence.turn}, {&keys}, &uniform);
    count_up(context, places.reshaped({width}));
    const View rows = degrees.reshaped({many, 1}), begins = starts.reshaped({many, 1});
    Chain key(4);
    const int is_there = key.step(uhal_map_less, {1, 2}), keeps_order = key.step(uhal_map_less_equal, {2, 3});
    const int beyond = key.step(uhal_map_scale, {1}, {1, 2});  // after all places before it, and all keys
    key.step(uhal_map_select, {is_there, key.step(uhal_map_select, {keeps_order, 1, 0}), beyond});
    context.run(UHAL_OP_MAP_CHAIN, {&keys, &places, &rows, &limit}, {&keys}, key.program());
    const auto smallest = axis_attributes(1, false);
    context.run(UHAL_OP_TOP_K, {&keys}, {&best, &chosen}, &smallest);
    if (found.least >= wanted) {  // all rows are full
      edges.emplace(context, many * wanted);
      const View all = edges->reshaped({many, wanted});
      return context.map(uhal_map_add, {&chosen, &begins}, {&all});
    }
    context.map(uhal_map_add, {&chosen, &begins}, {&chosen});
    const int64_t total = total_of(context, counts);
    edges.emplace(context, total);
    if (total == 0) return;
    const Owners of(context, counts, total);
    const Integers64 at(context, total);
    context.map(uhal_map_scale, {&of.group}, {&at}, {static_cast<double>(wanted), 0});
    context.map(uhal_map_add, {&at, &of.place}, {&at});
    take(context, flat(chosen), at, *edges);
  }

  // Every candidate has a key, and those of the smallest are taken: random ones, or of nodes that have not more
  // neighbors than wanted the candidates in their order.
  void draw(const Context& context, const NeighborGraph& graph, const View& starts, const View& degrees,
            int64_t candidates, const View& limit) {
    const int64_t chosen = total_of(context, counts);
    edges.emplace(context, chosen);
    if (chosen == 0) return;
    const Owners of(context, degrees, candidates);
    const Integers64 edge(context, candidates), order(context, candidates), moves(context, candidates),
        sorted_owners(context, candidates), final_order(context, candidates), sizes(context, candidates);
    take(context, starts, of.group, edge);
    context.map(uhal_map_add, {&edge, &of.place}, {&edge});
    const Scratch keys(context, UHAL_FLOAT64, {candidates}), sorted(context, UHAL_FLOAT64, {candidates}),
        keeps_order(context, UHAL_BOOL, {candidates});
    draw_keys(context, graph, edge, keys);
    take(context, degrees, of.group, sizes);
    context.map(uhal_map_less_equal, {&sizes, &limit}, {&keeps_order});
    context.map(uhal_map_select, {&keeps_order, &of.place, &keys}, {&keys});
    // By key, then by owner, which keeps the order of keys.
    const auto ascending = axis_attributes(0, false);
    context.run(UHAL_OP_SORT, {&keys}, {&sorted, &order}, &ascending);
    take(context, of.group, order, moves);
    context.run(UHAL_OP_SORT, {&moves}, {&sorted_owners, &final_order}, &ascending);
    take(context, order, final_order, moves);
    // A node's candidates are where they were, in another order.
    const Owners of_chosen(context, counts, chosen);
    const Integers64 at(context, chosen), candidate(context, chosen);
    take(context, of.begins, of_chosen.group, at);
    context.map(uhal_map_add, {&at, &of_chosen.place}, {&at});
    take(context, moves, at, candidate);
    take(context, edge, candidate, *edges);
  }

  static void draw_keys(const Context& context, const NeighborGraph& graph, const View& edge, const View& keys) {
    const Context::RandomSequence sequence = context.random_sequence();
    const auto attributes = random_attributes(UHAL_RANDOM_UNIFORM, 0, 1, sequence.key, 0);
    context.run(UHAL_OP_RANDOM, {sequence.turn}, {&keys}, &attributes);
    if (graph.weights.elements() == 0 || graph.weights.rank == 0) return;
    const Scratch weights(context, graph.weights.dtype, keys);
    take(context, graph.weights, edge, weights);
    // -log(1 - u) / weight: the earliest of events that come so often
    context.map(uhal_map_negative, {&keys}, {&keys});
    context.map(uhal_map_log1p, {&keys}, {&keys});
    context.map(uhal_map_negative, {&keys}, {&keys});
    context.map(uhal_map_divide, {&keys, &weights}, {&keys});
  }
};

// y = x at those edges, or nothing where it is not wanted
void take_edges(const Context& context, const View& x, const View& edges, Output y) {
  if (!y) return;
  const int64_t count = edges.elements();
  const View out = context.allocate(y, x.dtype, &count, 1);
  take(context, x, edges, out);
}

void require_integers(const Context& context, const View& row, const View& colptr, const View& nodes) {
  require_same_dtype(context, row, colptr);
  require_same_dtype(context, row, nodes);
}

void sample(const Context& context, const NeighborGraph& graph, const View& nodes, int limit, bool with_ids,
            Output neighbors, Output counts, Output ids) {
  const Neighbors found(context, graph, nodes, limit);
  take_edges(context, graph.neighbors, *found.edges, neighbors);
  const int64_t many = nodes.elements();
  copy_or_cast(context, found.counts, context.allocate(counts, UHAL_INT32, &many, 1));
  if (with_ids) take_edges(context, graph.ids, *found.edges, ids);
}

void graph_sample_neighbors(Context context, Input row, Input colptr, Input nodes, OptionalInput ids, OptionalInput,
                            int limit, bool with_ids, bool, Output neighbors, Output counts, Output ids_out) {
  const View at = nodes.view();
  const NeighborGraph graph(context, row.view(), colptr.view(), ids, with_ids);
  require_integers(context, graph.neighbors, graph.begins, at);
  sample(context, graph, at, limit, with_ids, neighbors, counts, ids_out);
}

void weighted_sample_neighbors(Context context, Input row, Input colptr, Input weights, Input nodes, OptionalInput ids,
                               int limit, bool with_ids, Output neighbors, Output counts, Output ids_out) {
  const View at = nodes.view();
  NeighborGraph graph(context, row.view(), colptr.view(), ids, with_ids);
  require_integers(context, graph.neighbors, graph.begins, at);
  graph.weights = flat(weights.view());
  if (graph.weights.elements() != graph.neighbors.elements()) invalid(context, "there is not a weight for each edge");
  sample(context, graph, at, limit, with_ids, neighbors, counts, ids_out);
}

// -- the graph of some nodes and their neighbors, which get new numbers: the nodes first, then what else comes, in the
// order in which it comes

// Numbers of a list's elements, equal ones of equal elements, in the order in which they come. The first `own` ones
// have numbers of their own even where they are equal; those that come behind and equal several get the last one's.
class NewNumbers {
 public:
  NewNumbers(const Context& context, const View& list, int64_t own)
      : numbers(context, UHAL_INT64, {list.elements()}), has_number_(context, UHAL_BOOL, {list.elements()}) {
    const int64_t count = list.elements();
    if (count == 0) return;
    const Scratch order(context, UHAL_INT64, {count}), sorted(context, list.dtype, {count}),
        group(context, UHAL_INT64, {count}), so_far(context, UHAL_INT64, {count});
    const View elements = flat(list);
    const auto ascending = axis_attributes(0, false);
    context.run(UHAL_OP_SORT, {&elements}, {&sorted, &order}, &ascending);
    Groups groups(context, sorted.reshaped({count, 1}));
    const View starts = groups.starts(context);
    const Scratch first(context, UHAL_INT64, starts), of_group(context, UHAL_INT64, starts);
    const auto along = index_attributes(0);
    groups.number(context, so_far);
    context.run(UHAL_OP_SCATTER, {&order, &so_far}, {&group}, &along);
    // Sorting keeps the order of equals, so that the first of a group came first.
    take(context, order, starts, first);
    const Constant yes(context, UHAL_BOOL, 1);
    View ones = yes.reshaped({1});
    ones.shape[0] = first.elements();
    ones.strides[0] = 0;
    fill_zero(context, has_number_);
    context.run(UHAL_OP_SCATTER, {&first, &ones}, {&has_number_}, &along);
    if (own > 0) fill(context, has_number_.sliced(0, 0, own), 1, 1);
    copy_or_cast(context, has_number_, so_far);
    sum_up(context, so_far, so_far);
    context.map(uhal_map_scale, {&so_far}, {&so_far}, {1, -1});
    take(context, so_far, first, of_group);
    if (own > 0) {
      const Scratch places(context, UHAL_INT64, {own});
      count_up(context, places);
      const View groups_of_own = group.sliced(0, 0, own);
      context.run(UHAL_OP_SCATTER, {&groups_of_own, &places}, {&of_group}, &along);
    }
    take(context, of_group, group, numbers);
  }

  // The elements in the order of their numbers.
  void write_elements(const Context& context, const View& list, uhal_dtype dtype, Output y) const {
    TruePlaces places(context, has_number_);
    const int64_t count = places.count();
    const View out = context.allocate(y, dtype, &count, 1);
    if (count == 0) return;
    const Scratch chosen(context, list.dtype, {count});
    take(context, flat(list), places.view(context).reshaped({count}), chosen);
    copy_or_cast(context, chosen, out);
  }

  const Scratch numbers;  // int64

 private:
  const Scratch has_number_;
};

class Joined : public Integers64 {
 public:
  Joined(const Context& context, const std::vector<View>& parts) : Integers64(context, length(parts)) {
    int64_t at = 0;
    for (const View& part : parts) {
      const int64_t count = part.elements();
      if (count > 0) copy_or_cast(context, flat(part), sliced(0, at, count));
      at += count;
    }
  }

 private:
  static int64_t length(const std::vector<View>& parts) {
    int64_t sum = 0;
    for (const View& part : parts) sum += part.elements();
    return sum;
  }
};

// The numbers of neighbors may be of several kinds of edges, one behind the other.
void graph_reindex(Context context, Input nodes, Input neighbors, Input count, OptionalInput, OptionalInput,
                   Output sources, Output targets, Output out_nodes) {
  const View x = flat(nodes.view()), y = flat(neighbors.view()), counts = flat(count.view());
  require_same_dtype(context, x, y);
  const int64_t own = x.elements(), edges = y.elements(), kinds = own == 0 ? 0 : counts.elements() / own;
  const Integers64 wide(context, counts);
  if (counts.elements() != kinds * own) invalid(context, "count has not a number for each node");
  if ((counts.elements() > 0 && read_extreme(context, UHAL_REDUCE_MINIMUM, wide) < 0) ||
      total_of(context, wide) != edges) {
    invalid(context, "the numbers in count are not together the " + std::to_string(edges) + " neighbors");
  }
  const View of_sources = context.allocate(sources, x.dtype, &edges, 1),
             of_targets = context.allocate(targets, x.dtype, &edges, 1);
  const Joined all(context, {x, y});
  const NewNumbers renumbered(context, all, own);
  renumbered.write_elements(context, all, x.dtype, out_nodes);
  if (edges == 0) return;
  copy_or_cast(context, renumbered.numbers.sliced(0, own, edges), of_sources);
  const Owners of(context, wide, edges);
  const Constant divisor(context, UHAL_INT64, static_cast<double>(own));
  const Integers64 node(context, edges), number(context, edges);
  context.map(uhal_map_floor_mod, {&of.group, &divisor}, {&node});
  take(context, renumbered.numbers, node, number);
  copy_or_cast(context, number, of_targets);
}

// -- neighbors of neighbors

// What stands in a list and not in another one, each once and ascending.
class Difference {
 public:
  Difference(const Context& context, const View& list, const View& other) {
    const Joined all(context, {other, list});
    const int64_t count = all.elements();
    const Integers64 sorted(context, count), order(context, count);
    const auto ascending = axis_attributes(0, false);
    if (count > 0) context.run(UHAL_OP_SORT, {&all}, {&sorted, &order}, &ascending);
    Groups groups(context, sorted.reshaped({count, 1}));
    const View starts = groups.starts(context);
    const Integers64 first(context, starts.elements()), value(context, starts.elements());
    take(context, order, starts, first);
    take(context, sorted, starts, value);
    const Constant limit(context, UHAL_INT64, static_cast<double>(other.elements()));
    const Scratch is_new(context, UHAL_BOOL, first);
    if (count > 0) context.map(uhal_map_greater_equal, {&first, &limit}, {&is_new});
    TruePlaces places(context, is_new);
    numbers.emplace(context, places.count());
    take(context, value, places.view(context).reshaped({places.count()}), *numbers);
  }
  std::optional<Integers64> numbers;
};

// The edges that lead to nodes, then those that lead to where these come from and was not asked for yet, and so on; as
// a graph whose nodes have new numbers.
void graph_khop_sampler(Context context, Input row, Input colptr, Input nodes, OptionalInput ids, Span<int> limits,
                        bool with_ids, Output sources, Output targets, Output out_nodes, Output numbers_of_nodes,
                        Output ids_out) {
  const View x = flat(nodes.view());
  const NeighborGraph graph(context, row.view(), colptr.view(), ids, with_ids);
  require_integers(context, graph.neighbors, graph.begins, x);
  const int64_t given = x.elements();
  // Of equal nodes one behind the other one is asked for.
  const Integers64 all_given(context, x), group_of_given(context, given);
  Groups different(context, all_given.reshaped({given, 1}));
  const View starts = different.starts(context);
  different.number(context, group_of_given);
  std::deque<Integers64> asked, found;
  std::deque<Neighbors> neighbors;
  std::vector<View> all_asked, all_counts, all_edges, all_found;
  take(context, all_given, starts, asked.emplace_back(context, starts.elements()));
  for (const int limit : limits) {
    const View at = asked.back();
    if (at.elements() == 0) break;
    const Neighbors& layer = neighbors.emplace_back(context, graph, at, limit);
    const int64_t count = layer.edges->elements();
    if (count == 0) invalid(context, "none of the nodes has neighbors");
    const Scratch sampled(context, graph.neighbors.dtype, {count});
    take(context, graph.neighbors, *layer.edges, sampled);
    all_asked.push_back(at);
    all_counts.push_back(layer.counts);
    all_edges.push_back(*layer.edges);
    all_found.push_back(found.emplace_back(context, sampled));
    const Difference next(context, all_found.back(), at);
    copy_or_cast(context, *next.numbers, asked.emplace_back(context, next.numbers->elements()));
  }
  if (all_asked.empty()) invalid(context, "there are no nodes, or no sample_sizes");
  const Joined own(context, all_asked), counts(context, all_counts), edges(context, all_edges),
      sampled(context, all_found), all(context, {own, sampled});
  const int64_t own_count = own.elements(), edge_count = edges.elements(), column[] = {edge_count, 1};
  const NewNumbers renumbered(context, all, own_count);
  renumbered.write_elements(context, all, x.dtype, out_nodes);
  copy_or_cast(context, renumbered.numbers.sliced(0, own_count, edge_count),
               flat(context.allocate(sources, x.dtype, column, 2)));
  const Owners of(context, counts, edge_count);
  const Integers64 target(context, edge_count), of_given(context, given);
  take(context, renumbered.numbers, of.group, target);
  copy_or_cast(context, target, flat(context.allocate(targets, x.dtype, column, 2)));
  take(context, renumbered.numbers, group_of_given, of_given);
  copy_or_cast(context, of_given, context.allocate(numbers_of_nodes, x.dtype, &given, 1));
  if (!with_ids || !ids_out) return;
  take(context, graph.ids, edges, context.allocate(ids_out, graph.ids.dtype, &edge_count, 1));
}

}  // namespace

KernelTable neighbor_kernels() {
  return {
      UNIHAL_KERNEL("graph_sample_neighbors", kInt32And64, graph_sample_neighbors),
      UNIHAL_KERNEL("weighted_sample_neighbors", kInt32And64, weighted_sample_neighbors),
      UNIHAL_KERNEL("graph_reindex", kInt32And64, graph_reindex),
      UNIHAL_KERNEL("graph_khop_sampler", kInt32And64, graph_khop_sampler),
  };
}

}  // namespace unihal::paddle
