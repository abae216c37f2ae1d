#include "plugins/paddle/collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/paddle/error.h"
#include "plugins/paddle/phi_api.h"
#include "unihal/memory.h"
#include "unihal/tensor.h"

namespace unihal::paddle {
namespace {

constexpr int64_t kTimeoutMilliseconds = 600'000;
constexpr size_t kCommunicatorNameBytes = 32;  // Paddle's buffer is longer

// C_CCLReduceOp
constexpr uhal_reduction kCollectiveReductions[] = {UHAL_REDUCTION_SUM, UHAL_REDUCTION_AVERAGE, UHAL_REDUCTION_MAXIMUM,
                                                    UHAL_REDUCTION_MINIMUM, UHAL_REDUCTION_PRODUCT};

// What fails ends the thread's group: Paddle leaves it by the exception.
void expect(uhal_status status) {
  if (status == UHAL_OK) return;
  const std::string message = describe_last_error("collective");
  uhal_communicator_group_cancel();
  raise(status, message);
}

uhal_stream* handle_of(const Stream* stream) {
  if (!is_our_stream(stream)) raise(UHAL_INVALID_ARGUMENT, "(unihal) collective: Paddle names a stream that is gone");
  return stream->handle;
}

// What a rank sends to itself in a group, until it receives it there.
struct OwnMessage {
  const Communicator* communicator;
  const void* source;
  uint64_t bytes;
};
thread_local std::vector<OwnMessage> own_messages;

Status run(const Communicator* communicator, Stream* stream, uhal_collective_kind kind, const void* source,
           void* destination, size_t count, Dtype dtype, size_t peer = 0,
           uhal_reduction reduction = UHAL_REDUCTION_SUM) {
  submit(*communicator, stream, kind, source, destination, static_cast<int64_t>(count), to_uhal(dtype),
         static_cast<int32_t>(peer), reduction);
  return kSuccess;
}

uhal_reduction collective_reduction_of(uint32_t reduction) {
  if (reduction >= std::size(kCollectiveReductions)) {
    raise(UHAL_INVALID_ARGUMENT, "(unihal) collective: Paddle asks for a reduction of number " +
                                     std::to_string(reduction) + "; there are sum, average, maximum, minimum, product");
  }
  return kCollectiveReductions[reduction];
}

Status id_size(size_t* size) {
  *size = sizeof(uhal_communicator_id);
  return kSuccess;
}

Status name(const Communicator* communicator, char* text) {
  std::snprintf(text, kCommunicatorNameBytes, "unihal rank %d of %d", communicator->rank, communicator->size);
  return kSuccess;
}

// Those that Paddle has and has not destroyed, in the order in which they were made, which is that of all ranks that
// they have in common.
class Communicators {
 public:
  void add(const Communicator* made) {
    const std::lock_guard<std::mutex> lock(mutex_);
    alive_.push_back(made);
  }
  void remove(const Communicator* gone) {
    const std::lock_guard<std::mutex> lock(mutex_);
    alive_.erase(std::remove(alive_.begin(), alive_.end(), gone), alive_.end());
  }
  // The first for which `test` holds.
  template <class Test>
  std::optional<Communicator> find(Test test) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Communicator* one : alive_) {
      if (test(*one)) return *one;
    }
    return std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<const Communicator*> alive_;
};

Communicators& communicators() {
  static auto all = new Communicators;  // Paddle destroys its own while the process ends
  return *all;
}

// Of paddle.distributed.launch and spawn: how many processes there are.
int32_t count_processes() {
  const char* text = std::getenv("PADDLE_TRAINERS_NUM");
  return std::max(text == nullptr ? 1 : std::atoi(text), 1);
}

Status destroy(Communicator* communicator) {
  communicators().remove(communicator);
  const uhal_status status = uhal_communicator_destroy(communicator->handle);
  delete communicator;
  return status == UHAL_OK ? kSuccess : kFailed;
}

Status all_reduce(const void* source, void* destination, size_t count, Dtype dtype, uint32_t reduction,
                  Communicator* communicator, Stream* stream) {
  return run(communicator, stream, UHAL_ALL_REDUCE, source, destination, count, dtype, 0,
             collective_reduction_of(reduction));
}

Status broadcast(void* buffer, size_t count, Dtype dtype, size_t root, Communicator* communicator, Stream* stream) {
  return run(communicator, stream, UHAL_BROADCAST, buffer, buffer, count, dtype, root);
}

Status reduce_to_root(const void* source, void* destination, size_t count, Dtype dtype, uint32_t reduction, size_t root,
                      Communicator* communicator, Stream* stream) {
  return run(communicator, stream, UHAL_REDUCE, source, destination, count, dtype, root,
             collective_reduction_of(reduction));
}

Status all_gather(const void* source, void* destination, size_t count, Dtype dtype, Communicator* communicator,
                  Stream* stream) {
  return run(communicator, stream, UHAL_ALL_GATHER, source, destination, count, dtype);
}

// `count`, as everywhere, is that of what a rank gets.
Status reduce_scatter(const void* source, void* destination, size_t count, Dtype dtype, uint32_t reduction,
                      Communicator* communicator, Stream* stream) {
  return run(communicator, stream, UHAL_REDUCE_SCATTER, source, destination, count, dtype, 0,
             collective_reduction_of(reduction));
}

Status group_start() {
  expect(uhal_communicator_group_start());
  return kSuccess;
}

Status group_end() {
  own_messages.clear();
  if (std::uncaught_exceptions() > 0) {  // Paddle ends its groups in destructors, out of which nothing may be thrown
    uhal_communicator_group_cancel();
    return kSuccess;
  }
  expect(uhal_communicator_group_end());
  return kSuccess;
}

Status send(const void* source, size_t count, Dtype dtype, size_t to, Communicator* communicator, Stream* stream) {
  if (static_cast<int32_t>(to) != communicator->rank) {
    return run(communicator, stream, UHAL_SEND, source, nullptr, count, dtype, to);
  }
  own_messages.push_back({communicator, source, count * uhal_dtype_size(to_uhal(dtype))});
  return kSuccess;
}

Status receive(void* destination, size_t count, Dtype dtype, size_t from, Communicator* communicator, Stream* stream) {
  if (static_cast<int32_t>(from) != communicator->rank) {
    return run(communicator, stream, UHAL_RECEIVE, nullptr, destination, count, dtype, from);
  }
  const uint64_t bytes = count * uhal_dtype_size(to_uhal(dtype));
  for (auto message = own_messages.begin(); message != own_messages.end(); ++message) {
    if (message->communicator != communicator) continue;
    if (message->bytes != bytes) break;
    const void* source = message->source;
    own_messages.erase(message);
    if (source == destination) return kSuccess;
    expect(uhal_copy(handle_of(stream), destination, source, bytes, UHAL_COPY_DEVICE_TO_DEVICE));
    return kSuccess;
  }
  raise(UHAL_INVALID_ARGUMENT, "(unihal) collective: rank " + std::to_string(communicator->rank) + " receives " +
                                   std::to_string(bytes) +
                                   " bytes from itself that it has not sent; send first, in the same group");
}

// Blocks of sizes of their own, which the ABI's all_to_all has not.
Status all_to_all(const void** sources, const size_t* send_counts, const Dtype* send_dtypes, void** destinations,
                  const size_t* receive_counts, const Dtype* receive_dtypes, size_t, size_t ranks,
                  Communicator* communicator, Stream* stream) {
  group_start();
  try {
    for (size_t i = 0; i < ranks; ++i) {
      if (send_counts[i] > 0) send(sources[i], send_counts[i], send_dtypes[i], i, communicator, stream);
    }
    for (size_t i = 0; i < ranks; ++i) {
      if (receive_counts[i] > 0) {
        receive(destinations[i], receive_counts[i], receive_dtypes[i], i, communicator, stream);
      }
    }
  } catch (...) {
    own_messages.clear();
    uhal_communicator_group_cancel();
    throw;
  }
  return group_end();
}

}  // namespace

