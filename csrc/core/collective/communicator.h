// Communicators: handles, and the state that the core keeps for each.
#pragma once

#include <mutex>

#include "csrc/core/base/handle_pool.h"
#include "csrc/core/handle/device.h"
#include "unihal/collectives.h"

namespace unihal::core {

struct Communicator : HandleSlot {
  std::mutex submission;  // one submitter at a time; taken before those of streams
  uhal_device* device = nullptr;
  const uhal_collectives* table = nullptr;
  uhal_backend_communicator* backend_communicator = nullptr;
  int32_t rank = 0;
  int32_t size = 0;
  uint64_t number = 0;  // in order of creation
};

using CommunicatorPool = HandlePool<Communicator, 0x5c, uhal_communicator*>;
using PinnedCommunicator = Pinned<CommunicatorPool>;
CommunicatorPool& communicator_pool();

// UHAL_INVALID_ARGUMENT about a handle that is not a live communicator.
uhal_status refuse_communicator(const void* handle);

}  // namespace unihal::core
