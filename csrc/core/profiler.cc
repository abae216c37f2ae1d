#include "csrc/core/profiler.h"
#include "unihal/profiler.h"
namespace unihal::core {
void start_profiler_by_environment() {}
void finish_profiler_by_environment() {}
}  // namespace unihal::core
uhal_status uhal_profiler_start(void) { return 0; }
uhal_status uhal_profiler_stop(void) { return 0; }
size_t uhal_profiler_event_count(void) { return 0; }
uhal_status uhal_profiler_event_get(size_t, uhal_profiler_event*) { return UHAL_OUT_OF_RANGE; }
size_t uhal_profiler_total_count(void) { return 0; }
uhal_status uhal_profiler_total_get(size_t, uhal_profiler_total*) { return UHAL_OUT_OF_RANGE; }
uhal_status uhal_profiler_write_trace(const char*) { return 0; }
void uhal_profiler_clear(void) {}
