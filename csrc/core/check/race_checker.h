// What the core tells the race check (UHAL_CHECK_RACES): work, the order between pieces of work, the end of memory.
//
// Each operation of the core has one call here. On a device without the check it costs a load and a branch.
//
// Order is that of vector clocks. The host is one agent, whichever thread acts: an order between threads that the
// check cannot see is taken for granted, so that a report is never wrong. Waits inside the allocator order nothing but
// the memory that it hands on, whose history ends at its free.
//
// Devices without the check need not be followed: order leads from a backend to another by way of the host only.
//
// Thread-safe. Streams' and events' clocks are guarded by a lock of the check, the last that is taken.
#pragma once

#include <cstddef>
#include <memory>

#include "csrc/core/check/access_history.h"
#include "csrc/core/handle/event.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/memory/capture.h"
#include "csrc/core/op/table.h"
#include "unihal/check.h"

namespace unihal::core {

inline bool checks_races(const uhal_device& device) { return __builtin_expect(device.checks_races, 0); }

// A range of memory that work touches as its `role`, static.
struct TouchedRange {
  const char* role;
  bool writes;
  const void* address;
  size_t bytes;
};

// Work for a stream. Constructed before the stream's submission lock is taken, because looking for the caller's site
// takes long; it counts from submitted() on, which is called with the lock held once the backend has taken the work.
class TrackedWork {
 public:
  TrackedWork(Stream* stream, const OpView& op) {
    if (checks_races(*stream->device)) begin(stream, op);
  }
  // A copy or (source nullptr) a fill.
  TrackedWork(Stream* stream, const char* name, const void* destination, const void* source, size_t bytes) {
    if (checks_races(*stream->device)) begin(stream, name, destination, source, bytes);
  }
  // Any other work, named for a person.
  TrackedWork(Stream* stream, const char* name, const TouchedRange* ranges, size_t count) {
    if (checks_races(*stream->device)) begin(stream, name, ranges, count);
  }
  // A launch of a graph, which is one piece of work.
  TrackedWork(Stream* stream, const Capture& graph) {
    if (checks_races(*stream->device)) begin(stream, graph);
  }
  // While the stream captures, it is noted as a part of the graph instead.
  void submitted() {
    if (__builtin_expect(work_ != nullptr, 0)) record();
  }

 private:
  void begin(Stream* stream, const OpView& op);
  void begin(Stream* stream, const char* name, const void* destination, const void* source, size_t bytes);
  void begin(Stream* stream, const char* name, const TouchedRange* ranges, size_t count);
  void begin(Stream* stream, const Capture& graph);
  void record();

  Stream* stream_ = nullptr;
  std::shared_ptr<Work> work_;  // nullptr: no check
};

// A wait of the host, for what was submitted to a stream or before an event's last record when it began.
class HostWait {
 public:
  explicit HostWait(const Stream& stream) {
    if (checks_races(*stream.device)) begin(stream.clock);
  }
  explicit HostWait(const Event& event) {
    if (checks_races(*event.device)) begin(event.clock);
  }
  HostWait(const uhal_device& device, const VectorClock& clock) {
    if (checks_races(device)) begin(clock);
  }
  // It is over: what the host does from now on comes after that work.
  void over() {
    if (begun_) join();
  }

 private:
  void begin(const VectorClock& clock);
  void join();

  bool begun_ = false;
  VectorClock clock_;
};

// A host callback is submitted to a stream, whose submission lock is held: *clock becomes what comes before it.
void note_callback_submission(const Stream& stream, VectorClock* clock);

// It is called: the host comes after that work from now on.
void note_host_callback(const Stream& stream, const VectorClock& clock);

// An event was recorded on a stream, whose submission lock is held.
void note_record(Event* event, const Stream& stream);

// Work submitted to the stream from now on waits for the event.
void note_wait(Stream* stream, const Event& event);

// A place in a stream, whose submission lock is held: *clock becomes what comes before it. Work submitted to another
// stream from now on waits for the place.
void note_place(const Stream& stream, VectorClock* clock);
void note_wait(Stream* stream, const VectorClock& place);

// Memory was allocated, or is about to be freed (stream nullptr: by the host).
void note_allocation(const uhal_device& device, const void* pointer, size_t bytes);
void note_free(uhal_device* device, const Stream* stream, const void* pointer);

}  // namespace unihal::core
