#include "stub/graph/graph.h"

#include <new>

#include "stub/backend/device.h"
#include "stub/backend/fault_table.h"
#include "stub/common/failure.h"

namespace unihal::stub {

void Graph::run(uhal_stream* owner) const {
  for (const Work& work : work_) {
    const FailureCapture failure;
    const uhal_status status = work.run(owner);
    if (status != UHAL_OK) host().stream_error(owner, status, work.name.c_str(), failure.message());
  }
}

uhal_status begin_capture(GraphBeingCaptured* place) {
  if (const uhal_status lost = fail_if_lost(); lost != UHAL_OK) return lost;
  place->reset(new (std::nothrow) Graph);
  return *place != nullptr ? UHAL_OK : fail_without_host_memory("a graph");
}

uhal_status destroy_graph(uhal_backend_graph* graph) {
  delete Graph::from(graph);
  return UHAL_OK;
}

}  // namespace unihal::stub
