// Paddle's graphs (paddle.device.cuda.graphs.CUDAGraph) as those of unihal/graph_capture.h.
//
// Paddle captures its device context's stream, counts what was captured, makes something executable of it and launches
// that; its memory of the capture comes from a pool that only this graph uses.
#pragma once

#include "plugins/paddle/device_interface.h"
#include "unihal/tensor.h"

namespace unihal::paddle {

struct Stream;

// While the stream's work is captured: the number of the replay, one int64 in device memory that the graph itself
// counts, for the counters of random numbers. nullptr outside a capture.
uhal_status replay_number(const Stream* stream, const uhal_tensor** number);

// The callbacks of the device interface, ended by a null slot. They are the same for all device types.
const Callback* graph_callbacks();

}  // namespace unihal::paddle
