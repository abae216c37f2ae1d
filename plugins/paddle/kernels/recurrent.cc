// Recurrent layers: of each the product of all steps with the input matrices, then UHAL_OP_RNN for all its directions.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/kernels/dropout.h"
#include "plugins/paddle/math_mode.h"

namespace unihal::paddle {
namespace {

struct Mode {
  const char* name;
  uhal_rnn_mode mode;
  int64_t gates;  // parts of a gate's operand and of a reserve, as wide as the state
  int64_t reserved;
};
constexpr Mode kModes[] = {{"LSTM", UHAL_RNN_LSTM, 4, 5},
                           {"GRU", UHAL_RNN_GRU, 3, 4},
                           {"RNN_TANH", UHAL_RNN_TANH, 1, 0},
                           {"RNN_RELU", UHAL_RNN_RELU, 1, 0}};

const Mode& cell_mode_of(const Context& context, Text name) {
  for (const Mode& mode : kModes) {
    if (std::strcmp(name.value, mode.name) == 0) return mode;
  }
  invalid(context, std::string("the mode is \"") + name.value + "\", expected LSTM, GRU, RNN_TANH or RNN_RELU");
}

// d = a @ b, with c added where there is one; it may be d.
void multiply_and_add(const Context& context, const View& a, const View& b, const View* c, const View& d) {
  if (d.elements() == 0) return;
  if (a.elements() == 0) {
    if (c == nullptr) return fill_zero(context, d);
    if (c->data != d.data) copy_or_cast(context, *c, d);
    return;
  }
  const auto attributes = matmul_attributes(dnn_math_mode());
  context.run(UHAL_OP_MATMUL, {&a, &b, c}, {&d}, &attributes);
}

// What both kernels know of their operands, and where the forward leaves what its gradient needs: in one tensor of x's
// dtype, for each layer but the last (whose result is the output, if all steps are taken) its result (T, B, D H), its
// op's reserve, and its dropped out result if there is dropout.
struct Stack {
  const Context& context;
  const Mode& mode;
  uhal_dtype dtype;
  int64_t steps, batch, inputs, hidden, layers, directions;
  bool drops_out, has_lengths, is_test;

  int64_t gates() const { return mode.gates * hidden; }
  int64_t states() const { return directions * batch * hidden; }
  bool keeps_result(int64_t layer) const { return layer + 1 < layers || has_lengths; }
  bool drops_result(int64_t layer) const { return layer + 1 < layers && drops_out; }
  int64_t reserve_elements() const { return is_test ? 0 : steps * states() * mode.reserved; }
  int64_t result_elements() const { return steps * states(); }
  int64_t layer_elements(int64_t layer) const {
    return reserve_elements() + (keeps_result(layer) + drops_result(layer)) * result_elements();
  }
  int64_t kept_elements() const {
    int64_t sum = 0;
    for (int64_t layer = 0; layer < layers; ++layer) sum += layer_elements(layer);
    return sum;
  }

  // Parts of what is kept, or of the masks, by the element that they begin at.
  static View part(const View& all, int64_t first, std::initializer_list<int64_t> dims) {
    const auto offset = first * static_cast<int64_t>(uhal_dtype_size(all.dtype));
    return View(all.data == nullptr ? nullptr : static_cast<char*>(all.data) + offset, all.dtype, dims);
  }
  int64_t begin(int64_t layer) const {
    int64_t sum = 0;
    for (int64_t before = 0; before < layer; ++before) sum += layer_elements(before);
    return sum;
  }
  View reserve(const View& kept, int64_t layer) const {
    return part(kept, begin(layer), {directions, steps, batch, mode.reserved * hidden});
  }
  View result(const View& kept, const View& out, int64_t layer) const {
    if (!keeps_result(layer)) return out;
    return part(kept, begin(layer) + reserve_elements(), {steps, batch, directions * hidden});
  }
  View dropped(const View& kept, int64_t layer) const {
    return part(kept, begin(layer) + reserve_elements() + result_elements(), {steps, batch, directions * hidden});
  }
  View mask(const View& masks, int64_t layer) const {
    return part(masks, layer * result_elements(), {steps, batch, directions * hidden});
  }
  // What a layer gets: (T, B, ...).
  View input(const View& x, const View& kept, const View& out, int64_t layer) const {
    if (layer == 0) return x;
    return drops_result(layer - 1) ? dropped(kept, layer - 1) : result(kept, out, layer - 1);
  }

