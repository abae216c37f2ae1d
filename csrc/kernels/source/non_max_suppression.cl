/* Of boxes in their order those that no kept one overlaps (csrc/kernels/ops/non_max_suppression.cc): by blocks of 32, each
 * a launch, in which all later boxes are held against the kept ones of the block. No barriers, no atomic operations. All
 * lists are worked on at once. A threshold that decays is another one for each box: then a group takes a list's boxes one
 * after another, and holds each against the kept ones side by side.
 *
 * Macros: UHAL_WIDE_INDEX, UHAL_GROUP, ORDERED (the attribute); dtype BOXES. */
#include "csrc/kernels/prelude/group.h"

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

UHAL_INLINE Box load_box(UHAL_GLOBAL const BOXES_STORAGE* boxes, INDEX at, INDEX step, T extent) {
  const T x0 = BOXES_LOAD(boxes, at);
  const T y0 = BOXES_LOAD(boxes, at + step);
  const T x1 = BOXES_LOAD(boxes, at + 2 * step);
  const T y1 = BOXES_LOAD(boxes, at + 3 * step);
  Box box;
#if ORDERED
  box.low_x = x0;
  box.high_x = x1;
  box.low_y = y0;
  box.high_y = y1;
  box.area = x1 < x0 || y1 < y0 ? C(0) : (x1 - x0 + extent) * (y1 - y0 + extent);
#else
  box.low_x = lower(x0, x1);
  box.high_x = higher(x0, x1);
  box.low_y = lower(y0, y1);
  box.high_y = higher(y0, y1);
  box.area = (box.high_x - box.low_x) * (box.high_y - box.low_y);
#endif
  return box;
}

/* A product is compared, not a quotient: that all compilers round alike. */
UHAL_INLINE int32 overlap(Box a, Box b, T threshold, T extent) {
#if ORDERED
  const T shared = (lower(a.high_x, b.high_x) - higher(a.low_x, b.low_x) + extent) *
                   (lower(a.high_y, b.high_y) - higher(a.low_y, b.low_y) + extent);
  const T covered = a.area + b.area - shared;
  if (b.low_x > a.high_x || b.high_x < a.low_x || b.low_y > a.high_y || b.high_y < a.low_y) return 0;
  return covered > 0 ? shared > threshold * covered : covered < 0 ? shared < threshold * covered : !(shared < 0);
#else
  const T shared = higher(lower(a.high_x, b.high_x) - higher(a.low_x, b.low_x), C(0)) *
                   higher(lower(a.high_y, b.high_y) - higher(a.low_y, b.low_y), C(0));
  return a.area > 0 && b.area > 0 && shared > threshold * (a.area + b.area - shared);
#endif
}

/* For each box those behind it in its block that it overlaps, a bit each; no box is removed yet. Work-item i has box
 * i % count of list i / count. */
UHAL_KERNEL void find_overlaps(UHAL_POINTER(boxes), UHAL_POINTER(masks), UHAL_POINTER(removed), INDEX items,
                               INDEX count, INDEX list_stride, INDEX box_stride, INDEX step, T threshold, T extent) {
  UHAL_FOR_ITEMS(i, items) {
    const INDEX list = i / count;
    const INDEX own_number = i - list * count;
    UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes) + list * list_stride;
    const Box own = load_box(boxes, own_number * box_stride, step, extent);
    const INDEX first = own_number - own_number % BLOCK;
    uint32 mask = 0;
    for (INDEX j = own_number + 1; j < first + BLOCK && j < count; ++j) {
      if (overlap(load_box(boxes, j * box_stride, step, extent), own, threshold, extent)) {
        mask |= (uint32)1 << (j - first);
      }
    }
    UHAL_ADDRESS(uint32, masks)[i] = mask;
    UHAL_ADDRESS(uint32, removed)[i] = 0;
  }
}

/* Work-item i has box first + i % rest of list i / rest, `first` being where the block begins and `rest` the boxes from
 * there on: tells whether the block's boxes are kept, and removes later ones. */
UHAL_KERNEL void suppress_block(UHAL_POINTER(boxes), UHAL_POINTER(masks), UHAL_POINTER(removed), UHAL_POINTER(keep),
                                INDEX items, INDEX rest, INDEX first, INDEX list_stride, INDEX box_stride, INDEX step,
                                INDEX keep_list_stride, INDEX keep_stride, T threshold, T extent) {
  UHAL_FOR_ITEMS(item, items) {
    const INDEX list = item / rest;
    const INDEX i = item - list * rest;
    const INDEX own_number = first + i;
    UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes) + list * list_stride;
    UHAL_GLOBAL const uint32* masks = UHAL_ADDRESS(const uint32, masks) + list * (first + rest);
    UHAL_GLOBAL uint32* removed = UHAL_ADDRESS(uint32, removed) + list * (first + rest);
    uint32 kept = 0;
    uint32 overlapped = 0;
    for (int32 k = 0; k < BLOCK && k < rest; ++k) {
      if (removed[first + k] == 0 && ((overlapped >> k) & 1u) == 0) {
        kept |= (uint32)1 << k;
        overlapped |= masks[first + k];
      }
    }
    if (i < BLOCK) {
      UHAL_ADDRESS(uint8, keep)[list * keep_list_stride + own_number * keep_stride] = (uint8)((kept >> i) & 1u);
    } else if (removed[own_number] == 0) {
      const Box own = load_box(boxes, own_number * box_stride, step, extent);
      uint32 found = 0;
      for (int32 k = 0; k < BLOCK && found == 0; ++k) {
        if ((kept >> k) & 1u) {
          found = overlap(own, load_box(boxes, (first + k) * box_stride, step, extent), threshold, extent) ? 1u : 0u;
        }
      }
      if (found != 0) removed[own_number] = 1;
    }
  }
}

/* Group g has list g. Whether a box is kept is remembered by the work-item that reads it again, in `kept`. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void suppress_one_by_one(
    UHAL_POINTER(boxes), UHAL_POINTER(kept), UHAL_POINTER(keep), INDEX count, INDEX list_stride, INDEX box_stride,
    INDEX step, INDEX keep_list_stride, INDEX keep_stride, T decay, T threshold, T extent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  const INDEX list = UHAL_GROUP_ID(0);
  UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes) + list * list_stride;
  UHAL_GLOBAL uint32* kept = UHAL_ADDRESS(uint32, kept) + list * count;
  for (INDEX i = 0; i < count; ++i) {
    const Box own = load_box(boxes, i * box_stride, step, extent);
    T found = 0;
    for (INDEX j = team.lane; j < i && found == 0; j += UHAL_GROUP) {
      if (kept[j] != 0) {
        found = overlap(own, load_box(boxes, j * box_stride, step, extent), threshold, extent) ? C(1) : C(0);
      }
    }
    const int32 stays = uhal_team_sum(found, scratch, team) == 0;
    if (team.lane == i % UHAL_GROUP) {
      kept[i] = stays ? 1u : 0u;
      UHAL_ADDRESS(uint8, keep)[list * keep_list_stride + i * keep_stride] = (uint8)stays;
    }
    if (stays && threshold > C(0.5)) threshold *= decay;
  }
}
