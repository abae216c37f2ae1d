// Captured graphs.
#include "unihal/graph_capture.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "errors.h"
#include "handles.h"
#include "module.h"

namespace unihal::python {
namespace {

class Graph {
 public:
  // Ends the stream's capture.
  explicit Graph(const Stream& stream) { check(uhal_graph_capture_end(stream.get(), &handle_)); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // A failure has nowhere to go. Without the GIL, since it waits for the launches.
  ~Graph() {
    if (handle_ == nullptr) return;
    if (PyGILState_Check() == 0) {
      static_cast<void>(uhal_graph_destroy(handle_));
    } else {
      const py::gil_scoped_release release;
      static_cast<void>(uhal_graph_destroy(handle_));
    }
  }

  void launch(const Stream& stream) {
    uhal_graph* graph = get();
    uhal_stream* queue = stream.get();
    check_blocking([&] { return uhal_graph_launch(graph, queue); });
  }

  // The number of ops, copies and fills, bytes and floating-point operations.
  py::tuple info() const {
    uhal_graph_info info = {};
    info.struct_size = sizeof info;
    check(uhal_graph_info_get(get(), &info));
    return py::make_tuple(info.work_count, info.bytes, info.flops);
  }

  void close() {
    uhal_graph* handle = std::exchange(handle_, nullptr);
    check_blocking([&] { return uhal_graph_destroy(handle); });
  }

  bool closed() const { return handle_ == nullptr; }

 private:
  uhal_graph* get() const {
    if (handle_ == nullptr) fail(UHAL_INVALID_ARGUMENT, "the graph was closed; capture another one");
    return handle_;
  }

  uhal_graph* handle_ = nullptr;
};

bool is_capturing(const Stream& stream) {
  int32_t capturing = 0;
  check(uhal_graph_capture_query(stream.get(), &capturing));
  return capturing != 0;
}

}  // namespace

void bind_graph(py::module_& module) {
  py::class_<Graph, std::shared_ptr<Graph>>(module, "Graph")
      .def(py::init<const Stream&>())
      .def_property_readonly("closed", &Graph::closed)
      .def("launch", &Graph::launch)
      .def("info", &Graph::info)
      .def("close", &Graph::close);
  module.def("graph_capture_begin", [](const Stream& stream) { check(uhal_graph_capture_begin(stream.get())); });
  module.def("graph_capture_cancel", [](const Stream& stream) { check(uhal_graph_capture_cancel(stream.get())); });
  module.def("graph_is_capturing", &is_capturing);
}

}  // namespace unihal::python
