// Streams and events.
#include "handles.h"

#include "errors.h"
#include "module.h"
#include "unihal/op.h"

namespace unihal::python {
namespace {

bool stream_query(const Stream& stream) {
  int32_t done = 0;
  check(uhal_stream_query(stream.get(), &done));
  return done != 0;
}

bool event_query(const Event& event) {
  int32_t done = 0;
  check(uhal_event_query(event.get(), &done));
  return done != 0;
}

int64_t elapsed_nanoseconds(const Event& start, const Event& end) {
  int64_t nanoseconds = 0;
  check(uhal_event_elapsed_nanoseconds(start.get(), end.get(), &nanoseconds));
  return nanoseconds;
}

}  // namespace

void bind_stream(py::module_& module) {
  py::class_<Stream, std::shared_ptr<Stream>>(module, "Stream")
      .def(py::init([](const Device& device) { return std::make_shared<Stream>(device, false); }), py::arg("device"))
      .def_property_readonly("closed", &Stream::closed)
      .def("close", &Stream::close)
      .def("query", &stream_query)
      .def("synchronize", [](Stream& stream) { check(stream.synchronize()); })
      .def("wait_event",
           [](const Stream& stream, const Event& event) { check(uhal_stream_wait_event(stream.get(), event.get())); })
      .def("launch_group_start", [](const Stream& stream) { check(uhal_launch_group_start(stream.get())); })
      .def("launch_group_end", [](const Stream& stream) { check(uhal_launch_group_end(stream.get())); });

  module.def("default_stream", &default_stream);

  py::class_<Event, std::shared_ptr<Event>>(module, "Event")
      .def(py::init<const Device&>())
      .def("close", &Event::close)
      .def("record",
           [](const Event& event, const Stream& stream) { check(uhal_event_record(event.get(), stream.get())); })
      .def("query", &event_query)
      .def("synchronize",
           [](const Event& event) {
             uhal_event* handle = event.get();
             check(wait_interruptibly([&] { return uhal_event_synchronize(handle); }));
           })
      .def("elapsed_nanoseconds", &elapsed_nanoseconds);
}

}  // namespace unihal::python
