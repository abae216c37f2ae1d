#include "plugins/onnxruntime/runtime.h"

#include <cstring>

#include "plugins/onnxruntime/graph_capture.h"
#include "unihal/event.h"

namespace unihal::onnxruntime {
namespace {

constexpr uint32_t kVendors = 0x756e6900;  // the first of our numbers

constexpr size_t kLargestStaged = size_t{32} << 20;

}  // namespace

void raise(uhal_status status) {
  const char* const message = uhal_last_error()->message;
  switch (status) {
    case UHAL_INVALID_ARGUMENT:
    case UHAL_OUT_OF_RANGE:
      throw Failure(kOrtInvalidArgument, message);
    case UHAL_UNIMPLEMENTED:
      throw Failure(kOrtNotImplemented, message);
    default:
      throw Failure(kOrtFail, message);  // not EP_FAIL, upon which InferenceSession.run tries again on the CPU, unasked
  }
}

// -- devices ------------------------------------------------------------------------------------------

const char* Place::type_name() const {
  uhal_device_type_info info = {};
  info.struct_size = sizeof info;
  check(uhal_device_type_get(type, &info));
  return info.name;
}

uint32_t Place::vendor_id() const { return kVendors + static_cast<uint32_t>(type); }

uhal_device* Place::open() const {
  uhal_device* device = nullptr;
  check(uhal_device_get(type_name(), ordinal, &device));
  return device;
}

bool find_place(const OrtMemoryDevice* memory, Place* place) {
  const uint32_t vendor = ort.MemoryDevice_GetVendorId(memory);
  if (ort.MemoryDevice_GetDeviceType(memory) != kOrtDeviceGpu || vendor < kVendors ||
      vendor - kVendors >= uhal_device_type_count()) {
    return false;
  }
  place->type = vendor - kVendors;
  place->ordinal = static_cast<int32_t>(ort.MemoryDevice_GetDeviceId(memory));
  return true;
}

bool is_host(const OrtMemoryDevice* memory) {
  return ort.MemoryDevice_GetDeviceType(memory) == kOrtDeviceCpu ||
         ort.MemoryDevice_GetMemoryType(memory) == kOrtMemoryOfHost;
}

// -- memory -------------------------------------------------------------------------------------------

namespace {

thread_local std::string refused_allocation;  // why the last one that failed on this thread did

class Allocator final : public OrtAllocator {
 public:
  Allocator(uhal_device* device, uhal_memory_kind kind, std::shared_ptr<Stream> stream, const OrtMemoryInfo* info)
      : OrtAllocator{}, device_(device), kind_(kind), stream_(std::move(stream)), info_(info) {
    version = ort.version;
    Alloc = [](OrtAllocator* self, size_t bytes) { return of(self)->allocate(bytes); };
    Reserve = Alloc;
    // AllocOnStream stays NULL. A session has one stream, which its allocator knows; and ONNX Runtime before 1.26 hands
    // over streams of its own making from a session's second run on, which are no SyncStream.
    Free = [](OrtAllocator* self, void* pointer) { of(self)->release(pointer); };
    Info = [](const OrtAllocator* self) { return static_cast<const Allocator*>(self)->info_; };
    GetStats = [](const OrtAllocator* self, OrtKeyValuePairs** owned) {
      return guarded([&] { *owned = static_cast<const Allocator*>(self)->statistics(); });
    };
  }

 private:
  static Allocator* of(OrtAllocator* self) { return static_cast<Allocator*>(self); }
  uhal_stream* own() const { return stream_ ? stream_->handle : nullptr; }

  // NULL for a failure, which ONNX Runtime takes for a tensor's memory all the same: require_memory() says why.
  void* allocate(size_t bytes) {
    void* pointer = nullptr;
    if (uhal_allocate(device_, own(), kind_, bytes, &pointer) == UHAL_OK) return pointer;
    refused_allocation = uhal_last_error()->message;
    return nullptr;
  }

  void release(void* pointer) {
    if (pointer == nullptr) return;
    // Nobody says what used memory of no stream: a tensor of the user's.
    if (own() == nullptr) uhal_device_synchronize(device_);
    uhal_free(device_, own(), pointer);
  }

