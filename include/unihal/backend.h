/* The interface that a backend implements. Only the core and backends need it.
 *
 * A backend is a shared library libunihal_<name>.so that exports one symbol, uhal_backend_query. The
 * core validates every argument (handles, ranges, operand shapes) before it calls a slot, and
 * serializes calls on one stream; a backend may rely on that. Different streams and devices are
 * called from different threads at once; events are queried and waited for from any thread, also
 * while another records them. No C++ exception may leave a slot.
 *
 * On failure a slot calls host->report with what a person needs, and returns the status.
 *
 * Slots: required unless a default is stated. A slot is called only if it lies within the table's
 * struct_size and is not NULL.
 */
#ifndef UNIHAL_BACKEND_H_
#define UNIHAL_BACKEND_H_

#include "unihal/memory.h"
#include "unihal/op.h"

UHAL_EXTERN_C_BEGIN

/* Defined by the backend. */
typedef struct uhal_backend_device uhal_backend_device;
typedef struct uhal_backend_stream uhal_backend_stream;
typedef struct uhal_backend_event uhal_backend_event;

/* What the core offers to backends. Valid for the life of the process. */
typedef struct uhal_host {
  size_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;

  /* Fills the calling thread's error record. `native_name` and `message` are copied; both may be NULL. */
  void (*report)(uhal_status status, int32_t native_code, const char* native_name, const char* message);

  /* Makes an error of asynchronous work stick to a stream, from any thread. `op` names the work. */
  void (*stream_error)(uhal_stream* stream, uhal_status status, const char* op, const char* message);

  /* Scratch device memory for work on a stream: at least `bytes`, aligned to 256, contents undefined, the
   * same block for every call on that stream, so valid only for work submitted before the next call. */
  uhal_status (*workspace)(uhal_stream* stream, size_t bytes, void** pointer);

  /* -- since ABI 1.2 ------------------------------------------------------------------------------ */

  /* Writes where the allocation that contains an address, the live one or else the one freed last, was allocated
   * and freed, for a person ("allocated at train.py:12"); at most `bytes` with the NUL. Returns the text's length, 0
   * if nothing is known or it cannot be told at this moment. For signal handlers too: neither waits nor allocates. */
  size_t (*describe_pointer)(const void* pointer, char* text, size_t bytes);

  /* -- since ABI 1.3 ------------------------------------------------------------------------------ */

  /* Whether the user asked for the backend by its name (UNIHAL_BACKEND, uhal_select_backend). For device_count only,
   * so that devices which should not serve unasked (a processor) stay out. */
  int32_t (*is_asked_for)(const char* backend);

  /* -- since ABI 1.4 ------------------------------------------------------------------------------ */

  /* Whether the calling thread should give up a wait inside a slot, as its wait function asks (uhal_set_wait_function).
   * For slots that wait for others than the device (ranks of a communicator): call it up to 40 times a second, and
   * return UHAL_CANCELLED if it is other than 0. */
  int32_t (*is_wait_given_up)(void);

  /* -- since ABI 1.5 ------------------------------------------------------------------------------ */

  /* Says, inside `launch`, what the op runs on, for the profiler: a library and its version ("cuBLASLt 13.0") or the
   * backend's own way ("winograd"). printf-formatted, which costs nothing while no recording runs. An op of several
   * parts calls it for each; what was said already is left out. */
  void (*note_implementation)(const char* format, ...);
} uhal_host;

