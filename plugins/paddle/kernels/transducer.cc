// The loss of transducers: labels are emitted between steps of the inputs, and each step ends with a blank.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// The logarithm of no probability.
constexpr double kNever = -HUGE_VAL;

// The cells (step, labels so far) of a lattice lie by diagonals, step + labels: those of one follow from those of the
// one before. Ways to the end follow in the same manner, from the last diagonal on and from the last label to the
// first, so that both directions are computed in one go: memory is (diagonals, directions, batch, 1 + labels), with a
// column before the cells that leads nowhere.
class Lattice : public Scratch {
 public:
  enum Direction { kForwards, kBackwards };

  Lattice(const Context& context, uhal_dtype dtype, int64_t batch, int64_t steps, int64_t labels)
      : Scratch(context, dtype, {steps + labels, 2, batch, 1 + labels}), steps_(steps), labels_(labels) {
    fill(context, *this, kNever, 0);
  }

  // The cells as (batch, steps, labels), those of the first step and label on diagonal `first` forwards, and backwards
  // on the one that is as far from the last; `later` columns behind their own.
  View cells(Direction direction, int64_t first, int64_t later = 0) const {
    const int64_t batch = shape[2], columns = shape[3], plane = 2 * batch * columns;
    const bool forwards = direction == kForwards;
    const int64_t diagonal = forwards ? first : shape[0] - 1 - first, column = forwards ? 1 : labels_;
    const int64_t begin = diagonal * plane + (forwards ? 0 : batch * columns) + column + later;
    View view = reshaped({shape[0] * plane}).sliced(0, begin, 1).reshaped({batch, steps_, labels_});
    view.strides[0] = columns;
    view.strides[1] = forwards ? plane : -plane;
    view.strides[2] = forwards ? plane + 1 : -plane - 1;
    return view;
  }
  // All of a diagonal but its first column or, `first` being 0, its last one.
  View diagonal(int64_t number, int64_t first) const {
    const int64_t plane = 2 * shape[2] * shape[3];
    return reshaped({shape[0] * plane}).sliced(0, number * plane + first, plane - 1);
  }

 private:
  int64_t steps_, labels_;
};

// The first cell of each sequence: (batch, 1).
View firsts(const View& cells) {
  const View first = cells.sliced(1, 0, 1).sliced(2, 0, 1);
  View view = first.reshaped({cells.shape[0], 1});
  view.strides[0] = cells.strides[0];
  return view;
}

// Probabilities of ways to each cell, by logarithms of what it costs to come to it from the diagonal before: within its
// column, and from the column before. They are not less than `starts`. Nothing leads from one sequence to the next one,
// also where one has no numbers.
void follow_ways(const Context& context, const Lattice& stays, const Lattice& moves, const Lattice& starts,
                 const Lattice& ways) {
  const Scratch all_cells(context, ways.dtype, {2 * ways.shape[2], ways.shape[3]});
  fill(context, all_cells, 1, 1);
  fill_zero(context, all_cells.sliced(1, 0, 1));
  const View are_cells = flat(all_cells).sliced(0, 1, all_cells.elements() - 1);
  Chain chain(6);
  const int a = chain.step(uhal_map_add, {0, 1}), b = chain.step(uhal_map_add, {2, 3});
  const int larger = chain.step(uhal_map_maximum, {a, b}), smaller = chain.step(uhal_map_minimum, {a, b});
  // Between two ways of no probability there is no difference: it is no number, and counts as 0.
  const int zero = chain.step(uhal_map_scale, {4}, {0, 0});
  const int below = chain.step(uhal_map_fmin, {chain.step(uhal_map_subtract, {smaller, larger}), zero});
  const int sum = chain.step(uhal_map_add, {larger, chain.step(uhal_map_softplus, {below}, {1, HUGE_VAL})});
  const int result = chain.step(uhal_map_maximum, {sum, 5});
  chain.step(uhal_map_select, {4, result, chain.step(uhal_map_scale, {4}, {0, kNever})});
  copy_or_cast(context, starts.diagonal(0, 1), ways.diagonal(0, 1));
  for (int64_t d = 1; d < ways.shape[0]; ++d) {
    const View own = ways.diagonal(d - 1, 1), other = ways.diagonal(d - 1, 0), start = starts.diagonal(d, 1);
    const View by_stay = stays.diagonal(d - 1, 1), by_move = moves.diagonal(d - 1, 1), to = ways.diagonal(d, 1);
    context.run(UHAL_OP_MAP_CHAIN, {&own, &by_stay, &other, &by_move, &are_cells, &start}, {&to}, chain.program());
  }
}

// The steps and the numbers of labels of cells, to be held against the lengths of (batch, 1, 1).
class CellPlaces : public Scratch {
 public:
  CellPlaces(const Context& context, int64_t count) : Scratch(context, UHAL_INT64, {count}) {
    count_up(context, *this);
  }
  View as_steps() const { return reshaped({1, shape[0], 1}); }
  View as_labels(int64_t count) const { return sliced(0, 0, count).reshaped({1, 1, count}); }
};

