// Cells of recurrent networks, one step and (LSTM) all steps of a batch, with gradients.
//
// A step is one product of matrices and two elementwise functions that know the cell (elementwise.def's lstm_*): what
// does not hang on the step before is one product of all steps, in front of them or behind.
#include <string>

#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

constexpr DtypeSet kCells = only(UHAL_FLOAT32) | only(UHAL_FLOAT16);

bool matrix_product(Context& context, const View& a, const View& b, const View& d, const View* c = nullptr) {
  if (!context.ok() || d.elements() == 0) return context.ok();
  const auto attributes = matmul_attributes(math_mode());
  if (a.shape[1] == 0) return c == nullptr ? context.zero(d) : context.copy(*c, d);
  return c == nullptr ? context.launch(UHAL_OP_MATMUL, {&a, &b}, {&d}, &attributes)
                      : context.launch(UHAL_OP_MATMUL, {&a, &b, c}, {&d}, &attributes);
}

// The sum over the first axis of a matrix.
void sum_rows(Context& context, const View& x, const View& y) {
  if (!context.ok() || y.elements() == 0) return;
  const View row = y.reshaped({1, y.elements()});
  const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.launch(UHAL_OP_REDUCE, {&x}, {&row}, &attributes);
}

// Fails the context unless a view has a shape.
bool expect_shape(Context& context, const char* name, const View& view, const Shape& shape) {
  if (context.ok() && shape_of(view) != shape) {
    context.fail_invalid(std::string(name) + " must have shape " + to_text(shape) + ", got " + to_text(view));
  }
  return context.ok();
}

// An input of a rank. Others are refused here, whatever their rank: TensorFlow's CPU kernels end the process for some.
View ranked(Context& context, int index, const char* name, int rank) {
  const Shape shape = context.dims(index);
  if (context.ok() && static_cast<int>(shape.size()) != rank) {
    context.fail_invalid(std::string(name) + " must be rank " + std::to_string(rank) + " but is rank " +
                         std::to_string(shape.size()) + ".");
  }
  return context.ok() ? context.input(index) : View();
}

// Step t of (T, B, n).
View step_of(const View& all, int64_t t) {
  View step = all.sliced(0, t, 1);
  return View(step.data, all.dtype, {all.shape[1], all.shape[2]});
}
// All steps in a matrix.
View rows_of(const View& all) { return all.reshaped({all.shape[0] * all.shape[1], all.shape[2]}); }

enum Gate { kInput, kNewCell, kForget, kOutput };

// What the ops on an LSTM have in common: x (steps, batch, inputs), the states before, the weights.
struct Lstm {
  View x, cell, output;              // the states of step -1
  View weights;                      // (inputs + units, 4 units)
  View of_input, of_forget, of_out;  // peepholes (units); zeros without
  View bias;
  int64_t steps = 0, batch = 0, inputs = 0, units = 0;
  bool forget_first =
      false;  // the gates lie in the order input, forget, cell, output; else input, cell, forget, output

  // From inputs `first` on: x, cell, output, weights, three peepholes, bias.
  bool read(Context& context, int first, bool peephole) {
    x = ranked(context, first, "x", first == 0 ? 2 : 3);
    cell = ranked(context, first + 1, "cs_prev", 2);
    output = ranked(context, first + 2, "h_prev", 2);
    weights = ranked(context, first + 3, "w", 2);
    of_input = ranked(context, first + 4, "wci", 1);
    of_forget = ranked(context, first + 5, "wcf", 1);
    of_out = ranked(context, first + 6, "wco", 1);
    bias = ranked(context, first + 7, "b", 1);
    if (!context.ok()) return false;
    if (first == 0) x = x.reshaped({1, x.shape[0], x.shape[1]});  // one step
    steps = x.shape[0];
    batch = x.shape[1];
    inputs = x.shape[2];
    units = cell.shape[1];
    if (!expect_shape(context, "cs_prev", cell, {batch, units}) ||
        !expect_shape(context, "h_prev", output, {batch, units}) ||
        !expect_shape(context, "w", weights, {inputs + units, 4 * units}) ||
        !expect_shape(context, "b", bias, {4 * units})) {
      return false;
    }
    if (peephole) {
      return expect_shape(context, "wci", of_input, {units}) && expect_shape(context, "wcf", of_forget, {units}) &&
             expect_shape(context, "wco", of_out, {units});
    }
    of_input = context.temporary(x.dtype, {1});
    if (!context.ok() || !context.zero(of_input)) return false;
    of_input = of_forget = of_out = of_input.reshaped({1, 1});
    return true;
  }

