#include "csrc/backends/gpu/communicator.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "csrc/backends/common/communicator_id.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/backends/gpu/stream.h"
#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

constexpr size_t kCellBytes = 64;

// How often the watching thread looks while there is something to watch.
constexpr std::chrono::milliseconds kBetweenLooks{10};

// The library needs so long to put a collective into a stream once the ranks are connected; asking is cheaper than
// sleep.
constexpr std::chrono::milliseconds kShortWait{2};
constexpr std::chrono::milliseconds kLongestSleep{1};

// A rank that submitted its part and has ended may have had its work done: so long it is given the benefit of doubt.
constexpr std::chrono::seconds kAfterAnEnd{2};

const CollectiveFunctions& nccl() { return CollectiveLibrary::instance().functions(); }

bool is_under_way(int code) { return code == kCollectiveInProgress; }
bool is_success(int code) { return code == kCollectiveSuccess || is_under_way(code); }

bool is_between_two(const uhal_collective& collective) {
  return collective.kind == UHAL_SEND || collective.kind == UHAL_RECEIVE;
}

std::string describe(const uhal_collective_batch& batch) {
  static constexpr const char* kNames[] = {
#define UHAL_COLLECTIVE_KIND(KIND, name, ...) #name,
#include "csrc/tables/collectives.def"
  };
  const uhal_collective& first = *batch.collectives[0];
  std::string text =
      std::string(kNames[first.kind - 1]) + " of " + std::to_string(first.count) + " " + dtype_name(first.dtype);
  if (batch.count > 1) text += " and " + std::to_string(batch.count - 1) + " more";
  return text;
}

// What a call of the blocking interface leaves behind; it may never return.
struct BlockingCall {
  std::atomic<bool> is_over{false};
  int code = kCollectiveSuccess;
  NativeCommunicator made = nullptr;
};

}  // namespace

// -- coming and going -------------------------------------------------------------------------------------------------

RankFailure Communicator::open(int32_t rank, int32_t size, const uhal_communicator_id& id) {
  NativeId native_id;
  RankBoard::Place place = {"", rank, size, kCellBytes * static_cast<size_t>(size)};
  RankFailure failure = read_communicator_id(vendor.backend, id, &place.name, native_id.bytes, sizeof native_id.bytes);
  if (failure) return failure;
  board_ = RankBoard::open(place, &failure);
  if (board_ == nullptr) return failure;
  is_blocking_ = !CollectiveLibrary::instance().returns_at_once();
  failure = is_blocking_ ? connect_blocking(rank, size, native_id) : connect(rank, size, native_id);
  board_->remove_name();  // all have come, or none of them is waited for any more
  if (failure.status == UHAL_DEADLINE_EXCEEDED) failure.message += " (ranks of other hosts cannot be seen from here)";
  if (failure) return failure;
  watcher_ = std::thread([this] { watch(); });
  return {};
}

Communicator::~Communicator() {
  if (watcher_.joinable()) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return under_way_.empty(); });
      stopping_ = true;
    }
    changed_.notify_all();
    watcher_.join();
  }
  if (native_ == nullptr || device_.make_current() != UHAL_OK) return;
  static_cast<void>(board_->failed() ? nccl().abort(native_) : nccl().destroy(native_));
}

RankFailure Communicator::connect(int32_t rank, int32_t size, const NativeId& id) {
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return {status, "the device is lost"};
  NativeConfig config;
  const int code = nccl().init_with(&native_, size, id, rank, &config);
  if (!is_success(code)) return board_->fail(native_failure("the creation of a communicator", code));
  int found = kCollectiveInProgress;
  RankFailure failure = board_->wait(
      wait_of("the creation of a communicator"),
      [&] {
        found = state();
        return !is_under_way(found);
      },
      [this](int32_t other) { return !board_->has_come(other) || !board_->end_of(other).empty(); });
  if (!failure && found != kCollectiveSuccess) {
    failure = board_->fail(native_failure("the creation of a communicator", found));
  }
  if (failure && native_ != nullptr) {
    static_cast<void>(nccl().abort(native_));
    native_ = nullptr;
  }
  return failure;
}

// The call has no limit: it is made by a thread that is left to itself if the limit passes.
RankFailure Communicator::connect_blocking(int32_t rank, int32_t size, const NativeId& id) {
  const auto call = std::make_shared<BlockingCall>();
  std::thread caller([call, rank, size, id, &device = device_] {
    if (device.make_current() == UHAL_OK) call->code = nccl().init(&call->made, size, id, rank);
    call->is_over = true;
  });
  RankFailure failure = board_->wait(
      wait_of("the creation of a communicator"), [&] { return call->is_over.load(); },
      [this](int32_t other) { return !board_->has_come(other) || !board_->end_of(other).empty(); });
  if (failure) {
    caller.detach();
    return failure;
  }
  caller.join();
  native_ = call->made;
  if (call->code == kCollectiveSuccess && native_ != nullptr) return {};
  return board_->fail(native_failure("the creation of a communicator", call->code));
}

