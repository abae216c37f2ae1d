#include "csrc/backends/gpu/status.h"

#include <cstdarg>
#include <cstdio>

#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

// Both drivers' codes with a meaning of their own in the ABI.
struct Meaning {
  int code;
  uhal_status status;
};

constexpr Meaning kMeanings[] = {
    {kOutOfMemory, UHAL_RESOURCE_EXHAUSTED},
    {3, UHAL_UNAVAILABLE},           // not initialized
    {4, UHAL_FAILED_PRECONDITION},   // the driver is shutting down: the process ends
    {kNoDevice, UHAL_UNAVAILABLE},   //
    {101, UHAL_UNAVAILABLE},         // no such device
    {701, UHAL_RESOURCE_EXHAUSTED},  // too many registers or too much local memory for a launch
    {801, UHAL_UNIMPLEMENTED},       // not supported
};

std::string code_text(int code) { return std::string(vendor.error_name(code)) + " (" + std::to_string(code) + ")"; }

}  // namespace

uhal_status status_of(int code) {
  for (const Meaning& row : kMeanings) {
    if (row.code == code) return row.status;
  }
  return UHAL_INTERNAL;
}

uhal_status fail_native(int code, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::string message = std::string(text) + overrides_in_force() + ": " + code_text(code);
  const uhal_status status = status_of(code);
  kernels::host().report(status, code, vendor.error_name(code), message.c_str());
  return status;
}

uhal_status fail_work(int code, const std::string& device) {
  const std::string message =
      "work on " + device +
      " failed while it ran: a kernel touched memory that is not its own, or the device was "
      "lost. This process cannot go on with the device; the driver's log (dmesg) may tell more" +
      overrides_in_force() + ": " + code_text(code);
  const uhal_status status = code == kOutOfMemory ? UHAL_RESOURCE_EXHAUSTED : UHAL_INTERNAL;
  kernels::host().report(status, code, vendor.error_name(code), message.c_str());
  return status;
}

}  // namespace unihal::gpu
