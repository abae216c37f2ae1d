// The loss of transducers: labels are emitted between steps of the inputs, and each step ends with a blank.
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
// one before. Memory is (diagonals, batch, labels), with columns of no probability before and after the cells, which
// are what does not lead to or from the first and the last ones.
class Lattice : public Scratch {
 public:
  Lattice(const Context& context, uhal_dtype dtype, int64_t batch, int64_t steps, int64_t labels, int64_t before = 0,
          int64_t after = 0)
      : Scratch(context, dtype, {steps + labels, batch, before + labels + after}),
        steps_(steps),
        labels_(labels),
        before_(before) {
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
  // Columns of one diagonal, as many as there are labels: (batch, labels).
  View diagonal(int64_t number, int64_t first_column = 0) const {
    return sliced(0, number, 1).reshaped({shape[1], shape[2]}).sliced(1, first_column, labels_);
  }

 private:
  int64_t steps_, labels_, before_;
};

// y = the sum of the probabilities of two ways, by logarithms of their halves; not less than `least`, if there is one.
void add_ways(const Context& context, const View& from, const View& cost, const View& other, const View& other_cost,
              const View* least, const View& y) {
  Chain chain(least == nullptr ? 4 : 5);
  const int a = chain.step(uhal_map_add, {0, 1}), b = chain.step(uhal_map_add, {2, 3});
  const int larger = chain.step(uhal_map_maximum, {a, b}), smaller = chain.step(uhal_map_minimum, {a, b});
  // Between two ways of no probability there is no difference: it is no number, and counts as 0.
  const int zero = chain.step(uhal_map_scale, {chain.step(uhal_map_clip, {larger}, {-1, 1})}, {0, 0});
  const int below = chain.step(uhal_map_fmin, {chain.step(uhal_map_subtract, {smaller, larger}), zero});
  const int sum = chain.step(uhal_map_add, {larger, chain.step(uhal_map_softplus, {below}, {1, HUGE_VAL})});
  if (least == nullptr) {
    context.run(UHAL_OP_MAP_CHAIN, {&from, &cost, &other, &other_cost}, {&y}, chain.program({sum}));
  } else {
    const int result = chain.step(uhal_map_maximum, {sum, 4});
    context.run(UHAL_OP_MAP_CHAIN, {&from, &cost, &other, &other_cost, least}, {&y}, chain.program({result}));
  }
}

// Which of `count` places come before a length less `margin`, along axis 1 or 2 of (batch, steps, labels).
class Within : public Scratch {
 public:
  Within(const Context& context, const View& lengths, int axis, int64_t count, int64_t margin)
      : Scratch(context, UHAL_BOOL, {lengths.shape[0], axis == 1 ? count : 1, axis == 2 ? count : 1}) {
    const Scratch places(context, UHAL_INT64, {count}), ends(context, UHAL_INT64, {lengths.shape[0], 1, 1});
    count_up(context, places, static_cast<double>(margin));
    copy_or_cast(context, lengths.reshaped({lengths.shape[0], 1, 1}), ends);
    const View along = places.reshaped({1, axis == 1 ? count : 1, axis == 2 ? count : 1});
    context.map(uhal_map_less, {&along, &ends}, {this});
  }
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
  View x, lengths;        // (batch, steps, labels + 1, classes); (batch)
  const Scratch counts;   // (batch): labels, and the cell before the first one
  const Scratch emitted;  // (batch, labels): the labels, 0 behind the last one
  int64_t batch, steps, width;

  Transducer(const Context& context, const View& input, const View& label, const View& input_lengths,
             const View& label_lengths)
      : x(input),
        lengths(input_lengths),
        counts(context, UHAL_INT64, label_lengths),
        emitted(context, UHAL_INT64, {input.shape[0], input.shape[2] - 1}),
        batch(x.shape[0]),
        steps(x.shape[1]),
        width(x.shape[2]) {
    context.map(uhal_map_scale, {&label_lengths}, {&counts}, {1, 1});
    if (width < 2) return;
    const Within is_label(context, counts, 2, width - 1, 1);
    const View given = label.sliced(1, 0, width - 1), mask = is_label.reshaped({batch, width - 1});
    context.map(uhal_map_multiply, {&given, &mask}, {&emitted});
  }

