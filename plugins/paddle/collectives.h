// Paddle's collectives (its xccl callbacks) on communicators of the ABI.
#pragma once

#include <cstddef>

#include "plugins/paddle/device_interface.h"
#include "unihal/device.h"

namespace unihal::paddle {

// C_CCLRootId: the bytes that ranks share.
struct RootId {
  size_t size;
  void* data;
};
struct Communicator;

// For callbacks that name no device: `device` is the current one of the calling thread. What fails is raised.
void create_communicator_id(uhal_device* device, RootId* id);
Communicator* create_communicator(uhal_device* device, size_t size, const RootId* id, size_t rank);

// The callbacks that are the same for all device types.
const Callback* collective_callbacks();

}  // namespace unihal::paddle
