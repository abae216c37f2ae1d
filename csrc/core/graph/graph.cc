#include "csrc/core/graph/graph.h"

#include "csrc/core/base/process_state.h"
#include "csrc/core/base/struct_size.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/profile/profiler.h"

namespace unihal::core {
namespace {

uhal_graph_info info_of(const Capture& captured) {
  return {sizeof(uhal_graph_info), captured.device, captured.work_count, captured.bytes, captured.flops};
}

// Lets the stream's next work come after the graph's last launch.
uhal_status follow_last_launch(const Graph& graph, uhal_stream* handle, Stream* stream) {
  if (graph.last_stream == nullptr || graph.last_stream == handle) return UHAL_OK;
  const Backend& backend = *stream->device->backend;
  UHAL_EXPECT(
      call_backend(backend, "stream_wait_event", backend.table.stream_wait_event, stream->backend_stream, graph.fence));
  note_wait(stream, graph.clock);
  return UHAL_OK;
}

// Marks the end of the launch that was just submitted.
uhal_status record_fence(Graph* graph, uhal_stream* handle, const Stream& stream) {
  const Backend& backend = *stream.device->backend;
  const uhal_status status =
      call_backend(backend, "event_record", backend.table.event_record, graph->fence, stream.backend_stream);
  // Without a mark nobody could wait for it later.
  if (status != UHAL_OK) static_cast<void>(backend.table.stream_synchronize(stream.backend_stream));
  graph->last_stream = handle;
  note_place(stream, &graph->clock);
  return status;
}

uhal_status launch(Graph* graph, uhal_stream* handle, Stream* stream) {
  const uhal_device& device = *stream->device;
  const Backend& backend = *device.backend;
  std::lock_guard<std::mutex> turn(graph->submission);
  UHAL_EXPECT(graph->captured->check_memory());
  if (graph->fence == nullptr) {
    UHAL_EXPECT(
        call_backend(backend, "event_create", backend.table.event_create, device.backend_device, &graph->fence));
  }
  TrackedWork tracked(stream, *graph->captured);
  std::lock_guard<SubmissionLock> lock(stream->submission);
  UHAL_EXPECT(refuse_in_capture(*stream, "A launch of a graph"));
  UHAL_EXPECT(follow_last_launch(*graph, handle, stream));
  ProfiledWork profiled(stream, info_of(*graph->captured));
  const uhal_status status = call_backend(backend, "launch of a graph", graph->captured->table->launch,
                                          graph->backend_graph, stream->backend_stream);
  if (status == UHAL_OK) {
    tracked.submitted();
    return record_fence(graph, handle, *stream);
  }
  profiled.drop();
  return status;
}

// No thread uses the graph any more.
uhal_status destroy(Graph* graph) {
  const Capture& captured = *graph->captured;
  const Backend& backend = *captured.device->backend;
  uhal_status waited = UHAL_OK;
  if (graph->last_stream != nullptr) {
    HostWait wait(*captured.device, graph->clock);
    waited = call_backend(backend, "event_synchronize", backend.table.event_synchronize, graph->fence);
    wait.over();
  }
  const uhal_status status =
      call_backend(backend, "destruction of a graph", captured.table->destroy, graph->backend_graph);
  if (graph->fence != nullptr) static_cast<void>(backend.table.event_destroy(graph->fence));
  graph->captured->release_memory();
  return with_device(*captured.device, waited != UHAL_OK ? waited : status);
}

}  // namespace

GraphPool& graph_pool() {
  static GraphPool* const instance = new GraphPool;
  return *instance;
}

uhal_status refuse_graph(const void* handle) {
  if (handle == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The graph is NULL; pass one from uhal_graph_capture_end.");
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "The graph %p does not exist: it was destroyed, or is no graph. Use a graph between the end of its "
                   "capture and its destruction.",
                   handle);
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_graph_launch(uhal_graph* handle, uhal_stream* stream_handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedGraph graph(graph_pool(), handle);
    if (!graph) return refuse_graph(handle);
    PinnedStream stream(stream_pool(), stream_handle);
    if (!stream) return refuse_stream(stream_handle);
    const uhal_device& device = *graph->captured->device;
    if (stream->device != &device) {
      return UHAL_FAIL(
          UHAL_INVALID_ARGUMENT,
          "The stream belongs to %s, but the graph was captured on %s; launch it on a stream of that device.",
          stream->device->label.c_str(), device.label.c_str());
    }
    return with_device(device, launch(graph.get(), stream_handle, stream.get()));
  });
}

uhal_status uhal_graph_destroy(uhal_graph* handle) {
  UHAL_CHECK_PROCESS();
  if (handle == nullptr) return UHAL_OK;
  return guarded([&]() -> uhal_status {
    PinnedGraph pinned(graph_pool(), handle);
    if (!pinned) return refuse_graph(handle);
    UHAL_EXPECT(refuse_wait_in_callback("uhal_graph_destroy"));
    Graph* graph = pinned.release();
    if (!graph_pool().retire(graph)) return refuse_graph(handle);
    const uhal_status status = destroy(graph);
    graph->captured.reset();
    graph_pool().recycle(graph);
    return status;
  });
}

uhal_status uhal_graph_info_get(uhal_graph* handle, uhal_graph_info* info) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedGraph graph(graph_pool(), handle);
    if (!graph) return refuse_graph(handle);
    return copy_out(info_of(*graph->captured), info, "info");
  });
}
