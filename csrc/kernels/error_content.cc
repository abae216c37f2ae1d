#include "csrc/kernels/error_content.h"

#include <cstdio>

#include "csrc/backends/common/op_names.h"
#include "csrc/kernels/ops.h"

namespace unihal::kernels {

void report_bad_index(uhal_stream* owner, const ErrorContent& content) {
  const char* name = op_kind_name(static_cast<uhal_op_kind>(content.ticket));
  char message[128];
  std::snprintf(message, sizeof message, "index %lld is outside an axis of length %lld",
                static_cast<long long>(content.index), static_cast<long long>(content.length));
  host().stream_error(owner, UHAL_OUT_OF_RANGE, name != nullptr ? name : "an op", message);
}

}  // namespace unihal::kernels
