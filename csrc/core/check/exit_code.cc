#include "csrc/core/check/exit_code.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "csrc/core/base/environment.h"
#include "csrc/core/base/process_state.h"
#include "csrc/core/check/allocation_log.h"
#include "unihal/check.h"

namespace unihal::core {
namespace {

// A program that failed by itself keeps its exit code. Handlers run last in, first out, so that what was registered
// after the first device, such as the checks' own reports, has run; what was registered before, such as destructors of
// libraries that were loaded before, is passed over if the exit code is changed, since exit() cannot be called again.
void replace_exit_code(int code, void*) {
  if (code != 0 || process_state.load() == ProcessState::kForked) return;
  list_leaks();
  const size_t races = uhal_race_count();
  const uint64_t leaked = leaked_bytes();
  const bool leaks = leaked > environment().leak_bytes;
  if (races == 0 && !leaks) return;
  std::fprintf(stderr, "unihal: the exit code is %d (UNIHAL_CHECK_EXIT_CODE): %zu races, %llu bytes never freed\n",
               environment().check_exit_code, races, static_cast<unsigned long long>(leaked));
  std::fflush(nullptr);
  _exit(environment().check_exit_code);
}

}  // namespace

void arrange_exit_code() {
  static const int arranged = environment().check_exit_code != 0 ? on_exit(replace_exit_code, nullptr) : 0;
  static_cast<void>(arranged);
}

}  // namespace unihal::core
