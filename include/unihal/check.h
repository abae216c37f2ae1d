/* Checks of a whole run: accesses that nothing orders, memory used after its end, memory never given back.
 *
 * They are made by the core, for any backend, on devices that have them in force
 * (uhal_device_properties.checks): because the backend asks for them, as the strict stub does, or by
 * UNIHAL_CHECK_RACES=1 and UNIHAL_CHECK_MEMORY=1. They cost time and memory; nothing is spent without them.
 *
 * A "site" is where a call came from, for a person: the innermost lines of the calling thread's Python stack
 * where there is one, else the native caller. It is never empty.
 *
 * Threads: any.
 */
#ifndef UNIHAL_CHECK_H_
#define UNIHAL_CHECK_H_

#include "unihal/memory.h"

UHAL_EXTERN_C_BEGIN

/* Bits of uhal_device_properties.checks. */
enum {
  /* Accesses of streams, and of the host through copies, are ordered by vector clocks: submission order
   * within a stream, events between streams, and what the host has waited for (a synchronize, a query that
   * answered "done", a host callback). Two accesses of one byte, at least one of them a write, that nothing
   * orders are a race; so is a free that does not wait for an access. */
  UHAL_CHECK_RACES = 1,

  /* Each allocation is one of the backend's and goes back to it as soon as its stream has passed the free:
   * nothing is cached. Use after free and reaching beyond an allocation are refused with the sites of the
   * allocation and of the free. What is never freed is listed at the end of the process. */
  UHAL_CHECK_MEMORY = 2
};

/* One side of a race. Strings are valid until uhal_race_clear. */
typedef struct uhal_race_access {
  size_t struct_size;
  const char* work; /* "matmul: a float32 (4, 8), ...", "copy.host_to_device of 64 bytes", "free" */
  const char* role; /* the operand: "a", "source", "y" */
  const char* site; /* where it was submitted */
  uint64_t stream;  /* a number per stream, in order of creation; UINT64_MAX: the host */
  int32_t is_write; /* 1: writes (a free does) */
  uint64_t address; /* of the first byte of the view */
  uint64_t bytes;   /* from its first byte to its last */
} uhal_race_access;

/* Number of races found since the start or the last clear. Each is also printed on stderr when it is found, the
 * same pair of sites once. */
UHAL_API size_t uhal_race_count(void);

/* Race `index`: `earlier` was submitted first. `device` may be NULL. UHAL_OUT_OF_RANGE past the last. Only the first
 * 1,000 are kept. */
UHAL_API uhal_status uhal_race_get(size_t index, uhal_device** device, uhal_race_access* earlier,
                                   uhal_race_access* later);

UHAL_API void uhal_race_clear(void);

/* A live allocation of a device with UHAL_CHECK_MEMORY. */
typedef struct uhal_live_allocation {
  size_t struct_size;
  void* pointer;
  size_t bytes; /* as requested */
  uhal_memory_kind kind;
  const char* site; /* valid until the allocation is freed */
} uhal_live_allocation;

/* Calls function(allocation, user_data) for each live allocation of a device, oldest first. The function must not
 * call unihal. UHAL_FAILED_PRECONDITION without UHAL_CHECK_MEMORY on that device. */
typedef void (*uhal_live_allocation_function)(const uhal_live_allocation* allocation, void* user_data);
UHAL_API uhal_status uhal_live_allocations(uhal_device* device, uhal_live_allocation_function function,
                                           void* user_data);

UHAL_EXTERN_C_END

#endif /* UNIHAL_CHECK_H_ */
