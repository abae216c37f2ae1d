/* Status codes and the error record.
 *
 * Every fallible function returns a uhal_status. Zero is success; success allocates nothing and
 * writes no record. On failure the calling thread's error record says what was wrong, what was
 * expected and what to do; it stays until the next failure on that thread or uhal_clear_error.
 */
#ifndef UNIHAL_STATUS_H_
#define UNIHAL_STATUS_H_

#include "unihal/version.h"

UHAL_EXTERN_C_BEGIN

/* The absl canonical set, so that TensorFlow's codes map one to one. */
typedef int32_t uhal_status;
enum {
  UHAL_OK = 0,
  UHAL_CANCELLED = 1,
  UHAL_UNKNOWN = 2,
  UHAL_INVALID_ARGUMENT = 3,
  UHAL_DEADLINE_EXCEEDED = 4,
  UHAL_NOT_FOUND = 5,
  UHAL_ALREADY_EXISTS = 6,
  UHAL_PERMISSION_DENIED = 7,
  UHAL_RESOURCE_EXHAUSTED = 8, /* out of device memory or above the limit */
  UHAL_FAILED_PRECONDITION = 9,
  UHAL_ABORTED = 10,
  UHAL_OUT_OF_RANGE = 11,
  UHAL_UNIMPLEMENTED = 12, /* this op, dtype or layout is not supported: see uhal_supports */
  UHAL_INTERNAL = 13,
  UHAL_UNAVAILABLE = 14, /* no hardware, driver or library */
  UHAL_DATA_LOSS = 15,
  UHAL_UNAUTHENTICATED = 16
};

/* What went wrong. All strings are never NULL (possibly empty), owned by the record, and valid
 * until the next failure on the same thread. */
typedef struct uhal_error {
  size_t struct_size;
  uhal_status status;
  int32_t native_code;     /* the vendor library's own code; 0 if none */
  const char* native_name; /* its symbolic name, such as "CL_OUT_OF_RESOURCES" */
  const char* message;     /* the whole text for a person: what, expected, what to do */
  const char* op;          /* op with operand dtypes and shapes, where one was being run */
  const char* device;      /* such as "rdna:0 (stub)" */
  const char* file;        /* source position of the report */
  int32_t line;
} uhal_error;

/* The calling thread's last error record, or a record with status UHAL_OK. Never NULL. */
UHAL_API const uhal_error* uhal_last_error(void);

/* Resets the calling thread's record to UHAL_OK. */
UHAL_API void uhal_clear_error(void);

/* "INVALID_ARGUMENT" for UHAL_INVALID_ARGUMENT; "UNKNOWN_STATUS" outside the set. Static. */
UHAL_API const char* uhal_status_name(uhal_status status);

UHAL_EXTERN_C_END

#endif /* UNIHAL_STATUS_H_ */
