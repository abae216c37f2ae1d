#include "csrc/backends/gpu/communicator.h"

#include <algorithm>
#include <atomic>
#include <optional>
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

// How often a thread that waits for a call looks whether it is over: nobody rings.
constexpr std::chrono::milliseconds kLongestSleep{1};

// So long a call that is under way while its communicator fails is left in peace: an abort frees what it may use.
constexpr std::chrono::seconds kToReturn{2};

// A rank that submitted its part and has ended may have had its work done: so long it is given the benefit of doubt.
constexpr std::chrono::seconds kAfterAnEnd{2};

const CollectiveFunctions& nccl() { return CollectiveLibrary::instance().functions(); }

bool is_between_two(const uhal_collective& collective) {
  return collective.kind == UHAL_SEND || collective.kind == UHAL_RECEIVE;
}

std::string describe(const uhal_collective& first, int32_t count) {
  static constexpr const char* kNames[] = {
#define UHAL_COLLECTIVE_KIND(KIND, name, ...) #name,
#include "csrc/tables/collectives.def"
  };
  std::string text =
      std::string(kNames[first.kind - 1]) + " of " + std::to_string(first.count) + " " + dtype_name(first.dtype);
  if (count > 1) text += " and " + std::to_string(count - 1) + " more";
  return text;
}

std::string describe(const uhal_collective_batch& batch) { return describe(*batch.collectives[0], batch.count); }

// What the library may connect the ranks anew for: its way of doing a collective goes by these.
uint64_t class_of(const uhal_collective& collective) {
  uint64_t magnitude = 0;
  for (auto rest = static_cast<uint64_t>(collective.count); rest > 1; rest >>= 1) ++magnitude;
  const auto peer = static_cast<uint64_t>(is_between_two(collective) ? collective.peer : 0);
  return peer << 32 | magnitude << 24 | static_cast<uint64_t>(collective.dtype) << 16 |
         static_cast<uint64_t>(collective.reduction) << 8 | static_cast<uint64_t>(collective.kind);
}

}  // namespace

// A call of the library that may never return, on a thread of its own.
class ApartCall {
 public:
  // `call` returns the library's code, and may put a communicator where it is told.
  template <class Call>
  explicit ApartCall(Call call)
      : outcome_(std::make_shared<Outcome>()), thread_([outcome = outcome_, call] {
          outcome->code = call(&outcome->made);
          outcome->is_over = true;
        }) {}

  // Whoever gave up waiting for a collective has aborted its communicator, so that the call returns. If it does not,
  // and where a communicator was being made, the thread is left to itself.
  ~ApartCall() {
    const auto last = RankBoard::Clock::now() + kToReturn;
    while (!is_over() && RankBoard::Clock::now() < last) std::this_thread::sleep_for(kLongestSleep);
    if (is_over()) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }
  ApartCall(const ApartCall&) = delete;
  ApartCall& operator=(const ApartCall&) = delete;

  bool is_over() const { return outcome_->is_over; }
  int code() const { return outcome_->code; }  // is_over()
  NativeCommunicator made() const { return outcome_->made; }

 private:
  struct Outcome {
    std::atomic<bool> is_over{false};
    int code = kCollectiveSuccess;
    NativeCommunicator made = nullptr;
  };

  std::shared_ptr<Outcome> outcome_;
  std::thread thread_;
};

// -- coming and going -------------------------------------------------------------------------------------------------

RankFailure Communicator::open(int32_t rank, int32_t size, const uhal_communicator_id& id) {
  NativeId native_id;
  RankBoard::Place place = {"", rank, size, kCellBytes * static_cast<size_t>(size)};
  RankFailure failure = read_communicator_id(vendor.backend, id, &place.name, native_id.bytes, sizeof native_id.bytes);
  if (failure) return failure;
  board_ = RankBoard::open(place, &failure);
  if (board_ == nullptr) return failure;
  failure = connect(rank, size, native_id);
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
  const ApartCall call([rank, size, id, &device = device_](NativeCommunicator* made) {
    return device.make_current() == UHAL_OK ? nccl().init(made, size, id, rank) : kCollectiveSuccess;
  });
  RankFailure failure = board_->wait(
      wait_of("the creation of a communicator"), [&] { return call.is_over(); },
      [this](int32_t other) { return !board_->has_come(other) || !board_->end_of(other).empty(); });
  if (failure) return failure;
  native_ = call.made();
  if (call.code() == kCollectiveSuccess && native_ != nullptr) return {};
  return board_->fail(native_failure("the creation of a communicator", call.code()));
}

