// The families of kernels, one file each, and what they share.
#pragma once

#include "plugins/torch/call.h"

namespace unihal::pytorch {

void register_elementwise();
void register_arithmetic();

// How PyTorch's binary ops set up an iterator: broadcasting, promotion, numbers on the host, checks of overlap.
void configure(at::TensorIteratorConfig& config);

// Launches a function on an iterator's operands: its inputs in the order `order`, or as they come.
void launch_map(Call& call, at::TensorIteratorBase& iterator, uhal_map_function function, const int* order = nullptr,
                std::initializer_list<double> parameters = {});

}  // namespace unihal::pytorch
