// Paddle's C_Stream, as we make it: Paddle's device context does not tell its device, so the stream does.
#pragma once

#include "unihal/stream.h"

namespace unihal::paddle {

struct Stream {
  uhal_stream* handle;
  uhal_device* device;
  int ordinal;
};

// The streams that Paddle has been given and not given back. Its callbacks may bring others: where a kernel of its own
// copies with the context of another device, it reads a stream out of an object that has none. So a callback asks here
// before it follows the pointer. Any thread; asking takes no lock.
void add_stream(Stream* stream);
void remove_stream(Stream* stream);
bool is_our_stream(const Stream* stream);

}  // namespace unihal::paddle
