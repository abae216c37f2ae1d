#include "csrc/core/registry/open_device.h"

#include "csrc/core/base/environment.h"
#include "csrc/core/base/process_state.h"
#include "csrc/core/base/struct_size.h"
#include "csrc/core/check/allocation_log.h"
#include "csrc/core/check/exit_code.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/memory/allocator.h"
#include "csrc/core/profile/profiler.h"
#include "csrc/core/registry/registry.h"
#include "csrc/core/stream/wait.h"
#include "unihal/check.h"
#include "unihal/launch_group.h"

namespace unihal::core {
namespace {

// Strings that a backend left out are empty, never NULL.
void complete_strings(uhal_device_properties* properties) {
  for (const char** text : {&properties->name, &properties->vendor, &properties->driver, &properties->pci_bus_id}) {
    if (*text == nullptr) *text = "";
  }
}

// Device types share the backend's device: it is opened once per ordinal.
uhal_status open_backend_device(Backend* backend, int32_t ordinal, uhal_backend_device** result) {
  std::lock_guard<std::mutex> lock(backend->mutex);
  uhal_backend_device*& place = backend->devices[static_cast<size_t>(ordinal)];
  if (place == nullptr) {
    uhal_backend_device* opened = nullptr;
    uhal_status status = call_backend(*backend, "device_open", backend->table.device_open, ordinal, &opened);
    if (status != UHAL_OK) return status;
    if (opened == nullptr) {
      return UHAL_FAIL(UHAL_INTERNAL, "The backend '%s' opened device %d but returned NULL.", backend->name.c_str(),
                       ordinal);
    }
    place = opened;
  }
  *result = place;
  return UHAL_OK;
}

uhal_status find_launch_group(const Backend& backend, const uhal_launch_group** found) {
  const auto extension = backend.table.extension;
  const void* table = extension != nullptr
                          ? extension(UHAL_LAUNCH_GROUP_NAME, static_cast<uint32_t>(UHAL_LAUNCH_GROUP_VERSION))
                          : nullptr;
  const auto* groups = static_cast<const uhal_launch_group*>(table);
  if (groups != nullptr &&
      (groups->struct_size < sizeof *groups || groups->start == nullptr || groups->end == nullptr)) {
    return UHAL_FAIL(UHAL_INTERNAL, "The launch groups of the backend '%s' lack a function; rebuild the backend.",
                     backend.name.c_str());
  }
  *found = groups;
  return UHAL_OK;
}

}  // namespace

uhal_status open_device(const DeviceTypeRow* type, Backend* backend, int32_t ordinal, uhal_device** result) {
  note_device_use();
  auto device = std::make_unique<uhal_device>();
  device->type = type;
  device->backend = backend;
  device->label = std::string(type->name) + ":" + std::to_string(ordinal) + " (" + backend->name + ")";
  uhal_device_properties& properties = device->properties;
  properties.struct_size = sizeof properties;
  uhal_status status = open_backend_device(backend, ordinal, &device->backend_device);
  if (status == UHAL_OK) status = find_launch_group(*backend, &device->launch_group);
  if (status == UHAL_OK) {
    status = call_backend(*backend, "device_properties", backend->table.device_properties, device->backend_device,
                          &properties);
  }
  if (status != UHAL_OK) {
    std::string overrides = overrides_in_force();
    if (!overrides.empty()) append_error(" Set in the environment: %s", overrides.c_str());
    return with_device(*device, status);
  }
  properties.device_type = type->name;
  properties.backend = backend->name.c_str();
  properties.ordinal = ordinal;
  complete_strings(&properties);
  if (environment().check_races) properties.checks |= UHAL_CHECK_RACES;
  if (environment().check_memory) properties.checks |= UHAL_CHECK_MEMORY;
  device->checks_races = (properties.checks & UHAL_CHECK_RACES) != 0;
  device->checks_finite = environment().check_nan;
  device->is_of_this_abi = backend->table.abi_minor >= UHAL_ABI_MINOR;
  device->launch = backend->table.launch;
  for (uhal_memory_kind kind = 0; kind < UHAL_MEMORY_KIND_COUNT; ++kind) {
    device->allocators[kind] = new Allocator(device.get(), kind);
  }
  device->allocator(UHAL_MEMORY_DEVICE).set_limit(environment().memory_limit);
  if ((properties.checks & UHAL_CHECK_MEMORY) != 0) device->allocation_log = open_allocation_log(device->label);
  add_open_device(device.get());
  *result = device.release();
  start_profiler_by_environment();
  arrange_exit_code();
  return UHAL_OK;
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_device_properties_get(uhal_device* device, uhal_device_properties* out) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  return copy_out(device->properties, out, "out");
}

uhal_status uhal_device_extension(uhal_device* device, const char* name, uint32_t version, const void** table) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (name == nullptr || table == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The extension's %s is NULL; pass %s.", name == nullptr ? "name" : "table",
                     name == nullptr ? "its name" : "the place for its address");
  }
  const uhal_backend& backend = device->backend->table;
  *table = backend.extension != nullptr ? backend.extension(name, version) : nullptr;
  if (*table != nullptr) return UHAL_OK;
  UHAL_FAIL(UHAL_UNIMPLEMENTED, "The backend '%s' has no extension '%s' of version %u; do without, or use another.",
            backend.name, name, version);
  return with_device(*device, UHAL_UNIMPLEMENTED);
}

