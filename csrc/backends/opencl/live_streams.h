// The streams that exist, for the end of the process: drivers take their threads down then, and work that still runs on
// them ends in a crash.
//
// Threads: any.
#pragma once

#include "csrc/backends/opencl/stream.h"

namespace unihal::opencl {

// From the first call on, a process that ends waits for a short while until all streams are idle.
void note_stream(Stream* stream);

// Handlers for the end of a process run in reverse order of registration. Compilers make objects with destructors while
// they compile, which must still be there while streams are waited for: so the wait is registered again after a program
// was built, and after a stream was synchronized since, as some drivers go on compiling at a kernel's first run.
void note_built_program();
void note_synchronized_stream();

// Before the stream is deleted.
void forget_stream(Stream* stream);

// Joins the threads of all streams.
void stop_all_streams();

}  // namespace unihal::opencl
