#include "csrc/core/handle/device.h"

#include "csrc/core/base/error.h"

namespace unihal::core {
namespace {

// Never destroyed: other threads may still use devices while the process ends.
struct OpenDevices {
  std::mutex mutex;
  std::vector<uhal_device*> devices;
};

OpenDevices& opened() {
  static OpenDevices* const instance = new OpenDevices;
  return *instance;
}

}  // namespace

std::vector<uhal_device*> open_devices() {
  std::lock_guard<std::mutex> lock(opened().mutex);
  return opened().devices;
}

void add_open_device(uhal_device* device) {
  std::lock_guard<std::mutex> lock(opened().mutex);
  opened().devices.push_back(device);
}

uhal_status refuse_null_device() {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The device is NULL; pass one from uhal_device_get.");
}

uhal_status with_device(const uhal_device& device, uhal_status status) {
  if (status != UHAL_OK) set_error_device(device.label.c_str());
  return status;
}

}  // namespace unihal::core
