// Graphs: what a stream captured, as the driver launches it.
//
// Threads: one at a time.
#pragma once

#include <atomic>
#include <memory>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/error_cell.h"
#include "unihal/graph_capture.h"

namespace unihal::gpu {

class Stream;

// Where the kernels of a graph note bad data. Streams that launched the graph keep it until they looked into it.
struct GraphErrors {
  explicit GraphErrors(Device& device) : cell(device) {}

  ErrorCell cell;
  std::atomic<const Stream*> last_stream{nullptr};  // that launched the graph, and has its errors
};

class Graph {
 public:
  // Without work; a stream captures into it.
  explicit Graph(Device& device) : errors(std::make_shared<GraphErrors>(device)), device_(device) {}

  // Its launches have run.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Makes what was captured ready for launches. The device is current.
  uhal_status open(NativeGraph captured);

  NativeExecutable get() const { return executable_; }

  static Graph* from(uhal_backend_graph* handle) { return reinterpret_cast<Graph*>(handle); }
  uhal_backend_graph* handle() { return reinterpret_cast<uhal_backend_graph*>(this); }

  const std::shared_ptr<GraphErrors> errors;

 private:
  const Device& device_;
  NativeExecutable executable_ = nullptr;
};

// The extension "uhal.graph_capture"; nullptr if the driver has no graphs.
const uhal_graph_capture* graph_capture_table();

}  // namespace unihal::gpu
