// uhal_graph_capture_*: from the stream to the graph.
#include <atomic>

#include "csrc/core/base/environment.h"
#include "csrc/core/base/process_state.h"
#include "csrc/core/graph/graph.h"
#include "csrc/core/stream/capture.h"

namespace unihal::core {
namespace {

bool is_complete(const uhal_graph_capture& table) {
  return table.struct_size >= sizeof table && table.begin != nullptr && table.end != nullptr &&
         table.cancel != nullptr && table.launch != nullptr && table.destroy != nullptr;
}

uhal_status find_table(const uhal_device& device, const uhal_graph_capture** table) {
  const uhal_backend& backend = device.backend->table;
  const void* found =
      backend.extension != nullptr
          ? backend.extension(UHAL_GRAPH_CAPTURE_NAME, static_cast<uint32_t>(UHAL_GRAPH_CAPTURE_VERSION))
          : nullptr;
  *table = static_cast<const uhal_graph_capture*>(found);
  if (found == nullptr) {
    return UHAL_FAIL(UHAL_UNIMPLEMENTED,
                     "The backend '%s' captures no graphs (it, or its driver, lacks the extension '%s' of version %u); "
                     "submit the work as often as it is to run.",
                     backend.name, UHAL_GRAPH_CAPTURE_NAME, static_cast<unsigned>(UHAL_GRAPH_CAPTURE_VERSION));
  }
  if (is_complete(**table)) return UHAL_OK;
  return UHAL_FAIL(UHAL_INTERNAL, "The graph capture of the backend '%s' lacks a function; rebuild the backend.",
                   backend.name);
}

// The check that must see each op when it runs.
uhal_status refuse_nan_check() {
  if (!environment().check_nan) return UHAL_OK;
  return UHAL_FAIL(
      UHAL_FAILED_PRECONDITION,
      "No capture begins with UNIHAL_CHECK_NAN, which looks at what each op wrote, and would see nothing of "
      "a graph. Unset it, or submit the work without a graph.");
}

uhal_status refuse_without_capture(const Stream& stream) {
  UHAL_FAIL(UHAL_FAILED_PRECONDITION, "The stream is not capturing; call uhal_graph_capture_begin first.");
  return with_device(*stream.device, UHAL_FAILED_PRECONDITION);
}

uhal_status begin(Stream* stream) {
  uhal_device& device = *stream->device;
  UHAL_EXPECT(refuse_nan_check());
  auto capture = std::make_unique<Capture>();
  UHAL_EXPECT(find_table(device, &capture->table));
  static std::atomic<uint64_t> numbers{0};
  capture->device = &device;
  capture->number = numbers.fetch_add(1) + 1;
  std::lock_guard<SubmissionLock> lock(stream->submission);
  UHAL_EXPECT(refuse_in_capture(*stream, "Another capture"));
  UHAL_EXPECT(call_backend(*device.backend, "begin of a capture", capture->table->begin, stream->backend_stream));
  // The scratch memory of captured work is the graph's.
  std::swap(stream->workspace, capture->workspace);
  std::swap(stream->workspace_bytes, capture->workspace_bytes);
  stream->capture.store(capture.release());
  return UHAL_OK;
}

// Ends the capture for good; a failure has no graph.
uhal_status end(Stream* stream, Graph* graph) {
  std::lock_guard<SubmissionLock> lock(stream->submission);
  if (!stream->is_capturing()) return refuse_without_capture(*stream);
  graph->captured.reset(detach_capture(stream));
  graph->backend_graph = nullptr;
  graph->fence = nullptr;
  graph->last_stream = nullptr;
  graph->clock = {};
  const uhal_device& device = *stream->device;
  return with_device(device, call_backend(*device.backend, "end of a capture", graph->captured->table->end,
                                          stream->backend_stream, &graph->backend_graph));
}

}  // namespace
}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_graph_capture_begin(uhal_stream* handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    return with_device(*stream->device, begin(stream.get()));
  });
}

uhal_status uhal_graph_capture_end(uhal_stream* handle, uhal_graph** graph) {
  UHAL_CHECK_PROCESS();
  if (graph == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "graph is NULL; pass the place for the graph.");
  *graph = nullptr;
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    Graph* created = graph_pool().acquire();
    if (created == nullptr) {
      return UHAL_FAIL(UHAL_RESOURCE_EXHAUSTED, "There are too many graphs; destroy those that are not used any more.");
    }
    const uhal_status status = end(stream.get(), created);
    if (status == UHAL_OK) {
      *graph = graph_pool().publish(created);
      return UHAL_OK;
    }
    if (created->captured != nullptr) created->captured->release_memory();
    created->captured.reset();
    graph_pool().recycle(created);
    return status;
  });
}

uhal_status uhal_graph_capture_cancel(uhal_stream* handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    return stream->is_capturing() ? drop_capture(stream.get()) : refuse_without_capture(*stream);
  });
}

uhal_status uhal_graph_capture_query(uhal_stream* handle, int32_t* capturing) {
  UHAL_CHECK_PROCESS();
  if (capturing == nullptr)
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "capturing is NULL; pass the place for the answer.");
  PinnedStream stream(stream_pool(), handle);
  if (!stream) return refuse_stream(handle);
  *capturing = stream->is_capturing() ? 1 : 0;
  return UHAL_OK;
}
