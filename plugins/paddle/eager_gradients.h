// Sums of gradients, and gradients set to zero, in eager mode.
//
// On devices of plugins Paddle adds what comes to a tensor in several ways by an op of its own for each pair, into new
// memory, and clears a gradient by looking up the kernel `full` and calling it with all that a kernel is called with;
// on its CPU and on CUDA both are a loop over the memory that is there. A step of training with small tensors spends
// a tenth of its time so. Here both are one launch, into the memory that is there.
#pragma once

namespace unihal::paddle {

// Redirects three of Paddle's functions; once per process. In a Paddle without them it does as it did.
void shorten_eager_gradients();

}  // namespace unihal::paddle
