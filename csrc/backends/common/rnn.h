// What backends share of recurrent layers: the operands of both kinds by name, and what none of them takes.
#pragma once

#include <utility>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"

namespace unihal {

// The parts of what a step gets, the activation's derivative included, and of what it keeps for the gradient, each as
// wide as the state.
struct RnnParts {
  int64_t gates;
  int64_t reserve;
};

inline RnnParts rnn_parts(uhal_rnn_mode mode) {
  switch (mode) {
    case UHAL_RNN_LSTM:
      return {4, 5};
    case UHAL_RNN_GRU:
      return {3, 4};
    default:
      return {1, 0};
  }
}

// An op of UHAL_OP_RNN or its gradient; absent operands are nullptr.
struct RnnProblem {
  uhal_rnn_attributes attributes;
  bool is_backward;
  const uhal_tensor* x;  // or dx
  const uhal_tensor* r;
  const uhal_tensor* y;
  const uhal_tensor* reserve;
  const uhal_tensor* lengths;
  const uhal_tensor* h0 = nullptr;  // of a gradient only what it needs
  const uhal_tensor* c0 = nullptr;
  const uhal_tensor* bias = nullptr;
  const uhal_tensor* c_last = nullptr;
  const uhal_tensor* dy = nullptr;  // and what follows: of a gradient
  const uhal_tensor* dh_last = nullptr;
  const uhal_tensor* dc_last = nullptr;
  const uhal_tensor* dproduct = nullptr;
  const uhal_tensor* dh0 = nullptr;
  const uhal_tensor* dc0 = nullptr;
  int64_t directions, steps, batch, hidden;
  RnnParts parts;

  explicit RnnProblem(const uhal_op& op)
      : attributes(attributes_or(op, uhal_rnn_attributes{sizeof(uhal_rnn_attributes), UHAL_RNN_LSTM, 0, 0, 0, 0})),
        is_backward(op.kind == UHAL_OP_RNN_BACKWARD),
        parts(rnn_parts(attributes.mode)) {
    const auto input = [&](int i) { return i < op.input_count ? op.inputs[i] : nullptr; };
    const auto output = [&](int i) { return i < op.output_count ? op.outputs[i] : nullptr; };
    r = input(1);
    lengths = input(5);
    if (is_backward) {
      dy = input(0);
      y = input(2);
      reserve = input(3);
      (attributes.mode == UHAL_RNN_LSTM ? c0 : h0) = input(4);
      dh_last = input(6);
      dc_last = input(7);
      x = output(0);
      dproduct = output(1);
      dh0 = output(2);
      dc0 = output(3);
    } else {
      x = input(0);
      h0 = input(2);
      c0 = input(3);
      bias = input(4);
      y = output(0);
      c_last = output(1);
      reserve = output(2);
    }
    directions = y->shape[0];
    steps = y->shape[1];
    batch = y->shape[2];
    hidden = y->shape[3];
  }

  bool is_lstm() const { return attributes.mode == UHAL_RNN_LSTM; }
  int64_t states() const { return directions * batch * hidden; }
  int64_t gates() const { return parts.gates * hidden; }
  // Where a direction's step lies along the axis T.
  int64_t place(int64_t direction, int64_t step) const {
    return (attributes.reverse >> direction & 1) != 0 ? steps - 1 - step : step;
  }
};

// A packed view of three axes.
inline uhal_tensor rnn_states(void* data, uhal_dtype dtype, int64_t directions, int64_t batch, int64_t width) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = data;
  view.dtype = dtype;
  view.rank = 3;
  view.shape[0] = directions;
  view.shape[1] = batch;
  view.shape[2] = width;
  view.strides[0] = batch * width;
  view.strides[1] = width;
  view.strides[2] = 1;
  return view;
}

// The last two axes exchanged.
inline uhal_tensor rnn_transposed(uhal_tensor view) {
  std::swap(view.shape[1], view.shape[2]);
  std::swap(view.strides[1], view.strides[2]);
  return view;
}

}  // namespace unihal
