// The entry points: which device types are registered, and whether they can be.
#include "plugins/tensorflow/adapter.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "plugins/tensorflow/collectives.h"
#include "plugins/tensorflow/fallback.h"
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/graph_pass.h"
#include "plugins/tensorflow/interpreter_hook.h"
#include "plugins/tensorflow/profiler.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"
#include "plugins/tensorflow/stream_executor.h"
#include "unihal/device.h"

namespace unihal::tensorflow {
namespace {

struct Registration {
  Platform platform;
  bool has_devices = false;
  bool has_kernels = false;
};

struct State {
  std::mutex mutex;
  std::map<std::string, Registration> types;
  std::string last_type;  // of the latest init_plugin; its graph pass follows
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

bool is_set_to(const char* name, const char* wanted) {
  const char* value = std::getenv(name);
  return value != nullptr && std::string(value) == wanted;
}
bool is_one(const char* name) { return is_set_to(name, "1"); }

// Whether the memory check is in force. The device would know, but asking opens it, and this is `import tensorflow`.
bool memory_is_checked() {
  return is_one("UNIHAL_CHECK_MEMORY") || (is_set_to("UNIHAL_BACKEND", "stub") && is_set_to("UNIHAL_STUB", "strict"));
}

void say(const char* type, const std::string& what) {
  std::fprintf(stderr, "unihal: device type %s is off in TensorFlow: %s\n", type, what.c_str());
}

// Older structs are shorter and newer ones longer; what this adapter fills must lie within them.
bool layout_is_known(const SE_PlatformRegistrationParams& params) {
  return params.major_version == SE_MAJOR && params.struct_size >= SE_PLATFORM_REGISTRATION_PARAMS_STRUCT_SIZE &&
         params.platform->struct_size >= SP_PLATFORM_STRUCT_SIZE &&
         params.platform_fns->struct_size >= SP_PLATFORM_FNS_STRUCT_SIZE;
}

// Whether a type has devices that this TensorFlow can use; says why not, unless there simply are none.
bool usable(const char* type, const std::string& device_type, const SE_PlatformRegistrationParams& params) {
  int32_t count = 0;
  const uhal_status status = uhal_device_count(device_type.c_str(), &count);
  if (status != UHAL_OK) {
    say(type, uhal_last_error()->message);
    return false;
  }
  if (count == 0) return false;
  if (!layout_is_known(params)) {
    say(type, "its plugin interface is not one that unihal knows; this unihal was built for TensorFlow " +
                  built_versions() + "; install one of these versions");
    return false;
  }
  const char* fusion = std::getenv("UNIHAL_TENSORFLOW_FUSION");
  if (unsigned fusions = 0; fusion != nullptr && !parse_fusions(fusion, &fusions)) {
    say(type, "UNIHAL_TENSORFLOW_FUSION is '" + std::string(fusion) + "'; expected 0, 1, or some of " + fusion_names());
    return false;
  }
  // Without the shim TensorFlow's own kernels would update variables through the device pointer, on the host.
  if (shim_functions() == nullptr) {
    say(type, missing_shim_reason());
    return false;
  }
  return true;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Reads "T=1;Tin=1,3;".
Types read_types(const char* text) {
  Types types;
  std::vector<TF_DataType>* list = nullptr;
  const char* word = text;
  for (const char* c = text; *c != '\0'; ++c) {
    if (*c == '=') list = &types[std::string(word, c)];
    if ((*c == ',' || *c == ';') && list != nullptr && c > word) {
      list->push_back(static_cast<TF_DataType>(std::atoi(word)));
    }
    if (*c == '=' || *c == ',' || *c == ';') word = c + 1;
  }
  return types;
}

}  // namespace
}  // namespace unihal::tensorflow

void uhal_tensorflow_init_plugin(const char* type, SE_PlatformRegistrationParams* params, TF_Status*) {
  using namespace unihal::tensorflow;
  std::lock_guard<std::mutex> lock(state().mutex);
  // A type can be registered once. A second copy of the plugin gets a name of its own and no devices.
  std::string name = type;
  while (state().types.count(name) != 0) name += "_AGAIN";
  const bool first = name == type;
  Registration& registration = state().types[name];
  registration.has_devices = first && usable(type, lower(type), *params);
  // In a pool, the memory check would see a few large allocations, none of them a tensor.
  registration.platform = {name, registration.has_devices ? lower(type) : "", !memory_is_checked()};
  state().last_type = name;
  fill_registration(registration.platform, params);
}

void uhal_tensorflow_init_kernels(const char* type) {
  using namespace unihal::tensorflow;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    const auto found = state().types.find(type);
    if (found == state().types.end() || !found->second.has_devices || found->second.has_kernels) return;
    found->second.has_kernels = true;
  }
  install_interpreter_hook();
  // A control for tests: with it, nothing may pass that claims to have run on the device.
  if (is_one("UNIHAL_TENSORFLOW_NO_KERNELS")) return;
  Registrar registrar(type);
  register_all(registrar);
  register_collectives(type);
  shim_functions()->set_small_outputs(memory_is_checked() ? 0 : 1);
}

void uhal_tensorflow_init_graph(const char*, TP_OptimizerRegistrationParams* params, TF_Status*) {
  using namespace unihal::tensorflow;
  std::lock_guard<std::mutex> lock(state().mutex);
  const Registration& registration = state().types[state().last_type];
  fill_graph_registration(registration.platform.type.c_str(), params);
}

void uhal_tensorflow_init_profiler(const char* type, TF_ProfilerRegistrationParams* params, TF_Status*) {
  using namespace unihal::tensorflow;
  std::lock_guard<std::mutex> lock(state().mutex);
  const Registration& registration = state().types[state().last_type];
  fill_profiler_registration(type, registration.has_devices ? registration.platform.device_type.c_str() : "", params);
}

void uhal_tensorflow_hide(const char* type, int hidden) {
  using namespace unihal::tensorflow;
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().types.find(type);
  if (found != state().types.end()) found->second.platform.hidden = hidden != 0;
}

const char* uhal_tensorflow_record_fallback(const char* type, const char* op, const char* types) {
  using namespace unihal::tensorflow;
  thread_local auto* message = new std::string;
  Fallback fallback = {};
  if (!is_fallback(type, op, read_types(types), &fallback) || record_fallback(op, fallback, message)) return nullptr;
  return message->c_str();
}