  View weights_of_x() const { return weights.sliced(0, 0, inputs); }
  View weights_of_output() const { return weights.sliced(0, inputs, units); }
  // Columns of a matrix that belong to a gate.
  View gate(const View& matrix, Gate which) const {
    const int order[] = {0, forget_first ? 2 : 1, forget_first ? 1 : 2, 3};
    return matrix.sliced(1, order[which] * units, units);
  }
};

// What a step leaves, each (steps, batch, units).
struct Trace {
  View input, cell, forget, out, fresh, tanh, output;
  View* all[7] = {&input, &cell, &forget, &out, &fresh, &tanh, &output};  // in TensorFlow's order: i cs f o ci co h
};

void run_forward(Context& context, const Lstm& lstm, const Trace& trace, int64_t steps, double forget_bias,
                 double clip) {
  if (steps == 0 || lstm.batch * lstm.units == 0) return;
  const View products = context.temporary(lstm.x.dtype, {steps, lstm.batch, 4 * lstm.units});
  if (!context.ok()) return;
  const View x = rows_of(lstm.x.sliced(0, 0, steps)), bias = lstm.bias.reshaped({1, 4 * lstm.units});
  if (!matrix_product(context, x, lstm.weights_of_x(), rows_of(products), &bias)) return;
  const auto cut = map_attributes(uhal_map_lstm_cell, {forget_bias, clip});
  for (int64_t t = 0; t < steps && context.ok(); ++t) {
    const View row = step_of(products, t);
    const View before = t == 0 ? lstm.output : step_of(trace.output, t - 1);
    const View cell = t == 0 ? lstm.cell : step_of(trace.cell, t - 1);
    if (!matrix_product(context, before, lstm.weights_of_output(), row, &row)) return;
    const View of_input = lstm.gate(row, kInput), of_cell = lstm.gate(row, kNewCell);
    const View of_forget = lstm.gate(row, kForget), of_out = lstm.gate(row, kOutput);
    const View i = step_of(trace.input, t), fresh = step_of(trace.fresh, t), f = step_of(trace.forget, t);
    const View next = step_of(trace.cell, t), o = step_of(trace.out, t);
    const View tanh = step_of(trace.tanh, t), h = step_of(trace.output, t);
    context.launch(UHAL_OP_MAP, {&of_input, &of_cell, &of_forget, &cell, &lstm.of_input, &lstm.of_forget},
                   {&i, &fresh, &f, &next}, &cut);
    context.map(uhal_map_lstm_output, {&of_out, &next, &lstm.of_out}, {&o, &tanh, &h});
  }
}

class LstmBlockCell : public Kernel {
 public:
  explicit LstmBlockCell(Construction& construction)
      : Kernel(construction),
        forget_bias_(construction.real("forget_bias")),
        clip_(construction.real("cell_clip")),
        peephole_(construction.boolean("use_peephole")) {}
  void compute(Context& context) const override {
    Lstm lstm;
    if (!lstm.read(context, 0, peephole_)) return;
    Trace trace;
    for (int i = 0; i < 7; ++i) {
      *trace.all[i] = context.output(i, lstm.x.dtype, {lstm.batch, lstm.units}).reshaped({1, lstm.batch, lstm.units});
    }
    if (context.ok()) run_forward(context, lstm, trace, 1, forget_bias_, clip_);
  }

 private:
  double forget_bias_;
  double clip_;
  bool peephole_;
};

// The steps that a batch really has; fails the context for more than there are.
int64_t checked_steps(Context& context, int64_t given, const Lstm& lstm) {
  if (context.ok() && given > lstm.steps) {
    context.fail_invalid("seq_len_max must be at most the number of steps, " + std::to_string(lstm.steps) + ", got " +
                         std::to_string(given));
  }
  return given < 0 ? 0 : given;
}

