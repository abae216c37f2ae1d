// A library with NCCL's names, for ranks that are threads of one process, on the driver of hip_on_host.
//
// Its calls wait for the other ranks: in ncclCommInitRank, and where a group ends, as the real one's do where they
// connect ranks. Of numbers it reduces float32 and int32.
//
// Environment:
//   NCCL_ON_HOST_VERSION   what ncclGetVersion says; 22105 otherwise
//   NCCL_ON_HOST_STUCK     1: collectives are in the stream at once, and stay there until they are aborted, as kernels
//                          do that wait for a rank which does not come
//   NCCL_ON_HOST_PATIENCE  milliseconds for which ncclCommInitRank waits; for good otherwise, as the real one does
//   NCCL_ON_HOST_ERROR     N: the N-th question how a communicator is, and all later ones, are answered with code 6
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#define NCCL_EXPORT extern "C" __attribute__((visibility("default")))

using Stream = void*;

// The driver's, beside which this library lies.
extern "C" {
int cuMemcpyAsync(void* destination, const void* source, size_t bytes, Stream stream);
int cuStreamSynchronize(Stream stream);
int cuLaunchHostFunc(Stream stream, void (*function)(void*), void* user_data);
}

namespace {

enum Code { kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6 };
enum class Kind { kAllReduce, kReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kReceive };

constexpr size_t kDtypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr int kInt32 = 2;

using Bytes = std::vector<char>;

struct Id {
  char bytes[128];
};

struct Clique {
  int size = 0;
  int come = 0;
  std::map<std::pair<int, int>, Bytes> sources;              // by collective and rank
  std::map<std::pair<int, int>, std::deque<Bytes>> letters;  // by sender and receiver
};

struct Call {
  Kind kind;
  const void* source;
  void* destination;
  size_t count;
  int dtype;
  int reduction;
  int peer;
  Stream stream;
  int number = 0;  // among the rank's collectives
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int collectives = 0;
  std::deque<Bytes> uploads;  // which streams may still read
  bool is_aborted = false;
};

std::mutex mutex;
// Never destroyed: a thread that was left to itself waits while the process ends.
std::condition_variable& changed = *new std::condition_variable;
std::map<std::string, std::shared_ptr<Clique>>& cliques = *new std::map<std::string, std::shared_ptr<Clique>>;
std::atomic<int> ids{0};
std::atomic<int> questions{0};

struct Group {
  int depth = 0;
  std::vector<std::pair<Communicator*, Call>> calls;
};
thread_local Group group;

int variable(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

template <class T>
T combine(T a, T b, int reduction) {
  return reduction == 1 ? a * b : reduction == 2 ? std::max(a, b) : reduction == 3 ? std::min(a, b) : a + b;
}

template <class T>
Bytes reduce(const std::vector<const Bytes*>& sources, size_t offset, size_t count, int reduction) {
  Bytes result(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    T total = {};
    for (size_t rank = 0; rank < sources.size(); ++rank) {
      T value;
      std::memcpy(&value, sources[rank]->data() + offset + i * sizeof(T), sizeof value);
      total = rank == 0 ? value : combine(total, value, reduction);
    }
    if (reduction == 4) total = total / static_cast<T>(sources.size());
    std::memcpy(result.data() + i * sizeof(T), &total, sizeof total);
  }
  return result;
}

size_t source_bytes(const Communicator& self, const Call& call) {
  const size_t block = call.count * kDtypeBytes[call.dtype];
  switch (call.kind) {
    case Kind::kReduceScatter:
      return block * static_cast<size_t>(self.clique->size);
    case Kind::kBroadcast:
      return self.rank == call.peer ? block : 0;
    case Kind::kReceive:
      return 0;
    default:
      return block;
  }
}

// Reads what a call sends. The lock is held.
int deposit(Communicator* self, Call* call) {
  Bytes source(source_bytes(*self, *call));
  if (!source.empty()) {
    int code = cuMemcpyAsync(source.data(), call->source, source.size(), call->stream);
    if (code == 0) code = cuStreamSynchronize(call->stream);
    if (code != 0) return 1;
  }
  if (call->kind == Kind::kSend) {
    self->clique->letters[{self->rank, call->peer}].push_back(std::move(source));
  } else if (call->kind != Kind::kReceive) {
    call->number = self->collectives++;
    self->clique->sources[{call->number, self->rank}] = std::move(source);
  }
  return kSuccess;
}

// What a call gives; false if somebody has not come.
bool result_of(Communicator* self, const Call& call, Bytes* result) {
  Clique& clique = *self->clique;
  if (call.kind == Kind::kReceive) {
    std::deque<Bytes>& letters = clique.letters[{call.peer, self->rank}];
    if (letters.empty()) return false;
    *result = std::move(letters.front());
    letters.pop_front();
    return true;
  }
  std::vector<const Bytes*> sources;
  for (int rank = 0; rank < clique.size; ++rank) {
    const auto found = clique.sources.find({call.number, rank});
    if (found == clique.sources.end()) return false;
    sources.push_back(&found->second);
  }
  const size_t block = call.count * kDtypeBytes[call.dtype];
  const size_t offset = call.kind == Kind::kReduceScatter ? block * static_cast<size_t>(self->rank) : 0;
  if (call.kind == Kind::kBroadcast) {
    *result = *sources[static_cast<size_t>(call.peer)];
  } else if (call.kind == Kind::kAllGather) {
    for (const Bytes* source : sources) result->insert(result->end(), source->begin(), source->end());
  } else if (call.kind != Kind::kReduce || self->rank == call.peer) {
    *result = call.dtype == kInt32 ? reduce<int>(sources, offset, call.count, call.reduction)
                                   : reduce<float>(sources, offset, call.count, call.reduction);
  }
  return true;
}

// As a kernel that waits: the stream stands still until the communicator is aborted.
void stand_still(void* communicator) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return static_cast<Communicator*>(communicator)->is_aborted; });
}

