#include "handles.h"

#include <algorithm>
#include <map>
#include <utility>

#include "errors.h"
#include "unihal/graph_capture.h"

namespace unihal::python {

Stream::Stream(const Device& device, bool is_default) : device_(device.handle), is_default_(is_default) {
  check(is_default ? uhal_device_default_stream(device_, &handle_) : uhal_stream_create(device_, &handle_));
}

Stream::~Stream() {
  if (is_default_ || handle_ == nullptr) return;
  // A failure has nowhere to go; errors of the work itself came out at the last synchronization or are abandoned with
  // it.
  if (PyGILState_Check() == 0) {
    uhal_stream_destroy(handle_);
  } else if (wait_interruptibly([&] { return uhal_stream_destroy(handle_); }) == UHAL_CANCELLED) {
    // The stream lives on with what it uses, and nobody has it: for the interpreter's user to know.
    PyErr_WriteUnraisable(nullptr);
    for (std::unique_ptr<InFlight>& used : kept_) static_cast<void>(used.release());
  }
}

void Stream::close() {
  if (is_default_ || handle_ == nullptr) return;
  int32_t capturing = 0;
  check(uhal_graph_capture_query(handle_, &capturing));
  if (capturing != 0) fail(UHAL_FAILED_PRECONDITION, "the stream is capturing a graph; close it after the capture");
  // It counts as closed from when its work has run: until then memory that it used must not be taken for free.
  uhal_stream* handle = handle_;
  const uhal_status waited = wait_interruptibly([&] { return uhal_stream_synchronize(handle); });
  if (waited == UHAL_CANCELLED) check(waited);
  if (handle_ == nullptr) return;  // closed by another thread meanwhile
  handle_ = nullptr;
  kept_.clear();
  if (waited == UHAL_OK) return check_blocking([&] { return uhal_stream_destroy(handle); });
  try {
    check(waited);
  } catch (...) {
    static_cast<void>(uhal_stream_destroy(handle));
    throw;
  }
}

uhal_status Stream::synchronize() {
  uhal_stream* handle = get();
  const uhal_status status = wait_interruptibly([&] { return uhal_stream_synchronize(handle); });
  if (status != UHAL_CANCELLED) kept_.clear();
  return status;
}

void Stream::keep(std::unique_ptr<InFlight> used) { kept_.push_back(std::move(used)); }

uhal_stream* Stream::get() const {
  if (handle_ == nullptr) fail(UHAL_INVALID_ARGUMENT, "the stream was closed; create another one");
  return handle_;
}

std::shared_ptr<Stream> default_stream(const Device& device) {
  // They stay for the process: nothing of theirs is freed.
  static auto* streams = new std::map<uhal_device*, std::shared_ptr<Stream>>;
  std::shared_ptr<Stream>& stream = (*streams)[device.handle];
  if (stream == nullptr) stream = std::make_shared<Stream>(device, true);
  return stream;
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

namespace {

// Lets a stream wait for the work of another so far; the host waits if the device cannot.
void follow(uhal_device* device, uhal_stream* stream, uhal_stream* other) {
  uhal_event* event = nullptr;
  uhal_status status = uhal_event_create(device, &event);
  if (status == UHAL_OK) status = uhal_event_record(event, other);
  if (status == UHAL_OK) status = uhal_stream_wait_event(stream, event);
  uhal_event_destroy(event);
  if (status != UHAL_OK) uhal_stream_synchronize(other);
}

}  // namespace

uhal_status Allocation::release() {
  // They stay until the memory is free: this may be the last to hold them.
  const std::vector<std::shared_ptr<Stream>> streams = std::exchange(streams_, {});
  uhal_stream* last = nullptr;
  for (const std::shared_ptr<Stream>& stream : streams) {
    // A closed stream has run all its work.
    if (stream->closed()) continue;
    uhal_stream* handle = stream->get();
    if (last != nullptr) follow(stream->device(), handle, last);
    last = handle;
  }
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
