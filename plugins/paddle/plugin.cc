// The adapter's entry, called by a loader (loader.cc) for its device type from inside `import paddle`.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plugins/paddle/collectives.h"
#include "plugins/paddle/current_device.h"
#include "plugins/paddle/device_copies.h"
#include "plugins/paddle/device_interface.h"
#include "plugins/paddle/device_order.h"
#include "plugins/paddle/eager_gradients.h"
#include "plugins/paddle/fallback.h"
#include "plugins/paddle/graph_capture.h"
#include "plugins/paddle/graph_place.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/memory_pool.h"
#include "plugins/paddle/phi_api.h"
#include "plugins/paddle/profiler.h"
#include "plugins/paddle/python_patches.h"
#include "plugins/paddle/registry.h"
#include "plugins/paddle/runtime.h"
#include "plugins/paddle/small_allocations.h"
#include "plugins/paddle/staging.h"
#include "unihal/device.h"

namespace unihal::paddle {
namespace {

// CustomRuntimeParams, the fields that all versions have.
struct RuntimeParameters {
  size_t size;
  void* device_interface;  // begins with its own size
  size_t version[3];
  char* device_type;
  char* sub_device_type;
};
// What Paddle compares with its own number, which is the same in all supported versions.
constexpr size_t kRuntimeVersion[3] = {0, 1, 1};

void say(const char* device_type, const std::string& what) {
  std::fprintf(stderr, "unihal: device type %s is not available in Paddle: %s\n", device_type, what.c_str());
}

bool kernels_wanted() {
  const char* value = std::getenv("UNIHAL_PADDLE_NO_KERNELS");
  return value == nullptr || std::strcmp(value, "1") != 0;
}

// Fills Paddle's parameters. Returns why the device type cannot be offered, or "".
std::string offer(RuntimeParameters* parameters, const char* device_type) {
  size_t interface_size = 0;
  std::memcpy(&interface_size, parameters->device_interface, sizeof interface_size);
  const Callback* callbacks = runtime_callbacks(device_type);
  if (callbacks == nullptr) return "unihal has no device type of that name";
  if (const char* missing = load_phi()) {
    return std::string("this Paddle has no function ") + missing + "; supported versions: " + kSupportedPaddleVersions;
  }
  for (const Callback* table : {callbacks, graph_callbacks(), collective_callbacks(), profiler_callbacks()}) {
    if (fill_device_interface(parameters->device_interface, interface_size, table)) continue;
    return "the layout of this Paddle's device interface is unknown (" + std::to_string(interface_size) +
           " bytes); supported versions: " + kSupportedPaddleVersions;
  }
  std::memcpy(parameters->version, kRuntimeVersion, sizeof kRuntimeVersion);
  parameters->device_type = strdup(device_type);
  parameters->sub_device_type = strdup("unihal");
  if (kernels_wanted()) register_kernels(device_type);
  note_device_type(device_type);
  if (const char* missing = order_device_types()) {
    std::fprintf(stderr, "unihal: the default device is Paddle's choice in this Paddle: it does not call %s\n",
                 missing);
  }
  if (const char* missing = correct_graph_places()) {
    std::fprintf(stderr, "unihal: graphs run on one device type only in this Paddle: it does not call %s\n", missing);
  }
  answer_by_number();
  shorten_eager_gradients();
  shorten_device_copies();
  keep_small_allocations();
  if (const char* missing = watch_fallbacks()) {
    std::fprintf(stderr, "unihal: fallbacks to the CPU are not counted in this Paddle: it does not call %s\n", missing);
  }
  return "";
}

}  // namespace
}  // namespace unihal::paddle

// `parameters` is Paddle's CustomRuntimeParams. Without devices it is left as it is, which tells Paddle that the
// file offers no device type.
extern "C" __attribute__((visibility("default"))) void uhal_paddle_initialize(void* parameters,
                                                                              const char* device_type) {
  using namespace unihal::paddle;
  int32_t count = 0;
  const uhal_status status = uhal_device_count(device_type, &count);
  if (status != UHAL_OK) say(device_type, uhal_last_error()->message);
  std::string problem;
  if (count > 0) problem = offer(static_cast<RuntimeParameters*>(parameters), device_type);
  if (!problem.empty()) say(device_type, problem);
  apply_python_patches();
  if (count == 0) silence_plugin_loading();
}

// Why device `ordinal` of a type cannot be used: the core's message. "" if it can, or for other plugins' types.
// The text lives until the thread's next failure.
extern "C" __attribute__((visibility("default"))) const char* uhal_paddle_refusal(const char* device_type,
                                                                                  int32_t ordinal) {
  uhal_device* device = nullptr;
  if (unihal::paddle::runtime_callbacks(device_type) == nullptr) return "";
  const uhal_status status = uhal_device_get(device_type, ordinal, &device);
  // A forked child may name a device (a DataLoader's worker does); only using one is an error there.
  return status == UHAL_OK || status == UHAL_FAILED_PRECONDITION ? "" : uhal_last_error()->message;
}

// 1 if the type is unihal's and has devices.
extern "C" __attribute__((visibility("default"))) int32_t uhal_paddle_serves(const char* device_type) {
  int32_t count = 0;
  return unihal::paddle::runtime_callbacks(device_type) != nullptr &&
         uhal_device_count(device_type, &count) == UHAL_OK && count > 0;
}

// What Paddle does where it clears its devices, but for them: gives back the memory through which copies from the host
// go, and destroys events. Those of collectives that were not done when their task ended lie in a list of Paddle's
// whose destructor waits for them, and comes after that of the devices.
extern "C" __attribute__((visibility("default"))) void uhal_paddle_leave_devices() {
  unihal::paddle::release_staging();
  constexpr const char* kReleaseEvents = "_ZN3phi5event5Event10ReleaseAllEv";
  void* library = unihal::paddle::find_paddle_library(kReleaseEvents);
  if (library == nullptr) return;
  reinterpret_cast<void (*)()>(dlsym(library, kReleaseEvents))();
}

// 1 if a device with the memory check is in use.
extern "C" __attribute__((visibility("default"))) int32_t uhal_paddle_checks_memory() {
  return unihal::paddle::keeps_no_idle_memory();
}
