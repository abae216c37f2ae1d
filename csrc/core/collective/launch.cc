// uhal_communicator_launch and groups.
#include <algorithm>
#include <string>
#include <vector>

#include "csrc/core/base/process_state.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/collective/communicator.h"
#include "csrc/core/collective/validate.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/profile/profiler.h"

namespace unihal::core {
namespace {

// A call as it was made.
struct Call {
  uhal_communicator* communicator;
  uhal_stream* stream;
  uhal_collective collective;
};

// The thread's open groups.
struct Group {
  int depth = 0;
  std::vector<Call> calls;  // in their order
};
thread_local Group group;

// -- submitting ---------------------------------------------------------------------------------------------------

// What one communicator does in a submission.
struct Batch {
  Communicator* communicator;
  Stream* stream;
  const CheckedCollective* work;
  const uhal_collective* const* collectives;  // as many
  int32_t count;
  const char* name;
  TrackedWork* tracked = nullptr;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; ++i) sum += work[i].bytes;
    return sum;
  }
};

// All batches of a submission, of one backend. Locks are taken and records kept on the stack, a level for each batch:
// those of communicators first, in the order of their numbers, then those of streams.
class Submission {
 public:
  // `launched` is what the backend gets; as many as batches.
  Submission(Batch* batches, uhal_collective_batch* launched, size_t count)
      : batches_(batches), launched_(launched), count_(count) {}

  uhal_status run() {
    std::sort(batches_, batches_ + count_,
              [](const Batch& a, const Batch& b) { return a.communicator->number < b.communicator->number; });
    return lock_communicator(0);
  }

 private:
  uhal_status lock_communicator(size_t next) {
    if (next == count_) {
      std::sort(batches_, batches_ + count_,
                [](const Batch& a, const Batch& b) { return a.stream->number < b.stream->number; });
      return lock_stream(0);
    }
    Batch& batch = batches_[next];
    std::lock_guard<std::mutex> lock(batch.communicator->submission);
    TrackedWork tracked = track(batch);
    batch.tracked = &tracked;
    return lock_communicator(next + 1);
  }

  uhal_status lock_stream(size_t next) {
    if (next == count_) return launch();
    Batch& batch = batches_[next];
    const bool is_locked = next > 0 && batches_[next - 1].stream == batch.stream;
    std::unique_lock<SubmissionLock> lock(batch.stream->submission, std::defer_lock);
    if (!is_locked) lock.lock();
    ProfiledWork profiled(batch.stream, batch.name, batch.bytes());
    const uhal_status status = lock_stream(next + 1);
    if (status == UHAL_OK) {
      batch.tracked->submitted();
    } else {
      profiled.drop();
    }
    return status;
  }

  uhal_status launch() {
    for (size_t i = 0; i < count_; ++i) {
      const Batch& batch = batches_[i];
      launched_[i] = {batch.communicator->backend_communicator, batch.stream->backend_stream, batch.collectives,
                      batch.count};
    }
    const Communicator& any = *batches_[0].communicator;
    const uhal_status status =
        call_backend(*any.device->backend, "launch of collectives", any.table->launch,
                     static_cast<const uhal_collective_batch*>(launched_), static_cast<int32_t>(count_));
    return with_device(*any.device, status);
  }

  static TrackedWork track(const Batch& batch) {
    if (batch.count == 1) {
      return TrackedWork(batch.stream, batch.name, batch.work->ranges, static_cast<size_t>(batch.work->range_count));
    }
    std::vector<TouchedRange> ranges;
    for (int32_t i = 0; i < batch.count; ++i) {
      ranges.insert(ranges.end(), batch.work[i].ranges, batch.work[i].ranges + batch.work[i].range_count);
    }
    return TrackedWork(batch.stream, batch.name, ranges.data(), ranges.size());
  }

  Batch* const batches_;
  uhal_collective_batch* const launched_;
  const size_t count_;
};

uhal_status refuse_other_device(const Communicator& communicator, const Stream& stream) {
  return UHAL_FAIL(
      UHAL_INVALID_ARGUMENT,
      "The stream belongs to %s, but the communicator, rank %d of %d, to %s; pass a stream of that device.",
      stream.device->label.c_str(), communicator.rank, communicator.size, communicator.device->label.c_str());
}

// Completes the record of a failed call.
uhal_status describe_failure(const Communicator& communicator, const uhal_collective* collective, uhal_status status) {
  if (collective != nullptr && collective->struct_size >= sizeof(uhal_collective)) {
    set_error_op(describe_collective(*collective).c_str());
  }
  return with_device(*communicator.device, status);
}

// Checks a call. *nothing: it has no elements.
uhal_status check(const Communicator& communicator, const Stream& stream, const uhal_collective* collective,
                  CheckedCollective* checked, bool* nothing) {
  uhal_status status = stream.device == communicator.device
                           ? check_collective(communicator, collective, checked, nothing)
                           : refuse_other_device(communicator, stream);
  return status == UHAL_OK ? UHAL_OK : describe_failure(communicator, collective, status);
}

uhal_status submit_one(Communicator* communicator, Stream* stream, const CheckedCollective& checked) {
  const uhal_collective* collective = &checked.collective;
  Batch batch = {communicator, stream, &checked, &collective, 1, uhal_collective_kind_name(collective->kind)};
  uhal_collective_batch launched;
  const uhal_status status = Submission(&batch, &launched, 1).run();
  return status == UHAL_OK ? UHAL_OK : describe_failure(*communicator, collective, status);
}

