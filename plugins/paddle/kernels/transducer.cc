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
// one before. Memory is (diagonals, batch, labels + 1), with a column of no probability before or after the cells, which
// is what does not lead to or from the first and the last ones. All of a diagonal is computed in one go, as elements that
// lie side by side, the columns between two sequences with them.
class Lattice : public Scratch {
 public:
  enum Margin { kAfter, kBefore };

  Lattice(const Context& context, uhal_dtype dtype, int64_t batch, int64_t steps, int64_t labels, Margin margin)
      : Scratch(context, dtype, {steps + labels, batch, labels + 1}),
        steps_(steps),
        labels_(labels),
        before_(margin == kBefore ? 1 : 0) {
    fill(context, *this, kNever, 0);
  }

  // The cells as (batch, steps, labels), of the diagonals from `first` on.
  View cells(int64_t first = 0) const {
    const int64_t batch = shape[1], columns = shape[2], plane = batch * columns;
    View view = sliced(0, first, 1).sliced(2, before_, labels_).reshaped({batch, steps_, labels_});
    view.strides[0] = columns;
    view.strides[1] = plane;
    view.strides[2] = plane + 1;
    return view;
  }
  // All of a diagonal but its first column or, `first` being 0, its last one.
  View diagonal(int64_t number, int64_t first = 0) const {
    const int64_t plane = shape[1] * shape[2];
    return reshaped({shape[0] * plane}).sliced(0, number * plane + first, plane - 1);
  }
  // The first cell of each sequence: (batch, 1).
  View firsts() const { return sliced(0, 0, 1).reshaped({shape[1], shape[2]}).sliced(1, before_, 1); }

 private:
  int64_t steps_, labels_, before_;
};

// 1 for the elements of a diagonal that are cells, 0 for those between two sequences: nothing follows from one sequence
// for the next one, also where one has no numbers.
class AreCells : public Scratch {
 public:
  AreCells(const Context& context, const Lattice& like)
      : Scratch(context, like.dtype, {like.shape[1], like.shape[2]}) {
    fill(context, *this, 1, 1);
    fill_zero(context, sliced(1, 0, 1));
  }
  View view() const { return flat(*this).sliced(0, 1, elements() - 1); }
};

// y = the sum of the probabilities of two ways, by logarithms of their halves; not less than `least`, if there is one.
void add_ways(const Context& context, const View& are_cells, const View& from, const View& cost, const View& other,
              const View& other_cost, const View* least, const View& y) {
  Chain chain(least == nullptr ? 5 : 6);
  const int a = chain.step(uhal_map_add, {0, 1}), b = chain.step(uhal_map_add, {2, 3});
  const int larger = chain.step(uhal_map_maximum, {a, b}), smaller = chain.step(uhal_map_minimum, {a, b});
  // Between two ways of no probability there is no difference: it is no number, and counts as 0.
  const int zero = chain.step(uhal_map_scale, {4}, {0, 0});
  const int below = chain.step(uhal_map_fmin, {chain.step(uhal_map_subtract, {smaller, larger}), zero});
  int sum = chain.step(uhal_map_add, {larger, chain.step(uhal_map_softplus, {below}, {1, HUGE_VAL})});
  if (least != nullptr) sum = chain.step(uhal_map_maximum, {sum, 5});
  chain.step(uhal_map_select, {4, sum, chain.step(uhal_map_scale, {4}, {0, kNever})});
  if (least == nullptr) {
    context.run(UHAL_OP_MAP_CHAIN, {&from, &cost, &other, &other_cost, &are_cells}, {&y}, chain.program());
  } else {
    context.run(UHAL_OP_MAP_CHAIN, {&from, &cost, &other, &other_cost, &are_cells, least}, {&y}, chain.program());
  }
}

// The steps and the numbers of labels of cells, to be held against the lengths of (batch, 1, 1).
class Places : public Scratch {
 public:
  Places(const Context& context, int64_t count) : Scratch(context, UHAL_INT64, {count}) { count_up(context, *this); }
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
  const Places places;
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