  // (T, B, D H) as the op has it: (D, T, B, H).
  View by_direction(const View& y) const {
    return y.reshaped({steps, batch, directions, hidden}).permuted({2, 0, 1, 3});
  }
  // The steps of one direction as rows: (T B, width).
  static View rows(const View& by_direction, int64_t direction) {
    View view = by_direction.sliced(0, direction, 1);
    const int64_t rows = view.shape[1] * view.shape[2];
    View result = view;
    result.rank = 2;
    result.shape[0] = rows;
    result.shape[1] = view.shape[3];
    result.strides[0] = view.strides[2];
    result.strides[1] = view.strides[3];
    return result;
  }
  // So many steps of (D, T, B, ...) from one on.
  static View some_steps(const View& view, int64_t first, int64_t count) { return view.sliced(1, first, count); }
  // A layer's states of all directions, of (L D, B, H).
  View of_layer(const View& states, int64_t layer) const { return states.sliced(0, layer * directions, directions); }

  bool is_backwards(int64_t direction) const { return direction == 1; }
  uhal_rnn_attributes attributes() const {
    uhal_rnn_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.mode = mode.mode;
    attributes.reverse = directions == 2 ? 2 : 0;
    attributes.math_mode = dnn_math_mode();
    return attributes;
  }
};

// The tensors of a list by layer, direction and part: matrices of all layers come first, then biases.
enum Part { kInputMatrix, kStateMatrix, kInputBias, kStateBias };
size_t position_of(const Stack& stack, int64_t layer, int64_t direction, Part part) {
  const int64_t all = 2 * stack.directions * stack.layers;
  return static_cast<size_t>((part >= kInputBias ? all : 0) + 2 * (layer * stack.directions + direction) + part % 2);
}

// One tensor of each direction side by side: itself, or copies.
class SideBySide : public View {
 public:
  SideBySide(const Stack& stack, const InputList& list, int64_t layer, Part part) {
    const View first = list[position_of(stack, layer, 0, part)].view();
    static_cast<View&>(*this) = first.unsqueezed(0);
    if (stack.directions == 1) return;
    int64_t dims[UHAL_MAX_RANK] = {stack.directions};
    std::copy_n(first.shape, first.rank, dims + 1);
    copy_.emplace(stack.context, first.dtype, dims, first.rank + 1);
    for (int64_t d = 0; d < stack.directions; ++d) {
      const View given = list[position_of(stack, layer, d, part)].view().unsqueezed(0);
      copy_or_cast(stack.context, given, copy_->sliced(0, d, 1));
    }
    static_cast<View&>(*this) = *copy_;
  }