// -- groups -------------------------------------------------------------------------------------------------------

// The first call of the group with a communicator, or nullptr.
const Call* first_call_of(const uhal_communicator* communicator) {
  const auto found = std::find_if(group.calls.begin(), group.calls.end(),
                                  [&](const Call& call) { return call.communicator == communicator; });
  return found != group.calls.end() ? &*found : nullptr;
}

uhal_status add_to_group(const Communicator& communicator, const Call& call) {
  const Call* first = first_call_of(call.communicator);
  if (first != nullptr && first->stream != call.stream) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "The group has calls of this communicator, rank %d of %d, on another stream; expected one stream "
                     "for a communicator in a group.",
                     communicator.rank, communicator.size);
  }
  if (first == nullptr && !group.calls.empty()) {
    PinnedCommunicator other(communicator_pool(), group.calls[0].communicator);
    if (other && other->device->backend != communicator.device->backend) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "The group has calls on %s, and this one is on %s; expected devices of one backend in a group.",
                       other->device->label.c_str(), communicator.device->label.c_str());
    }
  }
  group.calls.push_back(call);
  return UHAL_OK;
}

// The calls of one communicator, pinned and checked.
struct GroupedCalls {
  GroupedCalls(uhal_communicator* communicator_handle, uhal_stream* stream_handle)
      : handle(communicator_handle),
        communicator(communicator_pool(), communicator_handle),
        stream(stream_pool(), stream_handle) {}

  uhal_communicator* const handle;
  PinnedCommunicator communicator;
  PinnedStream stream;
  std::vector<CheckedCollective> work;
  std::vector<const uhal_collective*> collectives;
  std::string name;
};

uhal_status check_again(const Call& call, GroupedCalls* calls) {
  if (!calls->communicator) return refuse_communicator(call.communicator);
  if (!calls->stream) return refuse_stream(call.stream);
  UHAL_EXPECT(refuse_in_capture(*calls->stream, "A collective"));
  bool nothing = false;
  calls->work.emplace_back();
  return check(*calls->communicator, *calls->stream, &call.collective, &calls->work.back(), &nothing);
}

std::string name_of(const std::vector<const uhal_collective*>& collectives) {
  const std::string first = uhal_collective_kind_name(collectives.front()->kind);
  if (collectives.size() == 1) return first;
  const bool alike = std::all_of(collectives.begin(), collectives.end(), [&](const uhal_collective* collective) {
    return collective->kind == collectives.front()->kind;
  });
  return (alike ? first : "group of collectives") + " x " + std::to_string(collectives.size());
}

uhal_status submit_group(const std::vector<Call>& calls) {
  std::vector<std::unique_ptr<GroupedCalls>> grouped;
  for (const Call& call : calls) {
    auto place = std::find_if(grouped.begin(), grouped.end(),
                              [&](const auto& entry) { return entry->handle == call.communicator; });
    if (place == grouped.end()) {
      grouped.push_back(std::make_unique<GroupedCalls>(call.communicator, call.stream));
      place = std::prev(grouped.end());
    }
    UHAL_EXPECT(check_again(call, place->get()));
  }
  std::vector<Batch> batches;
  for (const auto& entry : grouped) {
    for (const CheckedCollective& checked : entry->work) entry->collectives.push_back(&checked.collective);
    entry->name = name_of(entry->collectives);
    batches.push_back({entry->communicator.get(), entry->stream.get(), entry->work.data(), entry->collectives.data(),
                       static_cast<int32_t>(entry->work.size()), entry->name.c_str()});
  }
  std::vector<uhal_collective_batch> launched(batches.size());
  const uhal_status status = Submission(batches.data(), launched.data(), batches.size()).run();
  if (status != UHAL_OK) set_error_op(grouped.front()->name.c_str());
  return status;
}

}  // namespace
}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_communicator_launch(uhal_communicator* communicator_handle, uhal_stream* stream_handle,
                                     const uhal_collective* collective) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedCommunicator communicator(communicator_pool(), communicator_handle);
    if (!communicator) return refuse_communicator(communicator_handle);
    PinnedStream stream(stream_pool(), stream_handle);
    if (!stream) return refuse_stream(stream_handle);
    CheckedCollective checked;
    bool nothing = false;
    UHAL_EXPECT(refuse_in_capture(*stream, "A collective"));
    UHAL_EXPECT(check(*communicator, *stream, collective, &checked, &nothing));
    if (nothing) return UHAL_OK;
    if (group.depth > 0) {
      uhal_collective whole = *collective;
      whole.struct_size = sizeof whole;
      return add_to_group(*communicator, {communicator_handle, stream_handle, whole});
    }
    return submit_one(communicator.get(), stream.get(), checked);
  });
}

uhal_status uhal_communicator_group_start(void) {
  UHAL_CHECK_PROCESS();
  ++group.depth;
  return UHAL_OK;
}

uhal_status uhal_communicator_group_end(void) {
  UHAL_CHECK_PROCESS();
  if (group.depth == 0) {
    return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                     "There is no group to end on this thread; call uhal_communicator_group_start first.");
  }
  if (--group.depth > 0 || group.calls.empty()) return UHAL_OK;
  return guarded([&]() -> uhal_status {
    const std::vector<Call> calls = std::move(group.calls);
    group.calls.clear();
    return submit_group(calls);
  });
}

void uhal_communicator_group_cancel(void) {
  group.depth = 0;
  group.calls.clear();
}
