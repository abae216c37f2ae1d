// The families of kernels, one file each, and what they share.
#pragma once

#include "plugins/torch/call.h"

namespace unihal::pytorch {

void register_elementwise();
void register_arithmetic();
void register_index();
void register_matmul();
void register_reduce();
void register_softmax();

// How exactly float32 is multiplied: what torch.set_float32_matmul_precision says.
uhal_math_mode math_mode();

// How PyTorch's binary ops set up an iterator: broadcasting, promotion, numbers on the host, checks of overlap.
void configure(at::TensorIteratorConfig& config);

// Launches a function on an iterator's operands: its inputs in the order `order`, or as they come.
void launch_map(Call& call, at::TensorIteratorBase& iterator, uhal_map_function function, const int* order = nullptr,
                std::initializer_list<double> parameters = {});

}  // namespace unihal::pytorch