  void set_costs(const Context& context, int64_t blank, const Lattice& blanks, const Lattice& emissions) const {
    const Constant never(context, x.dtype, kNever);
    const Scratch valid(context, UHAL_BOOL, {batch, steps, width});
    const Within in_time(context, lengths, 1, steps, 0), in_labels(context, counts, 2, width, 0);
    context.map(uhal_map_logical_and, {&in_time, &in_labels}, {&valid});
    View of_blank = x.sliced(3, blank, 1), to = blanks.cells();
    of_blank.rank = 3;
    context.map(uhal_map_select, {&valid, &of_blank, &never}, {&to});
    if (width < 2) return;
    const Scratch taken(context, x.dtype, {batch, steps, width - 1, 1});
    const auto classes = index_attributes(3);
    const View before_last = x.sliced(2, 0, width - 1), at = places();
    context.run(UHAL_OP_GATHER_ELEMENTS, {&before_last, &at}, {&taken}, &classes);
    const Within emits(context, counts, 2, width - 1, 1);
    const View is_emission = valid.sliced(2, 0, width - 1), values = taken.reshaped({batch, steps, width - 1});
    context.map(uhal_map_logical_and, {&is_emission, &emits}, {&is_emission});
    to = emissions.cells().sliced(2, 0, width - 1);
    context.map(uhal_map_select, {&is_emission, &values, &never}, {&to});
  }

  // The labels as the classes that cells emit: (batch, steps, labels, 1).
  View places() const {
    View view = emitted.reshaped({batch, 1, width - 1, 1});
    view.shape[1] = steps;
    view.strides[1] = 0;
    return view;
  }
};

// Probabilities of the ways from the first cell. Emissions and alphas have a column before their cells.
void go_forwards(const Context& context, const Lattice& blanks, const Lattice& emissions, const Lattice& alphas) {
  fill_zero(context, alphas.diagonal(0, 1).sliced(1, 0, 1));
  for (int64_t d = 1; d + 1 < alphas.shape[0]; ++d) {
    add_ways(context, alphas.diagonal(d - 1, 1), blanks.diagonal(d - 1), alphas.diagonal(d - 1),
             emissions.diagonal(d - 1), nullptr, alphas.diagonal(d, 1));
  }
}

// Probabilities of the ways to the end, which is the cell behind the last step of a sequence. `ends` is 0 there. Betas
// have a column behind their cells.
void go_backwards(const Context& context, const Lattice& blanks, const Lattice& emissions, const Lattice& ends,
                  const Lattice& betas) {
  const int64_t last = betas.shape[0] - 1;
  copy_or_cast(context, ends.diagonal(last), betas.diagonal(last));
  for (int64_t d = last - 1; d >= 0; --d) {
    const View end = ends.diagonal(d);
    add_ways(context, betas.diagonal(d + 1), blanks.diagonal(d), betas.diagonal(d + 1, 1), emissions.diagonal(d, 1),
             &end, betas.diagonal(d));
  }
}

// The probability of all ways through a cell by what it costs to leave it, over that of all ways: what `y` gets is
// minus that times a factor. All are logarithms but y.
void write_gradient(const Context& context, const View& alpha, const View& beta, const View& cost, const View& total,
                    double factor, const View& y) {
  const Scratch sum(context, y.dtype, y);
  context.map(uhal_map_add, {&alpha, &beta}, {&sum});
  context.map(uhal_map_add, {&sum, &cost}, {&sum});
  context.map(uhal_map_subtract, {&sum, &total}, {&sum});
  context.map(uhal_map_exp, {&sum}, {&sum});
  context.map(uhal_map_scale, {&sum}, {&y}, {-factor, 0});
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
  const Lattice blanks(context, x.dtype, batch, steps, width), emissions(context, x.dtype, batch, steps, width, 1);
  of.set_costs(context, blank, blanks, emissions);
  const Lattice alphas(context, x.dtype, batch, steps, width, 1), betas(context, x.dtype, batch, steps, width, 0, 1);
  go_forwards(context, blanks, emissions, alphas);

  // Cells behind the last step and at the last label are the ends.
  const Lattice ends(context, x.dtype, batch, steps, width);
  const Constant never(context, x.dtype, kNever), zero(context, x.dtype, 0);
  {
    const Within before_end(context, lengths, 1, steps, 1), in_time(context, lengths, 1, steps, 0),
        before_last(context, of.counts, 2, width, 1), in_labels(context, of.counts, 2, width, 0);
    context.map(uhal_map_logical_xor, {&before_end, &in_time}, {&in_time});
    context.map(uhal_map_logical_xor, {&before_last, &in_labels}, {&in_labels});
    const Scratch is_end(context, UHAL_BOOL, {batch, steps, width});
    context.map(uhal_map_logical_and, {&in_time, &in_labels}, {&is_end});
    const View behind = ends.cells(1);  // the cell one step later
    context.map(uhal_map_select, {&is_end, &zero, &never}, {&behind});
  }
  go_backwards(context, blanks, emissions, ends, betas);
  const View total = betas.diagonal(0).sliced(1, 0, 1);  // (batch, 1)
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
  const View target = dx.sliced(2, 0, width - 1), at = of.places();
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
