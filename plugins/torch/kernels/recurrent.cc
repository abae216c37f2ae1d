// Cells of recurrent layers: what PyTorch's lstm, gru and their cells ask of a device at each step.
#include <ATen/ops/cat.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

at::Tensor with_bias(const Call& call, const at::Tensor& gates, int bias) {
  return call.is_none(bias) ? gates : gates + call.tensor(bias);
}

void check_gates(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& state,
                 int64_t gates) {
  TORCH_CHECK(input_gates.dim() == 2 && hidden_gates.sizes() == input_gates.sizes() && state.dim() == 2 &&
                  state.size(0) == input_gates.size(0) && input_gates.size(1) == gates * state.size(1),
              "The cell expects gates of the shape (batch, ", gates, " * hidden) and a state (batch, hidden), not ",
              input_gates.sizes(), ", ", hidden_gates.sizes(), " and ", state.sizes());
}

// (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy, workspace: the gates after their functions)
void lstm_cell(Call& call) {
  const at::Tensor& cell = call.tensor(2);
  check_gates(call.tensor(0), call.tensor(1), cell, 4);
  const at::Tensor gates = with_bias(call, call.tensor(0), 3) + with_bias(call, call.tensor(1), 4);
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);
  const at::Tensor input = parts[0].sigmoid();
  const at::Tensor forget = parts[1].sigmoid();
  const at::Tensor candidate = parts[2].tanh();
  const at::Tensor output = parts[3].sigmoid();
  const at::Tensor next = forget * cell + input * candidate;
  call.set_result(0, output * next.tanh());
  call.set_result(1, next);
  call.set_result(2, at::cat({input, forget, candidate, output}, 1));
}

// (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> (grad_gates, grad_cx, grad_bias)
void lstm_cell_backward(Call& call) {
  if (call.is_none(0) && call.is_none(1)) return;  // all results are undefined
  const at::Tensor& cell = call.tensor(2);
  const std::vector<at::Tensor> parts = call.tensor(4).chunk(4, 1);
  const at::Tensor &input = parts[0], &forget = parts[1], &candidate = parts[2], &output = parts[3];
  at::Tensor of_cell = call.optional_tensor(1);
  at::Tensor of_output;
  if (!call.is_none(0)) {
    const at::Tensor& of_hidden = call.tensor(0);
    const at::Tensor squashed = call.tensor(3).tanh();
    of_output = of_hidden * squashed * output * (1 - output);
    const at::Tensor through = of_hidden * output * (1 - squashed * squashed);
    of_cell = of_cell.defined() ? of_cell + through : through;
  } else {
    of_output = at::zeros_like(output);
  }
  const at::Tensor gates = at::cat({of_cell * candidate * input * (1 - input), of_cell * cell * forget * (1 - forget),
                                    of_cell * input * (1 - candidate * candidate), of_output},
                                   1);
  call.set_result(0, gates);
  call.set_result(1, of_cell * forget);
  if (call.boolean(5)) call.set_result(2, gates.sum(0));
}

// (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace: reset, update, new, hx, hidden part)
void gru_cell(Call& call) {
  const at::Tensor& state = call.tensor(2);
  check_gates(call.tensor(0), call.tensor(1), state, 3);
  const std::vector<at::Tensor> of_input = with_bias(call, call.tensor(0), 3).chunk(3, 1);
  const std::vector<at::Tensor> of_hidden = with_bias(call, call.tensor(1), 4).chunk(3, 1);
  const at::Tensor reset = (of_input[0] + of_hidden[0]).sigmoid();
  const at::Tensor update = (of_input[1] + of_hidden[1]).sigmoid();
  const at::Tensor candidate = (of_input[2] + reset * of_hidden[2]).tanh();
  call.set_result(0, candidate + update * (state - candidate));
  call.set_result(1, at::cat({reset, update, candidate, state, of_hidden[2]}, 1));
}

// (grad_hy, workspace, has_bias) -> (grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)
void gru_cell_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const std::vector<at::Tensor> parts = call.tensor(1).chunk(5, 1);
  const at::Tensor &reset = parts[0], &update = parts[1], &candidate = parts[2], &state = parts[3], &hidden = parts[4];
  const at::Tensor of_candidate = gradient * (1 - update) * (1 - candidate * candidate);
  const at::Tensor of_update = gradient * (state - candidate) * update * (1 - update);
  const at::Tensor of_reset = of_candidate * hidden * reset * (1 - reset);
  const at::Tensor input_gates = at::cat({of_reset, of_update, of_candidate}, 1);
  const at::Tensor hidden_gates = at::cat({of_reset, of_update, of_candidate * reset}, 1);
  call.set_result(0, input_gates);
  call.set_result(1, hidden_gates);
  call.set_result(2, gradient * update);
  if (!call.boolean(2)) return;
  call.set_result(3, input_gates.sum(0));
  call.set_result(4, hidden_gates.sum(0));
}

constexpr Kernel kRecurrentKernels[] = {
    {"_thnn_fused_lstm_cell", kFloats, lstm_cell},
    {"_thnn_fused_lstm_cell_backward_impl", kFloats, lstm_cell_backward},
    {"_thnn_fused_gru_cell", kFloats, gru_cell},
    {"_thnn_fused_gru_cell_backward", kFloats, gru_cell_backward},
};

}  // namespace

void register_recurrent() { register_kernels(kRecurrentKernels); }

}  // namespace unihal::pytorch
