// Copies within a device.
//
// For each of them, and be it of four bytes, Paddle makes an object for the stream that it copies by, and with it a
// thread, which it ends again: a hundred microseconds. So the gradients that a caller gives to backward are copied,
// and Tensor.copy_. Our streams need no such object.
#pragma once

namespace unihal::paddle {

// Redirects one of Paddle's functions; once per process. In a Paddle without it copies take as long as they did.
void shorten_device_copies();

}  // namespace unihal::paddle