uhal_status uhal_device_synchronize(uhal_device* device) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  return guarded([&]() -> uhal_status {
    UHAL_EXPECT(refuse_wait_in_callback("uhal_device_synchronize"));
    std::vector<uhal_stream*> streams;
    {
      std::lock_guard<std::mutex> lock(device->mutex);
      streams = device->streams;
    }
    // All streams are waited for; the first error is returned, the others stay with their streams' next query.
    uhal_status first = UHAL_OK;
    for (uhal_stream* handle : streams) {
      PinnedStream stream(stream_pool(), handle);
      if (!stream) continue;  // destroyed meanwhile, and so waited for
      UHAL_EXPECT(give_way(stream.get()));
      if (first == UHAL_OK) {
        first = synchronize(stream.get());
      } else {
        ErrorRecordKeeper keeper;
        static_cast<void>(wait_for(stream.get()));
      }
    }
    return first;
  });
}

uhal_status uhal_device_default_stream(uhal_device* device, uhal_stream** stream) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (stream == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "stream is NULL; pass the place for the stream.");
  return guarded([&]() -> uhal_status {
    *stream = nullptr;
    {
      std::lock_guard<std::mutex> lock(device->mutex);
      *stream = device->default_stream;
    }
    if (*stream != nullptr) return UHAL_OK;
    uhal_stream* created = nullptr;
    if (uhal_status status = uhal_stream_create(device, &created); status != UHAL_OK) return status;
    uhal_stream* surplus = nullptr;
    {
      std::lock_guard<std::mutex> lock(device->mutex);
      if (device->default_stream == nullptr) {
        device->default_stream = created;
      } else {
        surplus = created;  // another thread was faster
      }
      *stream = device->default_stream;
    }
    return surplus != nullptr ? uhal_stream_destroy(surplus) : UHAL_OK;
  });
}

void uhal_finalize(void) {
  // The trace is written while devices can still be waited for.
  static_cast<void>(guarded([]() -> uhal_status {
    if (process_state.load() != ProcessState::kRunning) return UHAL_OK;
    UHAL_EXPECT(refuse_wait_in_callback("uhal_finalize"));
    finish_profiler_by_environment();
    std::vector<uhal_device*> devices = open_devices();
    for (uhal_device* device : devices) static_cast<void>(uhal_device_synchronize(device));
    if (!begin_finalize()) return UHAL_OK;
    list_leaks();
    for (uhal_device* device : devices) {
      for (Allocator* allocator : device->allocators) allocator->release_all();
    }
    for (Backend* backend : loaded_backends()) {
      if (backend->table.finalize != nullptr) backend->table.finalize();
    }
    return UHAL_OK;
  }));
}
