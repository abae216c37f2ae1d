// The streams that exist, for the end of the process.
//
// Threads: any.
#pragma once

#include "stub/strict/stream.h"

namespace unihal::stub::strict {

// Creates a stream and notes it. From the first on, a process that ends waits for a short while until all streams are
// idle: their work uses libraries that are being taken down. Throws as Stream's constructor.
Stream* create_stream(uhal_stream* owner, uint64_t seed);

// Waits for the stream's work and deletes it.
void destroy_stream(Stream* stream);

// Joins the threads of all streams.
void stop_all_streams();

}  // namespace unihal::stub::strict
