/* The extension "uhal.tuning": choosing between kernels that give the same result, by measurement.
 *
 * An op that a backend can run in several ways (matrix products, convolutions and their gradients) has a key, such as
 * "gemm float32 nt 4096 4096 1024 1", of all that the choice depends on: ops of one key share it. docs/tuning.md says
 * what keys hold. Without a choice the backend's own judgement holds, which is sound everywhere; a choice is what
 * somebody measured (`unihal tune`). Kept choices are read when a device is opened, from the store of compiled programs
 * (docs/cache.md), and belong to one device model and the versions of its driver and of the vendors' libraries. A
 * choice never makes an op fail: where the candidate cannot run an op of the key, or there is no such candidate (a
 * damaged or outdated file), it is as if there were none.
 *
 * Devices are addressed by the ordinal of their properties, and are open (uhal_device_get was called). Ops are as for
 * uhal_supports; they are not validated. Threads: describe, candidate and chosen from any thread; choose, keep and
 * forget one at a time, with ops launched meanwhile. A failure changes nothing.
 */
#ifndef UNIHAL_TUNING_H_
#define UNIHAL_TUNING_H_

#include "unihal/op.h"

UHAL_EXTERN_C_BEGIN

#define UHAL_TUNING_NAME "uhal.tuning"
enum { UHAL_TUNING_VERSION = 1 };

typedef struct uhal_tuning {
  size_t struct_size;

  /* Writes the key of an op, at most key_bytes with the NUL (256 hold every key), and the number of its candidates: 0,
   * and an empty key, if there is nothing to choose. */
  uhal_status (*describe)(int32_t ordinal, const uhal_op* op, char* key, size_t key_bytes, int32_t* candidates);

  /* Writes the name of candidate 0 to candidates - 1 of an op ("128x128x8/8x8", "winograd"), and in *usable whether
   * this device can run the op so. Names and numbers of a kind of op are the same for all its ops. */
  uhal_status (*candidate)(int32_t ordinal, const uhal_op* op, int32_t number, char* name, size_t name_bytes,
                           int32_t* usable);

  /* From the next launch on, ops of this op's key run as a candidate that is usable for this op, those that it can
   * run; -1: as the backend judges. The choice holds in this process. UHAL_INVALID_ARGUMENT if there is nothing to
   * choose about the op, UHAL_OUT_OF_RANGE if there is no such candidate, UHAL_UNIMPLEMENTED if it is not usable. */
  uhal_status (*choose)(int32_t ordinal, const uhal_op* op, int32_t number);

  /* The candidate chosen for an op's key, or -1. */
  uhal_status (*chosen)(int32_t ordinal, const uhal_op* op, int32_t* number);

  /* Keeps all choices of a device for later processes, in place of those kept before. UHAL_UNAVAILABLE if nothing can
   * be kept (UNIHAL_CACHE=off, no folder to write to). */
  uhal_status (*keep)(int32_t ordinal);

  /* Drops all choices of a device, the kept ones too. */
  uhal_status (*forget)(int32_t ordinal);
} uhal_tuning;

UHAL_EXTERN_C_END

#endif /* UNIHAL_TUNING_H_ */