RankFailure Communicator::native_failure(const char* what, int code) const {
  return {UHAL_INTERNAL, std::string(what) + " on rank " + std::to_string(board_->rank()) + " of " +
                             std::to_string(board_->size()) + " failed; " +
                             CollectiveLibrary::instance().describe(code) +
                             ". NCCL_DEBUG=INFO lets it say more; create the communicators with a new id"};
}

void Communicator::abort() {
  static_cast<void>(
      board_->fail({UHAL_ABORTED, "rank " + std::to_string(board_->rank()) + " of " + std::to_string(board_->size()) +
                                      " aborted the communicator; create another one with a new id"}));
  changed_.notify_all();
}

// -- submitting -------------------------------------------------------------------------------------------------------

bool Communicator::are_connected(const uhal_collective_batch& batch) const {
  return std::all_of(batch.collectives, batch.collectives + batch.count,
                     [&](const uhal_collective* collective) { return connected_.count(class_of(*collective)) != 0; });
}

void Communicator::note_connected(const uhal_collective_batch& batch) {
  for (int32_t i = 0; i < batch.count; ++i) connected_.insert(class_of(*batch.collectives[i]));
}

// One with events, of a batch that is over if there is one.
RankFailure Communicator::take_work(std::list<Work>* taken) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!spare_.empty()) {
      taken->splice(taken->begin(), spare_, spare_.begin());
      return {};
    }
  }
  Work& work = taken->emplace_back();
  for (std::unique_ptr<Event>* event : {&work.begin, &work.end}) {
    *event = std::make_unique<Event>(device_);
    if (const uhal_status status = (*event)->open(kEventUntimed); status != UHAL_OK) {
      return {status, device_.name + " gives no event for a collective"};
    }
  }
  return {};
}

// Notes a batch that is about to be submitted, for the watching thread and for the other ranks.
RankFailure Communicator::begin(const uhal_collective_batch& batch) {
  std::list<Work> taken;
  if (RankFailure failure = take_work(&taken)) return failure;
  Work& work = taken.front();
  work.first = *batch.collectives[0];
  work.count = batch.count;
  work.owner = Stream::from(batch.stream)->owner();
  work.is_everybodys = work.is_submitted = work.has_begun = false;
  work.peers.clear();
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
  if (const uhal_status status = Stream::from(batch.stream)->record(*work.begin); status != UHAL_OK) {
    return {status, device_.name + " records no event for a collective"};
  }
  work.since = RankBoard::Clock::now();
  bool is_watched = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (native_ == nullptr) return board_->failure();
    submitting_ = native_;
    is_watched = !under_way_.empty();
    under_way_.splice(under_way_.end(), taken);
  }
  submitted_by(board_->rank()).store(number_);
  board_->ring_others();
  if (!is_watched) changed_.notify_all();
  return {};
}

// The batch is in the stream.
RankFailure Communicator::finish(const uhal_collective_batch& batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (native_ == nullptr) return board_->failure();  // given up meanwhile
  if (const uhal_status status = Stream::from(batch.stream)->record(*under_way_.back().end); status != UHAL_OK) {
    return {status, device_.name + " records no event for a collective"};
  }
  under_way_.back().is_submitted = true;
  note_connected(batch);
  return {};
}

// What could not be submitted is no work of a stream; what was submitted before fails with it.
void Communicator::fail(const RankFailure& failure) {
  static_cast<void>(board_->fail(failure));
  std::lock_guard<std::mutex> lock(mutex_);
  if (!under_way_.empty() && !under_way_.back().is_submitted) under_way_.pop_back();
  give_up(failure, true);
}

// Waits for a call of the library that may connect the ranks.
RankFailure Communicator::wait_for(const ApartCall& call, const uhal_collective_batch& batch) {
  const Work* work = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    work = &under_way_.back();  // it stays until its submitter is through
  }
  const std::string what = describe(batch);
  return board_->wait(
      wait_of(what.c_str()), [&] { return call.is_over(); }, [&](int32_t rank) { return is_missing(*work, rank); });
}

