// The devices that the environment asks for.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace on_host {

struct Device {
  int number = 0;
  std::string name;
  std::string architecture;  // "gfx1030"; a capability, "7.1", under CUDA's names
  size_t memory = 0;
  std::atomic<size_t> used{0};
  std::atomic<uint64_t> peers{0};  // bits of the devices whose memory it was let reach
  std::atomic<int> lost{0};        // what everything fails with since a fault
};

// How many are visible.
int device_count();

// One of them; nullptr if there is none of that number.
Device* find_device(int number);

// The answer to an attribute's number, the vendor's; false if it is not one that is known here.
bool attribute_of(const Device& device, int attribute, int* value);

// "gfx1030", or "sm_71" under CUDA's names: what a compiler calls the device.
std::string compiled_for(const Device& device);

// The device that is current to the calling thread: HIP begins with the first, CUDA with none (nullptr).
Device* current_device();
void set_current_device(Device* device);

}  // namespace on_host
