// LSTM, GRU and RNN.
#include "plugins/onnxruntime/kernels/recurrent_steps.h"

namespace unihal::onnxruntime {
namespace {

struct Cell {
  uhal_rnn_mode mode;
  int gates;
  int order[4];  // gate g of unihal is gate order[g] of ONNX
  bool is_quantized = false;
};

constexpr Cell kLstm{UHAL_RNN_LSTM, 4, {0, 2, 3, 1}};  // ONNX: i, o, f, c
constexpr Cell kGru{UHAL_RNN_GRU, 3, {1, 0, 2}};       // ONNX: z, r, h
constexpr Cell kRnn{UHAL_RNN_TANH, 1, {0}};
constexpr Cell kQuantizedLstm{UHAL_RNN_LSTM, 4, {0, 2, 3, 1}, true};

class Recurrent final : public Kernel {
 public:
  Recurrent(const Description& node, const void* data) : cell_(*static_cast<const Cell*>(data)) {
    const std::string direction = node.text("direction", "forward");
    directions_ = direction == "bidirectional" ? 2 : 1;
    attributes_.struct_size = sizeof attributes_;
    attributes_.mode = cell_.mode;
    attributes_.reverse = direction == "reverse" ? 1 : direction == "bidirectional" ? 2 : 0;
  }

  void run(Call& call) const override {
    const View x = call.input(0);
    const View w = matrix(call, 1, 8);
    const View r = matrix(call, 2, 10);
    call.require(x.rank == 3 && w.rank == 3 && r.rank == 3, "x, w and r have not three axes each");
    const int64_t steps = x.shape[0], batches = x.shape[1], hidden = r.shape[2], width = cell_.gates * hidden;
    call.require(w.shape[0] == directions_ && w.shape[1] == width && w.shape[2] == x.shape[2] && r.shape[1] == width,
                 "the matrices do not fit x and the number of units");
    const View y = [&] {
      View view;
      const Shape shape = {steps, directions_, batches, hidden};
      return call.wants(0, shape, &view) ? view : call.scratch(shape, x.dtype);
    }();
    const Shape states = {directions_, batches, hidden};
    View last, last_cell;
    const bool wants_last = call.wants(1, states, &last);
    const bool wants_cell = cell_.mode == UHAL_RNN_LSTM && call.wants(2, states, &last_cell);
    if (y.elements() == 0) return;

    const View recurrent = ordered(call, r);
    View bias;
    const View inputs = contributions(call, x, ordered(call, w), &bias);
    const View h0 = call.has(5) ? call.input(5) : View();
    const View c0 = cell_.mode == UHAL_RNN_LSTM && call.has(6) ? call.input(6) : View();
    const View lengths = call.has(4) ? call.input(4) : View();
    const auto given = [](const View& view) { return view.dtype == UHAL_DTYPE_INVALID ? nullptr : &view; };
    const View outputs = y.permuted({1, 0, 2, 3});
    uhal_rnn_attributes attributes = attributes_;
    attributes.math_mode = call.math_mode();
    call.launch(UHAL_OP_RNN, {&inputs, &recurrent, given(h0), given(c0), given(bias), given(lengths)},
                {&outputs, wants_cell ? &last_cell : nullptr}, &attributes);
    if (!wants_last) return give_padding(call, y, lengths);
    for (int64_t d = 0; d < directions_; ++d) {
      const bool is_reverse = (attributes_.reverse >> d & 1) != 0;
      const View from = outputs.sliced(0, d, 1).sliced(1, is_reverse ? 0 : steps - 1, 1);
      View to = last.sliced(0, d, 1).unsqueezed(1);
      call.launch(UHAL_OP_COPY, {&from}, {&to});
    }
    give_padding(call, y, lengths);
  }

 private:
  // Input `index` as (D, G H, n). Of a quantized layer it is (D, n, G H), with one scale a direction or one a column.
  View matrix(Call& call, int index, int scale_input) const {
    const View given = call.input(index);
    if (!cell_.is_quantized) return given;
    call.require(given.rank == 3, "x, w and r have not three axes each");
    const auto spread = [&](int input) {
      const View view = call.input(input);
      const int64_t columns = given.shape[0] == 0 ? 0 : view.elements() / given.shape[0];
      call.require(view.elements() == given.shape[0] * columns && (columns == 1 || columns == given.shape[2]),
                   "a scale or zero point fits neither the directions nor their columns");
      return view.reshaped({given.shape[0], 1, columns});
    };
    const View scale = spread(scale_input);
    const View zero = call.has(scale_input + 1) ? spread(scale_input + 1) : call.constant(0, given.dtype);
    const View wide = call.scratch_like(given, UHAL_FLOAT32);
    if (wide.elements() != 0) call.map(uhal_map_dequantize_linear, {&given, &scale, &zero}, {&wide});
    return wide.transposed();
  }

  // Beyond a sequence's end ONNX has zeros where unihal repeats the state.
  void give_padding(Call& call, const View& y, const View& lengths) const {
    if (lengths.dtype == UHAL_DTYPE_INVALID) return;
    const int64_t steps = y.shape[0];
    uhal_iota_attributes iota = {};
    iota.struct_size = sizeof iota;
    iota.integer_step = 1;
    const View numbers = call.scratch(Shape{steps}, lengths.dtype);
    call.launch(UHAL_OP_IOTA, {}, {&numbers}, &iota);
    const View rows = numbers.reshaped({steps, 1});
    const View is_inside = call.scratch(Shape{steps, y.shape[2]}, UHAL_BOOL);
    call.map(uhal_map_less, {&rows, &lengths}, {&is_inside});
    const View mask = is_inside.reshaped({steps, 1, y.shape[2], 1});
    const View zero = call.constant(0, y.dtype);
    call.map(uhal_map_select, {&mask, &y, &zero}, {&y});
  }

