#include "csrc/backends/gpu/graph.h"

#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/guarded.h"
#include "csrc/backends/gpu/status.h"
#include "csrc/backends/gpu/stream.h"

namespace unihal::gpu {

Graph::~Graph() {
  if (executable_ == nullptr || device_.make_current() != UHAL_OK) return;
  static_cast<void>(api.executable_destroy(executable_));
}

uhal_status Graph::open(NativeGraph captured) {
  const int code = vendor.instantiate(&executable_, captured);
  return code == kSuccess ? UHAL_OK : fail_native(code, "%s makes no graph of what was captured", device_.name.c_str());
}

namespace {

uhal_status begin(uhal_backend_stream* stream) {
  return guarded([&] { return Stream::from(stream)->begin_capture(); });
}

uhal_status end(uhal_backend_stream* stream, uhal_backend_graph** graph) {
  return guarded([&]() -> uhal_status {
    std::unique_ptr<Graph> captured;
    const uhal_status status = Stream::from(stream)->end_capture(&captured);
    if (status == UHAL_OK) *graph = captured.release()->handle();
    return status;
  });
}

uhal_status cancel(uhal_backend_stream* stream) {
  return guarded([&] { return Stream::from(stream)->cancel_capture(); });
}

uhal_status launch(uhal_backend_graph* graph, uhal_backend_stream* stream) {
  return guarded([&] { return Stream::from(stream)->launch_graph(*Graph::from(graph)); });
}

uhal_status destroy(uhal_backend_graph* graph) {
  delete Graph::from(graph);
  return UHAL_OK;
}

constexpr uhal_graph_capture kGraphCaptureTable = {sizeof kGraphCaptureTable, begin, end, cancel, launch, destroy};

}  // namespace

const uhal_graph_capture* graph_capture_table() {
  const bool has_graphs = api.stream_begin_capture != nullptr && api.stream_end_capture != nullptr &&
                          api.graph_destroy != nullptr && api.graph_launch != nullptr &&
                          api.executable_destroy != nullptr && vendor.can_instantiate();
  return has_graphs ? &kGraphCaptureTable : nullptr;
}

}  // namespace unihal::gpu
