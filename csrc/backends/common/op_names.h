// Names of ops. Backends link nothing of the core, so they have their own; a test compares them with the core's.
#pragma once

#include <string>

#include "unihal/op.h"

namespace unihal {

// "matmul"; nullptr for a number that is no kind.
const char* op_kind_name(uhal_op_kind kind);

// "relu"; nullptr for a number that is no function.
const char* map_function_name(uhal_map_function function);

// "matmul", "map.relu": as the profiler names it.
std::string op_name(const uhal_op& op);

// Finds what a name means: a kind, or "map." and a function. For a kind *function is -1. False for no op's name.
bool find_op(const std::string& name, uhal_op_kind* kind, uhal_map_function* function);

}  // namespace unihal