typedef struct uhal_backend {
  size_t struct_size;
  uint32_t abi_major; /* equal to the host's */
  uint32_t abi_minor; /* the minor it was compiled against */
  const char* name;   /* "opencl"; static */
  const char* version;

  /* -- enumeration: any thread -------------------------------------------------------------- */

  /* Number of usable devices. Without any: UHAL_UNAVAILABLE and a report of what was looked for (each
   * library and driver with its reason), or UHAL_OK and 0. With devices: UHAL_OK; a report made then says
   * which others do not serve, and why, for `unihal doctor`. Called once per process. */
  uhal_status (*device_count)(int32_t* count);

  /* Opens device `ordinal`. Called once per ordinal; a device stays open until finalize. */
  uhal_status (*device_open)(int32_t ordinal, uhal_backend_device** device);

  /* Fills the fields of *properties within its struct_size, except device_type, backend and ordinal. All others are 0
   * before; those of ABI 1.0 are always within. */
  uhal_status (*device_properties)(uhal_backend_device* device, uhal_device_properties* properties);

  /* -- memory: any thread -------------------------------------------------------------------- */

  /* Allocates at least `bytes` > 0, aligned to 256. UHAL_RESOURCE_EXHAUSTED when out of memory,
   * UHAL_UNIMPLEMENTED for a kind that it has not. */
  uhal_status (*allocate)(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer);

  /* Frees what allocate gave, with the kind and bytes that it was asked for. */
  uhal_status (*free)(uhal_backend_device* device, uhal_memory_kind kind, void* pointer, size_t bytes);

  /* Free and total device memory in bytes. Default: from the properties and the core's own account. */
  uhal_status (*memory_info)(uhal_backend_device* device, uint64_t* free_bytes, uint64_t* total_bytes);

  /* -- streams and events --------------------------------------------------------------------- */

  /* `owner` is the core's handle of the stream, for host->stream_error and host->workspace. */
  uhal_status (*stream_create)(uhal_backend_device* device, uhal_stream* owner, uhal_backend_stream** stream);
  uhal_status (*stream_destroy)(uhal_backend_stream* stream); /* its work has run */
  uhal_status (*stream_query)(uhal_backend_stream* stream, int32_t* done);
  uhal_status (*stream_synchronize)(uhal_backend_stream* stream);
  uhal_status (*stream_wait_event)(uhal_backend_stream* stream, uhal_backend_event* event);

  uhal_status (*event_create)(uhal_backend_device* device, uhal_backend_event** event);
  uhal_status (*event_destroy)(uhal_backend_event* event); /* recorded work may be pending */
  uhal_status (*event_record)(uhal_backend_event* event, uhal_backend_stream* stream);
  uhal_status (*event_query)(uhal_backend_event* event, int32_t* done);
  uhal_status (*event_synchronize)(uhal_backend_event* event);

  /* Nanoseconds between two reached events of one device. */
  uhal_status (*event_elapsed)(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds);

  /* -- work ------------------------------------------------------------------------------------ */

  /* As uhal_copy says; drivers that read ordinary host memory at the call need a way around that. */
  uhal_status (*copy)(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes,
                      uhal_copy_kind kind);

  /* pattern_bytes is 1, 2, 4, 8 or 16 and divides bytes. */
  uhal_status (*fill)(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                      size_t bytes);

  /* UHAL_OK if launch would take the op; else UHAL_UNIMPLEMENTED and a report of the reason. Data
   * pointers may be NULL. */
  uhal_status (*supports)(uhal_backend_device* device, const uhal_op* op);

  /* Submits a validated op: operand counts, ranks, shapes and attributes are as op.h says, views lie
   * inside their allocations. `attributes` is never NULL for a kind that has them (here and in supports):
   * the core fills in the defaults. supports is not asked before: what it would refuse, launch refuses alike. */
  uhal_status (*launch)(uhal_backend_stream* stream, const uhal_op* op);

  /* Called at most once, by uhal_finalize, after all streams are idle. Joins threads. Default: nothing. */
  void (*finalize)(void);

  /* -- since ABI 1.1 ------------------------------------------------------------------------------ */

  /* Calls function(user_data) after the work submitted so far. Default: the core waits for the stream and
   * calls it on the submitting thread. */
  uhal_status (*host_callback)(uhal_backend_stream* stream, uhal_host_function function, void* user_data);

  /* An extension's table by name ("uhal.graph_capture") and major version, or NULL. Default: none. */
  const void* (*extension)(const char* name, uint32_t version);
} uhal_backend;

/* The exported symbol. Returns a table that lives as long as the process, or NULL after a report, when
 * abi_major is not the backend's. The core then works with the smaller of both minors. */
typedef const uhal_backend* (*uhal_backend_query_function)(const uhal_host* host, uint32_t abi_major);
#define UHAL_BACKEND_QUERY_SYMBOL "uhal_backend_query"

UHAL_EXTERN_C_END

#endif /* UNIHAL_BACKEND_H_ */
