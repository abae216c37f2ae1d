// What a person reads when something touches device memory that it must not: instead of a bare segmentation fault the
// address, its allocation and what to do, on standard error. Then the program dies as it would have.
#pragma once

#include <cstdint>
#include <string>

namespace unihal::stub::strict {

// Installs handlers of SIGSEGV and SIGBUS, once. Faults are passed on to the handlers that were there before, those of
// the strict mode's memory after the report.
void install_fault_report();

// Put around work on a stream's thread: names it in reports of faults in kernels.
class WorkInProgress {
 public:
  WorkInProgress(const std::string& name, uint64_t stream);
  ~WorkInProgress();
  WorkInProgress(const WorkInProgress&) = delete;
  WorkInProgress& operator=(const WorkInProgress&) = delete;

 private:
  int slot_;  // -1: there are too many at once, this one goes without a name
};

}  // namespace unihal::stub::strict
