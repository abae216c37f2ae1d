/* Fallbacks: ops that ran on the host although a unihal device was asked for.
 *
 * Adapters report here what their framework runs on its CPU, and the core what a device refused and unihal's own host
 * kernels ran (uhal_launch); nothing is silent. With UNIHAL_FALLBACK_LOG=<file> every report is
 * also appended to that file as a line of JSON, which is how `unihal fallbacks` sees a child process.
 */
#ifndef UNIHAL_FALLBACK_H_
#define UNIHAL_FALLBACK_H_

#include "unihal/status.h"

UHAL_EXTERN_C_BEGIN

typedef struct uhal_fallback {
  size_t struct_size;
  const char* framework; /* "paddle", "tensorflow"; of an op that a device refused, that device: "rdna:0 (opencl)" */
  const char* op;        /* the framework's name of the op; with the device's: "Exp (map.exp)" */
  const char* dtype;     /* "float32", or "" where it plays no part */
  const char* reason;    /* "no kernel is registered", "dtype int16 is not supported"; the backend's own words */
  uint64_t count;        /* how often; ignored by uhal_fallback_record, which adds one */
} uhal_fallback;

/* Adds one to the count of (framework, op, dtype, reason). Returns UHAL_OK, or, under UNIHAL_STRICT=1,
 * UHAL_UNIMPLEMENTED with a message that names the op, for the adapter to raise in its framework. */
UHAL_API uhal_status uhal_fallback_record(const uhal_fallback* fallback);

UHAL_API size_t uhal_fallback_count(void);

/* Entry `index` in order of first occurrence. Strings live as long as the process. */
UHAL_API uhal_status uhal_fallback_get(size_t index, uhal_fallback* fallback);

/* 1 if UNIHAL_STRICT is set to 1: fallbacks are errors. */
UHAL_API int32_t uhal_strict(void);

UHAL_EXTERN_C_END

#endif /* UNIHAL_FALLBACK_H_ */
