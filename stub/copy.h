// Strided copies and fills, also for other kernels' use.
#pragma once

#include "unihal/tensor.h"

namespace unihal::stub {

// Copies x, broadcast, to y, of the same dtype.
void copy_views(const uhal_tensor& x, const uhal_tensor& y);

// Sets all elements: integers and bool to `integer_value`, floating ones and real parts to `value`.
void fill_view(double value, int64_t integer_value, const uhal_tensor& y);

}  // namespace unihal::stub
