// Graphs of the stub: captured work as a list, which runs from the first to the last at each launch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unihal/graph_capture.h"

namespace unihal::stub {

// Work of a stream, whose handle in the core is `owner`. It owns what it needs beside the memory of its operands.
using StreamWork = std::function<uhal_status(uhal_stream* owner)>;

class Graph {
 public:
  // Throws std::bad_alloc.
  void add(std::string name, StreamWork run) { work_.push_back({std::move(name), std::move(run)}); }

  // Runs all of it. Failures become errors of the stream.
  void run(uhal_stream* owner) const;

  static Graph* from(uhal_backend_graph* handle) { return reinterpret_cast<Graph*>(handle); }
  uhal_backend_graph* handle() { return reinterpret_cast<uhal_backend_graph*>(this); }

 private:
  struct Work {
    std::string name;  // for errors
    StreamWork run;
  };
  std::vector<Work> work_;
};

// What a stream is capturing, or nullptr.
using GraphBeingCaptured = std::unique_ptr<Graph>;

// What the slots of both modes share.
uhal_status begin_capture(GraphBeingCaptured* place);
uhal_status destroy_graph(uhal_backend_graph* graph);

}  // namespace unihal::stub
