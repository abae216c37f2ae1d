/* The extension "uhal.constants": memory whose contents stay, weights of a network that only computes.
 *
 * A backend whose kernels want an operand in another arrangement copies it in each launch. Of memory that is declared
 * it may keep that copy. Declaring changes no result, costs up to the memory once more for each arrangement that is
 * used, and nothing while no op reads it. Any thread.
 */
#ifndef UNIHAL_CONSTANTS_H_
#define UNIHAL_CONSTANTS_H_

#include "unihal/status.h"

UHAL_EXTERN_C_BEGIN

#define UHAL_CONSTANTS_NAME "uhal.constants"
enum { UHAL_CONSTANTS_VERSION = 1 };

typedef struct uhal_constants {
  size_t struct_size;

  /* `bytes` of device memory at `data` keep what work that was launched before this call writes to them, until they
   * are withdrawn. Ops that read them are launched on streams that follow that work. UHAL_INVALID_ARGUMENT if data is
   * NULL, bytes is 0, or a part of it is declared already. */
  uhal_status (*declare)(const void* data, size_t bytes);

  /* Before the memory is freed or written to, when the work that reads it has ended. Drops the copies.
   * UHAL_INVALID_ARGUMENT if nothing was declared at this address. */
  uhal_status (*withdraw)(const void* data);
} uhal_constants;

UHAL_EXTERN_C_END

#endif /* UNIHAL_CONSTANTS_H_ */
