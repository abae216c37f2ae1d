// The streams that exist, for the end of the process: drivers take their threads down then, and work that still runs on
// them ends in a crash.
//
// Threads: any.
#pragma once

#include "csrc/backends/opencl/stream.h"

namespace unihal::opencl {

// From the first call on, a process that ends waits for a short while until all streams are idle.
void note_stream(Stream* stream);

// Before the stream is deleted.
void forget_stream(Stream* stream);

}  // namespace unihal::opencl