void require_lengths(const Context& context, const View& lengths, int64_t batch, int64_t least, int64_t most,
                     const char* name) {
  if (lengths.rank != 1 || lengths.shape[0] != batch) {
    invalid(context, std::string(name) + " has not one number for each sequence");
  }
  for (const int64_t length : read_integers(context, lengths)) {
    if (length >= least && length <= most) continue;
    invalid(context, std::string(name) + " has " + std::to_string(length) + ", expected " + std::to_string(least) +
                         " to " + std::to_string(most));
  }
}

// The sequences of a batch: what a blank and what the next label costs at each cell, as logarithms.
struct Transducer {
  View x, lengths, counts;  // (batch, steps, labels + 1, classes); of steps and labels (batch, 1, 1)
  const CellPlaces places;
  const Scratch emitted;  // (batch, labels): the labels, 0 behind the last one
  int64_t batch, steps, width;

  Transducer(const Context& context, const View& input, const View& label, const View& input_lengths,
             const View& label_lengths)
      : x(input),
        lengths(input_lengths.reshaped({input.shape[0], 1, 1})),
        counts(label_lengths.reshaped({input.shape[0], 1, 1})),
        places(context, std::max(input.shape[1], input.shape[2])),
        emitted(context, UHAL_INT64, {input.shape[0], input.shape[2] - 1}),
        batch(x.shape[0]),
        steps(x.shape[1]),
        width(x.shape[2]) {
    if (width < 2) return;
    const View given = label.sliced(1, 0, width - 1), number = places.as_labels(width - 1).reshaped({1, width - 1}),
               ends = counts.reshaped({batch, 1});
    Chain program(3);
    program.step(uhal_map_multiply, {0, program.step(uhal_map_less, {1, 2})});
    context.run(UHAL_OP_MAP_CHAIN, {&given, &number, &ends}, {&emitted}, program.program());
  }

  // Forwards a blank stays in its column, and a label leads to the next one; both are found on the diagonal that they
  // lead from. Backwards they are where they lead to, on the diagonal before.
  void set_costs(const Context& context, int64_t blank, const Lattice& blanks, const Lattice& emissions) const {
    View of_blank = x.sliced(3, blank, 1);
    of_blank.rank = 3;
    // There are as many places for a blank as labels, and one more.
    const View to = blanks.cells(Lattice::kForwards, 0);
    write_where(context, uhal_map_less, uhal_map_less_equal, width, &of_blank, to);
    copy_or_cast(context, to, blanks.cells(Lattice::kBackwards, 1));
    if (width < 2) return;
    const Scratch taken(context, x.dtype, {batch, steps, width - 1, 1});
    const auto classes = index_attributes(3);
    const View before_last = x.sliced(2, 0, width - 1), at = classes_of_cells();
    context.run(UHAL_OP_GATHER_ELEMENTS, {&before_last, &at}, {&taken}, &classes);
    const View values = taken.reshaped({batch, steps, width - 1});
    const View next = emissions.cells(Lattice::kForwards, 0, 1).sliced(2, 0, width - 1);
    write_where(context, uhal_map_less, uhal_map_less, width - 1, &values, next);
    copy_or_cast(context, next, emissions.cells(Lattice::kBackwards, 1).sliced(2, 0, width - 1));
  }

  // Ways begin at the first cell, and backwards at the ends: the cells behind the last step, at the last label.
  void set_starts(const Context& context, const Lattice& starts) const {
    fill_zero(context, firsts(starts.cells(Lattice::kForwards, 0)));
    write_where(context, uhal_map_equal, uhal_map_equal, width, nullptr, starts.cells(Lattice::kBackwards, 1));
  }

  // The labels as the classes that cells emit: (batch, steps, labels, 1).
  View classes_of_cells() const {
    View view = emitted.reshaped({batch, 1, width - 1, 1});
    view.shape[1] = steps;
    view.strides[1] = 0;
    return view;
  }

 private:
  // y (batch, steps, labels) = values, or else 0, at the cells whose step and label compare so with the last step and
  // the number of labels of their sequence; elsewhere no probability.
  void write_where(const Context& context, uhal_map_function compare_steps, uhal_map_function compare_labels,
                   int64_t labels, const View* values, const View& y) const {
    const View step = places.as_steps().sliced(1, 0, steps), label = places.as_labels(labels);
    Chain program(values != nullptr ? 5 : 4);
    const int last = compare_steps == uhal_map_equal ? program.step(uhal_map_scale, {1}, {1, -1}) : 1;
    const int in_time = program.step(compare_steps, {0, last}), in_labels = program.step(compare_labels, {2, 3});
    const int chosen = program.step(uhal_map_logical_and, {in_time, in_labels});
    const int never = program.step(uhal_map_scale, {chosen}, {0, kNever});
    const int value = values != nullptr ? 4 : program.step(uhal_map_scale, {chosen}, {0, 0});
    program.step(uhal_map_select, {chosen, value, never});
    if (values != nullptr) {
      context.run(UHAL_OP_MAP_CHAIN, {&step, &lengths, &label, &counts, values}, {&y}, program.program());
    } else {
      context.run(UHAL_OP_MAP_CHAIN, {&step, &lengths, &label, &counts}, {&y}, program.program());
    }
  }
};