RankFailure Communicator::launch(const uhal_collective_batch* batches, int32_t count) {
  const auto for_all = [&](const auto& act) {
    RankFailure first;
    for (int32_t i = 0; i < count; ++i) {
      RankFailure failure = act(*from(batches[i].communicator), batches[i]);
      if (failure && !first) first = std::move(failure);
    }
    return first;
  };
  const auto submit = [batches, count](NativeCommunicator*) {
    const CollectiveLibrary& library = CollectiveLibrary::instance();
    int code = nccl().group_start();
    for (int32_t i = 0; i < count && code == kCollectiveSuccess; ++i) {
      const Communicator& self = *from(batches[i].communicator);
      if (self.device_.make_current() != UHAL_OK) break;
      for (int32_t k = 0; k < batches[i].count && code == kCollectiveSuccess; ++k) {
        code = library.submit(*batches[i].collectives[k], self.board_->size(), self.submitting_,
                              Stream::from(batches[i].stream)->native());
      }
    }
    const int ended = nccl().group_end();
    return code == kCollectiveSuccess ? ended : code;
  };

  std::optional<ApartCall> apart;  // ends last, when what it waits in is aborted
  RankFailure failure =
      for_all([](Communicator& self, const uhal_collective_batch& batch) { return self.begin(batch); });
  if (!failure) {
    const Communicator& any = *from(batches[0].communicator);
    int code = kCollectiveSuccess;
    if (std::all_of(batches, batches + count, [](const uhal_collective_batch& batch) {
          return from(batch.communicator)->are_connected(batch);
        })) {
      code = submit(nullptr);
    } else {
      apart.emplace(submit);
      failure = from(batches[0].communicator)->wait_for(*apart, batches[0]);
      if (!failure) code = apart->code();
    }
    if (code != kCollectiveSuccess) {
      // What a watching thread found, and aborted for, says more.
      failure = for_all([](Communicator& self, const uhal_collective_batch&) { return self.earlier_failure(); });
      if (!failure) failure = any.native_failure(describe(batches[0]).c_str(), code);
    }
  }
  if (!failure) {
    failure = for_all([](Communicator& self, const uhal_collective_batch& batch) { return self.finish(batch); });
  }
  if (!failure) return {};
  const bool is_asynchronous = failure.status == UHAL_DEADLINE_EXCEEDED || failure.status == UHAL_ABORTED;
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
      give_up(failure, false);
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
    spare_.splice(spare_.end(), under_way_, under_way_.begin());
  }
  if (under_way_.empty()) return {};
  const Work& first = under_way_.front();
  if (board_->failed()) return board_->failure();
  const bool waits = first.has_begun || !first.is_submitted;
  const bool is_late =
      waits && RankBoard::Clock::now() - first.since >= std::chrono::milliseconds(timeout_milliseconds_);
  RankFailure failure = board_->judge(wait_of(describe(first.first, first.count).c_str()), is_late,
                                      [&](int32_t rank) { return waits && is_missing(first, rank); });
  if (failure || !first.is_submitted) return failure;
  int found = kCollectiveSuccess;
  const int code = nccl().async_error(native_, &found);
  if (code == kCollectiveSuccess && found == kCollectiveSuccess) return {};
  return native_failure(describe(first.first, first.count).c_str(), code != kCollectiveSuccess ? code : found);
}

// The lock is held. Lets the library's kernels end, so that the streams go on, and calls that wait for other ranks;
// unless `is_call_over`, one that is under way gets time to return by itself.
void Communicator::give_up(const RankFailure& failure, bool is_call_over) {
  for (auto work = under_way_.begin(); work != under_way_.end();) {
    if (!work->is_submitted) {  // its submitter reports it
      ++work;
      continue;
    }
    kernels::host().stream_error(work->owner, failure.status, describe(work->first, work->count).c_str(),
                                 failure.message.c_str());
    work = under_way_.erase(work);
  }
  const RankBoard::Clock::time_point now = RankBoard::Clock::now();
  if (failed_at_ == RankBoard::Clock::time_point()) failed_at_ = now;
  if (!is_call_over && !under_way_.empty() && now - failed_at_ < kToReturn) return;
  if (native_ != nullptr && device_.make_current() == UHAL_OK) static_cast<void>(nccl().abort(native_));
  native_ = nullptr;
  changed_.notify_all();
}

}  // namespace unihal::gpu
