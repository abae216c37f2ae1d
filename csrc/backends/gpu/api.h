// What the GPU backends call of a vendor: its driver's functions under our names, opened at run time, and the few
// things that HIP and CUDA do differently. One vendor a library: hip.cc is in libunihal_hip.so, corex.cc in
// libunihal_corex.so, and everything else in both. Neither a header nor a library of a vendor is needed to build, or to
// load the backend without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "csrc/backends/gpu/compiler.h"
#include "csrc/kernels/queue.h"

namespace unihal::gpu {

using NativeStream = struct DriverStream*;
using NativeEvent = struct DriverEvent*;
using NativeGraph = struct DriverGraph*;            // what was captured
using NativeExecutable = struct DriverExecutable*;  // what can be launched of it
using Module = struct DriverModule*;
using Function = struct DriverFunction*;

// Codes that both drivers share.
constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kNotReady = 600;
constexpr int kPeerAlreadyEnabled = 704;  // perhaps by another library of the process

constexpr unsigned kStreamNonBlocking = 1;  // not in order with the vendor's default stream
constexpr unsigned kEventTimed = 0;
constexpr unsigned kEventUntimed = 2;    // the device notes no time, which it would wait for
constexpr unsigned kPinnedPortable = 1;  // for all devices
constexpr unsigned kManagedGlobal = 1;   // from all streams
constexpr int kMaxThreadsPerBlock = 0;   // of function_attribute

// Of captures: whatever else the process calls meanwhile is allowed, such as loading a kernel, or memory that a library
// takes for itself.
constexpr int kCaptureRelaxed = 2;

// What device_attribute answers; the numbers are the vendor's.
struct Attributes {
  int compute_units;
  int wavefront_size;
  int max_group_size;
  int local_memory;  // bytes of a work-group
  int clock_kilohertz;
  int memory_clock_kilohertz;
  int memory_bus_bits;
  int managed_memory;
  int integrated;
  int launched_local_memory;  // of a work-group, where a kernel says at launch what it takes; 0: as local_memory
};

struct Api {
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) int(*name) parameters;
#include "csrc/backends/gpu/functions.def"
};

// What is known of a device before it is opened.
struct Architecture {
  std::string name;  // what the compiler is told: "gfx1030", "sm_90", "ivcore11"
  int lanes = 0;     // fused multiplications and additions that a compute unit begins in a cycle; 0: unknown
  kernels::MatrixForm matrix_form = kernels::MatrixForm::kNone;
  bool is_stand_in = false;  // not this vendor's card: serves only when the user asked for the backend by its name
};

// One of the two. All functions are for any thread; those that return int return the driver's code.
struct VendorDriver {
  Vendor kind;
  const char* backend;  // "hip"
  const char* vendor;   // "AMD"
  const char* driver;   // "HIP"

  // Files that are tried in turn. None, so that nothing is opened, where the user did not ask for the backend by its
  // name and something else tells that there is no such card: `absence` says what.
  std::vector<std::string> (*driver_libraries)(bool asked_for);
  const char* absence;

  // What to do if there is no driver.
  const char* advice;

  // The environment variables that change which devices there are, or what they pass for.
  std::vector<const char*> overrides;

  Attributes attributes;

  // Fills api and the vendor's own functions from the library; the name of the first function that it lacks, or
  // nullptr.
  const char* (*find_functions)(void* library);

  // "ROCm 6.2", of driver_version's number.
  std::string (*version_name)(int version);

  int (*architecture)(int device, Architecture* architecture);

  // What make_current needs of a device, once; it stays for the life of the process.
  int (*open)(int device, void** context);

  // Lets the calling thread's further calls be for a device.
  int (*make_current)(int device, void* context);

  // Lets a kernel be launched with so many bytes of local memory, more than local_memory.
  int (*allow_local_memory)(Function function, int bytes);

  // Lets the current device reach the memory of another, by what open() gave of that one. Once.
  int (*enable_peer)(int peer, void* peer_context);

  // Copies in stream order between any two of device, pinned and ordinary host memory, also of two devices.
  int (*copy)(void* destination, const void* source, size_t bytes, NativeStream stream);

  // Whether the driver makes graphs ready for launches, and that.
  bool (*can_instantiate)();
  int (*instantiate)(NativeExecutable* executable, NativeGraph graph);

  // "CUDA_ERROR_OUT_OF_MEMORY". Static, never NULL.
  const char* (*error_name)(int code);
};

// The library's own.
extern const VendorDriver vendor;

// The functions. Valid after open_driver() succeeded.
extern Api api;

// Opens the driver once; `asked_for`: whether the user asked for the backend by its name. Empty, or why there is none
// and what to do. It is never closed.
const std::string& open_driver(bool asked_for);

// The file that was opened, for messages.
const std::string& driver_file();

// The driver's version; 0 before it is open.
int driver_version();

// " (in force: HIP_VISIBLE_DEVICES=1)", or empty: which of vendor.overrides the environment has.
std::string overrides_in_force();

}  // namespace unihal::gpu
