/* Every public header as C11, and a use of each from C: macros and types must not need C++. */
#include "unihal/backend.h"
#include "unihal/check.h"
#include "unihal/collectives.h"
#include "unihal/constants.h"
#include "unihal/device.h"
#include "unihal/event.h"
#include "unihal/fallback.h"
#include "unihal/fault_injection.h"
#include "unihal/graph_capture.h"
#include "unihal/host_kernels.h"
#include "unihal/memory.h"
#include "unihal/op.h"
#include "unihal/profiler.h"
#include "unihal/status.h"
#include "unihal/stream.h"
#include "unihal/tensor.h"
#include "unihal/tuning.h"
#include "unihal/version.h"

#include "csrc/tables/elementwise.h"

int uhal_test_from_c(void);

/* Called by abi_layout_test.cc. */
int uhal_test_from_c(void) {
  uhal_fill_attributes fill = {sizeof(uhal_fill_attributes), 1.5, 0};
  uhal_tensor y = {0};
  const uhal_tensor* outputs[] = {&y};
  uhal_op op = {0};
  y.struct_size = sizeof y;
  y.dtype = UHAL_FLOAT32;
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_FILL;
  op.output_count = 1;
  op.outputs = outputs;
  op.attributes = &fill;
  return uhal_launch(NULL, &op) == UHAL_INVALID_ARGUMENT && uhal_map_function_find("add") == uhal_map_add;
}