  // A matrix (D, G H, n) or bias (D, G H) with the gates in unihal's order.
  View ordered(Call& call, const View& from) const {
    if (cell_.gates == 1) return from;
    const int64_t hidden = from.shape[1] / cell_.gates;
    const View to = call.scratch_like(from, from.dtype);
    for (int g = 0; g < cell_.gates; ++g) {
      const View source = from.sliced(1, cell_.order[g] * hidden, hidden);
      const View target = to.sliced(1, g * hidden, hidden);
      call.launch(UHAL_OP_COPY, {&source}, {&target});
    }
    return to;
  }

  // x w^T and the inputs' bias, for all steps and directions: (D, T, B, G H). *bias becomes the states'.
  View contributions(Call& call, const View& x, const View& w, View* bias) const {
    const int64_t width = w.shape[1];
    const View result = call.scratch(Shape{directions_, x.shape[0], x.shape[1], width}, x.dtype);
    const int64_t rows = x.shape[0] * x.shape[1];
    const View from = x.reshaped({rows, x.shape[2]});
    View input_bias;
    if (call.has(3)) {
      const View both = call.input(3);
      call.require(both.rank == 2 && both.shape[1] == 2 * width, "the bias does not fit");
      input_bias = ordered(call, dense(call, both.sliced(1, 0, width)));
      *bias = ordered(call, dense(call, both.sliced(1, width, width)));
    }
    const uhal_matmul_attributes attributes = matmul_attributes(call.math_mode());
    for (int64_t d = 0; d < directions_; ++d) {
      const View matrix = part(w, d).transposed();
      const View to = part(result, d).reshaped({rows, width});
      if (input_bias.dtype == UHAL_DTYPE_INVALID) {
        call.launch(UHAL_OP_MATMUL, {&from, &matrix}, {&to}, &attributes);
      } else {
        const View row = part(input_bias, d);
        call.launch(UHAL_OP_MATMUL, {&from, &matrix, &row}, {&to}, &attributes);
      }
    }
    return result;
  }

  static View dense(Call& call, const View& view) {
    const View result = call.scratch_like(view, view.dtype);
    call.launch(UHAL_OP_COPY, {&view}, {&result});
    return result;
  }

  // Element d of the first axis of a dense view.
  static View part(const View& view, int64_t d) {
    const View row = view.sliced(0, d, 1);
    return View(row.data, view.dtype, view.shape + 1, view.rank - 1);
  }

  const Cell& cell_;
  int64_t directions_ = 1;
  uhal_rnn_attributes attributes_ = {};
};

void check_activations(const Description& node, uhal_rnn_mode mode) {
  static constexpr const char* kOfLstm[] = {"Sigmoid", "Tanh", "Tanh"};
  static constexpr const char* kOfGru[] = {"Sigmoid", "Tanh"};
  static constexpr const char* kOfPlain[] = {"Tanh"};
  const char* const* names = mode == UHAL_RNN_LSTM ? kOfLstm : mode == UHAL_RNN_GRU ? kOfGru : kOfPlain;
  const size_t count = mode == UHAL_RNN_LSTM ? 3 : mode == UHAL_RNN_GRU ? 2 : 1;
  const auto given = node.texts("activations");
  for (size_t i = 0; given && i < given->size(); ++i) {
    node.require((*given)[i] == names[i % count], "activations other than the usual ones");
  }
}

std::unique_ptr<Kernel> make_recurrent(const Description& node, const void* data) {
  const uhal_rnn_mode mode = static_cast<const Cell*>(data)->mode;
  check_activations(node, mode);
  const bool is_usual = node.integer("layout", 0) == 0 && node.real("clip", 0) == 0 &&
                        node.integer("input_forget", 0) == 0 && !node.has_input(7) &&
                        (mode != UHAL_RNN_GRU || node.integer("linear_before_reset", 0) != 0);
  node.require(is_usual || !static_cast<const Cell*>(data)->is_quantized, "a quantized layer of another form");
  if (is_usual) return std::make_unique<Recurrent>(node, data);
  return make_recurrent_steps(node, mode);
}

const Op kRecurrentOps[] = {
    {.name = "LSTM", .first = 7, .last = kNewestOpset, .dtypes = kFloats, .make = make_recurrent, .data = &kLstm},
    {.name = "GRU", .first = 7, .last = kNewestOpset, .dtypes = kFloats, .make = make_recurrent, .data = &kGru},
    {.name = "RNN", .first = 7, .last = kNewestOpset, .dtypes = kFloats, .make = make_recurrent, .data = &kRnn},
    {.name = "DynamicQuantizeLSTM",
     .first = 1,
     .last = 1,
     .dtypes = only(UHAL_FLOAT32),
     .make = make_recurrent,
     .data = &kQuantizedLstm,
     .domain = kMicrosoft},
};

}  // namespace

Table recurrent_ops() { return table(kRecurrentOps); }

}  // namespace unihal::onnxruntime
