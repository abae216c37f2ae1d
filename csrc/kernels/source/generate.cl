/* fill, iota, triangular and one_hot. ops/generate.cc gives each view, besides its own strides, strides of a position: the
 * sum of coordinates that the op looks at. */
#include "csrc/kernels/prelude/unit.h"

#if UHAL_FILL
UHAL_LAYOUT(Layout, 1)

UHAL_KERNEL void fill(UHAL_POINTER(y), const UNIT value, const Layout layout, INDEX count) {
  UHAL_GLOBAL UNIT* y = UHAL_ADDRESS(UNIT, y);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[1] = {0};
    UHAL_ADD_OFFSETS(layout, 1, i, offsets);
    y[offsets[0]] = value;
  }
}

#elif UHAL_IOTA
UHAL_LAYOUT(Layout, 2) /* y, position */

UHAL_KERNEL void iota(UHAL_POINTER(y), T start, T step, int32 dtype, const Layout layout, INDEX count) {
  UHAL_GLOBAL char* y = UHAL_ADDRESS(char, y);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(layout, 2, i, offsets);
    uhal_store(dtype, y, offsets[0], start + (T)offsets[1] * step);
  }
}

#elif UHAL_TRIANGULAR
UHAL_LAYOUT(Layout, 3) /* y, x, position: the column less the row */

UHAL_KERNEL void triangular(UHAL_POINTER(y), UHAL_POINTER(x), const UNIT zero, int64 diagonal, int32 upper,
                            const Layout layout, INDEX count) {
  UHAL_GLOBAL UNIT* y = UHAL_ADDRESS(UNIT, y);
  UHAL_GLOBAL const UNIT* x = UHAL_ADDRESS(const UNIT, x);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[3] = {0, 0, 0};
    UHAL_ADD_OFFSETS(layout, 3, i, offsets);
    const int32 kept = upper != 0 ? offsets[2] >= diagonal : offsets[2] <= diagonal;
    if (kept) {
      y[offsets[0]] = x[offsets[1]];
    } else {
      y[offsets[0]] = zero;
    }
  }
}

#else
UHAL_LAYOUT(Layout, 3) /* y, indices, position: along the new axis */

UHAL_KERNEL void one_hot(UHAL_POINTER(y), UHAL_POINTER(indices), const UNIT zero, const UNIT one, int32 dtype,
                         const Layout layout, INDEX count) {
  UHAL_GLOBAL UNIT* y = UHAL_ADDRESS(UNIT, y);
  UHAL_GLOBAL const char* indices = UHAL_ADDRESS(const char, indices);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[3] = {0, 0, 0};
    UHAL_ADD_OFFSETS(layout, 3, i, offsets);
    if (uhal_load(dtype, indices, offsets[1]) == offsets[2]) {
      y[offsets[0]] = one;
    } else {
      y[offsets[0]] = zero;
    }
  }
}

#endif
