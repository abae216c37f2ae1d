// Communicators and collectives.
#include "unihal/collectives.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "errors.h"
#include "handles.h"
#include "module.h"
#include "view.h"

namespace unihal::python {
namespace {

class Communicator {
 public:
  Communicator(const Device& device, int32_t rank, int32_t size, const std::string& id, int64_t timeout_milliseconds) {
    uhal_communicator_id bytes = {};
    if (id.size() != sizeof bytes.bytes) {
      const std::string message = "the communicator's id has " + std::to_string(id.size()) + " bytes; expected the " +
                                  std::to_string(sizeof bytes.bytes) + " that create_id gave, unchanged";
      fail(UHAL_INVALID_ARGUMENT, message.c_str());
    }
    std::memcpy(bytes.bytes, id.data(), sizeof bytes.bytes);
    check(wait_interruptibly(
        [&] { return uhal_communicator_create(device.handle, rank, size, &bytes, timeout_milliseconds, &handle_); }));
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // A failure has nowhere to go. Without the GIL, which other ranks' threads may need to come to their end.
  ~Communicator() {
    if (handle_ == nullptr) return;
    if (PyGILState_Check() == 0) {
      static_cast<void>(uhal_communicator_destroy(handle_));
    } else {
      const py::gil_scoped_release release;
      static_cast<void>(uhal_communicator_destroy(handle_));
    }
  }

  void launch(const std::shared_ptr<Stream>& stream, const std::string& kind, const View* source,
              const View* destination, int64_t count, uhal_reduction reduction, int32_t peer) {
    uhal_collective collective = {};
    collective.struct_size = sizeof collective;
    collective.kind = kind_of(kind);
    collective.dtype = (source != nullptr ? source : destination)->tensor().dtype;
    collective.reduction = reduction;
    collective.peer = peer;
    collective.count = count;
    uhal_communicator* communicator = get();
    uhal_stream* queue = stream->get();
    std::vector<Pin> pins;
    for (const View* view : {source, destination}) {
      if (view == nullptr) continue;
      pins.emplace_back(view->allocation());
    }
    if (source != nullptr) collective.source = source->tensor().data;
    if (destination != nullptr) collective.destination = destination->tensor().data;
    check(wait_interruptibly([&] { return uhal_communicator_launch(communicator, queue, &collective); }));
    for (const Pin& pin : pins) pin.allocation()->used_on(stream);
  }

  void abort() { check(uhal_communicator_abort(get())); }

  void close() {
    uhal_communicator* handle = std::exchange(handle_, nullptr);
    check_blocking([&] { return uhal_communicator_destroy(handle); });
  }

  bool closed() const { return handle_ == nullptr; }

 private:
  static uhal_collective_kind kind_of(const std::string& name) {
    uhal_collective_kind kind = 1;
    while (kind < UHAL_COLLECTIVE_KIND_LIMIT && name != uhal_collective_kind_name(kind)) ++kind;
    return kind;
  }

  uhal_communicator* get() const {
    if (handle_ == nullptr)
      fail(UHAL_INVALID_ARGUMENT, "the communicator was closed; create another one with a new id");
    return handle_;
  }

  uhal_communicator* handle_ = nullptr;
};

py::bytes create_id(const Device& device) {
  uhal_communicator_id id;
  check_blocking([&] { return uhal_communicator_id_create(device.handle, &id); });
  return py::bytes(id.bytes, sizeof id.bytes);
}

}  // namespace

void bind_collectives(py::module_& module) {
  py::class_<Communicator, std::shared_ptr<Communicator>>(module, "Communicator")
      .def(py::init<const Device&, int32_t, int32_t, const std::string&, int64_t>())
      .def_property_readonly("closed", &Communicator::closed)
      .def("launch", &Communicator::launch)
      .def("abort", &Communicator::abort)
      .def("close", &Communicator::close);
  module.def("communicator_id", &create_id);
  module.def("group_start", [] { check(uhal_communicator_group_start()); });
  module.def("group_end", [] { check(wait_interruptibly([] { return uhal_communicator_group_end(); })); });
  module.def("group_cancel", &uhal_communicator_group_cancel);
}

}  // namespace unihal::python
