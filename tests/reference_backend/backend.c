/* A small backend, written from include/unihal and docs/adding-a-backend.md alone: two devices in host memory that run
 * everything at once. It is meant to be read, and to be the start of another backend: clear rather than fast. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, which C11 has not */

#include "unihal/backend.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops.h"
#include "views.h"

enum { DEVICES = 2, ALIGNMENT = 256 };
static const uint64_t MEMORY = (uint64_t)256 << 20;

struct uhal_backend_device {
  atomic_uint_least64_t used; /* bytes of device memory that the core holds */
};

struct uhal_backend_stream {
  uhal_stream* owner; /* for host->stream_error, which work that runs at once does not need */
};

struct uhal_backend_event {
  atomic_int_least64_t nanoseconds; /* of its last record; other threads may ask while it is recorded again */
};

static const uhal_host* host;

static uhal_status fail(uhal_status status, const char* message) {
  host->report(status, 0, NULL, message);
  return status;
}

/* -- enumeration -- */

static uhal_status device_count(int32_t* count) {
  *count = DEVICES;
  return UHAL_OK;
}

static uhal_status device_open(int32_t ordinal, uhal_backend_device** device) {
  static uhal_backend_device devices[DEVICES];
  *device = &devices[ordinal]; /* the core asks for 0 to count-1 only */
  return UHAL_OK;
}

static uhal_status device_properties(uhal_backend_device* device, uhal_device_properties* properties) {
  (void)device;
  properties->name = "unihal reference device";
  properties->vendor = "unihal";
  properties->driver = "1";
  properties->pci_bus_id = "";
  properties->compute_units = 1;
  properties->wavefront_size = 1;
  properties->unified_memory = 1;
  properties->total_memory = MEMORY;
  properties->max_allocation = MEMORY;
  for (uhal_dtype dtype = UHAL_BOOL; dtype < UHAL_DTYPE_COUNT; ++dtype) {
    if (is_computable(dtype)) properties->supported_dtypes |= (uint64_t)1 << dtype;
  }
  return UHAL_OK;
}

/* -- memory -- */

static uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  if (kind == UHAL_MEMORY_MANAGED) return fail(UHAL_UNIMPLEMENTED, "the reference backend has no managed memory");
  if (bytes > MEMORY) return fail(UHAL_RESOURCE_EXHAUSTED, "a reference device has 256 MiB of memory");
  if (kind == UHAL_MEMORY_DEVICE && atomic_fetch_add(&device->used, bytes) + bytes > MEMORY) {
    atomic_fetch_sub(&device->used, bytes);
    return fail(UHAL_RESOURCE_EXHAUSTED, "the 256 MiB of the reference device are in use");
  }
  *pointer = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (*pointer != NULL) return UHAL_OK;
  if (kind == UHAL_MEMORY_DEVICE) atomic_fetch_sub(&device->used, bytes);
  return fail(UHAL_RESOURCE_EXHAUSTED, "the host's memory is exhausted");
}

static uhal_status release(uhal_backend_device* device, uhal_memory_kind kind, void* pointer, size_t bytes) {
  free(pointer);
  if (kind == UHAL_MEMORY_DEVICE) atomic_fetch_sub(&device->used, bytes);
  return UHAL_OK;
}

static uhal_status memory_info(uhal_backend_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = MEMORY - atomic_load(&device->used);
  *total_bytes = MEMORY;
  return UHAL_OK;
}

/* -- streams and events: all work is done when its call returns -- */

static uhal_status stream_create(uhal_backend_device* device, uhal_stream* owner, uhal_backend_stream** stream) {
  (void)device;
  *stream = malloc(sizeof **stream);
  if (*stream == NULL) return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory for a stream");
  (*stream)->owner = owner;
  return UHAL_OK;
}

static uhal_status stream_destroy(uhal_backend_stream* stream) {
  free(stream);
  return UHAL_OK;
}

static uhal_status stream_query(uhal_backend_stream* stream, int32_t* done) {
  (void)stream;
  *done = 1;
  return UHAL_OK;
}

static uhal_status stream_synchronize(uhal_backend_stream* stream) {
  (void)stream;
  return UHAL_OK;
}

static uhal_status stream_wait_event(uhal_backend_stream* stream, uhal_backend_event* event) {
  (void)stream;
  (void)event;
  return UHAL_OK;
}

static uhal_status event_create(uhal_backend_device* device, uhal_backend_event** event) {
  (void)device;
  *event = malloc(sizeof **event);
  if (*event == NULL) return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory for an event");
  atomic_init(&(*event)->nanoseconds, 0);
  return UHAL_OK;
}

static uhal_status event_destroy(uhal_backend_event* event) {
  free(event);
  return UHAL_OK;
}

static uhal_status event_record(uhal_backend_event* event, uhal_backend_stream* stream) {
  (void)stream;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  atomic_store(&event->nanoseconds, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
  return UHAL_OK;
}

static uhal_status event_query(uhal_backend_event* event, int32_t* done) {
  (void)event;
  *done = 1;
  return UHAL_OK;
}

static uhal_status event_synchronize(uhal_backend_event* event) {
  (void)event;
  return UHAL_OK;
}

static uhal_status event_elapsed(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds) {
  *nanoseconds = atomic_load(&end->nanoseconds) - atomic_load(&start->nanoseconds);
  return UHAL_OK;
}

/* -- work -- */

static uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes,
                        uhal_copy_kind kind) {
  (void)stream;
  (void)kind;
  memcpy(destination, source, bytes);
  return UHAL_OK;
}

static uhal_status fill(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                        size_t bytes) {
  (void)stream;
  for (size_t i = 0; i < bytes; i += pattern_bytes) memcpy((char*)destination + i, pattern, pattern_bytes);
  return UHAL_OK;
}

static uhal_status supports(uhal_backend_device* device, const uhal_op* op) {
  (void)device;
  const char* why = refuse_op(op);
  return why == NULL ? UHAL_OK : fail(UHAL_UNIMPLEMENTED, why);
}

static uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  (void)stream;
  const char* why = refuse_op(op); /* the core does not ask supports before it launches */
  if (why != NULL) return fail(UHAL_UNIMPLEMENTED, why);
  run_op(op);
  return UHAL_OK;
}

/* host_callback, extension and finalize are left out: their defaults are right for work that runs at once. */
static const uhal_backend table = {
    .struct_size = sizeof(uhal_backend),
    .abi_major = UHAL_ABI_MAJOR,
    .abi_minor = UHAL_ABI_MINOR,
    .name = "reference",
    .version = "1",
    .device_count = device_count,
    .device_open = device_open,
    .device_properties = device_properties,
    .allocate = allocate,
    .free = release,
    .memory_info = memory_info,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .fill = fill,
    .supports = supports,
    .launch = launch,
};

__attribute__((visibility("default"))) const uhal_backend* uhal_backend_query(const uhal_host* services,
                                                                              uint32_t abi_major);

const uhal_backend* uhal_backend_query(const uhal_host* services, uint32_t abi_major) {
  host = services;
  if (abi_major != UHAL_ABI_MAJOR) {
    fail(UHAL_FAILED_PRECONDITION, "the reference backend was built for another major version of the unihal ABI");
    return NULL;
  }
  return &table;
}