// BlockLSTM and, with the gates in another order and without a bias of the forget gate, BlockLSTMV2.
template <bool kSecond>
class BlockLstm : public Kernel {
 public:
  explicit BlockLstm(Construction& construction)
      : Kernel(construction),
        forget_bias_(kSecond ? 0 : construction.real("forget_bias")),
        clip_(construction.real("cell_clip")),
        peephole_(construction.boolean("use_peephole")) {}
  void compute(Context& context) const override {
    const int64_t given = context.host_scalar(0);
    Lstm lstm;
    lstm.forget_first = kSecond;
    if (!context.ok() || !lstm.read(context, 1, peephole_)) return;
    const int64_t steps = checked_steps(context, given, lstm);
    Trace trace;
    for (int i = 0; i < 7; ++i) *trace.all[i] = context.output(i, lstm.x.dtype, {lstm.steps, lstm.batch, lstm.units});
    if (!context.ok()) return;
    run_forward(context, lstm, trace, steps, forget_bias_, clip_);
    if (steps == lstm.steps) return;
    for (const View* view : trace.all) {
      if (context.ok() && view->elements() > 0) context.zero(view->sliced(0, steps, lstm.steps - steps));
    }
  }

 private:
  double forget_bias_;
  double clip_;
  bool peephole_;
};

// What a step of the gradient gives: of the products, and of the cell before.
struct StepGradients {
  View products, cell;
};

// One step backwards. of_output and of_cell come in two parts each.
void step_backward(Context& context, const Lstm& lstm, const View (&kept)[6], const View& cell_before,
                   const View (&of_output)[2], const View (&of_cell)[2], const StepGradients& gradients) {
  const View& i = kept[0];
  const View &f = kept[2], &o = kept[3], &fresh = kept[4], &tanh = kept[5];
  const View of_now = context.temporary(lstm.x.dtype, {lstm.batch, lstm.units});
  if (!context.ok()) return;
  const View d_input = lstm.gate(gradients.products, kInput), d_fresh = lstm.gate(gradients.products, kNewCell);
  const View d_forget = lstm.gate(gradients.products, kForget), d_out = lstm.gate(gradients.products, kOutput);
  context.map(uhal_map_lstm_output_backward,
              {&o, &tanh, &of_output[0], &of_output[1], &of_cell[0], &of_cell[1], &lstm.of_out}, {&d_out, &of_now});
  context.map(uhal_map_lstm_cell_backward, {&of_now, &i, &fresh, &f, &cell_before, &lstm.of_input, &lstm.of_forget},
              {&d_input, &d_fresh, &d_forget, &gradients.cell});
}

// The gradients of the three peepholes: sums of products, or zeros without peepholes.
void peephole_gradients(Context& context, const Lstm& lstm, bool peephole, const View& products, const View& before,
                        const View& after, const View (&results)[3]) {
  const Gate gates[] = {kInput, kForget, kOutput};
  for (int i = 0; i < 3 && context.ok(); ++i) {
    if (!peephole || products.elements() == 0) {
      if (results[i].elements() > 0) context.zero(results[i]);
      continue;
    }
    const View terms = context.temporary(lstm.x.dtype, {products.shape[0], lstm.units});
    if (!context.ok()) return;
    const View gradient = lstm.gate(products, gates[i]);
    context.map(uhal_map_multiply, {&gradient, gates[i] == kOutput ? &after : &before}, {&terms});
    sum_rows(context, terms, results[i]);
  }
}

