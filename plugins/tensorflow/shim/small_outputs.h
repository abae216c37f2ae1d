// Memory of small outputs, cut from slabs of TensorFlow's device allocators.
//
// TensorFlow's pool finds a chunk, splits it, and joins it with its neighbours again, for each output of an eager op:
// as many instructions as a short launch, spread over more lines than fit beside the rest of the call. A small output
// takes a block of a slab instead, which is a chunk of that same pool, so that limits, growth and statistics stay
// TensorFlow's. As there, memory is handed on in the order in which the host frees it.
#pragma once

#include "tensorflow/core/framework/op_kernel.h"

namespace unihal::tensorflow_shim {

// From now on in force or not. Off at first; the memory check sees each tensor only while it is off. TensorFlow's log
// of allocations leaves it off.
void set_small_outputs(bool on);

// Gives the context an output of its own in a slab, if it is small, in device memory and nobody counts or places the
// op's allocations. Else, or where there is no memory for a slab, false: TensorFlow's way is then to be gone.
bool make_small_output(::tensorflow::OpKernelContext* context, int index, const ::tensorflow::TensorShape& shape,
                       ::tensorflow::Tensor** output);

}  // namespace unihal::tensorflow_shim
