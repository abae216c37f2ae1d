// Strided copies and fills, also for other kernels' use.
#pragma once

#include "unihal/tensor.h"

namespace unihal::stub {

// Copies x, broadcast, to y, of the same dtype.
void copy_views(const uhal_tensor& x, const uhal_tensor& y);

// Copies x, broadcast, to y with conversion (UHAL_OP_CAST).
void cast_views(const uhal_tensor& x, const uhal_tensor& y);

// Copies `count` elements of one size in bytes (1, 2, 4, 8, 16); strides are in elements.
using CopyRun = void (*)(int64_t count, char* to, int64_t to_stride, const char* from, int64_t from_stride);
CopyRun copy_run_of(int64_t size);

// to[i * to_row + j] = from[j * from_column + i] of rows i and columns j: in `to` the elements of a row lie side by
// side, in `from` those of a column. The size of an element is one of those above.
void transpose_elements(int64_t rows, int64_t columns, int64_t size, void* to, int64_t to_row, const void* from,
                        int64_t from_column);

// Sets all elements: integers and bool to `integer_value`, floating ones and real parts to `value`.
void fill_view(double value, int64_t integer_value, const uhal_tensor& y);

}  // namespace unihal::stub
