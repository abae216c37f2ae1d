#include "unihal/status.h"

namespace {

// In order of the codes.
const char* const kStatusNames[] = {
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};
constexpr uhal_status kStatusCount = sizeof kStatusNames / sizeof *kStatusNames;
static_assert(kStatusCount == UHAL_UNAUTHENTICATED + 1, "a name for each status");

}  // namespace

const char* uhal_status_name(uhal_status status) {
  return status >= 0 && status < kStatusCount ? kStatusNames[status] : "UNKNOWN_STATUS";
}
