// What PyTorch's core asks of a device: guards, streams and events; and the hooks of torch.accelerator and of memory.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "plugins/torch/allocator.h"
#include "plugins/torch/generator.h"
#include "plugins/torch/runtime.h"
#include "plugins/torch/tensors.h"
#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

namespace unihal::pytorch {
namespace {

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device.index() != before.index()) set_current_device(device.index());
    return before;
  }
  c10::Device getDevice() const override { return {kDevice, current_device()}; }
  void setDevice(c10::Device device) const override {
    if (device.index() >= 0) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < device_count()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
#if __has_include(<c10/core/DeviceCapability.h>)
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    check(uhal_device_properties_get(pytorch::device(resolved(device)), &properties));
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    const auto computes = [&](at::ScalarType type) {
      const uhal_dtype dtype = from_pytorch(type);
      return dtype != UHAL_DTYPE_INVALID && (properties.supported_dtypes >> dtype & 1) != 0;
    };
#define UNIHAL_CAPABILITY(_, name) \
  if (computes(at::ScalarType::name)) capability.capability_data.supported_scalar_types.has_##name = 1;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(UNIHAL_CAPABILITY)
#undef UNIHAL_CAPABILITY
    return capability;
  }
#endif

  c10::Stream getStream(c10::Device device) const override {
    return make_stream(device, current_stream_id(resolved(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return make_stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return make_stream(device, next_pool_stream());
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return make_stream(device, next_pool_stream()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::DeviceIndex index = stream.device_index();
    return make_stream(stream.device(), exchange_stream_id(index, stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return stream_handle(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    int32_t done = 0;
    check(uhal_stream_query(stream_handle(stream), &done));
    return done != 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(uhal_stream_synchronize(stream_handle(stream)));
    release_passed();
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    check(uhal_device_synchronize(device(index < 0 ? current_device() : index)));
    release_passed();
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    uhal_event_destroy(static_cast<uhal_event*>(event));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "An event of device ", static_cast<int>(index),
                " was recorded on a stream of device ", static_cast<int>(stream.device_index()), ".");
    if (*event == nullptr) {
      uhal_event* made = nullptr;
      check(uhal_event_create(device(stream.device_index()), &made));
      *event = made;
    }
    check(uhal_event_record(static_cast<uhal_event*>(*event), stream_handle(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) check(uhal_stream_wait_event(stream_handle(stream), static_cast<uhal_event*>(event)));
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    int32_t done = 0;
    check(uhal_event_query(static_cast<uhal_event*>(event), &done));
    return done != 0;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) check(uhal_event_synchronize(static_cast<uhal_event*>(event)));
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "Both events must be recorded before the time between is asked for.");
    int64_t nanoseconds = 0;
    check(uhal_event_elapsed_nanoseconds(static_cast<uhal_event*>(start), static_cast<uhal_event*>(end), &nanoseconds));
    return static_cast<double>(nanoseconds) * 1e-6;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_stream(data, stream);
  }

 private:
  static c10::DeviceIndex resolved(c10::Device device) {
    return device.index() < 0 ? current_device() : device.index();
  }
  static c10::Stream make_stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, resolved(device)), id);
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return pytorch::device_count() > 0; }
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return index >= 0 && index < pytorch::device_count();
  }
  c10::DeviceIndex deviceCount() const override { return pytorch::device_count(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = current_device();
    set_current_device(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void* data) const override {
    uhal_pointer_info info = {};
    info.struct_size = sizeof info;
    check(uhal_pointer_query(data, &info));
    for (int i = 0; i < pytorch::device_count(); ++i) {
      if (device(static_cast<c10::DeviceIndex>(i)) == info.device) return {kDevice, static_cast<c10::DeviceIndex>(i)};
    }
    TORCH_CHECK(false, "The address is of no device of ", device_type(), ".");
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<PhiloxGenerator>(index < 0 ? current_device() : index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_device() {
  c10::SetAllocator(kDevice, device_allocator());
  at::setHostAllocator(kDevice, pinned_allocator());
  static c10::impl::DeviceGuardImplRegistrar registrar(kDevice, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace unihal::pytorch
