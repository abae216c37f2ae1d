#include "handles.h"

#include <algorithm>
#include <utility>

#include "errors.h"

namespace unihal::python {

Stream::Stream(const Device& device, bool is_default) : device_(device.handle), is_default_(is_default) {
  check(is_default ? uhal_device_default_stream(device_, &handle_) : uhal_stream_create(device_, &handle_));
}

Stream::~Stream() {
  // A failure has nowhere to go; errors of the work itself came out at the last synchronization or are abandoned with
  // it.
  if (!is_default_ && handle_ != nullptr) uhal_stream_destroy(handle_);
}

void Stream::close() {
  if (is_default_ || handle_ == nullptr) return;
  uhal_stream* handle = std::exchange(handle_, nullptr);
  check_blocking([&] { return uhal_stream_destroy(handle); });
}

uhal_stream* Stream::get() const {
  if (handle_ == nullptr) fail(UHAL_INVALID_ARGUMENT, "the stream was closed; create another one");
  return handle_;
}

Event::Event(const Device& device) { check(uhal_event_create(device.handle, &handle_)); }

Event::~Event() {
  if (handle_ != nullptr) uhal_event_destroy(handle_);
}

void Event::close() {
  uhal_event* handle = std::exchange(handle_, nullptr);
  check(uhal_event_destroy(handle));
}

uhal_event* Event::get() const {
  if (handle_ == nullptr) fail(UHAL_INVALID_ARGUMENT, "the event was closed; create another one");
  return handle_;
}

Allocation::Allocation(const Device& device, std::shared_ptr<Stream> stream, uhal_memory_kind kind, size_t bytes)
    : device_(device.handle), kind_(kind), bytes_(bytes) {
  uhal_stream* handle = stream ? stream->get() : nullptr;
  void* pointer = nullptr;
  check_blocking([&] { return uhal_allocate(device_, handle, kind_, bytes_, &pointer); });
  pointer_ = static_cast<char*>(pointer);
  if (stream) streams_.push_back(std::move(stream));
}

Allocation::~Allocation() {
  if (!closed_) release();
}

void Allocation::close() {
  if (closed_) return;
  if (pins_.load() != 0) {
    PyErr_SetString(PyExc_BufferError,
                    "the memory is in use: a NumPy array, a memoryview, a DLPack tensor or a running call looks at it; "
                    "release those first");
    throw py::error_already_set();
  }
  closed_ = true;
  check(release());
}

void Allocation::require_open() const {
  if (closed_) fail(UHAL_INVALID_ARGUMENT, "the buffer's memory was freed; allocate another one");
}

void Allocation::used_on(const std::shared_ptr<Stream>& stream) {
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
}

uhal_status Allocation::release() {
  uhal_stream* last = nullptr;
  for (const std::shared_ptr<Stream>& stream : streams_) {
    // A closed stream has run all its work.
    if (stream->closed()) continue;
    uhal_stream* handle = stream->get();
    if (last != nullptr) {
      uhal_event* event = nullptr;
      uhal_status status = uhal_event_create(stream->device(), &event);
      if (status == UHAL_OK) status = uhal_event_record(event, last);
      if (status == UHAL_OK) status = uhal_stream_wait_event(handle, event);
      uhal_event_destroy(event);
      if (status != UHAL_OK) return status;
    }
    last = handle;
  }
  streams_.clear();
  return uhal_free(device_, last, std::exchange(pointer_, nullptr));
}

Pin::Pin(std::shared_ptr<Allocation> allocation) : allocation_(std::move(allocation)) {
  allocation_->require_open();
  allocation_->pins_.fetch_add(1);
}

Pin::~Pin() {
  if (allocation_) allocation_->pins_.fetch_sub(1);
}

}  // namespace unihal::python