void create_communicator_id(uhal_device* device, RootId* id) {
  uhal_communicator_id made = {};
  if (id->size < sizeof made) {
    raise(UHAL_INVALID_ARGUMENT, "(unihal) collective: Paddle keeps " + std::to_string(id->size) +
                                     " bytes of an id that has " + std::to_string(sizeof made));
  }
  expect(uhal_communicator_id_create(device, &made));
  std::memcpy(id->data, &made, sizeof made);
}

Communicator* create_communicator(uhal_device* device, size_t size, const RootId* id, size_t rank) {
  uhal_communicator_id given = {};
  if (id->size < sizeof given) raise(UHAL_INVALID_ARGUMENT, "(unihal) collective: an id of Paddle's is too short");
  std::memcpy(&given, id->data, sizeof given);
  auto made = new Communicator{nullptr, device, static_cast<int32_t>(rank), static_cast<int32_t>(size)};
  const uhal_status status =
      uhal_communicator_create(device, made->rank, made->size, &given, kTimeoutMilliseconds, &made->handle);
  if (status != UHAL_OK) {
    delete made;
    raise_last_error(status, "collective");
  }
  communicators().add(made);
  return made;
}

std::optional<Communicator> communicator_of_all(const uhal_device* device, const char* kernel) {
  const int32_t processes = count_processes();
  if (processes == 1) {
    const auto other = communicators().find([](const Communicator& one) { return one.size > 1; });
    if (!other) return std::nullopt;
    raise(UHAL_FAILED_PRECONDITION, "(unihal) " + std::string(kernel) + ": a communicator has " +
                                        std::to_string(other->size) +
                                        " ranks, but PADDLE_TRAINERS_NUM names one process; set it to their number, "
                                        "as paddle.distributed.launch does");
  }
  auto found =
      communicators().find([&](const Communicator& one) { return one.size == processes && one.device == device; });
  if (!found) {
    raise(UHAL_FAILED_PRECONDITION,
          "(unihal) " + std::string(kernel) + ": PADDLE_TRAINERS_NUM is " + std::to_string(processes) +
              ", and there is no communicator of so many ranks on this device yet, without which the statistics were "
              "this process' alone; call paddle.distributed.init_parallel_env() and then, on all ranks, wrap the model "
              "in paddle.DataParallel or call paddle.distributed.barrier()");
  }
  return found;
}

