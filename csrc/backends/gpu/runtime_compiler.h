// hipRTC and NVRTC: compilers that are libraries. One interface under two prefixes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "csrc/backends/gpu/compiler.h"

namespace unihal::gpu {

// Opens the first of some files that is the vendor's run-time compiler; it is never closed. nullptr if none is: then
// *refusal gets the reason of each.
std::unique_ptr<Compiler> open_runtime_compiler(Vendor vendor, const std::vector<std::string>& files,
                                                std::string* refusal);

}  // namespace unihal::gpu
