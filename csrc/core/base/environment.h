// The UNIHAL_* environment variables: parsed strictly, so that a typing error is an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unihal/status.h"

namespace unihal::core {

struct Environment {
  std::string backend;        // UNIHAL_BACKEND; empty: no wish
  std::string backend_path;   // UNIHAL_BACKEND_PATH
  std::string fallback_log;   // UNIHAL_FALLBACK_LOG
  std::string profile;        // UNIHAL_PROFILE
  uint64_t memory_limit = 0;  // UNIHAL_MEMORY_LIMIT; 0: none
  bool strict = false;        // UNIHAL_STRICT
  bool check_nan = false;     // UNIHAL_CHECK_NAN
  bool check_races = false;   // UNIHAL_CHECK_RACES
  bool check_memory = false;  // UNIHAL_CHECK_MEMORY
  int check_exit_code = 0;    // UNIHAL_CHECK_EXIT_CODE; 0: the program's own
  uint64_t leak_bytes = 0;    // UNIHAL_CHECK_LEAK_BYTES
  std::string complaint;      // what is wrong with the variables; empty if nothing is
};

// Names, in one line on stderr, the UNIHAL_ variables that are set and that nobody knows, each with the nearest known
// one. Once in a process.
void name_unknown_variables();

// The text of that line for names of variables; empty if all are known.
std::string unknown_variables(const std::vector<std::string>& names);

// Reads the variables as they are now.
Environment read_environment();

// The values in force: those of the first use.
inline const Environment& environment() {
  static const Environment* const instance = new Environment(read_environment());
  return *instance;
}

// UHAL_INVALID_ARGUMENT that names each variable with a nonsense value, that value, and what is allowed.
uhal_status check_environment();

// The overrides that are set now, unihal's and those of vendor runtimes, as "NAME=value, ..."; empty if none.
std::string overrides_in_force();

// Parses "4096", "512M", "8G". False unless the whole text is a number of bytes within 64 bits.
bool parse_bytes(const std::string& text, uint64_t* bytes);

}  // namespace unihal::core
