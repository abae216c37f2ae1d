#include "tests/doubles/hip_on_host/stream.h"

#include <atomic>
#include <thread>
#include <utility>

#include "tests/doubles/hip_on_host/faults.h"

namespace on_host {

bool Mark::is_passed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_passed_;
}

void Mark::wait() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return is_passed_; });
}

void Mark::pass() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_passed_ = true;
  time_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

std::chrono::steady_clock::time_point Mark::time() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return time_;
}

std::shared_ptr<Mark> Event::mark() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return mark_;
}

void Event::set_mark(std::shared_ptr<Mark> mark) {
  std::lock_guard<std::mutex> lock(mutex_);
  mark_ = std::move(mark);
}

std::shared_ptr<Stream> Stream::open(Device* device) {
  std::shared_ptr<Stream> stream(new Stream(device));
  std::thread([stream] { stream->run(); }).detach();
  return stream;
}

void Stream::add(Item item) {
  std::lock_guard<std::mutex> lock(mutex_);
  items_.push_back(std::move(item));
  changed_.notify_all();
}

void Stream::submit(Work work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (captured_ != nullptr) return captured_->push_back(std::move(work));
  }
  add({std::move(work), nullptr});
}

bool Stream::begin_capture() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (captured_ != nullptr) return false;
  captured_ = std::make_shared<Captured>();
  is_spoiled_ = false;
  return true;
}

bool Stream::spoil_capture() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_spoiled_ = captured_ != nullptr;
  return is_spoiled_;
}

std::shared_ptr<const Stream::Captured> Stream::end_capture() {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<const Captured> captured = std::exchange(captured_, nullptr);
  return is_spoiled_ ? nullptr : captured;
}

std::shared_ptr<Mark> Stream::mark() {
  auto mark = std::make_shared<Mark>();
  add({nullptr, mark});
  return mark;
}

bool Stream::is_idle() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return items_.empty() && !is_busy_;
}

void Stream::wait() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return items_.empty() && !is_busy_; });
}

void Stream::close() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_closing_ = true;
  changed_.notify_all();
}

int Stream::do_work(const Work& work) {
  while (is_asked_for("hang")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int code = failure("work");
  return code != 0 ? code : work();
}

void Stream::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_closing_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    is_busy_ = true;
    lock.unlock();
    if (item.work != nullptr && device->lost == 0) {
      const int code = do_work(item.work);
      if (code != 0) device->lost = code;
    }
    if (item.mark != nullptr) item.mark->pass();
    item = {};  // what it holds goes before the stream is idle
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

namespace {

// One function at a time.
class DriverThread {
 public:
  DriverThread() {
    std::thread thread([this] { run(); });
    id_ = thread.get_id();
    thread.detach();
  }

  bool is_calling() const { return std::this_thread::get_id() == id_; }

  void call(void (*function)(void*), void* user_data) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return function_ == nullptr; });
    function_ = function;
    user_data_ = user_data;
    const uint64_t ticket = ++given_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ >= ticket; });
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return function_ != nullptr; });
      lock.unlock();
      function_(user_data_);
      lock.lock();
      function_ = nullptr;
      ++done_;
      changed_.notify_all();
    }
  }

  std::thread::id id_;  // no variable of the thread: LeakSanitizer fails at those of opened libraries
  std::mutex mutex_;
  std::condition_variable changed_;
  void (*function_)(void*) = nullptr;  // given, and not done
  void* user_data_ = nullptr;
  uint64_t given_ = 0;
  uint64_t done_ = 0;
};

std::atomic<DriverThread*> driver_thread{nullptr};  // once the first function was given to it

}  // namespace

void call_on_driver_thread(void (*function)(void*), void* user_data) {
  static DriverThread* const thread = [] {
    DriverThread* const made = new DriverThread;
    driver_thread = made;
    return made;
  }();
  thread->call(function, user_data);
}

bool is_driver_thread() {
  const DriverThread* const thread = driver_thread;
  return thread != nullptr && thread->is_calling();
}

}  // namespace on_host
