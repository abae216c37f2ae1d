#include "csrc/core/handle/waiting.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "csrc/core/handle/event.h"
#include "csrc/core/handle/stream.h"

namespace unihal::core {
namespace {

using Clock = std::chrono::steady_clock;

// Short waits are polled without a pause. Later pauses grow with the wait, which they prolong by half of one: less than
// a hundredth once it is longer than what the system adds to each pause, some 50 us.
constexpr std::chrono::microseconds kShortWait{200};
constexpr int kPausesPerWait = 128;
constexpr std::chrono::microseconds kLongestPause{500};
constexpr std::chrono::milliseconds kBetweenQuestions{25};

thread_local int callback_depth = 0;
thread_local uhal_wait_function wait_function = nullptr;
thread_local void* wait_user_data = nullptr;

// `query` is a slot that tells whether all is done.
template <class Query>
uhal_status poll(const char* what, Query query) {
  if (wait_function == nullptr) return UHAL_OK;
  ErrorRecordKeeper keeper;  // what fails here fails again, and is reported, in the wait that follows
  const Clock::time_point begin = Clock::now();
  Clock::time_point asked = begin;
  while (true) {
    int32_t done = 0;
    if (query(&done) != UHAL_OK || done != 0) return UHAL_OK;
    const Clock::time_point now = Clock::now();
    if (now - asked >= kBetweenQuestions) {
      asked = now;
      if (wait_function_gives_up()) break;
    }
    if (now - begin < kShortWait) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>((now - begin) / kPausesPerWait, kLongestPause));
    }
  }
  keeper.keep_latest();
  return UHAL_FAIL(UHAL_CANCELLED,
                   "The wait for %s was given up, as its thread's wait function asked; the work goes on.", what);
}

}  // namespace

HostCallbackScope::HostCallbackScope() { ++callback_depth; }
HostCallbackScope::~HostCallbackScope() { --callback_depth; }

bool in_host_callback() { return callback_depth != 0; }

uhal_status refuse_wait_in_callback(const char* function) {
  if (!in_host_callback()) return UHAL_OK;
  return UHAL_FAIL(
      UHAL_FAILED_PRECONDITION,
      "%s was called inside a host callback, which must not wait for a device: what it waits for may come "
      "after the callback. Let the callback hand on to a thread that waits, or order the work with events.",
      function);
}

bool wait_function_gives_up() { return wait_function != nullptr && wait_function(wait_user_data) != 0; }

uhal_status give_way(Stream* stream) {
  if (stream->is_capturing()) return UHAL_OK;  // the wait itself is refused
  const Backend& backend = *stream->device->backend;
  return poll("a stream", [&](int32_t* done) {
    return call_backend(backend, "stream_query", backend.table.stream_query, stream->backend_stream, done);
  });
}

uhal_status give_way(Event* event) {
  if (!event->recorded.load() || event->captured.load() != 0) return UHAL_OK;
  const Backend& backend = *event->device->backend;
  return poll("an event", [&](int32_t* done) {
    return call_backend(backend, "event_query", backend.table.event_query, event->backend_event, done);
  });
}

}  // namespace unihal::core

void uhal_set_wait_function(uhal_wait_function function, void* user_data) {
  unihal::core::wait_function = function;
  unihal::core::wait_user_data = user_data;
}
