// Graphs (to_static, Executor) on several device types in one process.
//
// While Paddle lowers a graph it names devices by the backend CUSTOM, which it then takes for the first device type
// that was loaded, whatever the graph is for: where it asks for the place of an output, and later, where it builds the
// instructions from the kernel keys that are attributes of the lowered ops. So the type that a graph is lowered for is
// remembered, given out as the place, and put into each kernel key.
#pragma once

namespace unihal::paddle {

// Redirects three of Paddle's functions; once per process. Returns nullptr, or what could not be found: then only the
// first device type works in graphs.
const char* correct_graph_places();

}  // namespace unihal::paddle
