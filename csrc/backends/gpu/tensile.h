// The kernels of rocBLAS and hipBLASLt, which lie in files beside them, for some cards: without those of the device's
// they end the process.
#pragma once

#include <string>

namespace unihal::gpu {

// Whether a library has kernels for an architecture ("gfx1030"). `function` is one of the library's; its files are in
// NAME/library beside it, or in the folder that the environment variable `override` names. False with the reason.
bool has_tensile_library(const void* function, const std::string& name, const char* override,
                         const std::string& architecture, std::string* refusal);

}  // namespace unihal::gpu
