// Paddle's profiler: what its device tracer asks is answered from the recording of unihal's own.
#pragma once

#include "plugins/paddle/device_interface.h"

namespace unihal::paddle {

// The callbacks that are the same for all device types. Paddle has a tracer for each type, which start and stop
// together; the recording is one.
const Callback* profiler_callbacks();

// Hands Paddle the recorded work of a type's devices: each piece as what the host called and what the device did.
void give_profiled_work(void* collector, const char* device_type);

}  // namespace unihal::paddle
