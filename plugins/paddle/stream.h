// Paddle's C_Stream, as we make it: Paddle's device context does not tell its device, so the stream does.
#pragma once

#include "unihal/event.h"
#include "unihal/stream.h"

namespace unihal::paddle {

struct ReplayCount;

struct Stream {
  uhal_stream* handle;
  uhal_device* device;
  int ordinal;
  uhal_event* passed;              // of submit_in_device_order
  ReplayCount* replays = nullptr;  // of the graph that is being captured (graph_capture.h)
};

// The streams that Paddle has been given and not given back. Its callbacks may bring others: where a kernel of its own
// copies with the context of another device, it reads a stream out of an object that has none. So a callback asks here
// before it follows the pointer. Any thread; asking takes no lock.
void add_stream(Stream* stream);
void remove_stream(Stream* stream);
bool is_our_stream(const Stream* stream);

// Submits work to one of a device's streams so that it comes after all that was submitted to any of them, and before
// all that will be: the other streams wait for it, and it for them, and the host for none. To `wanted`, or where that
// is nullptr, to any of them, or where there is none, to `otherwise`. Streams are not removed meanwhile.
uhal_status submit_in_device_order(uhal_device* device, const Stream* wanted, uhal_stream* otherwise,
                                   uhal_status (*submit)(uhal_stream* stream, void* argument), void* argument);

}  // namespace unihal::paddle
