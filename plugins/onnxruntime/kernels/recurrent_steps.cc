// LSTM, GRU and RNN in the forms that unihal's own recurrent op has not, step by step.
#include "plugins/onnxruntime/kernels/recurrent_steps.h"

#include <cmath>

namespace unihal::onnxruntime {
namespace {

// The g-th of the parts, `hidden` wide each, of the last axis.
View gate(const View& view, int g, int64_t hidden) { return view.sliced(view.rank - 1, g * hidden, hidden); }

// Row d of the first axis, without that axis.
View row(const View& view, int64_t d) {
  View result = view.sliced(0, d, 1);
  for (int i = 1; i < view.rank; ++i) {
    result.shape[i - 1] = view.shape[i];
    result.strides[i - 1] = view.strides[i];
  }
  result.rank = view.rank - 1;
  return result;
}

class Steps final : public Kernel {
 public:
  Steps(const Description& node, uhal_rnn_mode mode)
      : mode_(mode),
        gates_(mode == UHAL_RNN_LSTM  ? 4
               : mode == UHAL_RNN_GRU ? 3
                                      : 1),
        batch_first_(node.integer("layout", 0) != 0),
        clip_(node.real("clip", 0)),
        coupled_(node.integer("input_forget", 0) != 0),
        resets_after_(node.integer("linear_before_reset", 0) != 0) {
    const std::string direction = node.text("direction", "forward");
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse" ? 1 : direction == "bidirectional" ? 2 : 0;
  }

  void run(Call& call) const override {
    View x = call.input(0);
    const View w = call.input(1), r = call.input(2);
    call.require(x.rank == 3 && w.rank == 3 && r.rank == 3, "x, w and r have not three axes each");
    if (batch_first_) x = x.permuted({1, 0, 2});
    const int64_t steps = x.shape[0], batches = x.shape[1], hidden = r.shape[2], width = gates_ * hidden;
    call.require(w.shape[0] == directions_ && w.shape[1] == width && w.shape[2] == x.shape[2] && r.shape[1] == width &&
                     r.shape[0] == directions_,
                 "the matrices do not fit x and the number of units");
    const bool is_lstm = mode_ == UHAL_RNN_LSTM;
    View y, last, last_cell;
    const Shape all =
        batch_first_ ? Shape{batches, steps, directions_, hidden} : Shape{steps, directions_, batches, hidden};
    const Shape states = batch_first_ ? Shape{batches, directions_, hidden} : Shape{directions_, batches, hidden};
    const bool wants_all = call.wants(0, all, &y), wants_last = call.wants(1, states, &last);
    const bool wants_cell = is_lstm && call.wants(2, states, &last_cell);
    if (batches == 0 || hidden == 0) return;
    if (batch_first_) {
      if (wants_all) y = y.permuted({1, 2, 0, 3});
      if (wants_last) last = last.permuted({1, 0, 2});
      if (wants_cell) last_cell = last_cell.permuted({1, 0, 2});
    }
    const uhal_dtype dtype = x.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32;
    Layer layer;
    layer.steps = steps;
    layer.hidden = hidden;
    layer.x = dense(call, x, dtype);
    if (call.has(4)) layer.lengths = call.input(4);
    for (int64_t d = 0; d < directions_; ++d) {
      layer.is_reverse = (reverse_ >> d & 1) != 0;
      layer.w = row(call.as(w, dtype), d);
      layer.r = row(call.as(r, dtype), d);
      layer.has_bias = call.has(3);
      if (layer.has_bias) layer.bias = row(call.as(call.input(3), dtype), d);
      layer.has_peepholes = is_lstm && call.has(7);
      if (layer.has_peepholes) layer.peepholes = row(call.as(call.input(7), dtype), d);
      layer.h = first_state(call, 5, d, batches, hidden, dtype);
      if (is_lstm) layer.c = first_state(call, 6, d, batches, hidden, dtype);
      run_direction(call, layer, wants_all ? y.sliced(1, d, 1) : View());
      if (wants_last) store(call, layer.h, row(last, d));
      if (wants_cell) store(call, layer.c, row(last_cell, d));
    }
  }

