// Paddle's collectives (its xccl callbacks) on communicators of the ABI.
#pragma once

#include <cstddef>
#include <optional>

#include "plugins/paddle/device_interface.h"
#include "plugins/paddle/stream.h"
#include "unihal/collectives.h"
#include "unihal/device.h"

namespace unihal::paddle {

// C_CCLRootId: the bytes that ranks share.
struct RootId {
  size_t size;
  void* data;
};
// Paddle's C_CCLComm. It lets ranks send to themselves, which the ABI does not.
struct Communicator {
  uhal_communicator* handle;
  const uhal_device* device;
  int32_t rank;
  int32_t size;
};

// For callbacks that name no device: `device` is the current one of the calling thread. What fails is raised.
void create_communicator_id(uhal_device* device, RootId* id);
Communicator* create_communicator(uhal_device* device, size_t size, const RootId* id, size_t rank);

// For kernels that compute over the batches of all processes: the communicator of all of them, on a device. Nothing
// where there is one process only. Where there are more, and no such communicator, UHAL_FAILED_PRECONDITION is raised,
// for the Paddle kernel `kernel`.
std::optional<Communicator> communicator_of_all(const uhal_device* device, const char* kernel);

// Submits a collective to a stream; what fails is raised.
void submit(const Communicator& communicator, Stream* stream, uhal_collective_kind kind, const void* source,
            void* destination, int64_t count, uhal_dtype dtype, int32_t peer = 0,
            uhal_reduction reduction = UHAL_REDUCTION_SUM);

// The callbacks that are the same for all device types.
const Callback* collective_callbacks();

}  // namespace unihal::paddle
