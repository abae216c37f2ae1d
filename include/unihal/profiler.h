/* The profiler: device time, bytes and floating-point operations of every op, copy and fill.
 *
 * One recording per process. Off, it costs a load and a branch per launch. Bytes are those of the
 * operands (each read or written once), FLOPs the textbook count of the op (2*m*n*k for a matrix
 * product), so both are floors, not measurements.
 *
 * The estimated time is a model, not a measurement: the larger of bytes over the device's peak bandwidth and FLOPs
 * over its peak rate, but at least the time of a launch (uhal_device_properties). On the stub with a device profile it
 * says what the card would need at best.
 *
 * Threads: any; start, stop and clear are serialized.
 */
#ifndef UNIHAL_PROFILER_H_
#define UNIHAL_PROFILER_H_

#include "unihal/device.h"

UHAL_EXTERN_C_BEGIN

/* Starts recording; drops the previous recording. UHAL_FAILED_PRECONDITION if one is running. */
UHAL_API uhal_status uhal_profiler_start(void);

/* Waits for the recorded work and stops. A no-op when none is running. */
UHAL_API uhal_status uhal_profiler_stop(void);

/* When the recording that runs, or else the last one, started, by the system's clock: nanoseconds since 1970, 0 before
 * the first start. Both clocks are read within a microsecond of each other even if the thread loses its core in
 * between, so that what others note by the system's clock can be laid beside the events. Since ABI 1.13. */
UHAL_API int64_t uhal_profiler_start_time(void);

/* One recorded piece of work. Strings are valid until the next start or clear. */
typedef struct uhal_profiler_event {
  size_t struct_size;
  const char* name;  /* the caller's label if it gave one, else the op's name */
  const char* op;    /* "matmul", "map.relu", "copy.host_to_device" */
  const char* shape; /* operand dtypes and shapes, for a person */
  uhal_device* device;
  uint64_t stream;           /* a number per stream, in order of creation */
  int64_t start_nanoseconds; /* since the start of the recording */
  int64_t duration_nanoseconds;
  uint64_t bytes;
  uint64_t flops;
  int64_t estimated_nanoseconds; /* since ABI 1.2: see below; 0 if the device's peaks are unknown */
  const char* implementation;    /* since ABI 1.5: what it ran on, "winograd + cuBLASLt 13.0"; "" if nobody said so */
  /* Since ABI 1.8: the call that submitted it, by the host's clock since the start of the recording, and its thread's
   * number in the system (gettid). */
  int64_t submit_nanoseconds;
  int64_t submit_duration_nanoseconds;
  uint64_t thread;
} uhal_profiler_event;

/* Number of events of the stopped recording; 0 while one is running. */
UHAL_API size_t uhal_profiler_event_count(void);
UHAL_API uhal_status uhal_profiler_event_get(size_t index, uhal_profiler_event* event);

/* Totals per op name, by falling device time. */
typedef struct uhal_profiler_total {
  size_t struct_size;
  const char* op;
  uint64_t calls;
  int64_t duration_nanoseconds;
  uint64_t bytes;
  uint64_t flops;
  int64_t estimated_nanoseconds; /* since ABI 1.2 */
  const char* implementations;   /* since ABI 1.5: those of the op's events by falling device time, "a, b" */
} uhal_profiler_total;

UHAL_API size_t uhal_profiler_total_count(void);
UHAL_API uhal_status uhal_profiler_total_get(size_t index, uhal_profiler_total* total);

/* Writes the stopped recording as a Chrome trace-event JSON file (chrome://tracing, Perfetto).
 * UHAL_NOT_FOUND or UHAL_PERMISSION_DENIED if the file cannot be written. */
UHAL_API uhal_status uhal_profiler_write_trace(const char* path);

/* Drops the recording. */
UHAL_API void uhal_profiler_clear(void);

UHAL_EXTERN_C_END

#endif /* UNIHAL_PROFILER_H_ */