// (the forward's, i, cs, f, o, ci, co, cs_grad, h_grad) -> (of cs_prev, of the products, of the peepholes)
class LstmBlockCellGrad : public Kernel {
 public:
  explicit LstmBlockCellGrad(Construction& construction)
      : Kernel(construction), peephole_(construction.boolean("use_peephole")) {}
  void compute(Context& context) const override {
    Lstm lstm;
    if (!lstm.read(context, 0, peephole_)) return;
    View kept[6];
    const Shape state = {lstm.batch, lstm.units};
    const char* const names[] = {"i", "cs", "f", "o", "ci", "co"};
    for (int i = 0; i < 6; ++i) {
      kept[i] = ranked(context, 8 + i, names[i], 2);
      if (!expect_shape(context, names[i], kept[i], state)) return;
    }
    const View of_cell = ranked(context, 14, "cs_grad", 2), of_output = ranked(context, 15, "h_grad", 2);
    if (!expect_shape(context, "cs_grad", of_cell, state) || !expect_shape(context, "h_grad", of_output, state)) return;
    const StepGradients gradients = {context.output(1, lstm.x.dtype, {lstm.batch, 4 * lstm.units}),
                                     context.output(0, lstm.x.dtype, state)};
    const View peepholes[3] = {context.output(2, lstm.x.dtype, {lstm.units}),
                               context.output(3, lstm.x.dtype, {lstm.units}),
                               context.output(4, lstm.x.dtype, {lstm.units})};
    const View zero = context.temporary(lstm.x.dtype, {1, 1});
    if (!context.ok() || !context.zero(zero)) return;
    if (gradients.cell.elements() > 0) {
      step_backward(context, lstm, kept, lstm.cell, {of_output, zero}, {of_cell, zero}, gradients);
    }
    peephole_gradients(context, lstm, peephole_, gradients.products, lstm.cell, kept[1], peepholes);
  }

 private:
  bool peephole_;
};

// (the forward's, its results, cs_grad, h_grad) -> (of x, cs_prev, h_prev, w, the peepholes, b)
template <bool kSecond>
class BlockLstmGrad : public Kernel {
 public:
  explicit BlockLstmGrad(Construction& construction)
      : Kernel(construction), peephole_(construction.boolean("use_peephole")) {}
  void compute(Context& context) const override {
    const int64_t given = context.host_scalar(0);
    Lstm lstm;
    lstm.forget_first = kSecond;
    if (!context.ok() || !lstm.read(context, 1, peephole_)) return;
    const int64_t steps = checked_steps(context, given, lstm), units = lstm.units;
    View all[9];  // i, cs, f, o, ci, co, h, and the gradients of cs and h
    const char* const names[] = {"i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"};
    for (int i = 0; i < 9; ++i) {
      all[i] = ranked(context, 9 + i, names[i], 3);
      if (!expect_shape(context, names[i], all[i], {lstm.steps, lstm.batch, units})) return;
    }
    const View& cells = all[1];
    const View& outputs = all[6];
    const uhal_dtype dtype = lstm.x.dtype;
    const View of_x = context.output_like(0, lstm.x), of_cell = context.output_like(1, lstm.cell);
    const View of_output = context.output_like(2, lstm.output), of_weights = context.output_like(3, lstm.weights);
    const View peepholes[3] = {context.output(4, dtype, {units}), context.output(5, dtype, {units}),
                               context.output(6, dtype, {units})};
    const View of_bias = context.output_like(7, lstm.bias);
    const View products = context.temporary(dtype, {steps, lstm.batch, 4 * units});
    // The states before each step, and what the steps multiply: x and the output before.
    const View before = context.temporary(dtype, {steps, lstm.batch, units});
    const View rows = context.temporary(dtype, {steps, lstm.batch, lstm.inputs + units});
    if (!context.ok()) return;
    context.zero(of_cell);
    context.zero(of_output);
    for (int64_t t = steps - 1; t >= 0 && context.ok(); --t) {
      View kept[6];
      for (int i = 0; i < 6; ++i) kept[i] = step_of(all[i], t);
      const View row = step_of(products, t);
      step_backward(context, lstm, kept, t == 0 ? lstm.cell : step_of(cells, t - 1), {step_of(all[8], t), of_output},
                    {step_of(all[7], t), of_cell}, {row, of_cell});
      matrix_product(context, row, lstm.weights_of_output().transposed(), of_output);
    }
    if (!context.ok()) return;
    if (steps < lstm.steps && of_x.elements() > 0) context.zero(of_x.sliced(0, steps, lstm.steps - steps));
    if (steps == 0 || lstm.batch == 0 || units == 0) {
      for (const View* view : {&of_weights, &of_bias, &peepholes[0], &peepholes[1], &peepholes[2]}) {
        if (context.ok() && view->elements() > 0) context.zero(*view);
      }
      if (context.ok() && of_x.elements() > 0) context.zero(of_x);
      return;
    }
    matrix_product(context, rows_of(products), lstm.weights_of_x().transposed(), rows_of(of_x.sliced(0, 0, steps)));
    shift(context, lstm.cell, cells, before, steps);
    if (lstm.inputs > 0) context.copy(lstm.x.sliced(0, 0, steps), rows.sliced(2, 0, lstm.inputs));
    shift(context, lstm.output, outputs, rows.sliced(2, lstm.inputs, units), steps);
    matrix_product(context, rows_of(rows).transposed(), rows_of(products), of_weights);
    sum_rows(context, rows_of(products), of_bias);
    peephole_gradients(context, lstm, peephole_, rows_of(products), rows_of(before), rows_of(cells.sliced(0, 0, steps)),
                       peepholes);
  }

