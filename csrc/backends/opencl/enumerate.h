// Which devices there are, which of them the backend can use, and which it does use.
#pragma once

#include <string>
#include <vector>

#include "csrc/backends/opencl/api.h"
#include "unihal/status.h"

namespace unihal::opencl {

struct FoundDevice {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  std::string name;  // of the board
  std::string platform_name;
  std::string vendor;
  std::string pci_bus_id;  // empty if the driver does not say
  cl_bitfield type = 0;    // CL_DEVICE_TYPE_*
  std::string refusal;     // why the backend cannot use it; empty if it can
};

// What there is: usable devices in order of preference (AMD's GPUs, by AMD's driver first; other GPUs, other
// accelerators, processors; of each, cards first), then those that are refused, with the reason.
struct Inventory {
  std::string failure;  // why there is nothing at all: the library or the loader said so
  std::vector<FoundDevice> usable;
  std::vector<FoundDevice> refused;
};

Inventory take_inventory();

// The devices to serve. `wish` is the value of UNIHAL_OPENCL_DEVICE: empty, or a list, separated by commas, of indices
// into `usable` and parts of names, in any case ("580", with three digits, is a name's unless there are so many
// devices). Without a wish a card that two drivers see serves once, and processors serve only if the backend was asked
// for by its name and there is nothing else: a driver for the processor that came with another program must not change
// what a program computes on. A report says which devices are left out, or were refused. UHAL_UNAVAILABLE or
// UHAL_INVALID_ARGUMENT, with a report of what there is, if that leaves none.
uhal_status choose_devices(const Inventory& inventory, const std::string& wish, bool asked_for,
                           std::vector<FoundDevice>* chosen);

}  // namespace unihal::opencl
