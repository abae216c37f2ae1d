// An opened device: its context, what is known about it, its memory and its programs.
#pragma once

#include <cstdint>
#include <string>

#include "csrc/backends/opencl/api.h"
#include "csrc/backends/opencl/enumerate.h"
#include "csrc/backends/opencl/memory.h"
#include "csrc/backends/opencl/program.h"
#include "csrc/kernels/queue.h"
#include "unihal/backend.h"

namespace unihal::opencl {

struct Device {
  explicit Device(int32_t ordinal, const FoundDevice& found);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Makes the context and asks for the limits. After a failure the device is of no use.
  uhal_status open();

  static Device* from(uhal_backend_device* handle) { return reinterpret_cast<Device*>(handle); }
  uhal_backend_device* handle() { return reinterpret_cast<uhal_backend_device*>(this); }

  const int32_t ordinal;
  const cl_platform_id platform;
  const cl_device_id id;
  const std::string name;  // of the board, where the driver tells
  const std::string vendor;
  const std::string driver;      // "PoCL 3.1, OpenCL 3.0"
  std::string software;          // the driver and the libraries in use, for people
  const std::string pci_bus_id;  // empty if the driver does not say
  cl_context context = nullptr;
  kernels::DeviceTraits traits;
  uint64_t total_memory = 0;
  uint64_t max_allocation = 0;
  bool divides_exactly = false;  // float division and square roots, on request
  cl_mem clock_cell = nullptr;   // what commands that stand in for markers write to; nullptr if markers have times

  Memory memory;
  Programs programs;

 private:
  uhal_status find_libraries();
  uhal_status prepare_clock();
};

}  // namespace unihal::opencl