 private:
  // first, then all steps of `states` but the last.
  static void shift(Context& context, const View& first, const View& states, const View& result, int64_t steps) {
    if (!context.ok()) return;
    context.copy(first.reshaped({1, first.shape[0], first.shape[1]}), result.sliced(0, 0, 1));
    if (steps > 1 && context.ok()) context.copy(states.sliced(0, 0, steps - 1), result.sliced(0, 1, steps - 1));
  }

  bool peephole_;
};

// What the two ops on a GRU have in common.
struct Gru {
  View x, before, of_gates, of_fresh, gate_bias, fresh_bias;
  int64_t batch = 0, inputs = 0, units = 0;

  bool read(Context& context) {
    x = ranked(context, 0, "x", 2);
    before = ranked(context, 1, "h_prev", 2);
    of_gates = ranked(context, 2, "w_ru", 2);
    of_fresh = ranked(context, 3, "w_c", 2);
    gate_bias = ranked(context, 4, "b_ru", 1);
    fresh_bias = ranked(context, 5, "b_c", 1);
    if (!context.ok()) return false;
    batch = x.shape[0];
    inputs = x.shape[1];
    units = before.shape[1];
    return expect_shape(context, "h_prev", before, {batch, units}) &&
           expect_shape(context, "w_ru", of_gates, {inputs + units, 2 * units}) &&
           expect_shape(context, "w_c", of_fresh, {inputs + units, units}) &&
           expect_shape(context, "b_ru", gate_bias, {2 * units}) && expect_shape(context, "b_c", fresh_bias, {units});
  }

  // [x, state] @ weights + bias
  bool joined(Context& context, const View& state, const View& weights, const View& bias, const View& result) const {
    const View row = bias.reshaped({1, bias.elements()});
    return matrix_product(context, x, weights.sliced(0, 0, inputs), result, &row) &&
           matrix_product(context, state, weights.sliced(0, inputs, units), result, &result);
  }
};

// (x, h_prev, w_ru, w_c, b_ru, b_c) -> (r, u, c, h)
class GruBlockCell : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    Gru gru;
    if (!gru.read(context)) return;
    const View r = context.output_like(0, gru.before), u = context.output_like(1, gru.before);
    const View c = context.output_like(2, gru.before), h = context.output_like(3, gru.before);
    const View gates = context.temporary(gru.x.dtype, {gru.batch, 2 * gru.units});
    const View reset = context.temporary_like(gru.before);
    if (!context.ok() || h.elements() == 0) return;
    if (!gru.joined(context, gru.before, gru.of_gates, gru.gate_bias, gates)) return;
    const View of_r = gates.sliced(1, 0, gru.units), of_u = gates.sliced(1, gru.units, gru.units);
    context.map(uhal_map_sigmoid, {&of_r}, {&r});
    context.map(uhal_map_sigmoid, {&of_u}, {&u});
    context.map(uhal_map_multiply, {&r, &gru.before}, {&reset});
    if (!gru.joined(context, reset, gru.of_fresh, gru.fresh_bias, c)) return;
    context.map(uhal_map_tanh, {&c}, {&c});
    context.map(uhal_map_linear_interpolation, {&c, &gru.before, &u}, {&h});
  }
};

