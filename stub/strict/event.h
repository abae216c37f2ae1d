// Events of the strict mode: each record is an object of its own, so that a wait keeps to the record that was last when
// it was called, whatever becomes of the event.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "unihal/backend.h"

namespace unihal::stub::strict {

class Stream;

// One record of an event: a point in a stream. Threads: any.
class Record {
 public:
  explicit Record(Stream* stream) : stream_(stream) {}

  // The stream has got here. Called once, by its thread.
  void reach();

  bool reached();

  // Blocks until the record is reached.
  void wait();

  // When it was reached; it must have been.
  int64_t nanoseconds();

 private:
  // Ends a delay of the stream, which lives at least until the record is reached.
  void hurry_stream();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  int64_t nanoseconds_ = 0;
  Stream* const stream_;
};

// Threads: any.
class Event {
 public:
  // The last record; nullptr if there was none.
  std::shared_ptr<Record> last();
  void set_last(std::shared_ptr<Record> record);

  static Event* from(uhal_backend_event* handle) { return reinterpret_cast<Event*>(handle); }
  uhal_backend_event* handle() { return reinterpret_cast<uhal_backend_event*>(this); }

 private:
  std::mutex mutex_;
  std::shared_ptr<Record> last_;
};

}  // namespace unihal::stub::strict