RankFailure Communicator::native_failure(const char* what, int code) const {
  return {UHAL_INTERNAL, std::string(what) + " on rank " + std::to_string(board_->rank()) + " of " +
                             std::to_string(board_->size()) + " failed; " +
                             CollectiveLibrary::instance().describe(code) +
                             ". NCCL_DEBUG=INFO lets it say more; create the communicators with a new id"};
}

int Communicator::state() const {
  int found = kCollectiveSuccess;
  const int code = nccl().async_error(native_, &found);
  return is_success(code) ? found : code;
}

void Communicator::abort() {
  static_cast<void>(
      board_->fail({UHAL_ABORTED, "rank " + std::to_string(board_->rank()) + " of " + std::to_string(board_->size()) +
                                      " aborted the communicator; create another one with a new id"}));
  changed_.notify_all();
}

// -- submitting -------------------------------------------------------------------------------------------------------

RankFailure Communicator::take_event(std::unique_ptr<Event>* event) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!spare_events_.empty()) {
      *event = std::move(spare_events_.back());
      spare_events_.pop_back();
      return {};
    }
  }
  *event = std::make_unique<Event>(device_);
  const uhal_status status = (*event)->open();
  return status == UHAL_OK ? RankFailure() : RankFailure{status, device_.name + " gives no event for a collective"};
}

// Notes a batch that is about to be submitted, for the watching thread and for the other ranks.
RankFailure Communicator::begin(const uhal_collective_batch& batch) {
  Work work;
  work.what = describe(batch);
  work.owner = Stream::from(batch.stream)->owner();
  for (int32_t i = 0; i < batch.count; ++i) {
    const uhal_collective& collective = *batch.collectives[i];
    if (is_between_two(collective)) {
      work.peers.push_back(collective.peer);
    } else {
      work.is_everybodys = true;
      ++number_;
    }
  }
  work.number = number_;
  if (RankFailure failure = take_event(&work.begin)) return failure;
  if (RankFailure failure = take_event(&work.end)) return failure;
  if (const uhal_status status = Stream::from(batch.stream)->record(*work.begin); status != UHAL_OK) {
    return {status, device_.name + " records no event for a collective"};
  }
  work.since = RankBoard::Clock::now();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    under_way_.push_back(std::move(work));
  }
  submitted_by(board_->rank()).store(number_);
  board_->ring_others();
  changed_.notify_all();
  return {};
}

// The library has the batch: waits until it is in the stream.
RankFailure Communicator::finish(const uhal_collective_batch& batch) {
  // Only this thread adds or submits.
  Work* work = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (native_ == nullptr || under_way_.empty()) return board_->failure();
    work = &under_way_.back();
  }
  if (!is_blocking_) {
    const auto soon = RankBoard::Clock::now() + kShortWait;
    while (is_under_way(state()) && RankBoard::Clock::now() < soon) std::this_thread::yield();
    int found = kCollectiveSuccess;
    const RankFailure failure = board_->wait(
        wait_of(work->what.c_str()),
        [&] {
          found = state();
          return !is_under_way(found);
        },
        [&](int32_t rank) { return is_missing(*work, rank); });
    if (failure) return failure;
    if (found != kCollectiveSuccess) return native_failure(work->what.c_str(), found);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (under_way_.empty()) return board_->failure();  // given up meanwhile
  if (const uhal_status status = Stream::from(batch.stream)->record(*under_way_.back().end); status != UHAL_OK) {
    return {status, device_.name + " records no event for a collective"};
  }
  under_way_.back().is_submitted = true;
  return {};
}

// What could not be submitted is no work of a stream; what was submitted before fails with it.
void Communicator::fail(const RankFailure& failure) {
  static_cast<void>(board_->fail(failure));
  std::lock_guard<std::mutex> lock(mutex_);
  if (!under_way_.empty() && !under_way_.back().is_submitted) under_way_.pop_back();
  give_up(failure);
}

