// Which kernels Paddle chose for unihal's devices, for tests that hold each of them in each mode.
#pragma once

#include <cstdint>
#include <string>

namespace unihal::paddle {

// A kernel was chosen, of phi's number of a dtype. Costs a load where nobody asked for the list.
void note_selection(const std::string& kernel, int32_t dtype);

}  // namespace unihal::paddle