 private:
  // One direction; all of one dtype but the lengths.
  struct Layer {
    int64_t steps = 0, hidden = 0;
    bool is_reverse = false, has_bias = false, has_peepholes = false;
    View x, w, r, bias, peepholes, lengths;
    View h, c;  // (B, H), as they are now
  };

  static View dense(Call& call, const View& from, uhal_dtype dtype) {
    const View result = call.scratch(shape_of(from), dtype);
    if (from.elements() != 0) call.move(from, result);
    return result;
  }
  static void store(Call& call, const View& from, const View& to) { call.move(from, to); }

  View first_state(Call& call, int input, int64_t d, int64_t batches, int64_t hidden, uhal_dtype dtype) const {
    const View state = call.scratch(Shape{batches, hidden}, dtype);
    if (!call.has(input)) {
      call.fill(state, 0);
      return state;
    }
    View given = call.input(input);
    call.require(given.rank == 3, "an initial state has not three axes");
    if (batch_first_) given = given.permuted({1, 0, 2});
    call.require(given.shape[0] == directions_ && given.shape[1] == batches && given.shape[2] == hidden,
                 "an initial state does not fit");
    call.move(row(given, d), state);
    return state;
  }

  void run_direction(Call& call, Layer& layer, const View& y) const {
    const int64_t batches = layer.h.shape[0], hidden = layer.hidden, width = gates_ * hidden;
    const uhal_dtype dtype = layer.h.dtype;
    const uhal_matmul_attributes product = matmul_attributes(call.math_mode());
    const View inputs = call.scratch(Shape{layer.steps, batches, width}, dtype);
    if (inputs.elements() != 0) {
      const View from = layer.x.reshaped({layer.steps * batches, layer.x.shape[2]});
      const View to = inputs.reshaped({layer.steps * batches, width}), matrix = layer.w.transposed();
      const View bias = layer.has_bias ? layer.bias.sliced(0, 0, width) : View();
      call.launch(UHAL_OP_MATMUL, {&from, &matrix, layer.has_bias ? &bias : nullptr}, {&to}, &product);
    }
    const View sums = call.scratch(Shape{batches, width}, dtype), next = call.scratch(Shape{batches, hidden}, dtype);
    const View other = call.scratch(Shape{batches, hidden}, dtype);
    const View cell = layer.c.dtype != UHAL_DTYPE_INVALID ? call.scratch(Shape{batches, hidden}, dtype) : View();
    const View recurrent = layer.r.transposed();
    const View bias = layer.has_bias ? layer.bias.sliced(0, width, width) : View();
    View zero, inside;
    if (layer.lengths.dtype != UHAL_DTYPE_INVALID) {
      zero = call.constant(0, dtype);
      inside = call.scratch(Shape{batches, 1}, UHAL_BOOL);
    }
    for (int64_t step = 0; step < layer.steps; ++step) {
      const int64_t t = layer.is_reverse ? layer.steps - 1 - step : step;
      const View now = row(inputs, t);
      call.launch(UHAL_OP_MATMUL, {&layer.h, &recurrent, layer.has_bias ? &bias : nullptr}, {&sums}, &product);
      if (mode_ == UHAL_RNN_LSTM) {
        run_lstm(call, layer, now, sums, other, cell, next);
      } else if (mode_ == UHAL_RNN_GRU) {
        run_gru(call, layer, now, sums, other, next);
      } else {
        call.map(uhal_map_add, {&now, &sums}, {&sums});
        activate(call, sums, uhal_map_tanh);
        call.copy(sums, next);
      }
      if (zero.dtype == UHAL_DTYPE_INVALID) {
        call.copy(next, layer.h);
        if (cell.dtype != UHAL_DTYPE_INVALID) call.copy(cell, layer.c);
        if (y.dtype != UHAL_DTYPE_INVALID) call.move(next, row(row(y, t), 0));
        continue;
      }
      const View number = call.scratch(Shape(), layer.lengths.dtype);
      call.fill_integer(number, t);
      const View lengths = layer.lengths.unsqueezed(1);
      call.map(uhal_map_less, {&number, &lengths}, {&inside});
      call.map(uhal_map_select, {&inside, &next, &layer.h}, {&layer.h});
      if (cell.dtype != UHAL_DTYPE_INVALID) call.map(uhal_map_select, {&inside, &cell, &layer.c}, {&layer.c});
      if (y.dtype == UHAL_DTYPE_INVALID) continue;
      call.map(uhal_map_select, {&inside, &next, &zero}, {&next});
      call.move(next, row(row(y, t), 0));
    }
  }