RankFailure Communicator::launch(const uhal_collective_batch* batches, int32_t count) {
  const CollectiveLibrary& library = CollectiveLibrary::instance();
  const auto for_all = [&](const auto& act) {
    RankFailure first;
    for (int32_t i = 0; i < count; ++i) {
      RankFailure failure = act(*from(batches[i].communicator), batches[i]);
      if (failure && !first) first = std::move(failure);
    }
    return first;
  };
  RankFailure failure =
      for_all([](Communicator& self, const uhal_collective_batch& batch) { return self.begin(batch); });
  if (!failure) {
    int code = nccl().group_start();
    for (int32_t i = 0; i < count && is_success(code); ++i) {
      Communicator& self = *from(batches[i].communicator);
      if (self.device_.make_current() != UHAL_OK) break;
      for (int32_t k = 0; k < batches[i].count && is_success(code); ++k) {
        code = library.submit(*batches[i].collectives[k], self.board_->size(), self.native_,
                              Stream::from(batches[i].stream)->native());
      }
    }
    const int ended = nccl().group_end();
    if (is_success(code)) code = ended;
    if (!is_success(code)) {
      Communicator& any = *from(batches[0].communicator);
      failure = any.native_failure(describe(batches[0]).c_str(), code);
      // What the watching thread found, and aborted for, says more.
      if (const RankFailure found = any.earlier_failure()) failure = found;
    }
  }
  if (!failure) {
    failure = for_all([](Communicator& self, const uhal_collective_batch& batch) { return self.finish(batch); });
  }
  const bool is_asynchronous = failure.status == UHAL_DEADLINE_EXCEEDED || failure.status == UHAL_ABORTED;
  if (!failure) return {};
  static_cast<void>(for_all([&](Communicator& self, const uhal_collective_batch& batch) {
    self.fail(failure);
    if (is_asynchronous) {  // what other ranks did is the stream's error, whenever it is found
      kernels::host().stream_error(Stream::from(batch.stream)->owner(), failure.status, describe(batch).c_str(),
                                   failure.message.c_str());
    }
    return RankFailure();
  }));
  return is_asynchronous ? RankFailure() : failure;
}

// -- watching ---------------------------------------------------------------------------------------------------------

std::atomic<uint32_t>& Communicator::submitted_by(int32_t rank) const {
  return *reinterpret_cast<std::atomic<uint32_t>*>(board_->payload() + static_cast<size_t>(rank) * kCellBytes);
}

bool Communicator::is_missing(const Work& work, int32_t rank) const {
  if (!board_->has_come(rank)) return false;  // on another host
  if (work.is_everybodys && static_cast<int32_t>(submitted_by(rank).load() - work.number) < 0) return true;
  // One that has left did its part before.
  const bool is_peer = std::find(work.peers.begin(), work.peers.end(), rank) != work.peers.end();
  if (is_peer && !board_->has_left(rank)) return true;
  return RankBoard::Clock::now() - work.since > kAfterAnEnd && board_->has_died(rank);
}

RankBoard::Wait Communicator::wait_of(const char* what) const {
  return {what, timeout_milliseconds_, kernels::host().is_wait_given_up, kLongestSleep};
}

void Communicator::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !under_way_.empty(); });
    if (under_way_.empty()) return;
    if (const RankFailure failure = look()) {
      static_cast<void>(board_->fail(failure));
      give_up(failure);
    }
    if (under_way_.empty()) {
      changed_.notify_all();
    } else {
      changed_.wait_for(lock, kBetweenLooks);
    }
  }
}

// Whether a batch has run. What is wrong with the device comes out at the stream's own wait.
bool Communicator::is_over(Work* work) {
  int32_t done = 0;
  if (!work->is_submitted) return false;
  if (work->end->query(&done) != UHAL_OK || done != 0) return true;
  if (!work->has_begun && work->begin->query(&done) == UHAL_OK && done != 0) {
    work->has_begun = true;
    work->since = RankBoard::Clock::now();
  }
  return false;
}

// The lock is held.
RankFailure Communicator::look() {
  while (!under_way_.empty() && is_over(&under_way_.front())) {
    spare_events_.push_back(std::move(under_way_.front().begin));
    spare_events_.push_back(std::move(under_way_.front().end));
    under_way_.pop_front();
  }
  if (under_way_.empty()) return {};
  const Work& first = under_way_.front();
  if (!first.is_submitted && !is_blocking_) return {};  // its submitter waits for it
  if (board_->failed()) return board_->failure();
  const bool waits = first.has_begun || !first.is_submitted;
  const bool is_late =
      waits && RankBoard::Clock::now() - first.since >= std::chrono::milliseconds(timeout_milliseconds_);
  RankFailure failure = board_->judge(wait_of(first.what.c_str()), is_late,
                                      [&](int32_t rank) { return waits && is_missing(first, rank); });
  if (failure || !first.is_submitted) return failure;
  const int found = state();
  return is_success(found) ? RankFailure() : native_failure(first.what.c_str(), found);
}

// The lock is held. Lets the library's kernels end, so that the streams go on.
void Communicator::give_up(const RankFailure& failure) {
  // Whoever is submitting finds the board failed, and gives up after that.
  if (!is_blocking_ && !under_way_.empty() && !under_way_.back().is_submitted) return;
  for (const Work& work : under_way_) {
    if (!work.is_submitted) continue;  // its submitter reports it
    kernels::host().stream_error(work.owner, failure.status, work.what.c_str(), failure.message.c_str());
  }
  if (native_ != nullptr && device_.make_current() == UHAL_OK) static_cast<void>(nccl().abort(native_));
  native_ = nullptr;
  under_way_.clear();
  changed_.notify_all();
}

}  // namespace unihal::gpu
