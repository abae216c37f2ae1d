/* The extension "uhal.host_kernels": ops on host memory. The stub's library has it; with it the core runs what a
 * device's backend refuses, on copies of the operands (op.h).
 */
#ifndef UNIHAL_HOST_KERNELS_H_
#define UNIHAL_HOST_KERNELS_H_

#include "unihal/op.h"

UHAL_EXTERN_C_BEGIN

#define UHAL_HOST_KERNELS_NAME "uhal.host_kernels"
enum { UHAL_HOST_KERNELS_VERSION = 1 };

typedef struct uhal_host_kernels {
  size_t struct_size;

  /* As the slot of a backend: UHAL_OK, or UHAL_UNIMPLEMENTED and a report of the reason. Any thread. */
  uhal_status (*supports)(const uhal_op* op);

  /* Runs a validated op, whose views are in host memory, to its end on the calling thread. What a kernel finds in the
   * data (an index out of range) is the error of `stream`, a stream of any device. Any thread. */
  uhal_status (*launch)(uhal_stream* stream, const uhal_op* op);
} uhal_host_kernels;

UHAL_EXTERN_C_END

#endif /* UNIHAL_HOST_KERNELS_H_ */
