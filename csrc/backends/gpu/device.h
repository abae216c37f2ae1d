// An opened device: what is known about it, its memory and its programs.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/blas.h"
#include "csrc/backends/gpu/dnn.h"
#include "csrc/backends/gpu/fft.h"
#include "csrc/backends/gpu/memory.h"
#include "csrc/backends/gpu/program.h"
#include "csrc/kernels/queue.h"
#include "unihal/backend.h"

namespace unihal::gpu {

struct Device {
  // The driver is open.
  explicit Device(int32_t ordinal, int number);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Asks for the limits and makes what every stream needs. After a failure the device is of no use.
  uhal_status open();

  // Lets the calling thread's further calls of the driver be for this device. Before every other call.
  uhal_status make_current() const;

  // Whether copies to and from a peer go without the host; from then on they do. Of either device's threads.
  bool reaches(Device& peer);

  // Copies a few bytes from the device and waits for it: not in order with any stream. From any thread.
  uhal_status read(void* destination, const void* source, size_t bytes);

  // Sets a few bytes of the device to zero, likewise.
  uhal_status clear(void* destination, size_t bytes);

  static Device* from(uhal_backend_device* handle) { return reinterpret_cast<Device*>(handle); }
  uhal_backend_device* handle() { return reinterpret_cast<uhal_backend_device*>(this); }

  const int32_t ordinal;  // among the devices that serve
  const int number;       // the driver's
  std::string name;
  std::string software;  // the driver, the compiler and the libraries in use, for people
  std::string pci_bus_id;
  Architecture architecture;
  kernels::DeviceTraits traits;
  uint64_t total_memory = 0;
  int32_t clock_megahertz = 0;
  double peak_gigabytes_per_second = 0;
  bool has_managed_memory = false;
  bool shares_host_memory = false;

  Memory memory;
  Programs programs;
  BlasLibraries blas;
  std::unique_ptr<Dnn> dnn;  // nullptr: there is none
  std::unique_ptr<Fft> fft;  // likewise

 private:
  uhal_status ask(int attribute, int32_t* value) const;
  uhal_status read_limits();
  uhal_status open_libraries(LibraryNotes* notes);

  bool enable_peer(const Device& peer);

  void* context_ = nullptr;
  std::mutex peers_mutex_;  // guards what follows
  std::map<int, bool> peers_;
  std::mutex side_mutex_;  // guards what follows
  NativeStream side_stream_ = nullptr;
};

}  // namespace unihal::gpu