// The probability of all ways through a cell by what it costs to leave it, over that of all ways: what `y` gets is
// minus that times a factor. All are logarithms but y.
void write_gradient(const Context& context, const View& alpha, const View& beta, const View& cost, const View& total,
                    double factor, const View& y) {
  Chain program(4);
  const int through = program.step(uhal_map_add, {program.step(uhal_map_add, {0, 1}), 2});
  const int share = program.step(uhal_map_exp, {program.step(uhal_map_subtract, {through, 3})});
  program.step(uhal_map_scale, {share}, {-factor, 0});
  context.run(UHAL_OP_MAP_CHAIN, {&alpha, &beta, &cost, &total}, {&y}, program.program());
}

// input are logarithms of probabilities, as on Paddle's CPU; the gradient of the losses' sum comes with them. FastEmit
// (Yu et al. 2021) makes the gradients of labels larger, and leaves the loss as it is.
void warprnnt(Context context, Input input, Input label, Input input_lengths, Input label_lengths, int blank,
              float fast_emit, Output loss, Output gradient) {
  const View x = input.view(), labels = label.view(), lengths = input_lengths.view(), counts = label_lengths.view();
  if (x.rank != 4 || x.elements() == 0) invalid(context, "input has not four axes, or nothing in it");
  const int64_t batch = x.shape[0], steps = x.shape[1], width = x.shape[2], classes = x.shape[3];
  if (labels.rank != 2 || labels.shape[0] != batch || labels.shape[1] < width - 1) {
    invalid(context, "label has not " + std::to_string(width - 1) + " labels for each sequence");
  }
  if (blank < 0 || blank >= classes) invalid(context, "blank is " + std::to_string(blank) + ", which is no class");
  require_lengths(context, lengths, batch, 1, steps, "input_lengths");
  require_lengths(context, counts, batch, 0, width - 1, "label_lengths");
  const View losses = context.allocate(loss, x.dtype, &batch, 1);
  const View dx = context.allocate(gradient, x.dtype, x.shape, 4);

  const Transducer of(context, x, labels, lengths, counts);
  const Lattice blanks(context, x.dtype, batch, steps, width), emissions(context, x.dtype, batch, steps, width),
      starts(context, x.dtype, batch, steps, width), ways(context, x.dtype, batch, steps, width);
  of.set_costs(context, blank, blanks, emissions);
  of.set_starts(context, starts);
  follow_ways(context, blanks, emissions, starts, ways);
  const View total = firsts(ways.cells(Lattice::kBackwards, 0));
  const View column = losses.reshaped({batch, 1});
  context.map(uhal_map_negative, {&total}, {&column});

  const View all = total.unsqueezed(2);
  fill_zero(context, dx);
  const View alpha = ways.cells(Lattice::kForwards, 0), beta = ways.cells(Lattice::kBackwards, 1);
  // What leads on by a blank goes one step, to the next diagonal; a label leads to the next place of that.
  View of_blank = dx.sliced(3, blank, 1);
  of_blank.rank = 3;
  write_gradient(context, alpha, beta, blanks.cells(Lattice::kForwards, 0), all, 1, of_blank);
  if (width < 2) return;
  const Scratch of_labels(context, x.dtype, {batch, steps, width - 1, 1});
  const View after = ways.cells(Lattice::kBackwards, 1, -1).sliced(2, 0, width - 1),
             by_label = emissions.cells(Lattice::kForwards, 0, 1).sliced(2, 0, width - 1);
  write_gradient(context, alpha.sliced(2, 0, width - 1), after, by_label, all, 1 + static_cast<double>(fast_emit),
                 of_labels.reshaped({batch, steps, width - 1}));
  auto add = index_attributes(3);
  add.reduction = UHAL_REDUCE_SUM;
  const View target = dx.sliced(2, 0, width - 1), at = of.classes_of_cells();
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &of_labels}, {&target}, &add);
}

void warprnnt_grad(Context context, Input, Input, Input gradient, Input dloss, int, float, Output dx) {
  const View kept = gradient.view(), dlosses = dloss.view(), out = context.allocate(dx, kept.dtype);
  if (kept.rank != 4 || dlosses.elements() != kept.shape[0]) invalid(context, "there is not a loss for each sequence");
  const View factors = dlosses.reshaped({kept.shape[0], 1, 1, 1});
  context.map(uhal_map_multiply, {&kept, &factors}, {&out});
}

}  // namespace

KernelTable transducer_kernels() {
  return {
      UNIHAL_KERNEL("warprnnt", kWideFloats, warprnnt),
      UNIHAL_KERNEL("warprnnt_grad", kWideFloats, warprnnt_grad),
  };
}

}  // namespace unihal::paddle
