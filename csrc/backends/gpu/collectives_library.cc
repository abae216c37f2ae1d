#include "csrc/backends/gpu/collectives_library.h"

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/gpu/library.h"

namespace unihal::gpu {
namespace {

constexpr int kBytes = 0;  // ncclInt8
constexpr int kUnknownDtype = -1;

// ncclDataType_t, by dtype. Booleans are bytes of 0 and 1.
constexpr int kDtypesOfNccl[UHAL_DTYPE_COUNT] = {
    kUnknownDtype,
    1,
    0,
    kUnknownDtype,
    2,
    4,
    1,
    kUnknownDtype,
    3,
    5,
    6,
    9,
    7,
    8,
    kUnknownDtype,
    kUnknownDtype,
    kUnknownDtype,
    kUnknownDtype,
};

constexpr int kSum = 0;  // ncclRedOp_t
constexpr int kMaximum = 2;
constexpr int kMinimum = 3;

// By reduction.
constexpr int kReductionsOfNccl[UHAL_REDUCTION_LIMIT] = {kSum, 1, kMinimum, kMaximum, 4};

// bfloat16 and the average.
constexpr int kVersionOfLaterThings = 21000;

int reduction_of(const uhal_collective& collective) {
  if (collective.dtype != UHAL_BOOL) return kReductionsOfNccl[collective.reduction];
  const bool is_and = collective.reduction == UHAL_REDUCTION_PRODUCT || collective.reduction == UHAL_REDUCTION_MINIMUM;
  return is_and ? kMinimum : kMaximum;
}

bool reduces(uhal_collective_kind kind) {
  return kind == UHAL_ALL_REDUCE || kind == UHAL_REDUCE_SCATTER || kind == UHAL_REDUCE;
}

const char* product() { return vendor.kind == Vendor::kHip ? "RCCL" : "NCCL"; }

std::string advice() {
  return vendor.kind == Vendor::kHip
             ? "Install RCCL (package rccl of ROCm), or name ROCm's folder in ROCM_PATH"
             : "Install NCCL (Iluvatar's SDK has it; for NVIDIA the package libnccl2 or nvidia-nccl-cu12), and let "
               "LD_LIBRARY_PATH name its folder";
}

}  // namespace

const CollectiveLibrary& CollectiveLibrary::instance() {
  static const CollectiveLibrary* const library = new CollectiveLibrary;
  return *library;
}

CollectiveLibrary::CollectiveLibrary() {
  const std::string reason = open();
  if (!reason.empty()) {
    refusal_ = std::string("there is no ") + product() + " for collectives: " + reason + ". " + advice();
  }
}

std::string CollectiveLibrary::open() {
  std::string reason;
  Library library;
  const bool is_hip = vendor.kind == Vendor::kHip;
  if (!library.open(library_files(vendor.kind, is_hip ? "rccl" : "nccl", {is_hip ? 1 : 2}), &reason)) return reason;
  library.find("ncclGetVersion", &functions_.get_version)
      .find("ncclGetUniqueId", &functions_.get_unique_id)
      .find("ncclCommInitRank", &functions_.init)
      .find("ncclCommDestroy", &functions_.destroy)
      .find("ncclCommAbort", &functions_.abort)
      .find("ncclCommGetAsyncError", &functions_.async_error)
      .find("ncclGetErrorString", &functions_.error_text)
      .find_if_present("ncclGetLastError", &functions_.last_error)
      .find("ncclGroupStart", &functions_.group_start)
      .find("ncclGroupEnd", &functions_.group_end)
      .find("ncclAllReduce", &functions_.all_reduce)
      .find("ncclReduce", &functions_.reduce)
      .find("ncclReduceScatter", &functions_.reduce_scatter)
      .find("ncclAllGather", &functions_.all_gather)
      .find("ncclBroadcast", &functions_.broadcast)
      .find("ncclSend", &functions_.send)
      .find("ncclRecv", &functions_.receive);
  if (!library.complete(&reason)) return reason + ", so it is too old, or none";
  int number = 0;
  if (const int code = functions_.get_version(&number); code != kCollectiveSuccess) return describe(code);
  // 2.8 was 2804 for 2.8.4, 2.9 and later are 20908.
  const int major = number >= 10000 ? number / 10000 : number / 1000;
  const int minor = number >= 10000 ? number % 10000 / 100 : number % 1000 / 100;
  version_ = major * 10000 + minor * 100 + number % 100;
  name_ = std::string(product()) + " " + std::to_string(major) + "." + std::to_string(minor) + "." +
          std::to_string(number % 100);
  return "";
}

std::string CollectiveLibrary::refusal_of(const uhal_collective& collective) const {
  if (!reduces(collective.kind)) return "";
  const bool is_late = collective.dtype == UHAL_BFLOAT16 || collective.reduction == UHAL_REDUCTION_AVERAGE;
  if (kDtypesOfNccl[collective.dtype] != kUnknownDtype && (!is_late || version_ >= kVersionOfLaterThings)) return "";
  return name_ + " does not reduce " + dtype_name(collective.dtype) +
         (is_late ? " so before 2.10; use a newer one, or float32 and a sum" : "; use a wider dtype");
}

int CollectiveLibrary::submit(const uhal_collective& c, int32_t size, NativeCommunicator communicator,
                              NativeStream stream) const {
  const auto count = static_cast<size_t>(c.count);
  const size_t bytes = count * static_cast<size_t>(dtype_size(c.dtype));
  const int dtype = kDtypesOfNccl[c.dtype];
  // Of one rank all are copies, which NCCL makes of sums; the kernel that 2.28 has for averages left the end of one
  // out.
  const int reduction = size == 1 ? kSum : reduction_of(c);
  switch (c.kind) {
    case UHAL_ALL_REDUCE:
      return functions_.all_reduce(c.source, c.destination, count, dtype, reduction, communicator, stream);
    case UHAL_REDUCE:
      return functions_.reduce(c.source, c.destination, count, dtype, reduction, c.peer, communicator, stream);
    case UHAL_REDUCE_SCATTER:
      return functions_.reduce_scatter(c.source, c.destination, count, dtype, reduction, communicator, stream);
    case UHAL_ALL_GATHER:
      return functions_.all_gather(c.source, c.destination, bytes, kBytes, communicator, stream);
    case UHAL_BROADCAST:
      return functions_.broadcast(c.source, c.destination, bytes, kBytes, c.peer, communicator, stream);
    case UHAL_SEND:
      return functions_.send(c.source, bytes, kBytes, c.peer, communicator, stream);
    case UHAL_RECEIVE:
      return functions_.receive(c.destination, bytes, kBytes, c.peer, communicator, stream);
    default:
      break;
  }
  // All to all: a block to each rank, this one too, and one from each.
  for (int32_t peer = 0; peer < size; ++peer) {
    const size_t offset = static_cast<size_t>(peer) * bytes;
    int code = functions_.send(static_cast<const char*>(c.source) + offset, bytes, kBytes, peer, communicator, stream);
    if (code == kCollectiveSuccess) {
      code = functions_.receive(static_cast<char*>(c.destination) + offset, bytes, kBytes, peer, communicator, stream);
    }
    if (code != kCollectiveSuccess) return code;
  }
  return kCollectiveSuccess;
}

std::string CollectiveLibrary::describe(int code) const {
  const char* text = functions_.error_text(code);
  std::string said = (name_.empty() ? product() : name_) + ": " + (text != nullptr ? text : "unknown error") + " (" +
                     std::to_string(code) + ")";
  const char* more = functions_.last_error != nullptr ? functions_.last_error(nullptr) : nullptr;
  if (more != nullptr && *more != '\0') said += std::string(", ") + more;
  return said;
}

}  // namespace unihal::gpu