// (the forward's, r, u, c, d_h) -> (d_x, d_h_prev, of the product of c, of those of r and u)
class GruBlockCellGrad : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    Gru gru;
    if (!gru.read(context)) return;
    const View r = ranked(context, 6, "r", 2), u = ranked(context, 7, "u", 2), c = ranked(context, 8, "c", 2);
    const View dh = ranked(context, 9, "d_h", 2);
    const Shape state = {gru.batch, gru.units};
    if (!expect_shape(context, "r", r, state) || !expect_shape(context, "u", u, state) ||
        !expect_shape(context, "c", c, state) || !expect_shape(context, "d_h", dh, state)) {
      return;
    }
    const View dx = context.output_like(0, gru.x), d_before = context.output_like(1, gru.before);
    const View d_fresh = context.output_like(2, gru.before);
    const View d_gates = context.output(3, gru.x.dtype, {gru.batch, 2 * gru.units});
    const View work = context.temporary_like(gru.before), d_reset = context.temporary_like(gru.before);
    const View d_x = context.temporary_like(gru.x), d_state = context.temporary_like(gru.before);
    if (!context.ok() || dh.elements() == 0) {
      if (context.ok() && dx.elements() > 0) context.zero(dx);
      return;
    }
    const View d_r = d_gates.sliced(1, 0, gru.units), d_u = d_gates.sliced(1, gru.units, gru.units);
    // h = u h_prev + (1 - u) c
    context.map(uhal_map_subtract, {&gru.before, &c}, {&work});
    context.map(uhal_map_multiply, {&work, &dh}, {&work});
    context.map(uhal_map_sigmoid_backward, {&u, &work}, {&d_u});
    context.map(uhal_map_multiply, {&u, &dh}, {&d_before});
    context.map(uhal_map_subtract, {&dh, &d_before}, {&work});
    context.map(uhal_map_tanh_backward, {&c, &work}, {&d_fresh});
    // The product of c, with [x, r h_prev].
    const View fresh = gru.of_fresh.transposed(), gates = gru.of_gates.transposed();
    matrix_product(context, d_fresh, fresh.sliced(1, gru.inputs, gru.units), d_reset);
    context.map(uhal_map_multiply, {&d_reset, &gru.before}, {&work});
    context.map(uhal_map_sigmoid_backward, {&r, &work}, {&d_r});
    context.map(uhal_map_multiply_add, {&d_reset, &r, &d_before}, {&d_before});
    // Those of the gates, with [x, h_prev].
    matrix_product(context, d_gates, gates.sliced(1, gru.inputs, gru.units), d_state);
    context.map(uhal_map_add, {&d_before, &d_state}, {&d_before});
    matrix_product(context, d_fresh, fresh.sliced(1, 0, gru.inputs), dx);
    matrix_product(context, d_gates, gates.sliced(1, 0, gru.inputs), d_x);
    if (dx.elements() > 0) context.map(uhal_map_add, {&dx, &d_x}, {&dx});
  }
};

}  // namespace

void register_recurrent(Registrar& registrar) {
  registrar.add<LstmBlockCell>("LSTMBlockCell", {{"T", kCells}});
  registrar.add<LstmBlockCellGrad>("LSTMBlockCellGrad", {{"T", kCells}});
  registrar.add<BlockLstm<false>>("BlockLSTM", {{"T", kCells}}, {"seq_len_max"});
  registrar.add<BlockLstm<true>>("BlockLSTMV2", {{"T", kCells}}, {"seq_len_max"});
  registrar.add<BlockLstmGrad<false>>("BlockLSTMGrad", {{"T", kCells}}, {"seq_len_max"});
  registrar.add<BlockLstmGrad<true>>("BlockLSTMGradV2", {{"T", kCells}}, {"seq_len_max"});
  registrar.add<GruBlockCell>("GRUBlockCell", {{"T", only(UHAL_FLOAT32)}});
  registrar.add<GruBlockCellGrad>("GRUBlockCellGrad", {{"T", only(UHAL_FLOAT32)}});
}

}  // namespace unihal::tensorflow
