/* Device types, backends and devices.
 *
 * A device type is what a user types ("iluvatar", "rdna", "polaris"); it is a row of the core's
 * table with an ordered list of backends. The first backend of the list that finds a device serves
 * the type. The stub serves only when asked for, by the environment (UNIHAL_BACKEND=stub) or by
 * uhal_select_backend("stub").
 *
 * Threads: every function may be called from any thread. After fork() every function that touches
 * a device returns UHAL_FAILED_PRECONDITION in the child if the parent had used one.
 */
#ifndef UNIHAL_DEVICE_H_
#define UNIHAL_DEVICE_H_

#include "unihal/status.h"

UHAL_EXTERN_C_BEGIN

/* One device. Owned by the core, valid until the process ends; equal pointers are equal devices. */
typedef struct uhal_device uhal_device;
typedef struct uhal_stream uhal_stream;
typedef struct uhal_event uhal_event;

/* A row of the device type table. Static strings. */
typedef struct uhal_device_type_info {
  size_t struct_size;
  const char* name;            /* "rdna" */
  const char* paddle_name;     /* "rdna" */
  const char* tensorflow_name; /* "RDNA" */
  const char* backends;        /* names in order of preference, comma-separated: "hip,opencl,stub" */
} uhal_device_type_info;

UHAL_API size_t uhal_device_type_count(void);

/* Fills *info for 0 <= index < uhal_device_type_count(); UHAL_OUT_OF_RANGE otherwise. */
UHAL_API uhal_status uhal_device_type_get(size_t index, uhal_device_type_info* info);

/* Restricts the process to one backend ("stub", "opencl", ...), as UNIHAL_BACKEND does. The last
 * call wins. UHAL_NOT_FOUND for a name that no device type lists and no loaded library has;
 * UHAL_FAILED_PRECONDITION once devices have been enumerated with another choice. */
UHAL_API uhal_status uhal_select_backend(const char* name);

/* Loads a backend library from a file and makes it selectable by the name in its table, for every
 * device type. UHAL_NOT_FOUND or UHAL_INVALID_ARGUMENT, with what the loader said, when the file is
 * missing, is not a backend, has another ABI major, or a table too short. *name, if wanted, is
 * static. Libraries are never unloaded. */
UHAL_API uhal_status uhal_backend_load(const char* path, const char** name);

typedef int32_t uhal_backend_state;
enum {
  UHAL_BACKEND_CHOSEN = 0,    /* serves the device type */
  UHAL_BACKEND_REFUSED = 1,   /* tried; `reason` says why it cannot */
  UHAL_BACKEND_NOT_TRIED = 2, /* an earlier backend serves, or another was asked for */
};

/* What happened to one backend of a device type. Strings are never NULL and stay valid. */
typedef struct uhal_backend_report {
  size_t struct_size;
  const char* backend;
  uhal_backend_state state;
  int32_t device_count;
  const char* library; /* path of the library, empty if none was opened */
  const char* reason;  /* what was looked for, what was missing, and the next step; of a backend that serves: why it
                          does, and which devices it leaves out */
} uhal_backend_report;

/* The report of backend number `index` (in order) for a device type; enumerates it if that was not
 * done yet. UHAL_OUT_OF_RANGE past the last, UHAL_NOT_FOUND for an unknown type. */
UHAL_API uhal_status uhal_backend_report_get(const char* device_type, size_t index, uhal_backend_report* report);

/* The number of devices of a type. Without hardware and without the wish for the stub: UHAL_OK and
 * 0; uhal_device_get then says why. UHAL_NOT_FOUND for an unknown type. */
UHAL_API uhal_status uhal_device_count(const char* device_type, int32_t* count);

/* Opens (on first use) and returns device `ordinal` of a type.
 * UHAL_NOT_FOUND: unknown type (the message lists the known ones).
 * UHAL_OUT_OF_RANGE: no such ordinal.
 * UHAL_UNAVAILABLE: no device at all; the message lists what was looked for, why each backend was
 * refused, and how to ask for the stub. */
UHAL_API uhal_status uhal_device_get(const char* device_type, int32_t ordinal, uhal_device** device);

/* Strings are never NULL and live as long as the process. */
typedef struct uhal_device_properties {
  size_t struct_size;
  const char* device_type; /* "rdna" */
  const char* backend;     /* "stub" */
  const char* name;        /* "unihal stub (host memory)", a board's name */
  const char* vendor;
  const char* driver;     /* driver or library version */
  const char* pci_bus_id; /* "0000:03:00.0", empty if none */
  int32_t ordinal;
  int32_t compute_units;
  int32_t wavefront_size;
  int32_t is_stub;               /* 1 when host memory stands in for hardware */
  int32_t unified_memory;        /* 1 when the host may touch device pointers */
  int32_t clock_megahertz;       /* 0 if unknown */
  uint64_t total_memory;         /* bytes */
  uint64_t max_allocation;       /* largest single allocation, bytes */
  uint64_t local_memory;         /* per work-group, bytes */
  uint64_t supported_dtypes;     /* bit (1 << uhal_dtype) for each dtype that can be computed with */
  double peak_gigaflops_float32; /* 0 if unknown */
  double peak_gigabytes_per_second;

  /* -- since ABI 1.2 -- */
  int64_t launch_nanoseconds; /* from one short kernel to the next; 0 if unknown */
  uint32_t checks;            /* UHAL_CHECK_* (check.h) in force: what the backend asks for and the environment adds */
  int32_t figures_are_of;     /* UHAL_FIGURES_*: what the name, memory, peaks and limits describe */
} uhal_device_properties;

enum {
  UHAL_FIGURES_OF_DEVICE = 0, /* the device itself */
  UHAL_FIGURES_OF_PROFILE = 1 /* a device that it stands in for; times computed from them are estimates */
};

UHAL_API uhal_status uhal_device_properties_get(uhal_device* device, uhal_device_properties* out);

/* Blocks until all work submitted to all streams of the device has run; returns the first sticky
 * error of its streams. */
UHAL_API uhal_status uhal_device_synchronize(uhal_device* device);

/* The device's stream for callers that have none of their own (synchronous copies, the Python API).
 * Owned by the core; do not destroy it. */
UHAL_API uhal_status uhal_device_default_stream(uhal_device* device, uhal_stream** stream);

/* The table of a backend's extension, by name ("uhal.fault_injection") and version: *table lives as long as the
 * process. UHAL_UNIMPLEMENTED if the device's backend has no such extension. */
UHAL_API uhal_status uhal_device_extension(uhal_device* device, const char* name, uint32_t version, const void** table);

/* Waits for all devices, joins backend threads and releases caches. Idempotent; afterwards every
 * device call returns UHAL_FAILED_PRECONDITION. Not needed for a clean exit. */
UHAL_API void uhal_finalize(void);

UHAL_EXTERN_C_END

#endif /* UNIHAL_DEVICE_H_ */
