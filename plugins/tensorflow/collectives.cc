#include "plugins/tensorflow/collectives.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/tensorflow/dtype.h"
#include "plugins/tensorflow/shim_functions.h"
#include "tensorflow/c/kernels.h"
#include "unihal/collectives.h"
#include "unihal/device.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

namespace unihal::tensorflow {
namespace {

// How long a rank may wait for another one on the devices, where both have been submitted.
constexpr int64_t kTimeoutMilliseconds = 600'000;

struct Participant {
  int64_t ticket;
  int rank;
  uhal_stream* stream;
  uhal_collective collective;  // but for what is of a part
  std::vector<unihal_collective_part> parts;
  bool is_source;
  void (*done)(void* argument, TF_Status* status);
  void* argument;
};

// What ends the waiting of ranks: a code, with a message unless it is UHAL_OK.
struct Outcome {
  uhal_status code = UHAL_OK;
  std::string message;
};

Outcome last_error(uhal_status code) {
  return code == UHAL_OK ? Outcome{} : Outcome{code, std::string("unihal: ") + uhal_last_error()->message};
}

void finish(const std::vector<Participant>& participants, const Outcome& outcome) {
  for (const Participant& participant : participants) {
    TF_Status* status = TF_NewStatus();
    if (outcome.code != UHAL_OK) TF_SetStatus(status, static_cast<TF_Code>(outcome.code), outcome.message.c_str());
    participant.done(participant.argument, status);
    TF_DeleteStatus(status);
  }
}

// -- communicators -----------------------------------------------------------------------------------------

using Devices = std::vector<uhal_device*>;  // in the order of their ranks
using Communicators = std::vector<uhal_communicator*>;

// Connects devices, each from a thread of its own, since each waits for the others.
Outcome connect(const Devices& devices, Communicators* communicators) {
  uhal_communicator_id id = {};
  const uhal_status made = uhal_communicator_id_create(devices[0], &id);
  if (made != UHAL_OK) return last_error(made);
  communicators->assign(devices.size(), nullptr);
  std::vector<Outcome> outcomes(devices.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[rank] = last_error(uhal_communicator_create(devices[rank], static_cast<int32_t>(rank),
                                                           static_cast<int32_t>(devices.size()), &id,
                                                           kTimeoutMilliseconds, &(*communicators)[rank]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) {
    if (outcome.code != UHAL_OK) return outcome;
  }
  return {};
}

// What has failed once is of no more use: the next collective of these devices connects them anew.
void disconnect(Communicators* communicators) {
  for (uhal_communicator* communicator : *communicators) {
    if (communicator != nullptr) uhal_communicator_abort(communicator);
  }
  for (uhal_communicator* communicator : *communicators) uhal_communicator_destroy(communicator);
  communicators->clear();
}

Outcome launch_collective(const std::vector<Participant>& participants, const Communicators& communicators) {
  uhal_status code = uhal_communicator_group_start();
  for (size_t rank = 0; rank < participants.size(); ++rank) {
    uhal_collective collective = participants[rank].collective;
    for (const unihal_collective_part& part : participants[rank].parts) {
      if (code != UHAL_OK) break;
      collective.count = part.count;
      collective.source = part.source;
      collective.destination = part.destination;
      code = uhal_communicator_launch(communicators[rank], participants[rank].stream, &collective);
    }
  }
  if (code == UHAL_OK) return last_error(uhal_communicator_group_end());
  Outcome outcome = last_error(code);
  uhal_communicator_group_cancel();
  return outcome;
}

// A group of one: what it gives is what it was given.
Outcome copy_through(const Participant& alone) {
  for (const unihal_collective_part& part : alone.parts) {
    if (part.count == 0 || part.source == nullptr || part.source == part.destination) continue;
    const uint64_t bytes = static_cast<uint64_t>(part.count) * uhal_dtype_size(alone.collective.dtype);
    const uhal_status code = uhal_copy(alone.stream, part.destination, part.source, bytes, UHAL_COPY_DEVICE_TO_DEVICE);
    if (code != UHAL_OK) return last_error(code);
  }
  return {};
}

// The ranks of one collective, in their order.
Outcome submit(const std::vector<Participant>& participants) {
  if (participants.size() == 1) return copy_through(participants[0]);
  Devices devices;
  for (const Participant& participant : participants) devices.push_back(uhal_stream_device(participant.stream));
  // Held while submitting, too: the order of two collectives is the same on all devices that they share.
  static std::mutex mutex;
  static auto* const connected = new std::map<Devices, Communicators>;
  std::lock_guard<std::mutex> lock(mutex);
  Communicators& communicators = (*connected)[devices];
  Outcome outcome;
  if (communicators.empty()) outcome = connect(devices, &communicators);
  if (outcome.code == UHAL_OK) outcome = launch_collective(participants, communicators);
  if (outcome.code != UHAL_OK && outcome.code != UHAL_UNIMPLEMENTED) disconnect(&communicators);
  return outcome;
}

// -- where the ranks meet --------------------------------------------------------------------------------------

struct Meetings {
  std::mutex mutex;
  int64_t tickets = 0;
  std::map<int64_t, TF_Code> announced;                     // whose ranks have not arrived; not TF_OK: cancelled
  std::map<std::string, std::vector<Participant>> waiting;  // by key
};

Meetings& meetings() {
  static auto* const instance = new Meetings;
  return *instance;
}

int64_t new_ticket() {
  std::lock_guard<std::mutex> lock(meetings().mutex);
  meetings().announced.emplace(++meetings().tickets, TF_OK);
  return meetings().tickets;
}

uhal_collective_kind kind_of(unihal_collective_kind kind) {
  switch (kind) {
    case UNIHAL_COLLECTIVE_REDUCE:
      return UHAL_ALL_REDUCE;
    case UNIHAL_COLLECTIVE_GATHER:
      return UHAL_ALL_GATHER;
    case UNIHAL_COLLECTIVE_BROADCAST:
      return UHAL_BROADCAST;
    case UNIHAL_COLLECTIVE_REDUCE_SCATTER:
      return UHAL_REDUCE_SCATTER;
    case UNIHAL_COLLECTIVE_ALL_TO_ALL:
      return UHAL_ALL_TO_ALL;
  }
  return 0;
}

uhal_reduction reduction_of(const unihal_collective_rank& rank) {
  const std::string merge = rank.merge;
  if (rank.average != 0) return UHAL_REDUCTION_AVERAGE;
  if (merge == "Mul") return UHAL_REDUCTION_PRODUCT;
  if (merge == "Minimum") return UHAL_REDUCTION_MINIMUM;
  if (merge == "Maximum") return UHAL_REDUCTION_MAXIMUM;
  return UHAL_REDUCTION_SUM;
}

bool go_together(const Participant& a, const Participant& b) {
  return a.collective.kind == b.collective.kind && a.collective.dtype == b.collective.dtype &&
         a.collective.reduction == b.collective.reduction &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const auto& part, const auto& other) { return part.count == other.count; });
}

std::string told(const Participant& participant) {
  int64_t count = 0;
  for (const unihal_collective_part& part : participant.parts) count += part.count;
  const size_t parts = participant.parts.size();
  return std::string(uhal_collective_kind_name(participant.collective.kind)) + " of " + std::to_string(count) +
         " elements of " + uhal_dtype_name(participant.collective.dtype) +
         (parts > 1 ? " in " + std::to_string(parts) + " parts" : "");
}

// "rank 0 calls all_reduce of 4 elements of float32, rank 1 all_reduce of 8 ..." for ranks that do not go together,
// else "".
std::string difference(const std::vector<Participant>& participants) {
  for (const Participant& participant : participants) {
    if (go_together(participants[0], participant)) continue;
    return "rank 0 calls " + told(participants[0]) + ", rank " + std::to_string(participant.rank) + " " +
           told(participant);
  }
  return "";
}

Outcome was_cancelled(TF_Code code) {
  return {static_cast<uhal_status>(code),
          code == TF_DEADLINE_EXCEEDED ? "unihal: a collective's time was over before all of its ranks had come; the "
                                         "others failed, or call another one"
                                       : "unihal: a collective was cancelled while it waited for the other ranks"};
}

// Lets a rank wait for the others; the last of them takes all. A cancelled one is alone, with its code.
TF_Code meet(const Participant& arrived, const unihal_collective_rank& rank, std::vector<Participant>* complete) {
  std::lock_guard<std::mutex> lock(meetings().mutex);
  const TF_Code code = meetings().announced.extract(arrived.ticket).mapped();
  if (code != TF_OK) {
    complete->push_back(arrived);
    return code;
  }
  std::vector<Participant>& meeting = meetings().waiting[rank.key];
  meeting.push_back(arrived);
  if (static_cast<int>(meeting.size()) < rank.size) return TF_OK;
  *complete = std::move(meeting);
  meetings().waiting.erase(rank.key);
  return TF_OK;
}

// Who receives does not know who sends.
void set_root(std::vector<Participant>* participants) {
  int32_t root = 0;
  for (const Participant& participant : *participants) {
    if (participant.is_source) root = participant.rank;
  }
  for (Participant& participant : *participants) participant.collective.peer = root;
}

void forget(int64_t ticket) {
  std::lock_guard<std::mutex> lock(meetings().mutex);
  meetings().announced.erase(ticket);
}

void arrive(int64_t ticket, TF_OpKernelContext* context, const unihal_collective_rank* rank,
            void (*done)(void* argument, TF_Status* status), void* argument) {
  Participant arrived = {};
  arrived.ticket = ticket;
  arrived.rank = rank->rank;
  arrived.is_source = rank->is_source != 0;
  arrived.done = done;
  arrived.argument = argument;
  arrived.collective.struct_size = sizeof arrived.collective;
  arrived.collective.kind = kind_of(rank->kind);
  arrived.collective.dtype = from_tensorflow(rank->dtype);
  arrived.collective.reduction = reduction_of(*rank);
  arrived.parts.assign(rank->parts, rank->parts + rank->part_count);
  TF_Status* status = TF_NewStatus();
  arrived.stream = reinterpret_cast<uhal_stream*>(TF_GetStream(context, status));
  const Outcome streamless = {static_cast<uhal_status>(TF_GetCode(status)), TF_Message(status)};
  TF_DeleteStatus(status);
  if (streamless.code != UHAL_OK) {
    forget(ticket);
    return finish({arrived}, streamless);
  }
  std::vector<Participant> complete;
  const TF_Code code = meet(arrived, *rank, &complete);
  if (code != TF_OK) return finish(complete, was_cancelled(code));
  if (complete.empty()) return;
  std::sort(complete.begin(), complete.end(),
            [](const Participant& a, const Participant& b) { return a.rank < b.rank; });
  const std::string mismatch = difference(complete);
  if (!mismatch.empty()) {
    return finish(complete, {UHAL_INVALID_ARGUMENT, "unihal: the ranks of a collective differ: " + mismatch});
  }
  if (rank->kind == UNIHAL_COLLECTIVE_BROADCAST) set_root(&complete);
  finish(complete, submit(complete));
}

void cancel(int64_t ticket, TF_Code code) {
  std::vector<Participant> left;
  {
    std::lock_guard<std::mutex> lock(meetings().mutex);
    const auto announced = meetings().announced.find(ticket);
    if (announced != meetings().announced.end()) announced->second = code;
    for (auto meeting = meetings().waiting.begin(); left.empty() && meeting != meetings().waiting.end();) {
      std::vector<Participant>& waiting = meeting->second;
      const auto found = std::find_if(waiting.begin(), waiting.end(),
                                      [ticket](const Participant& one) { return one.ticket == ticket; });
      if (found != waiting.end()) {
        left.push_back(*found);
        waiting.erase(found);
      }
      meeting = waiting.empty() ? meetings().waiting.erase(meeting) : std::next(meeting);
    }
  }
  finish(left, was_cancelled(code));
}

// Whether a type's devices have collectives. Says once why not.
bool has_collectives(const std::string& type) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, bool>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = known->find(type);
  if (found != known->end()) return found->second;
  std::string name = type;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  uhal_device* device = nullptr;
  uhal_communicator_id id = {};
  bool good = uhal_device_get(name.c_str(), 0, &device) == UHAL_OK;  // else: not a type of ours
  if (good && uhal_communicator_id_create(device, &id) != UHAL_OK) {
    good = false;
    std::fprintf(stderr, "unihal: collectives on %s go through TensorFlow's ring, copy by copy: %s\n", type.c_str(),
                 uhal_last_error()->message);
  }
  return (*known)[type] = good;
}

}  // namespace

bool accepts_collective(const char* device_type, TF_DataType dtype, bool average) {
  const uhal_dtype ours = from_tensorflow(dtype);
  if (ours == UHAL_DTYPE_INVALID) return false;
  if (average && !contains(kFloats | kComplex, ours)) return false;
  return has_collectives(device_type);
}

namespace {

int accepts(const char* device_type, unihal_collective_kind, TF_DataType dtype, int average) {
  return accepts_collective(device_type, dtype, average != 0) ? 1 : 0;
}

}  // namespace

void register_collectives(const char* device_type) {
  static const unihal_collective_functions functions = {accepts, new_ticket, arrive, cancel};
  shim_functions()->register_collectives(device_type, &functions);
}

}  // namespace unihal::tensorflow
