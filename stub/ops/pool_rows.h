// Pooling of one channel, whose pixels lie side by side (NCHW): the windows of a row of places are taken together, tap
// by tap, so that vectors run along the row. For windows of one width and stride (row_window > 0).
#pragma once

#include "stub/ops/pool_geometry.h"

namespace unihal::stub {

// y = the maximum under each window; *indices, if wanted, its flat position in x. Of one plane.
template <typename T>
void pool_rows_maximum(const PoolGeometry& g, const T* x, T* y, int64_t* indices);

// Adds each dy to dx where x is largest under its window.
template <typename T>
void pool_rows_maximum_backward(const PoolGeometry& g, const T* x, const T* dy, T* dx);

template <typename T>
void pool_rows_average(const PoolGeometry& g, const T* x, T* y);

template <typename T>
void pool_rows_average_backward(const PoolGeometry& g, const T* dy, T* dx);

}  // namespace unihal::stub
