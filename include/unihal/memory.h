/* Memory: allocation through the stream-ordered caching allocator, copies, statistics.
 *
 * A device pointer is an address: adding a byte offset inside its allocation gives a device pointer.
 * The host must not dereference it, unless the device has unified memory or the kind is pinned or
 * managed. Allocations are aligned to 256 bytes.
 *
 * Threads: allocate, free and statistics from any thread. Copies and fills are submitted to a
 * stream: see stream.h.
 */
#ifndef UNIHAL_MEMORY_H_
#define UNIHAL_MEMORY_H_

#include "unihal/device.h"

UHAL_EXTERN_C_BEGIN

typedef int32_t uhal_memory_kind;
enum {
  UHAL_MEMORY_DEVICE = 0,
  UHAL_MEMORY_PINNED = 1,  /* host memory that the device copies from and to at full speed */
  UHAL_MEMORY_MANAGED = 2, /* reachable from both sides */
  UHAL_MEMORY_KIND_COUNT = 3
};

/* Allocates `bytes` for use by work submitted to `stream` (NULL: any stream). *pointer is NULL for
 * 0 bytes and after a failure. Contents are undefined.
 * UHAL_RESOURCE_EXHAUSTED: neither the cache nor the device has room, or the limit would be passed;
 * cached memory was released to the backend first. The message prints the statistics.
 * UHAL_UNIMPLEMENTED: the backend has no memory of this kind. */
UHAL_API uhal_status uhal_allocate(uhal_device* device, uhal_stream* stream, uhal_memory_kind kind, size_t bytes,
                                   void** pointer);

/* Returns an allocation to the cache. `stream`: the stream whose submitted work used it last; the
 * memory is reused by that stream at once and by others only after that work has run. NULL promises
 * that no submitted work uses it any more. NULL pointers are ignored. UHAL_INVALID_ARGUMENT for an
 * address that is not the start of a live allocation of this device. */
UHAL_API uhal_status uhal_free(uhal_device* device, uhal_stream* stream, void* pointer);

typedef struct uhal_pointer_info {
  size_t struct_size;
  uhal_device* device;
  void* base;   /* start of the live allocation that contains the pointer */
  size_t bytes; /* its size as requested */
  uhal_memory_kind kind;
} uhal_pointer_info;

/* Finds the live allocation, of any device, that contains an address. UHAL_NOT_FOUND if none. */
UHAL_API uhal_status uhal_pointer_query(const void* pointer, uhal_pointer_info* info);

/* Byte counts of one device and kind. "Reserved" is what the backend handed out, "allocated" the part
 * of it that callers hold. */
typedef struct uhal_memory_stats {
  size_t struct_size;
  uint64_t allocated_bytes;
  uint64_t peak_allocated_bytes;
  uint64_t reserved_bytes;
  uint64_t peak_reserved_bytes;
  uint64_t limit_bytes;         /* 0: none beyond the device's memory */
  uint64_t total_bytes;         /* the device's memory */
  uint64_t largest_free_block;  /* cached, contiguous */
  uint64_t live_allocations;    /* count */
  uint64_t total_allocations;   /* count since start */
  uint64_t cache_hits;          /* allocations served without the backend */
  uint64_t backend_allocations; /* calls into the backend */
  double fragmentation;         /* 1 - largest_free_block / (reserved - allocated); 0 if nothing free */
} uhal_memory_stats;

UHAL_API uhal_status uhal_memory_stats_get(uhal_device* device, uhal_memory_kind kind, uhal_memory_stats* stats);

/* Sets the peaks to the present values. */
UHAL_API uhal_status uhal_memory_reset_peak(uhal_device* device);

/* Releases cached, unused memory to the backend until at most `keep_bytes` stay cached. *released,
 * if wanted, gets the number of bytes. */
UHAL_API uhal_status uhal_memory_trim(uhal_device* device, size_t keep_bytes, size_t* released);

/* Caps reserved device memory; 0 removes the cap. A cap below what is reserved trims, then refuses
 * further growth. Also set by UNIHAL_MEMORY_LIMIT (bytes, or with suffix K, M, G). */
UHAL_API uhal_status uhal_memory_set_limit(uhal_device* device, size_t bytes);

typedef int32_t uhal_copy_kind;
enum { UHAL_COPY_HOST_TO_DEVICE = 0, UHAL_COPY_DEVICE_TO_HOST = 1, UHAL_COPY_DEVICE_TO_DEVICE = 2 };

/* Submits a copy of `bytes` within the stream's device or between it and the host. Asynchronous: both
 * ranges must stay valid until the stream has passed the copy, and are read and written in the stream's
 * order: ordinary host memory that a host callback writes before the copy, too. Ranges must not overlap.
 * Device ranges are checked against their allocations (UHAL_OUT_OF_RANGE); 0 bytes is a no-op. */
UHAL_API uhal_status uhal_copy(uhal_stream* stream, void* destination, const void* source, size_t bytes,
                               uhal_copy_kind kind);

/* Submits to `stream` (of either device) a copy between two devices, staged through the host where
 * the backends have no direct path; then it blocks until the copy is done. */
UHAL_API uhal_status uhal_copy_peer(uhal_stream* stream, uhal_device* destination_device, void* destination,
                                    uhal_device* source_device, const void* source, size_t bytes);

/* Submits a fill of `bytes` with a repeated pattern of 1, 2, 4, 8 or 16 bytes, read before the call
 * returns. `bytes` must be a multiple of the pattern's size. */
UHAL_API uhal_status uhal_memory_fill(uhal_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                                      size_t bytes);

UHAL_EXTERN_C_END

#endif /* UNIHAL_MEMORY_H_ */