 private:
  std::optional<Scratch> copy_;
};

// result = y where a step belongs to its sequence, else 0. Both (T, B, ...).
void keep_steps(const Stack& stack, const View& lengths, const View& y, const View& result) {
  const int64_t step_dims[] = {stack.batch, stack.steps};
  const Scratch numbers(stack.context, lengths.dtype, step_dims, 2);
  const Scratch taken(stack.context, UHAL_BOOL, step_dims, 2);
  count_up(stack.context, numbers);
  const View column = lengths.reshaped({stack.batch, 1});
  stack.context.map(uhal_map_less, {&numbers, &column}, {&taken});
  const View by_step = taken.transposed().unsqueezed(2);
  const Scratch zero(stack.context, y.dtype, step_dims, 0);
  fill_zero(stack.context, zero);
  stack.context.map(uhal_map_select, {&by_step, &y, &zero}, {&result});
}

Stack stack_of(const Context& context, const View& x, const InputList& states, const InputList& weights,
               OptionalInput lengths, double dropout, bool bidirectional, int hidden, int layers, Text mode,
               bool is_test) {
  const Mode& known = cell_mode_of(context, mode);
  if (x.rank != 3) invalid(context, "the input has " + std::to_string(x.rank) + " axes, expected (time, batch, size)");
  Stack stack = {context,
                 known,
                 x.dtype,
                 x.shape[0],
                 x.shape[1],
                 x.shape[2],
                 hidden,
                 layers,
                 bidirectional ? 2 : 1,
                 !is_test && dropout != 0 && layers > 1,
                 static_cast<bool>(lengths),
                 is_test};
  if (hidden < 1 || layers < 1) invalid(context, "hidden_size and num_layers are positive");
  const size_t expected_states = known.mode == UHAL_RNN_LSTM ? 2 : 1;
  const auto expected_weights = static_cast<size_t>(4 * stack.directions * layers);
  if (states.size() != expected_states || weights.size() != expected_weights) {
    invalid(context, "there are " + std::to_string(states.size()) + " states and " + std::to_string(weights.size()) +
                         " weights, expected " + std::to_string(expected_states) + " and " +
                         std::to_string(expected_weights));
  }
  for (size_t i = 0; i < weights.size(); ++i) require_same_dtype(context, x, weights[i].view());
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t width = layer == 0 ? stack.inputs : stack.directions * hidden;
    for (int64_t d = 0; d < stack.directions; ++d) {
      const View matrix = weights[position_of(stack, layer, d, kInputMatrix)].view();
      if (matrix.rank != 2 || matrix.shape[0] != stack.gates() || matrix.shape[1] != width) {
        invalid(context, "an input matrix of layer " + std::to_string(layer) + " does not have the shape (" +
                             std::to_string(stack.gates()) + ", " + std::to_string(width) + ")");
      }
      if (weights[position_of(stack, layer, d, kInputBias)].elements() != stack.gates()) {
        invalid(context, "a bias does not have " + std::to_string(stack.gates()) + " elements");
      }
    }
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const View state = states[i].view();
    require_same_dtype(context, x, state);
    if (state.rank != 3 || state.shape[0] != layers * stack.directions || state.shape[1] != stack.batch ||
        state.shape[2] != hidden) {
      invalid(context, "a state does not have the shape (layers * directions, batch, hidden_size)");
    }
  }
  return stack;
}

void rnn(Context context, Input input, InputList states, InputList weights, OptionalInput sequence_length,
         float dropout, bool bidirectional, int /*input_size*/, int hidden_size, int layers, Text mode, int seed,
         bool is_test, Output output, Output dropout_state, OutputList last_states, Output reserve) {
  const View x = input.view();
  const Stack stack = stack_of(context, x, states, weights, sequence_length, static_cast<double>(dropout),
                               bidirectional, hidden_size, layers, mode, is_test);
  const int64_t out_dims[] = {stack.steps, stack.batch, stack.directions * stack.hidden};
  const View out = context.allocate(output, x.dtype, out_dims, 3);
  const int64_t kept_dims[] = {std::max<int64_t>(1, stack.kept_elements())};
  // In inference nothing is kept for a gradient; results that later layers read are the kernel's own.
  constexpr int64_t kNothing[] = {0};
  std::optional<Scratch> results;
  View kept = context.allocate(reserve, x.dtype, is_test ? kNothing : kept_dims, 1);
  if (is_test) kept = results.emplace(context, x.dtype, kept_dims, 1);
  const int64_t mask_dims[] = {stack.drops_out ? stack.layers - 1 : 0, out_dims[0], out_dims[1], out_dims[2]};
  const View masks = context.allocate(dropout_state, UHAL_UINT8, mask_dims, 4);
  const bool is_lstm = stack.mode.mode == UHAL_RNN_LSTM;
  View last[2];
  for (size_t i = 0; i < states.size(); ++i) last[i] = context.allocate(last_states[i], x.dtype);
  const View h0 = states[0].view(), c0 = is_lstm ? states[1].view() : View();
  std::optional<View> lengths;
  if (sequence_length) lengths = sequence_length.view();
  const uint64_t key = !stack.drops_out ? 0 : seed != 0 ? static_cast<uint64_t>(seed) : context.random_seed();

  const int64_t gate_dims[] = {stack.directions, stack.steps, stack.batch, stack.gates()};
  const Scratch gates(context, x.dtype, gate_dims, 4);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const View in = stack.input(x, kept, out, layer);
    const View in_rows = in.reshaped({stack.steps * stack.batch, in.shape[2]});
    for (int64_t d = 0; d < stack.directions; ++d) {
      const View matrix = weights[position_of(stack, layer, d, kInputMatrix)].view();
      const View bias = weights[position_of(stack, layer, d, kInputBias)].view().unsqueezed(0);
      multiply_and_add(context, in_rows, matrix.transposed(), &bias, Stack::rows(gates, d));
    }
    const SideBySide r(stack, weights, layer, kStateMatrix), bias(stack, weights, layer, kStateBias);
    const View y = stack.result(kept, out, layer), by_direction = stack.by_direction(y);
    const View parts = stack.reserve(kept, layer);
    const View h_begin = stack.of_layer(h0, layer), c_begin = is_lstm ? stack.of_layer(c0, layer) : View();
    const View c_end = is_lstm ? stack.of_layer(last[1], layer) : View();
    const auto attributes = stack.attributes();
    context.run(UHAL_OP_RNN, {&gates, &r, &h_begin, is_lstm ? &c_begin : nullptr, &bias, lengths ? &*lengths : nullptr},
                {&by_direction, is_lstm ? &c_end : nullptr, stack.mode.reserved > 0 && !is_test ? &parts : nullptr},
                &attributes);
    for (int64_t d = 0; d < stack.directions; ++d) {
      const View end = stack.of_layer(last[0], layer).sliced(0, d, 1).unsqueezed(1);
      if (stack.steps == 0) {
        copy_or_cast(context, h_begin.sliced(0, d, 1).unsqueezed(1), end);
      } else {
        const int64_t step = stack.is_backwards(d) ? 0 : stack.steps - 1;
        copy_or_cast(context, Stack::some_steps(by_direction.sliced(0, d, 1), step, 1), end);
      }
    }
    if (stack.drops_result(layer)) {
      const View mask = stack.mask(masks, layer), dropped = stack.dropped(kept, layer);
      const auto drop =
          random_attributes(UHAL_RANDOM_UNIFORM, static_cast<double>(dropout), 0, key, 0, static_cast<uint64_t>(layer));
      context.run(UHAL_OP_DROPOUT, {&y}, {&dropped, &mask}, &drop);
    }
  }
  if (lengths) keep_steps(stack, *lengths, stack.result(kept, out, layers - 1), out);
}

