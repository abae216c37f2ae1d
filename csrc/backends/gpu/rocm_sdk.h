// Where ROCm is installed.
#pragma once

#include <string>
#include <vector>

namespace unihal::gpu {

// The files of a library of ROCm ("amdhip64"), to be tried in turn, by the numbers of its releases' SONAMEs: those in
// the folder that ROCM_PATH names, then those that the loader finds, then /opt/rocm's.
std::vector<std::string> rocm_libraries(const std::string& stem, const std::vector<int>& versions);

}  // namespace unihal::gpu