void submit(const Communicator& communicator, Stream* stream, uhal_collective_kind kind, const void* source,
            void* destination, int64_t count, uhal_dtype dtype, int32_t peer, uhal_reduction reduction) {
  uhal_collective collective = {};
  collective.struct_size = sizeof collective;
  collective.kind = kind;
  collective.dtype = dtype;
  collective.reduction = reduction;
  collective.peer = peer;
  collective.source = source;
  collective.destination = destination;
  collective.count = count;
  expect(uhal_communicator_launch(communicator.handle, handle_of(stream), &collective));
}

const Callback* collective_callbacks() {
#define UNIHAL_CALLBACK(slot, function)      \
  {                                          \
    slot, reinterpret_cast<void*>(&function) \
  }
  static const Callback table[] = {
      UNIHAL_CALLBACK("xccl_get_comm_name", name),
      UNIHAL_CALLBACK("xccl_get_unique_id_size", id_size),
      UNIHAL_CALLBACK("xccl_destroy_comm", destroy),
      UNIHAL_CALLBACK("xccl_all_reduce", all_reduce),
      UNIHAL_CALLBACK("xccl_broadcast", broadcast),
      UNIHAL_CALLBACK("xccl_reduce", reduce_to_root),
      UNIHAL_CALLBACK("xccl_all_gather", all_gather),
      UNIHAL_CALLBACK("xccl_reduce_scatter", reduce_scatter),
      UNIHAL_CALLBACK("xccl_group_start", group_start),
      UNIHAL_CALLBACK("xccl_group_end", group_end),
      UNIHAL_CALLBACK("xccl_send", send),
      UNIHAL_CALLBACK("xccl_recv", receive),
      UNIHAL_CALLBACK("xccl_all_to_all", all_to_all),
      {nullptr, nullptr},
  };
#undef UNIHAL_CALLBACK
  return table;
}

}  // namespace unihal::paddle
