#include "csrc/backends/gpu/enumerate.h"

#include <string>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/status.h"
#include "csrc/kernels/ops.h"

namespace unihal::gpu {

uhal_status choose_devices(bool asked_for, std::vector<int>* numbers) {
  const std::string& refusal = open_driver(asked_for);
  if (!refusal.empty()) return kernels::fail(UHAL_UNAVAILABLE, "%s", refusal.c_str());
  int count = 0;
  const int code = api.device_count(&count);
  if (code != kSuccess && code != kNoDevice) {
    return fail_native(code, "%s of %s does not tell its devices", driver_file().c_str(), vendor.driver);
  }
  std::string left_out;
  for (int number = 0; number < count; ++number) {
    Architecture architecture;
    const int known = vendor.architecture(number, &architecture);
    if (known != kSuccess) {
      left_out += "; device " + std::to_string(number) + " does not tell its architecture: " + vendor.error_name(known);
    } else if (architecture.is_stand_in && !asked_for) {
      char name[256] = "";
      static_cast<void>(api.device_name(name, sizeof name, number));
      left_out += std::string("; ") + name + " (" + architecture.name + ") is no card of " + vendor.vendor +
                  "'s: it serves if UNIHAL_BACKEND=" + vendor.backend + " asks for it";
    } else {
      numbers->push_back(number);
    }
  }
  if (numbers->empty()) {
    return kernels::fail(UHAL_UNAVAILABLE, "%s finds no device%s%s", driver_file().c_str(),
                         overrides_in_force().c_str(), left_out.c_str());
  }
  if (!left_out.empty()) kernels::fail(UHAL_OK, "%s", left_out.c_str() + 2);
  return UHAL_OK;
}

}  // namespace unihal::gpu
