#include "stub/strict/event.h"

#include <chrono>
#include <utility>

#include "stub/strict/stream.h"

namespace unihal::stub::strict {

void Record::reach() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::lock_guard<std::mutex> lock(mutex_);
  nanoseconds_ = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  reached_ = true;
  changed_.notify_all();
}

bool Record::reached() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!reached_) hurry_stream();
  return reached_;
}

void Record::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!reached_) hurry_stream();
  changed_.wait(lock, [this] { return reached_; });
}

int64_t Record::nanoseconds() {
  std::lock_guard<std::mutex> lock(mutex_);
  return nanoseconds_;
}

void Record::hurry_stream() { stream_->hurry(); }

std::shared_ptr<Record> Event::last() {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_;
}

void Event::set_last(std::shared_ptr<Record> record) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_ = std::move(record);
}

}  // namespace unihal::stub::strict
