// Recurrent layers of any form.
#pragma once

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {

// The kernel of a node LSTM, GRU or RNN (TANH) with the usual activations: batches first, peepholes, clip, coupled
// gates, a reset before the product. A dozen launches a step.
std::unique_ptr<Kernel> make_recurrent_steps(const Description& node, uhal_rnn_mode mode);

}  // namespace unihal::onnxruntime