int add(Communicator* self, const Call& call) {
  if (group.depth == 0 || self == nullptr) return kInvalidUsage;  // ours always are in a group
  group.calls.emplace_back(self, call);
  return kSuccess;
}

}  // namespace

NCCL_EXPORT int ncclGetVersion(int* version) {
  *version = variable("NCCL_ON_HOST_VERSION", 22105);
  return kSuccess;
}

NCCL_EXPORT int ncclGetUniqueId(Id* id) {
  std::memset(id->bytes, 0, sizeof id->bytes);
  const std::string text = "clique " + std::to_string(++ids);
  std::memcpy(id->bytes, text.data(), text.size());
  return kSuccess;
}

NCCL_EXPORT int ncclCommInitRank(Communicator** made, int size, Id id, int rank) {
  // It stays for good, where a check for leaks finds it.
  static auto* const made_so_far = new std::vector<Communicator*>;
  std::unique_lock<std::mutex> lock(mutex);
  std::shared_ptr<Clique>& clique = cliques[std::string(id.bytes, sizeof id.bytes)];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->size = size;
  ++clique->come;
  *made = made_so_far->emplace_back(new Communicator);
  (*made)->clique = clique;
  (*made)->rank = rank;
  changed.notify_all();
  const auto all_came = [clique = clique, size] { return clique->come == size; };
  if (const int patience = variable("NCCL_ON_HOST_PATIENCE", 0); patience != 0) {
    return changed.wait_for(lock, std::chrono::milliseconds(patience), all_came) ? kSuccess : kSystemError;
  }
  changed.wait(lock, all_came);
  return kSuccess;
}

NCCL_EXPORT int ncclCommDestroy(Communicator*) { return kSuccess; }  // streams may still read its uploads

NCCL_EXPORT int ncclCommAbort(Communicator* self) {
  const std::lock_guard<std::mutex> lock(mutex);
  self->is_aborted = true;
  changed.notify_all();
  return kSuccess;
}

NCCL_EXPORT int ncclCommGetAsyncError(Communicator* self, int* code) {
  const int from = variable("NCCL_ON_HOST_ERROR", 0);
  *code = self == nullptr ? kInvalidArgument : from > 0 && ++questions >= from ? kRemoteError : kSuccess;
  return kSuccess;
}

NCCL_EXPORT const char* ncclGetErrorString(int code) {
  return code == kRemoteError ? "remote process exited or there was a network error" : "an error";
}

NCCL_EXPORT int ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}

NCCL_EXPORT int ncclGroupEnd() {
  if (--group.depth > 0) return kSuccess;
  std::vector<std::pair<Communicator*, Call>> calls = std::exchange(group.calls, {});
  if (variable("NCCL_ON_HOST_STUCK", 0) != 0) {
    for (const auto& [self, call] : calls) {
      if (cuLaunchHostFunc(call.stream, stand_still, self) != 0) return 1;
    }
    return kSuccess;
  }
  std::unique_lock<std::mutex> lock(mutex);
  for (auto& [self, call] : calls) {
    if (const int code = deposit(self, &call); code != kSuccess) return code;
  }
  changed.notify_all();
  for (const auto& [self, call] : calls) {
    Bytes result;
    if (call.kind != Kind::kSend) {
      changed.wait(lock, [&, self = self, &call = call] { return self->is_aborted || result_of(self, call, &result); });
    }
    if (self->is_aborted) return kRemoteError;
    if (result.empty()) continue;
    self->uploads.push_back(std::move(result));
    const Bytes& upload = self->uploads.back();
    if (cuMemcpyAsync(call.destination, upload.data(), upload.size(), call.stream) != 0) return 1;
  }
  return kSuccess;
}

NCCL_EXPORT int ncclAllReduce(const void* source, void* destination, size_t count, int dtype, int reduction,
                              Communicator* self, Stream stream) {
  return add(self, {Kind::kAllReduce, source, destination, count, dtype, reduction, 0, stream});
}

NCCL_EXPORT int ncclReduce(const void* source, void* destination, size_t count, int dtype, int reduction, int root,
                           Communicator* self, Stream stream) {
  return add(self, {Kind::kReduce, source, destination, count, dtype, reduction, root, stream});
}

NCCL_EXPORT int ncclReduceScatter(const void* source, void* destination, size_t count, int dtype, int reduction,
                                  Communicator* self, Stream stream) {
  return add(self, {Kind::kReduceScatter, source, destination, count, dtype, reduction, 0, stream});
}

NCCL_EXPORT int ncclAllGather(const void* source, void* destination, size_t count, int dtype, Communicator* self,
                              Stream stream) {
  return add(self, {Kind::kAllGather, source, destination, count, dtype, 0, 0, stream});
}

NCCL_EXPORT int ncclBroadcast(const void* source, void* destination, size_t count, int dtype, int root,
                              Communicator* self, Stream stream) {
  return add(self, {Kind::kBroadcast, source, destination, count, dtype, 0, root, stream});
}

NCCL_EXPORT int ncclSend(const void* source, size_t count, int dtype, int peer, Communicator* self, Stream stream) {
  return add(self, {Kind::kSend, source, nullptr, count, dtype, 0, peer, stream});
}

NCCL_EXPORT int ncclRecv(void* destination, size_t count, int dtype, int peer, Communicator* self, Stream stream) {
  return add(self, {Kind::kReceive, nullptr, destination, count, dtype, 0, peer, stream});
}