void sum_rows(const Context& context, const View& rows, const View& bias) {
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  const View row = bias.reshaped({1, bias.elements()});
  context.run(UHAL_OP_REDUCE, {&rows}, {&row}, &attributes);
}

// Gradients of one layer's matrices and biases, of the gradients of what its steps got (dx) and of the products with
// its states (dproduct).
void weight_gradients(const Stack& stack, const OutputList& wanted, int64_t layer, const View& in, const View& y,
                      const View& h0, const View& dx, const View& dproduct) {
  const View in_rows = in.reshaped({stack.steps * stack.batch, in.shape[2]});
  for (int64_t d = 0; d < stack.directions; ++d) {
    const auto target = [&](Part part) { return wanted[position_of(stack, layer, d, part)]; };
    const View dx_rows = Stack::rows(dx, d), dp_rows = Stack::rows(dproduct, d);
    if (target(kInputMatrix)) {
      const View out = stack.context.allocate(target(kInputMatrix), stack.dtype);
      multiply_and_add(stack.context, dx_rows.transposed(), in_rows, nullptr, out);
    }
    if (target(kInputBias)) {
      sum_rows(stack.context, dx_rows, stack.context.allocate(target(kInputBias), stack.dtype));
    }
    if (target(kStateBias)) {
      sum_rows(stack.context, dp_rows, stack.context.allocate(target(kStateBias), stack.dtype));
    }
    if (!target(kStateMatrix)) continue;
    const View out = stack.context.allocate(target(kStateMatrix), stack.dtype);
    if (stack.steps == 0) {
      fill_zero(stack.context, out);
      continue;
    }
    // The first step's state is h0, the others' the result of the step before.
    const bool backwards = stack.is_backwards(d);
    const View own = dproduct.sliced(0, d, 1), states = y.sliced(0, d, 1);
    const View first = Stack::some_steps(own, backwards ? stack.steps - 1 : 0, 1);
    const View begin = h0.sliced(0, d, 1);
    multiply_and_add(stack.context, Stack::rows(first, 0).transposed(), begin.reshaped({stack.batch, stack.hidden}),
                     nullptr, out);
    if (stack.steps == 1) continue;
    const View later = Stack::some_steps(own, backwards ? 0 : 1, stack.steps - 1);
    const View before = Stack::some_steps(states, backwards ? 1 : 0, stack.steps - 1);
    multiply_and_add(stack.context, Stack::rows(later, 0).transposed(), Stack::rows(before, 0), &out, out);
  }
}