  // In place, after the clip.
  void activate(Call& call, const View& view, uhal_map_function function) const {
    if (clip_ != 0) call.map(uhal_map_clip, {&view}, {&view}, {-clip_, clip_});
    call.map(function, {&view}, {&view});
  }

  // Gates i, o, f, c; each peephole sees the cell: the output's the new one.
  void run_lstm(Call& call, const Layer& layer, const View& now, const View& sums, const View& other, const View& cell,
                const View& h) const {
    const int64_t hidden = layer.hidden;
    call.map(uhal_map_add, {&now, &sums}, {&sums});
    const View i = gate(sums, 0, hidden), o = gate(sums, 1, hidden), f = gate(sums, 2, hidden),
               c = gate(sums, 3, hidden);
    const auto peep = [&](const View& to, int which, const View& from) {
      if (!layer.has_peepholes) return;
      const View weights = gate(layer.peepholes, which, hidden);
      call.map(uhal_map_multiply_add, {&weights, &from, &to}, {&to});
    };
    peep(i, 0, layer.c);
    peep(f, 2, layer.c);
    activate(call, i, uhal_map_sigmoid);
    if (coupled_) {
      call.map(uhal_map_scale, {&i}, {&f}, {-1, 1});
    } else {
      activate(call, f, uhal_map_sigmoid);
    }
    activate(call, c, uhal_map_tanh);
    call.map(uhal_map_multiply, {&i, &c}, {&other});
    call.map(uhal_map_multiply_add, {&f, &layer.c, &other}, {&cell});
    peep(o, 1, cell);
    activate(call, o, uhal_map_sigmoid);
    call.map(uhal_map_tanh, {&cell}, {&other});
    call.map(uhal_map_multiply, {&o, &other}, {&h});
  }

  // Gates z, r, h. The reset is of the state before its product, or of the product.
  void run_gru(Call& call, const Layer& layer, const View& now, const View& sums, const View& other,
               const View& h) const {
    const int64_t hidden = layer.hidden;
    const View z = gate(sums, 0, hidden), r = gate(sums, 1, hidden), n = gate(sums, 2, hidden);
    const View xz = gate(now, 0, hidden), xr = gate(now, 1, hidden), xn = gate(now, 2, hidden);
    call.map(uhal_map_add, {&xz, &z}, {&z});
    call.map(uhal_map_add, {&xr, &r}, {&r});
    activate(call, z, uhal_map_sigmoid);
    activate(call, r, uhal_map_sigmoid);
    if (resets_after_) {
      call.map(uhal_map_multiply_add, {&r, &n, &xn}, {&n});
    } else {
      call.map(uhal_map_multiply, {&r, &layer.h}, {&other});
      const uhal_matmul_attributes product = matmul_attributes(call.math_mode());
      const View matrix = layer.r.sliced(0, 2 * hidden, hidden).transposed();
      const View bias = layer.has_bias ? layer.bias.sliced(0, 5 * hidden, hidden) : View();
      call.launch(UHAL_OP_MATMUL, {&other, &matrix, layer.has_bias ? &bias : nullptr}, {&h}, &product);
      call.map(uhal_map_add, {&h, &xn}, {&n});
    }
    activate(call, n, uhal_map_tanh);
    // (1 - z) n + z h, as n + z (h - n)
    call.map(uhal_map_subtract, {&layer.h, &n}, {&other});
    call.map(uhal_map_multiply_add, {&z, &other, &n}, {&h});
  }

  const uhal_rnn_mode mode_;
  const int gates_;
  const bool batch_first_;
  const double clip_;
  const bool coupled_, resets_after_;
  int64_t directions_ = 1;
  int reverse_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_recurrent_steps(const Description& node, uhal_rnn_mode mode) {
  return std::make_unique<Steps>(node, mode);
}

}  // namespace unihal::onnxruntime
