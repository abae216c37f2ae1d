/* The extension "uhal.fault_injection": a backend that fails on request. The stub has it in both modes.
 *
 * Rules are text, the same as in UNIHAL_STUB_FAULTS: rules separated by commas, each
 *
 *   what[:op][:when][:option...]
 *
 *   what    alloc (each request that reaches the backend, of device, pinned and managed memory), launch, copy (copies
 *           and fills), device-lost (from then on every call fails), slow (needs x<factor>, fails nothing)
 *   op      launch only: an op's name ("matmul", "map", "map.relu"); without it every op
 *   when    every=N   each N-th call        after=N   each call after the first N
 *           nth=N     the N-th call only    once      the first call only    (default: every call)
 *   option  async     launch, copy: the call succeeds, and the error sticks to the stream
 *           x<factor> slow: work takes factor times as long, "x10"
 *
 * Calls are counted per rule, over all devices and threads, from when the rules were set; without rules nothing is
 * counted ("slow:x1" counts and changes nothing). An injected failure has the status that hardware would give
 * (RESOURCE_EXHAUSTED for alloc, INTERNAL for launch and copy, UNAVAILABLE for device-lost) and a message that names
 * the rule.
 */
#ifndef UNIHAL_FAULT_INJECTION_H_
#define UNIHAL_FAULT_INJECTION_H_

#include "unihal/status.h"

UHAL_EXTERN_C_BEGIN

#define UHAL_FAULT_INJECTION_NAME "uhal.fault_injection"
enum { UHAL_FAULT_INJECTION_VERSION = 1 };

/* Counts since the rules were set. */
typedef struct uhal_fault_counts {
  size_t struct_size;
  uint64_t allocations;
  uint64_t launches;
  uint64_t copies;
  uint64_t injected; /* failures made */
} uhal_fault_counts;

typedef struct uhal_fault_injection {
  size_t struct_size;

  /* Replaces all rules and sets the counts to 0; NULL or "": no rules. On UHAL_INVALID_ARGUMENT (the message names the
   * rule, what was expected, and its place) the rules stay as they were. Ends "device-lost". Any thread. */
  uhal_status (*set_rules)(const char* rules);

  /* Fills the fields within struct_size. */
  uhal_status (*get_counts)(uhal_fault_counts* counts);
} uhal_fault_injection;

UHAL_EXTERN_C_END

#endif /* UNIHAL_FAULT_INJECTION_H_ */
