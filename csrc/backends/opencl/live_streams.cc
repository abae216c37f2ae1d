#include "csrc/backends/opencl/live_streams.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>

namespace unihal::opencl {
namespace {

// How long the end of a process may take: work that does not end until then may never end.
constexpr std::chrono::seconds kPatience{2};

struct LiveStreams {
  std::mutex mutex;
  std::set<Stream*> streams;
  const pid_t process = getpid();
};

// Never destroyed: other threads may still use streams while the process ends.
LiveStreams& live_streams() {
  static LiveStreams* const instance = new LiveStreams;
  return *instance;
}

std::atomic<bool> built_program{false};  // since a stream was synchronized last

void drain() {
  LiveStreams& live = live_streams();
  if (getpid() != live.process) return;  // a forked child has none of the driver's threads
  static const auto end = std::chrono::steady_clock::now() + kPatience;  // of all registrations together
  std::lock_guard<std::mutex> lock(live.mutex);
  for (Stream* stream : live.streams) stream->drain_until(end);
}

}  // namespace

void note_stream(Stream* stream) {
  static const int registered = std::atexit(drain);
  static_cast<void>(registered);
  LiveStreams& live = live_streams();
  std::lock_guard<std::mutex> lock(live.mutex);
  live.streams.insert(stream);
}

void note_built_program() {
  built_program.store(true);
  std::atexit(drain);
}

void note_synchronized_stream() {
  if (built_program.load(std::memory_order_relaxed) && built_program.exchange(false)) std::atexit(drain);
}

void forget_stream(Stream* stream) {
  LiveStreams& live = live_streams();
  std::lock_guard<std::mutex> lock(live.mutex);
  live.streams.erase(stream);
}

void stop_all_streams() {
  LiveStreams& live = live_streams();
  std::lock_guard<std::mutex> lock(live.mutex);
  for (Stream* stream : live.streams) stream->stop();
}

}  // namespace unihal::opencl
