// Graphs: handles, and the state that the core keeps for each.
#pragma once

#include <memory>
#include <mutex>

#include "csrc/core/base/handle_pool.h"
#include "csrc/core/memory/capture.h"

namespace unihal::core {

struct Graph : HandleSlot {
  std::mutex submission;  // one launch at a time; taken before those of streams
  std::unique_ptr<Capture> captured;
  uhal_backend_graph* backend_graph = nullptr;

  // Recorded after each launch, on the stream that it went to; nullptr before the first one.
  uhal_backend_event* fence = nullptr;
  uhal_stream* last_stream = nullptr;
  VectorClock clock;  // the race check's: what comes before the end of the last launch
};

using GraphPool = HandlePool<Graph, 0x5d, uhal_graph*>;
using PinnedGraph = Pinned<GraphPool>;
GraphPool& graph_pool();

// UHAL_INVALID_ARGUMENT about a handle that is not a live graph.
uhal_status refuse_graph(const void* handle);

}  // namespace unihal::core
