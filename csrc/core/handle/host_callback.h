// A host callback on its way through a backend.
#pragma once

#include <mutex>

#include "csrc/core/handle/vector_clock.h"
#include "unihal/stream.h"

namespace unihal::core {

struct Stream;

// What a backend gets as a callback's user data.
struct HostCallback {
  Stream* stream = nullptr;
  uhal_host_function function = nullptr;
  void* user_data = nullptr;
  VectorClock clock;  // the race check's: what comes before the callback
  HostCallback* next = nullptr;
};

// The spare ones of a stream, so that a callback allocates nothing once there were as many under way.
class SpareCallbacks {
 public:
  HostCallback* take();
  void give_back(HostCallback* callback);

 private:
  std::mutex mutex_;
  HostCallback* first_ = nullptr;
};

}  // namespace unihal::core
