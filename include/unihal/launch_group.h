/* The extension "uhal.launch_group" of a backend: launches that become one where they are alike. The core uses it for
 * uhal_launch_group_start and uhal_launch_group_end; without it, groups change nothing.
 */
#ifndef UNIHAL_LAUNCH_GROUP_H_
#define UNIHAL_LAUNCH_GROUP_H_

#include "unihal/backend.h"

UHAL_EXTERN_C_BEGIN

#define UHAL_LAUNCH_GROUP_NAME "uhal.launch_group"
enum { UHAL_LAUNCH_GROUP_VERSION = 1 };

/* Calls on one stream are serialized with its other submissions, and come in pairs: the core counts nested groups. */
typedef struct uhal_launch_group {
  size_t struct_size;

  /* From now on `launch` may hold ops back. Every other slot that is called with the stream submits them before it does
   * what it is for, also from another thread: waiting, querying and recording an event cover what was launched. */
  uhal_status (*start)(uhal_backend_stream* stream);

  /* Submits what is held back, and holds nothing back any more, whatever it returns. */
  uhal_status (*end)(uhal_backend_stream* stream);
} uhal_launch_group;

UHAL_EXTERN_C_END

#endif /* UNIHAL_LAUNCH_GROUP_H_ */
