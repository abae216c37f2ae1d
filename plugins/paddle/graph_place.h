// Graphs (to_static, Executor) on several device types in one process.
//
// While Paddle lowers a graph it names devices by the backend CUSTOM, which it then takes for the first device type
// that was loaded, whatever the graph is for. So the type that a graph is lowered for is remembered, and given out.
#pragma once

namespace unihal::paddle {

// Redirects two of Paddle's functions; once per process. Returns nullptr, or what could not be found: then only the
// first device type works in graphs.
const char* correct_graph_places();

}  // namespace unihal::paddle