  OrtKeyValuePairs* statistics() const {
    uhal_memory_stats stats = {};
    stats.struct_size = sizeof stats;
    check(uhal_memory_stats_get(device_, kind_, &stats));
    OrtKeyValuePairs* pairs = nullptr;
    ort.CreateKeyValuePairs(&pairs);
    // ONNX Runtime's names for them.
    const struct {
      const char* name;
      uint64_t value;
    } rows[] = {
        {"Limit", stats.limit_bytes != 0 ? stats.limit_bytes : stats.total_bytes},
        {"InUse", stats.allocated_bytes},
        {"TotalAllocated", stats.reserved_bytes},
        {"MaxInUse", stats.peak_allocated_bytes},
        {"NumAllocs", stats.total_allocations},
        {"NumReserves", stats.backend_allocations},
    };
    for (const auto& row : rows) ort.AddKeyValuePair(pairs, row.name, std::to_string(row.value).c_str());
    return pairs;
  }

  uhal_device* const device_;
  const uhal_memory_kind kind_;
  const std::shared_ptr<Stream> stream_;
  const OrtMemoryInfo* const info_;
};

}  // namespace

void require_memory(const void* data, size_t bytes) {
  if (data != nullptr || bytes == 0) return;
  throw Failure(kOrtFail, refused_allocation.empty() ? "unihal: a tensor without memory" : refused_allocation);
}

OrtAllocator* make_allocator(uhal_device* device, uhal_memory_kind kind, std::shared_ptr<Stream> stream,
                             const OrtMemoryInfo* info) {
  return new Allocator(device, kind, std::move(stream), info);
}

void release_allocator(OrtAllocator* allocator) { delete static_cast<Allocator*>(allocator); }

// -- streams ------------------------------------------------------------------------------------------

namespace {

class Notification final : public OrtSyncNotificationImpl {
 public:
  explicit Notification(std::shared_ptr<Stream> stream) : OrtSyncNotificationImpl{}, stream_(std::move(stream)) {
    check(uhal_event_create(stream_->device, &event_));
    version = ort.version;
    Release = [](OrtSyncNotificationImpl* self) { delete of(self); };
    Activate = [](OrtSyncNotificationImpl* self) {
      return guarded([&] { check(uhal_event_record(of(self)->event_, of(self)->stream_->handle)); });
    };
    WaitOnDevice = [](OrtSyncNotificationImpl* self, OrtSyncStream* waiting) {
      return guarded([&] { check(uhal_stream_wait_event(handle_of(waiting), of(self)->event_)); });
    };
    WaitOnHost = [](OrtSyncNotificationImpl* self) {
      return guarded([&] { check(uhal_event_synchronize(of(self)->event_)); });
    };
  }
  ~Notification() { uhal_event_destroy(event_); }

 private:
  static Notification* of(OrtSyncNotificationImpl* self) { return static_cast<Notification*>(self); }

  const std::shared_ptr<Stream> stream_;
  uhal_event* event_ = nullptr;
};

class SyncStream final : public OrtSyncStreamImpl {
 public:
  explicit SyncStream(std::shared_ptr<Stream> stream) : OrtSyncStreamImpl{}, stream_(std::move(stream)) {
    version = ort.version;
    Release = [](OrtSyncStreamImpl* self) { delete of(self); };
    GetHandle = [](OrtSyncStreamImpl* self) -> void* { return of(self)->stream_->handle; };
    CreateNotification = [](OrtSyncStreamImpl* self, OrtSyncNotificationImpl** owned) {
      return guarded([&] { *owned = new Notification(of(self)->stream_); });
    };
    Flush = [](OrtSyncStreamImpl* self) {
      return guarded([&] { check(uhal_stream_synchronize(of(self)->stream_->handle)); });
    };
    OnSessionRunEnd = [](OrtSyncStreamImpl*) -> OrtStatus* { return nullptr; };
  }

  uhal_stream* handle() const { return stream_->handle; }

 private:
  static SyncStream* of(OrtSyncStreamImpl* self) { return static_cast<SyncStream*>(self); }

