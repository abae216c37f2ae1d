#include "stub/strict/live_streams.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>

namespace unihal::stub::strict {
namespace {

// How long the end of a process may take: work that does not end until then was waiting for something else.
constexpr std::chrono::seconds kPatience{2};

struct LiveStreams {
  std::mutex mutex;
  std::set<Stream*> streams;
  uint64_t created = 0;
  pid_t process = getpid();
};

// Never destroyed: threads of streams outlive main().
LiveStreams& live_streams() {
  static LiveStreams* const instance = new LiveStreams;
  return *instance;
}

void drain() {
  LiveStreams& live = live_streams();
  if (getpid() != live.process) return;  // a forked child has none of the threads
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::lock_guard<std::mutex> lock(live.mutex);
  for (Stream* stream : live.streams) static_cast<void>(stream->synchronize_until(end));
}

}  // namespace

Stream* create_stream(uhal_stream* owner, uint64_t seed) {
  static const int registered = std::atexit(drain);
  static_cast<void>(registered);
  LiveStreams& live = live_streams();
  std::lock_guard<std::mutex> lock(live.mutex);
  auto stream = std::make_unique<Stream>(owner, seed, live.created);
  live.streams.insert(stream.get());
  ++live.created;
  return stream.release();
}

void destroy_stream(Stream* stream) {
  {
    LiveStreams& live = live_streams();
    std::lock_guard<std::mutex> lock(live.mutex);
    live.streams.erase(stream);
  }
  delete stream;
}

void stop_all_streams() {
  LiveStreams& live = live_streams();
  std::lock_guard<std::mutex> lock(live.mutex);
  for (Stream* stream : live.streams) stream->stop();
}

}  // namespace unihal::stub::strict
