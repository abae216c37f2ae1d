// Paddle's graphs (paddle.device.cuda.graphs.CUDAGraph) as those of unihal/graph_capture.h.
//
// Paddle captures its device context's stream, counts what was captured, makes something executable of it and launches
// that; its memory of the capture comes from a pool that only this graph uses.
#pragma once

#include "plugins/paddle/device_interface.h"
#include "unihal/stream.h"

namespace unihal::paddle {

// The callbacks of the device interface, ended by a null slot. They are the same for all device types.
const Callback* graph_callbacks();

}  // namespace unihal::paddle