  const std::shared_ptr<Stream> stream_;
};

}  // namespace

OrtSyncStreamImpl* make_stream(std::shared_ptr<Stream> stream) { return new SyncStream(std::move(stream)); }

uhal_stream* handle_of(const OrtSyncStream* stream) {
  if (stream == nullptr) return nullptr;
  return static_cast<const SyncStream*>(ort.SyncStream_GetImpl(stream))->handle();
}

// -- copies -------------------------------------------------------------------------------------------

void copy_from_host(uhal_stream* stream, void* destination, const void* source, size_t bytes) {
  uhal_pointer_info info = {};
  info.struct_size = sizeof info;
  const bool is_pinned = uhal_pointer_query(source, &info) == UHAL_OK;
  uhal_device* const device = uhal_stream_device(stream);
  void* staged = nullptr;
  if (!is_pinned && bytes <= kLargestStaged &&
      uhal_allocate(device, stream, UHAL_MEMORY_PINNED, bytes, &staged) == UHAL_OK) {
    std::memcpy(staged, source, bytes);
    const uhal_status status = uhal_copy(stream, destination, staged, bytes, UHAL_COPY_HOST_TO_DEVICE);
    uhal_free(device, stream, staged);
    return check(status);
  }
  check(uhal_copy(stream, destination, source, bytes, UHAL_COPY_HOST_TO_DEVICE));
  if (!is_pinned) check(uhal_stream_synchronize(stream));
}

namespace {

class DataTransfer final : public OrtDataTransferImpl {
 public:
  DataTransfer() : OrtDataTransferImpl{} {
    version = ort.version;
    Release = [](OrtDataTransferImpl* self) { delete static_cast<DataTransfer*>(self); };
    CanCopy = [](const OrtDataTransferImpl*, const OrtMemoryDevice* source, const OrtMemoryDevice* destination) {
      Place place;
      const bool from = find_place(source, &place);
      const bool to = find_place(destination, &place);
      return (from || to) && (from || is_host(source)) && (to || is_host(destination));
    };
    CopyTensors = [](OrtDataTransferImpl*, const OrtValue** sources, OrtValue** destinations, OrtSyncStream** streams,
                     size_t count) { return guarded([&] { copy(sources, destinations, streams, count); }); };
  }

 private:
  static void copy(const OrtValue** sources, OrtValue** destinations, OrtSyncStream** streams, size_t count) {
    uhal_stream* waited_for = nullptr;  // the stream whose copies to the host are to end
    for (size_t i = 0; i < count; ++i) {
      uhal_stream* const given = streams != nullptr ? handle_of(streams[i]) : nullptr;
      uhal_stream* stream = given;
      const bool must_wait = copy(sources[i], destinations[i], &stream);
      if (!must_wait && given != nullptr) continue;
      if (waited_for != nullptr && waited_for != stream) check(uhal_stream_synchronize(waited_for));
      waited_for = stream;
    }
    if (waited_for != nullptr) check(uhal_stream_synchronize(waited_for));
  }

  // Copies one tensor on *stream, which becomes the device's own one if it is NULL. Returns whether the host reads what
  // was copied as soon as it gets to.
  static bool copy(const OrtValue* source, OrtValue* destination, uhal_stream** stream) {
    void* from = nullptr;
    void* to = nullptr;
    size_t bytes = 0;
    check(ort.GetTensorMutableData(const_cast<OrtValue*>(source), &from));
    check(ort.GetTensorMutableData(destination, &to));
    check(ort.GetTensorSizeInBytes(source, &bytes));
    const OrtMemoryDevice* const source_memory = ort.Value_GetMemoryDevice(source);
    const OrtMemoryDevice* const destination_memory = ort.Value_GetMemoryDevice(destination);
    Place source_place, destination_place;
    const bool from_ours = find_place(source_memory, &source_place);
    const bool to_ours = find_place(destination_memory, &destination_place);
    const bool from_host = is_host(source_memory);
    const bool to_host = is_host(destination_memory);
    if (!from_ours && !to_ours)
      throw Failure(kOrtInvalidArgument, "unihal: a copy between devices that are not its own");
    if (*stream == nullptr) {
      check(uhal_device_default_stream((to_ours ? destination_place : source_place).open(), stream));
    }
    if (bytes == 0 || from == to) return false;
    require_memory(to, bytes);
    if ((from_host || to_host) && cancel_capture(*stream)) {
      throw Failure(kOrtInvalidArgument,
                    "unihal: a session with the option graph takes its inputs and gives its outputs in memory of the "
                    "device, by IO binding: they are where they were when the graph was captured");
    }
    if (from_host && to_host) {
      check(uhal_stream_synchronize(*stream));
      std::memcpy(to, from, bytes);
      return false;
    }
    if (from_host) {
      copy_from_host(*stream, to, from, bytes);
      return false;
    }
    if (to_host) {
      check(uhal_copy(*stream, to, from, bytes, UHAL_COPY_DEVICE_TO_HOST));
      return true;
    }
    uhal_device* const source_device = source_place.open();
    uhal_device* const destination_device = destination_place.open();
    if (source_device == destination_device) {
      check(uhal_copy(*stream, to, from, bytes, UHAL_COPY_DEVICE_TO_DEVICE));
    } else {
      check(uhal_copy_peer(*stream, destination_device, to, source_device, from, bytes));
    }
    return false;
  }
};

}  // namespace

OrtDataTransferImpl* make_data_transfer() { return new DataTransfer; }

}  // namespace unihal::onnxruntime
