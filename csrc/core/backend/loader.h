// Finds, opens and checks backend libraries.
#pragma once

#include <string>

#include "csrc/core/backend/backend.h"

namespace unihal::core {

// What came of loading: a backend, or why not.
struct LoadResult {
  Backend* backend = nullptr;
  uhal_status status = UHAL_OK;
  std::string library;  // the file that was opened; empty if none
  std::string reason;   // each path tried with its reason
};

// Looks for libunihal_<name>.so in the folders of UNIHAL_BACKEND_PATH, then beside libunihal.so. The backend gets
// `host`, which must live as long as the process.
LoadResult load_backend_by_name(const std::string& name, const uhal_host& host);

// Opens one file. `expected_name` empty: any backend.
LoadResult load_backend_file(const std::string& path, const std::string& expected_name, const uhal_host& host);

}  // namespace unihal::core
