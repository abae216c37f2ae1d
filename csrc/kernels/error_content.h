// What kernels note of bad data, in the cell that Queue::error_cell gives.
#ifndef UNIHAL_KERNELS_ERROR_CONTENT_H_
#define UNIHAL_KERNELS_ERROR_CONTENT_H_

#include <cstdint>

#include "unihal/stream.h"

namespace unihal::kernels {

// As uhal_report_error of the dialect writes it. The ticket is the op's kind; 0: nothing is wrong.
struct ErrorContent {
  int64_t ticket = 0;
  int64_t index = 0;
  int64_t length = 0;
  int64_t unused = 0;
};

// Makes it the sticky error of a stream.
void report_bad_index(uhal_stream* owner, const ErrorContent& content);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_ERROR_CONTENT_H_
