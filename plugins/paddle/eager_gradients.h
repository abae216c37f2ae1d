// Sums of gradients, gradients of sums, and gradients set to zero, in eager mode.
//
// On devices of plugins Paddle adds what comes to a tensor in several ways by an op of its own for each pair, into new
// memory, and clears a gradient by looking up the kernel `full` and calling it with all that a kernel is called with;
// on its CPU and on CUDA both are a loop over the memory that is there. A step of training with small tensors spends
// a tenth of its time so. Here both are one launch, into the memory that is there.
//
// The gradient of a sum is that of both operands. On every device Paddle copies it for the second one; here both get
// the same tensor where the functions that take it only read it, and no hook, retain_grads() or paddle.grad could show
// that: a residual block of a network writes and reads its result once less.
#pragma once

namespace unihal::paddle {

// Redirects Paddle's functions for that; once per process. In a Paddle without them it does as it did.
void shorten_eager_gradients();

}  // namespace unihal::paddle
