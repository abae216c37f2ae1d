#include "stub/strict/stream.h"

#include <utility>

#include "stub/common/failure.h"
#include "stub/strict/fault_report.h"
#include "stub/strict/worker_thread.h"

namespace unihal::stub::strict {

Stream::Stream(uhal_stream* owner, uint64_t seed, uint64_t number)
    : owner_(owner), number_(number), delays_(seed, number), thread_(start_worker([this] { work(); })) {}

Stream::~Stream() { stop(); }

void Stream::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    awaited_ = submissions_;
  }
  submitted_.notify_one();
  hurried_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Stream::submit(Command command) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(command));
    ++submissions_;
  }
  submitted_.notify_one();
}

bool Stream::idle() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (completions_ == submissions_) return true;
  awaited_ = submissions_;
  hurried_.notify_one();
  return false;
}

void Stream::synchronize() {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t last = submissions_;
  awaited_ = last;
  hurried_.notify_one();
  completed_.wait(lock, [&] { return completions_ >= last; });
}

bool Stream::synchronize_until(std::chrono::steady_clock::time_point time) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t last = submissions_;
  awaited_ = last;
  hurried_.notify_one();
  return completed_.wait_until(lock, time, [&] { return completions_ >= last; });
}

void Stream::hurry() {
  std::lock_guard<std::mutex> lock(mutex_);
  awaited_ = submissions_;
  hurried_.notify_one();
}

void Stream::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    submitted_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Command command = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    dawdle(delays_.next());
    execute(command);
    command = {};  // what it holds is released before the work counts as done
    lock.lock();
    ++completions_;
    completed_.notify_all();
  }
}

void Stream::dawdle(const Delay& delay) {
  switch (delay.kind) {
    case Delay::kNone:
      return;
    case Delay::kYield:
      return std::this_thread::yield();
    case Delay::kSleep:
      return std::this_thread::sleep_for(delay.length);
    case Delay::kHold: {
      std::unique_lock<std::mutex> lock(mutex_);
      hurried_.wait_for(lock, delay.length, [this] { return awaited_ > completions_; });
    }
  }
}

void Stream::execute(const Command& command) {
  const FailureCapture failure;
  const WorkInProgress work(command.name, number_);
  const uhal_status status = command.run();
  if (status != UHAL_OK) host().stream_error(owner_, status, command.name.c_str(), failure.message());
}

}  // namespace unihal::stub::strict
