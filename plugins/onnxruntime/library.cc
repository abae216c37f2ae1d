// What ONNX Runtime looks for in the library of an execution provider, and what the Python side calls by ctypes.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "plugins/onnxruntime/call.h"
#include "plugins/onnxruntime/provider.h"
#include "unihal/version.h"

namespace unihal::onnxruntime {
namespace {

constexpr const char* kVendor = "unihal";
constexpr const char* kTypeKey = "unihal.device_type";
constexpr const char* kOrdinalKey = "unihal.ordinal";
constexpr size_t kAlignment = 256;

struct DeletePairs {
  void operator()(OrtKeyValuePairs* pairs) const { ort.ReleaseKeyValuePairs(pairs); }
};
using Pairs = std::unique_ptr<OrtKeyValuePairs, DeletePairs>;

Pairs make_pairs() {
  OrtKeyValuePairs* pairs = nullptr;
  ort.CreateKeyValuePairs(&pairs);
  return Pairs(pairs);
}

// What ONNX Runtime knows of one device of ours.
struct Device {
  Place place;
  OrtHardwareDevice* hardware = nullptr;
  OrtMemoryInfo* memory = nullptr;
  OrtMemoryInfo* pinned = nullptr;
};

class Factory final : public OrtEpFactory {
 public:
  explicit Factory() : OrtEpFactory{} {
    version = ort.version;
    GetName = [](const OrtEpFactory*) { return kProviderName; };
    GetVendor = [](const OrtEpFactory*) { return kVendor; };
    GetVendorId = [](const OrtEpFactory*) { return Place{}.vendor_id(); };
    GetVersion = [](const OrtEpFactory*) { return UNIHAL_VERSION_TEXT; };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const*, size_t, OrtEpDevice** owned,
                             size_t limit,
                             size_t* found) { return guarded([&] { *found = of(self)->find_devices(owned, limit); }); };
    CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata, size_t count,
                  const OrtSessionOptions* options, const OrtLogger*,
                  OrtEp** owned) { return guarded([&] { *owned = make_provider(metadata, count, options); }); };
    ReleaseEp = [](OrtEpFactory*, OrtEp* provider) { delete static_cast<Provider*>(provider); };
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo* info, const OrtKeyValuePairs*, OrtAllocator** owned) {
      return guarded([&] {
        const OrtMemoryDevice* const memory = ort.MemoryInfo_GetMemoryDevice(info);
        const bool is_of_host = ort.MemoryDevice_GetMemoryType(memory) == kOrtMemoryOfHost;
        *owned = make_allocator(place_of(memory).open(), is_of_host ? UHAL_MEMORY_PINNED : UHAL_MEMORY_DEVICE, nullptr,
                                info);
      });
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator* allocator) { release_allocator(allocator); };
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** owned) {
      return guarded([&] { *owned = make_data_transfer(); });
    };
    IsStreamAware = [](const OrtEpFactory*) { return true; };
    CreateSyncStreamForDevice = [](OrtEpFactory*, const OrtMemoryDevice* memory, const OrtKeyValuePairs*,
                                   OrtSyncStreamImpl** owned) {
      return guarded([&] { *owned = make_stream(std::make_shared<Stream>(place_of(memory).open())); });
    };
  }

  ~Factory() {
    for (const Device& device : devices_) {
      ort.ReleaseHardwareDevice(device.hardware);
      ort.ReleaseMemoryInfo(device.memory);
      ort.ReleaseMemoryInfo(device.pinned);
    }
  }

 private:
  static Factory* of(OrtEpFactory* self) { return static_cast<Factory*>(self); }

  static Place place_of(const OrtMemoryDevice* memory) {
    Place place;
    if (!find_place(memory, &place)) throw Failure(kOrtInvalidArgument, "unihal: the memory is of none of its devices");
    return place;
  }

  // ONNX Runtime does not know our devices, whatever it finds on the bus: they are hardware that we make.
  size_t find_devices(OrtEpDevice** owned, size_t limit) {
    size_t found = 0;
    for (size_t type = 0; type < uhal_device_type_count(); ++type) {
      int32_t count = 0;
      if (uhal_device_count(Place{type, 0}.type_name(), &count) != UHAL_OK) continue;
      for (int32_t ordinal = 0; ordinal < count && found < limit; ++ordinal) {
        owned[found++] = make_device(Place{type, ordinal});
      }
    }
    return found;
  }

  OrtEpDevice* make_device(const Place& place) {
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    check(uhal_device_properties_get(place.open(), &properties));
    const std::string ordinal = std::to_string(place.ordinal);

    const Pairs hardware = make_pairs();
    ort.AddKeyValuePair(hardware.get(), "Description", properties.name);
    if (properties.pci_bus_id[0] != '\0') ort.AddKeyValuePair(hardware.get(), "pci_bus_id", properties.pci_bus_id);
    const Pairs metadata = make_pairs();
    ort.AddKeyValuePair(metadata.get(), kTypeKey, place.type_name());
    ort.AddKeyValuePair(metadata.get(), kOrdinalKey, ordinal.c_str());
    ort.AddKeyValuePair(metadata.get(), "unihal.backend", properties.backend);
    ort.AddKeyValuePair(metadata.get(), "unihal.name", properties.name);
    ort.AddKeyValuePair(metadata.get(), "unihal.total_memory", std::to_string(properties.total_memory).c_str());
    const Pairs options = make_pairs();

    Device& device = devices_.emplace_back();
    device.place = place;
    check(ort.CreateHardwareDevice(kOrtDeviceGpu, place.vendor_id(), static_cast<uint32_t>(place.ordinal), kVendor,
                                   hardware.get(), &device.hardware));
    check(ort.CreateMemoryInfo_V2(place.type_name(), kOrtDeviceGpu, place.vendor_id(), place.ordinal, kOrtMemoryDefault,
                                  kAlignment, kOrtDeviceAllocator, &device.memory));
    const std::string pinned = std::string(place.type_name()) + "_pinned";
    check(ort.CreateMemoryInfo_V2(pinned.c_str(), kOrtDeviceGpu, place.vendor_id(), place.ordinal, kOrtMemoryOfHost,
                                  kAlignment, kOrtDeviceAllocator, &device.pinned));
    OrtEpDevice* made = nullptr;
    check(ort.CreateEpDevice(this, device.hardware, metadata.get(), options.get(), &made));
    check(ort.EpDevice_AddAllocatorInfo(made, device.memory));
    check(ort.EpDevice_AddAllocatorInfo(made, device.pinned));
    return made;
  }

  static Provider* make_provider(const OrtKeyValuePairs* const* metadata, size_t count,
                                 const OrtSessionOptions* options) {
    if (count != 1) {
      throw Failure(kOrtInvalidArgument, std::string(kProviderName) + ": a session runs on one device, not on " +
                                             std::to_string(count) + ": name one of get_ep_devices()");
    }
    const char* const type = ort.GetKeyValue(metadata[0], kTypeKey);
    const char* const ordinal = ort.GetKeyValue(metadata[0], kOrdinalKey);
    if (type == nullptr || ordinal == nullptr) {
      throw Failure(kOrtInvalidArgument, std::string(kProviderName) + ": the device is not one of unihal's");
    }
    Place place;
    while (std::strcmp(place.type_name(), type) != 0) ++place.type;
    place.ordinal = std::stoi(ordinal);
    return new Provider(place, read_options(options, place));
  }

  std::vector<Device> devices_;
};

}  // namespace
}  // namespace unihal::onnxruntime