void rnn_grad(Context context, Input input, InputList states, InputList weights, OptionalInput sequence_length,
              Input output, Input dropout_state, Input reserve, Input output_gradient, InputList state_gradients,
              float dropout, bool bidirectional, int /*input_size*/, int hidden_size, int layers, Text mode,
              int /*seed*/, bool is_test, Output dx, OutputList dstates, OutputList dweights) {
  const View x = input.view();
  const Stack stack = stack_of(context, x, states, weights, sequence_length, static_cast<double>(dropout),
                               bidirectional, hidden_size, layers, mode, is_test);
  const bool is_lstm = stack.mode.mode == UHAL_RNN_LSTM, is_gru = stack.mode.mode == UHAL_RNN_GRU;
  if (is_test) unsupported(context, "the gradient of a recurrent layer in inference, where nothing is kept for it,");
  const View out = output.view(), kept = reserve.view();
  const View masks = stack.drops_out ? dropout_state.view() : View();
  if (kept.elements() < stack.kept_elements()) {
    invalid(context, "the reserve has " + std::to_string(kept.elements()) + " elements, expected " +
                         std::to_string(stack.kept_elements()) + ": it is that of rnn on this device");
  }
  const View h0 = states[0].view(), c0 = is_lstm ? states[1].view() : View();
  const View dh_last = state_gradients[0].view(), dc_last = is_lstm ? state_gradients[1].view() : View();
  const OutputOrScratch dh0(context, dstates.size() > 0 ? dstates[0] : Output{}, h0);
  std::optional<OutputOrScratch> dc0;
  if (is_lstm) dc0.emplace(context, dstates.size() > 1 ? dstates[1] : Output{}, c0);
  std::optional<View> lengths;
  if (sequence_length) lengths = sequence_length.view();

  const int64_t gate_dims[] = {stack.directions, stack.steps, stack.batch, stack.gates()};
  const int64_t result_dims[] = {stack.steps, stack.batch, stack.directions * stack.hidden};
  const Scratch dgates(context, x.dtype, gate_dims, 4), dproducts(context, x.dtype, gate_dims, is_gru ? 4 : 0);
  // Of the layer's result; the input's takes its place.
  const Scratch passed(context, x.dtype, result_dims, 3);
  View dy = output_gradient.view();
  if (lengths) {
    keep_steps(stack, *lengths, dy, passed);
    dy = passed;
  }
  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    const SideBySide r(stack, weights, layer, kStateMatrix);
    const View y = stack.by_direction(stack.result(kept, out, layer)), gradient = stack.by_direction(dy);
    const View parts = stack.reserve(kept, layer);
    const View h_begin = stack.of_layer(h0, layer), c_begin = is_lstm ? stack.of_layer(c0, layer) : View();
    const View* const initial = is_lstm ? &c_begin : is_gru ? &h_begin : nullptr;
    const View dh_end = stack.of_layer(dh_last, layer), dc_end = is_lstm ? stack.of_layer(dc_last, layer) : View();
    const View dh_begin = stack.of_layer(dh0, layer), dc_begin = is_lstm ? stack.of_layer(*dc0, layer) : View();
    const auto attributes = stack.attributes();
    context.run(UHAL_OP_RNN_BACKWARD,
                {&gradient, &r, &y, stack.mode.reserved > 0 ? &parts : nullptr, initial, lengths ? &*lengths : nullptr,
                 &dh_end, is_lstm ? &dc_end : nullptr},
                {&dgates, is_gru ? &dproducts : nullptr, &dh_begin, is_lstm ? &dc_begin : nullptr}, &attributes);
    const View in = stack.input(x, kept, out, layer);
    weight_gradients(stack, dweights, layer, in, y, h_begin, dgates,
                     is_gru ? static_cast<const View&>(dproducts) : dgates);
    if (layer == 0 && !dx) break;
    const View din = layer == 0 ? context.allocate(dx, x.dtype) : static_cast<const View&>(passed);
    const View din_rows = din.reshaped({stack.steps * stack.batch, in.shape[2]});
    for (int64_t d = 0; d < stack.directions; ++d) {
      const View matrix = weights[position_of(stack, layer, d, kInputMatrix)].view();
      multiply_and_add(context, Stack::rows(dgates, d), matrix, d > 0 ? &din_rows : nullptr, din_rows);
    }
    if (layer > 0 && stack.drops_result(layer - 1)) {
      const View mask = stack.mask(masks, layer - 1);
      pass_kept(context, mask, passed, static_cast<double>(dropout), passed);
    }
    dy = passed;
  }
}

}  // namespace

KernelTable recurrent_kernels() {
  return {
      UNIHAL_KERNEL("rnn", kFloats, rnn),
      UNIHAL_KERNEL("rnn_grad", kFloats, rnn_grad),
  };
}

}  // namespace unihal::paddle
