// Views: their elements, and moving and filling them: the ops copy, cast and fill, for other ops to use as well.
#ifndef UNIHAL_KERNELS_VIEWS_H_
#define UNIHAL_KERNELS_VIEWS_H_

#include "csrc/kernels/ops.h"

namespace unihal::kernels {

inline int64_t element_count(const uhal_tensor& view) {
  int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
  return count;
}

// y = x, of one dtype; x broadcasts to y. They do not overlap, or are the same view.
uhal_status copy_views(Queue& queue, const uhal_tensor& x, const uhal_tensor& y);

// A copy as rows of units (prelude/unit.h) that lie side by side on both sides.
struct RowCopy {
  void* to;
  const void* from;
  int64_t rows, columns;         // at least 1
  int64_t to_pitch, from_pitch;  // units from a row to the next
  int64_t unit;                  // bytes
};

// Whether y = x is such a copy, and not one that another launch is for: memory that is long, or not aligned.
bool as_row_copy(const uhal_tensor& x, const uhal_tensor& y, RowCopy* copy);

// Several copies with units of one size, none of which touches what another one writes, as one launch; on a device that
// joins any, of no more than 2^30 units in all.
constexpr int kMostJoinedCopies = 32;
bool joins_copies(const DeviceTraits& traits);
uhal_status run_joined_copies(Queue& queue, const RowCopy* copies, int count);

// y = x where each coordinate is a multiple of `every`, which has a number for each of y's axes, and 0 elsewhere. x has
// y's rank and dtype, and along each axis y's length divided by that number, rounded up. They do not overlap.
uhal_status spread_view(Queue& queue, const uhal_tensor& x, const uhal_tensor& y, const int64_t* every);

// y = x, of any two dtypes that the device has.
uhal_status cast_views(Queue& queue, const uhal_tensor& x, const uhal_tensor& y);

// y = value; integer_value if y is of integers or bool (uhal_fill_attributes).
uhal_status fill_view(Queue& queue, double value, int64_t integer_value, const uhal_tensor& y);

// Fills memory of the device with a kernel, where Queue::fill cannot: the address and the number of bytes are multiples
// of the pattern's, which are 1, 2, 4, 8 or 16.
uhal_status fill_by_kernel(Queue& queue, void* destination, const void* pattern, size_t pattern_bytes, size_t bytes);

// An element's bytes in memory.
struct ElementBytes {
  alignas(16) char bytes[16] = {};
};
ElementBytes encode(double value, int64_t integer_value, uhal_dtype dtype);

// Elements whose dtype does not matter to a kernel are moved in units of their size (prelude/unit.h): 1, 2, 4, 8 or 16
// bytes. Views of 16-byte elements need not be aligned to 16 bytes, which units must be: halves() of such a view are
// its first and last 8 bytes, as views of 8-byte elements; false if there is no need.
bool needs_halves(const uhal_tensor& view);
uhal_tensor half(const uhal_tensor& view, int index);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_VIEWS_H_
