// Recording device time: what the rest of the core calls.
#pragma once

#include <cstdint>

#include "csrc/core/stream.h"

namespace unihal::core {

class ProfiledWork {
 public:
  ProfiledWork(Stream*, const char*, uint64_t) {}
};
void start_profiler_by_environment();
void finish_profiler_by_environment();

}  // namespace unihal::core
