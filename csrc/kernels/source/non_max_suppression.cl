/* Of boxes in their order those that no kept one overlaps (csrc/kernels/ops/non_max_suppression.cc): by blocks of 32, each
 * a launch, in which all later boxes are held against the kept ones of the block. No barriers, no atomic operations.
 *
 * Macros: UHAL_WIDE_INDEX; dtype BOXES. */
#define BLOCK 32

typedef struct {
  T low_x;
  T low_y;
  T high_x;
  T high_y;
  T area;
} Box;

UHAL_INLINE T lower(T a, T b) { return b < a ? b : a; }
UHAL_INLINE T higher(T a, T b) { return a < b ? b : a; }

UHAL_INLINE Box load_box(UHAL_GLOBAL const BOXES_STORAGE* boxes, INDEX at, INDEX step) {
  const T x0 = BOXES_LOAD(boxes, at);
  const T y0 = BOXES_LOAD(boxes, at + step);
  const T x1 = BOXES_LOAD(boxes, at + 2 * step);
  const T y1 = BOXES_LOAD(boxes, at + 3 * step);
  Box box;
  box.low_x = lower(x0, x1);
  box.high_x = higher(x0, x1);
  box.low_y = lower(y0, y1);
  box.high_y = higher(y0, y1);
  box.area = (box.high_x - box.low_x) * (box.high_y - box.low_y);
  return box;
}

/* A product is compared, not a quotient: that all compilers round alike. */
UHAL_INLINE int32 overlap(Box a, Box b, T threshold) {
  const T shared = higher(lower(a.high_x, b.high_x) - higher(a.low_x, b.low_x), C(0)) *
                   higher(lower(a.high_y, b.high_y) - higher(a.low_y, b.low_y), C(0));
  return a.area > 0 && b.area > 0 && shared > threshold * (a.area + b.area - shared);
}

/* For each box those behind it in its block that it overlaps, a bit each; no box is removed yet. */
UHAL_KERNEL void find_overlaps(UHAL_POINTER(boxes), UHAL_POINTER(masks), UHAL_POINTER(removed), INDEX count,
                               INDEX box_stride, INDEX step, T threshold) {
  UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes);
  UHAL_FOR_ITEMS(i, count) {
    const Box own = load_box(boxes, i * box_stride, step);
    const INDEX first = i - i % BLOCK;
    uint32 mask = 0;
    for (INDEX j = i + 1; j < first + BLOCK && j < count; ++j) {
      if (overlap(own, load_box(boxes, j * box_stride, step), threshold)) mask |= (uint32)1 << (j - first);
    }
    UHAL_ADDRESS(uint32, masks)[i] = mask;
    UHAL_ADDRESS(uint32, removed)[i] = 0;
  }
}

/* Work-item i has box first + i, `first` being where the block begins: tells whether the block's boxes are kept, and
 * removes later ones. */
UHAL_KERNEL void suppress_block(UHAL_POINTER(boxes), UHAL_POINTER(masks), UHAL_POINTER(removed), UHAL_POINTER(keep),
                                INDEX items, INDEX first, INDEX box_stride, INDEX step, INDEX keep_stride,
                                T threshold) {
  UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes);
  UHAL_GLOBAL const uint32* masks = UHAL_ADDRESS(const uint32, masks);
  UHAL_GLOBAL uint32* removed = UHAL_ADDRESS(uint32, removed);
  UHAL_FOR_ITEMS(i, items) {
    uint32 kept = 0;
    uint32 overlapped = 0;
    for (int32 k = 0; k < BLOCK && k < items; ++k) {
      if (removed[first + k] == 0 && ((overlapped >> k) & 1u) == 0) {
        kept |= (uint32)1 << k;
        overlapped |= masks[first + k];
      }
    }
    if (i < BLOCK) {
      UHAL_ADDRESS(uint8, keep)[(first + i) * keep_stride] = (uint8)((kept >> i) & 1u);
    } else if (removed[first + i] == 0) {
      const Box own = load_box(boxes, (first + i) * box_stride, step);
      uint32 found = 0;
      for (int32 k = 0; k < BLOCK && found == 0; ++k) {
        if ((kept >> k) & 1u) found = overlap(load_box(boxes, (first + k) * box_stride, step), own, threshold) ? 1u : 0u;
      }
      if (found != 0) removed[first + i] = 1;
    }
  }
}
