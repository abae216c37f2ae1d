// Where CoreX is installed.
#pragma once

#include <string>
#include <vector>

namespace unihal::gpu {

// Folders of the SDK that are there: those that COREX_ROOT, COREX_HOME and ILUVATAR_SOFTWARE_ROOT name,
// /usr/local/corex, and /usr/local/corex-VERSION, the highest version first.
std::vector<std::string> corex_roots();

// Their folders with libraries.
std::vector<std::string> corex_library_folders();

}  // namespace unihal::gpu
