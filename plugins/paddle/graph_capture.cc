#include "plugins/paddle/graph_capture.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "plugins/common/view.h"
#include "plugins/paddle/error.h"
#include "plugins/paddle/stream.h"
#include "unihal/graph_capture.h"
#include "unihal/memory.h"

namespace unihal::paddle {

struct ReplayCount {
  uhal_device* device;
  View number;
  bool counted = false;  // some captured work counts
};

namespace {

// C_StreamCaptureStatus
enum CaptureStatus : int32_t { kNotCapturing = 0, kCapturing = 1 };

// What Paddle may update in a graph before each replay: nothing.
struct Hooks {
  size_t size;
  void* functions;
  void** user_data;
};

// Paddle gives back both what it captured and what it made executable of it, which are one here.
struct Graph {
  uhal_graph* handle;
  ReplayCount* replays;
  int references = 1;
};

Status finish(uhal_status status) {
  if (status != UHAL_OK) raise_last_error(status, "graph");
  return kSuccess;
}

// No replay, in memory that lasts as long as the graph. It is not captured itself.
uhal_status make(const Stream& stream, ReplayCount** made) {
  constexpr int64_t kNone = 0;
  void* memory = nullptr;
  uhal_status status = uhal_allocate(stream.device, stream.handle, UHAL_MEMORY_DEVICE, sizeof kNone, &memory);
  if (status != UHAL_OK) return status;
  *made = new ReplayCount{stream.device, View(memory, UHAL_INT64, {1})};
  return uhal_memory_fill(stream.handle, memory, &kNone, sizeof kNone, sizeof kNone);
}

// After the device is done with it: the last replay may be under way.
void drop(ReplayCount* replays) {
  if (replays == nullptr) return;
  static_cast<void>(uhal_device_synchronize(replays->device));  // leaves the error record as it is
  static_cast<void>(uhal_free(replays->device, nullptr, replays->number.data));
  delete replays;
}

Status release_graph(Graph* graph) {
  if (graph == nullptr || --graph->references > 0) return kSuccess;
  const uhal_status status = uhal_graph_destroy(graph->handle);
  drop(graph->replays);
  delete graph;
  return status == UHAL_OK ? kSuccess : kFailed;
}

Status begin(void*, Stream* stream, int32_t) {
  if (!is_our_stream(stream)) return kFailed;
  ReplayCount* replays = nullptr;
  uhal_status status = make(*stream, &replays);
  if (status == UHAL_OK) status = uhal_graph_capture_begin(stream->handle);
  if (status != UHAL_OK) {
    drop(replays);
  } else {
    stream->replays = replays;
  }
  return finish(status);
}

Status end(void*, Stream* stream, Graph** graph) {
  uhal_graph* handle = nullptr;
  if (!is_our_stream(stream)) return kFailed;
  ReplayCount* const replays = std::exchange(stream->replays, nullptr);
  const uhal_status status = uhal_graph_capture_end(stream->handle, &handle);
  if (status != UHAL_OK) drop(replays);
  finish(status);
  *graph = new Graph{handle, replays};
  return kSuccess;
}

Status instantiate(Graph** executable, Graph** graph, void** node, char*, size_t) {
  ++(*graph)->references;
  *executable = *graph;
  if (node != nullptr) *node = nullptr;
  return kSuccess;
}

Status launch_graph(void*, Graph* graph, Stream* stream) {
  return is_our_stream(stream) ? finish(uhal_graph_launch(graph->handle, stream->handle)) : kFailed;
}

// Paddle asks only how many there are.
Status count_nodes(Graph* graph, void* nodes, size_t* count) {
  uhal_graph_info info = {};
  info.struct_size = sizeof info;
  if (nodes != nullptr) return kFailed;
  finish(uhal_graph_info_get(graph->handle, &info));
  *count = info.work_count;
  return kSuccess;
}

Status query(void*, Stream* stream, CaptureStatus* found, unsigned long long* id, Graph** graph, void** dependencies,
             void** edges, size_t* dependency_count) {
  int32_t capturing = 0;
  if (is_our_stream(stream)) finish(uhal_graph_capture_query(stream->handle, &capturing));
  if (found != nullptr) *found = capturing != 0 ? kCapturing : kNotCapturing;
  if (id != nullptr) *id = reinterpret_cast<uintptr_t>(stream);
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (dependency_count != nullptr) *dependency_count = 0;
  return kSuccess;
}

Status no_hooks(Graph*, Hooks* hooks) {
  *hooks = {};
  return kSuccess;
}

Status print(Graph*, const char*, unsigned) { return kFailed; }

// Paddle captures nothing on a device without handles of a matrix library, and does nothing with them.
Status make_handle(void*, void** handle) {
  static char stands_for_one;
  *handle = &stands_for_one;
  return kSuccess;
}
Status make_handle_of_stream(void* device, void** handle, void*) { return make_handle(device, handle); }
Status keep_math_mode(void*, void*, int) { return kSuccess; }
Status drop_handle(void*, void*) { return kSuccess; }

// Which threads' calls a capture forbids: none, whatever Paddle asks for.
Status exchange_mode(int32_t*) { return kSuccess; }

}  // namespace

uhal_status replay_number(const Stream* stream, const uhal_tensor** number) {
  ReplayCount* const replays = stream->replays;
  *number = replays == nullptr ? nullptr : &replays->number;
  if (replays == nullptr || replays->counted) return UHAL_OK;
  replays->counted = true;
  return map(stream->handle, uhal_map_scale, {&replays->number}, {&replays->number}, {1, 1}, "graph");
}

const Callback* graph_callbacks() {
#define UNIHAL_CALLBACK(slot, function)      \
  {                                          \
    slot, reinterpret_cast<void*>(&function) \
  }
  static const Callback table[] = {
      UNIHAL_CALLBACK("init_blas_handle", make_handle_of_stream),
      UNIHAL_CALLBACK("blas_set_math_mode", keep_math_mode),
      UNIHAL_CALLBACK("init_blaslt_handle", make_handle),
      UNIHAL_CALLBACK("destroy_blas_handle", drop_handle),
      UNIHAL_CALLBACK("destroy_blaslt_handle", drop_handle),
      UNIHAL_CALLBACK("cuda_stream_begin_capture", begin),
      UNIHAL_CALLBACK("cuda_stream_end_captrue", end),
      UNIHAL_CALLBACK("cuda_graph_launch", launch_graph),
      UNIHAL_CALLBACK("cuda_graph_destroy", release_graph),
      UNIHAL_CALLBACK("cuda_graph_exec_destroy", release_graph),
      UNIHAL_CALLBACK("cuda_graph_instantiate", instantiate),
      UNIHAL_CALLBACK("cuda_graph_get_nodes", count_nodes),
      UNIHAL_CALLBACK("cuda_stream_capture_info", query),
      UNIHAL_CALLBACK("get_parameter_setter_for_exec_graph", no_hooks),
      UNIHAL_CALLBACK("cuda_graph_debug_dot_print", print),
      UNIHAL_CALLBACK("cuda_thread_exchange_stream_capthure_mode", exchange_mode),
      {nullptr, nullptr},
  };
#undef UNIHAL_CALLBACK
  return table;
}

}  // namespace unihal::paddle
