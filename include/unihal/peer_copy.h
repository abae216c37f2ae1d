/* The extension "uhal.peer_copy" of a backend: copies between two of its devices without a way through the host. The
 * core uses it for uhal_copy_peer; without it, copies are staged through host memory.
 */
#ifndef UNIHAL_PEER_COPY_H_
#define UNIHAL_PEER_COPY_H_

#include "unihal/backend.h"

UHAL_EXTERN_C_BEGIN

#define UHAL_PEER_COPY_NAME "uhal.peer_copy"
enum { UHAL_PEER_COPY_VERSION = 1 };

typedef struct uhal_peer_copy {
  size_t struct_size;

  /* Submits to `stream`, which is of either device, a copy of `bytes` > 0 from memory of one device to memory of the
   * other. Calls on one stream are serialized. UHAL_UNIMPLEMENTED, after a report, where these two devices have no way
   * to each other: the core then stages. */
  uhal_status (*copy)(uhal_backend_stream* stream, uhal_backend_device* destination_device, void* destination,
                      uhal_backend_device* source_device, const void* source, size_t bytes);
} uhal_peer_copy;

UHAL_EXTERN_C_END

#endif /* UNIHAL_PEER_COPY_H_ */