  void set_costs(const Context& context, int64_t blank, const Lattice& blanks, const Lattice& emissions) const {
    View of_blank = x.sliced(3, blank, 1);
    of_blank.rank = 3;
    // There are as many places for a blank as labels, and one more.
    write_where(context, uhal_map_less, uhal_map_less_equal, width, &of_blank, blanks.cells());
    if (width < 2) return;
    const Scratch taken(context, x.dtype, {batch, steps, width - 1, 1});
    const auto classes = index_attributes(3);
    const View before_last = x.sliced(2, 0, width - 1), at = classes_of_cells();
    context.run(UHAL_OP_GATHER_ELEMENTS, {&before_last, &at}, {&taken}, &classes);
    const View values = taken.reshaped({batch, steps, width - 1});
    write_where(context, uhal_map_less, uhal_map_less, width - 1, &values, emissions.cells().sliced(2, 0, width - 1));
  }

  // 0 at the ends, which are cells behind the last step and at the last label.
  void set_ends(const Context& context, const Lattice& ends) const {
    write_where(context, uhal_map_equal, uhal_map_equal, width, nullptr, ends.cells(1));  // the cell one step later
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

// Probabilities of the ways from the first cell. Emissions and alphas have a column before their cells.
void go_forwards(const Context& context, const Lattice& blanks, const Lattice& emissions, const Lattice& alphas) {
  fill_zero(context, alphas.firsts());
  const AreCells are_cells(context, alphas);
  for (int64_t d = 1; d + 1 < alphas.shape[0]; ++d) {
    add_ways(context, are_cells.view(), alphas.diagonal(d - 1, 1), blanks.diagonal(d - 1), alphas.diagonal(d - 1),
             emissions.diagonal(d - 1), nullptr, alphas.diagonal(d, 1));
  }
}

// Probabilities of the ways to the end, which is the cell behind the last step of a sequence. `ends` is 0 there. Betas
// have a column behind their cells.
void go_backwards(const Context& context, const Lattice& blanks, const Lattice& emissions, const Lattice& ends,
                  const Lattice& betas) {
  const int64_t last = betas.shape[0] - 1;
  const AreCells are_cells(context, betas);
  copy_or_cast(context, ends.diagonal(last), betas.diagonal(last));
  for (int64_t d = last - 1; d >= 0; --d) {
    const View end = ends.diagonal(d);
    add_ways(context, are_cells.view(), betas.diagonal(d + 1), blanks.diagonal(d), betas.diagonal(d + 1, 1),
             emissions.diagonal(d, 1), &end, betas.diagonal(d));
  }
}

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
  const auto lattice = [&](Lattice::Margin margin) { return Lattice(context, x.dtype, batch, steps, width, margin); };
  const Lattice blanks = lattice(Lattice::kAfter), emissions = lattice(Lattice::kBefore),
                alphas = lattice(Lattice::kBefore), betas = lattice(Lattice::kAfter), ends = lattice(Lattice::kAfter);
  of.set_costs(context, blank, blanks, emissions);
  go_forwards(context, blanks, emissions, alphas);
  of.set_ends(context, ends);
  go_backwards(context, blanks, emissions, ends, betas);
  const View total = betas.firsts();
  const View column = losses.reshaped({batch, 1});
  context.map(uhal_map_negative, {&total}, {&column});

  const View all = total.unsqueezed(2);
  fill_zero(context, dx);
  const View alpha = alphas.cells();
  // What leads on by a blank goes one step, to the next diagonal; a label leads to the next place of that.
  View of_blank = dx.sliced(3, blank, 1);
  of_blank.rank = 3;
  write_gradient(context, alpha, betas.cells(1), blanks.cells(), all, 1, of_blank);
  if (width < 2) return;
  const Scratch of_labels(context, x.dtype, {batch, steps, width - 1, 1});
  View after = betas.cells(1);
  after.data = static_cast<char*>(after.data) + uhal_dtype_size(after.dtype);
  after.shape[2] = width - 1;
  write_gradient(context, alpha.sliced(2, 0, width - 1), after, emissions.cells().sliced(2, 0, width - 1), all,
                 1 + static_cast<double>(fast_emit), of_labels.reshaped({batch, steps, width - 1}));
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
