// Small tensors that Paddle keeps in host memory and lets a kernel read there, if the kernel says that it can.
#pragma once

#include <cstdint>

#include "plugins/paddle/arguments.h"

namespace unihal::paddle {

// Whether this Paddle tells where a tensor lies and gives host memory to an output; else no argument may lie there.
bool host_tensors_known();

// Whether a tensor's memory is the host's. False where that is not known.
bool is_on_host(const Tensor& x);

// Numbers in the host's memory: of float64, float32, int64, int32 or bool.
bool is_plain_number(uhal_dtype dtype);
double plain_number(const void* data, uhal_dtype dtype);

// The first element of a tensor in host memory: of float32, float64, int32, int64 or bool.
double host_number(const Tensor& x);

// Gives an output of that dtype memory in the host, and writes its one element.
void set_host_number(const Context& context, Output out, uhal_dtype dtype, double value);

// Declares the inputs and outputs whose bits are set as arguments that may lie anywhere; `kernel` is Paddle's, being
// registered.
void declare_anywhere(uint32_t inputs, uint32_t outputs, void* kernel);

}  // namespace unihal::paddle
