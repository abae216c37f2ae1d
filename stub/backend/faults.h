// Fault injection: the rules in force, the counts, and what befalls a call.
//
// Any thread. Without rules a call costs one relaxed load.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "stub/backend/fault_rules.h"
#include "unihal/fault_injection.h"

namespace unihal::stub {

// True while there are rules.
extern std::atomic<bool> has_fault_rules;

// Replaces the rules and sets the counts to 0.
void install_fault_rules(std::vector<FaultRule> rules);

// Installs the rules of UNIHAL_STUB_FAULTS, if it is set. UHAL_INVALID_ARGUMENT after a report that names the variable.
uhal_status install_fault_rules_of_environment();

// The extension "uhal.fault_injection".
extern const uhal_fault_injection kFaultInjection;

// What befalls a call: nothing (UHAL_OK), or a failure that the caller has to report.
struct Fault {
  uhal_status status = UHAL_OK;
  bool asynchronous = false;
  std::string message;
};

// Counts a call and says what befalls it; `op` for launches. Only to be called while there are rules.
Fault next_fault(FaultTarget target, const uhal_op* op);

// Put around the place where work runs: sleeps at its end for as long as rules "slow" say.
class SlowedWork {
 public:
  SlowedWork() {
    if (has_fault_rules.load(std::memory_order_relaxed)) begin();
  }
  ~SlowedWork() {
    if (factor_ > 1) end();
  }
  SlowedWork(const SlowedWork&) = delete;
  SlowedWork& operator=(const SlowedWork&) = delete;

 private:
  void begin();
  void end();

  double factor_ = 1;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace unihal::stub
