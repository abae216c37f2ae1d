#include "csrc/core/base/process_state.h"

#include <pthread.h>

#include "csrc/core/base/error.h"

namespace unihal::core {

std::atomic<ProcessState> process_state{ProcessState::kRunning};

namespace {

std::atomic<bool> device_used{false};
std::atomic<int> enumerations{0};

void mark_forked_child() {
  if (device_used.load() || enumerations.load() > 0) process_state.store(ProcessState::kForked);
}

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, mark_forked_child);
  static_cast<void>(registered);
}

}  // namespace

uhal_status refuse_process() {
  if (process_state.load() == ProcessState::kForked) {
    return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                     "This process was forked from one that had used a unihal device, and a device cannot be used in "
                     "such a child. Start workers with the spawn start method "
                     "(multiprocessing.set_start_method('spawn')), fork before the first use of a device, or keep the "
                     "workers to host memory.");
  }
  return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                   "uhal_finalize was called in this process; devices cannot be used any more. Call it last, or not "
                   "at all: a clean exit does not need it.");
}

void note_device_use() {
  watch_forks();
  device_used.store(true);
}

EnumerationScope::EnumerationScope() {
  watch_forks();
  enumerations.fetch_add(1);
}

EnumerationScope::~EnumerationScope() { enumerations.fetch_sub(1); }

bool begin_finalize() {
  ProcessState running = ProcessState::kRunning;
  return process_state.compare_exchange_strong(running, ProcessState::kFinalized);
}

}  // namespace unihal::core