#define UNIHAL_ONNXRUNTIME_EXPORT extern "C" __attribute__((visibility("default")))

UNIHAL_ONNXRUNTIME_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                                       OrtEpFactory** factories, size_t limit, size_t* count) {
  using namespace unihal::onnxruntime;
  *count = 0;
  // Without the tables nothing can be said to ONNX Runtime: it reports a library that makes no factory.
  if (!open_api(base)) return nullptr;
  return guarded([&] {
    if (limit == 0) throw Failure(kOrtInvalidArgument, "unihal: ONNX Runtime takes no factory");
    factories[0] = new Factory;
    *count = 1;
  });
}

UNIHAL_ONNXRUNTIME_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<unihal::onnxruntime::Factory*>(factory);
  return nullptr;
}

// The ops with kernels, as coverage() in call.h says.
UNIHAL_ONNXRUNTIME_EXPORT const char* uhal_onnxruntime_coverage() {
  static const auto* text = new std::string(unihal::onnxruntime::coverage());
  return text->c_str();
}

// The slots of ONNX Runtime's API that are called, as slots() in ort.h says.
UNIHAL_ONNXRUNTIME_EXPORT const char* uhal_onnxruntime_slots() {
  static const auto* text = new std::string(unihal::onnxruntime::slots());
  return text->c_str();
}
