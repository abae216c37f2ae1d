// Collectives of tensors, for python/unihal_torch/distributed.py, which is PyTorch's process group. Called by ctypes.
//
// All return NULL, or what went wrong, as text of the calling thread that is valid until its next call.
#include <cstring>

#include "plugins/torch/runtime.h"
#include "unihal/collectives.h"

#define UNIHAL_TORCH_EXPORT extern "C" __attribute__((visibility("default")))

namespace unihal::pytorch {
namespace {

template <class Call>
const char* described(Call&& call) {
  thread_local std::string text;
  try {
    if (call() == UHAL_OK) return nullptr;
    text = uhal_last_error()->message;
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.c_str();
}

}  // namespace
}  // namespace unihal::pytorch

using namespace unihal::pytorch;

// `id` has room for uhal_communicator_id's bytes.
UNIHAL_TORCH_EXPORT const char* uhal_torch_communicator_id(int32_t index, char* id) {
  return described([&] {
    uhal_communicator_id made = {};
    const uhal_status status = uhal_communicator_id_create(device(static_cast<c10::DeviceIndex>(index)), &made);
    std::memcpy(id, made.bytes, sizeof made.bytes);
    return status;
  });
}

UNIHAL_TORCH_EXPORT const char* uhal_torch_communicator_create(int32_t index, int32_t rank, int32_t size,
                                                               const char* id, int64_t timeout_milliseconds,
                                                               uhal_communicator** communicator) {
  return described([&] {
    uhal_communicator_id given = {};
    std::memcpy(given.bytes, id, sizeof given.bytes);
    return uhal_communicator_create(device(static_cast<c10::DeviceIndex>(index)), rank, size, &given,
                                    timeout_milliseconds, communicator);
  });
}

UNIHAL_TORCH_EXPORT const char* uhal_torch_communicator_destroy(uhal_communicator* communicator) {
  return described([&] { return uhal_communicator_destroy(communicator); });
}

UNIHAL_TORCH_EXPORT const char* uhal_torch_communicator_abort(uhal_communicator* communicator) {
  return described([&] { return uhal_communicator_abort(communicator); });
}

// A collective on the device's current stream. `dtype`: the ABI's number of it.
UNIHAL_TORCH_EXPORT const char* uhal_torch_collective(uhal_communicator* communicator, int32_t index, int32_t kind,
                                                      int32_t dtype, int32_t reduction, int32_t peer,
                                                      const void* source, void* destination, int64_t count) {
  return described([&] {
    uhal_collective collective = {};
    collective.struct_size = sizeof collective;
    collective.kind = kind;
    collective.dtype = dtype;
    collective.reduction = reduction;
    collective.peer = peer;
    collective.source = source;
    collective.destination = destination;
    collective.count = count;
    return uhal_communicator_launch(communicator, current_stream(static_cast<c10::DeviceIndex>(index)), &collective);
  });
}

UNIHAL_TORCH_EXPORT const char* uhal_torch_group_start() { return described(uhal_communicator_group_start); }
UNIHAL_TORCH_EXPORT const char* uhal_torch_group_end() { return described(uhal_communicator_group_end); }
UNIHAL_TORCH_EXPORT void uhal_torch_group_cancel() { uhal_communicator_group_cancel(); }
