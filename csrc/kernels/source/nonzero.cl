/* nonzero: the positions of the elements that are not 0, in row-major order (csrc/kernels/ops/nonzero.cc).
 *
 * The mask is cut into as many parts as there are work-groups. `count_parts` counts those of each; `nonzero` begins each
 * part where the parts before it end, and goes through it tile by tile. No group waits for another.
 *
 * Macros: X: the dtype of the mask, DENSE: it lies in order and aligned to ITEMS elements, UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"

/* Neighbours that one work-item looks at, and those of a group. */
#define ITEMS 8
#define TILE (ITEMS * UHAL_GROUP)

/* Work-items whose counts one of them adds up by itself. */
#define BLOCK 16

UHAL_LAYOUT(MaskLayout, 2) /* row-major order, mask */

typedef struct {
  INDEX rank; /* 0: numbers of elements, not coordinates */
  INDEX shape[UHAL_RANK];
} Coordinates;

UHAL_INLINE INDEX add_counts(INDEX a, INDEX b) { return a + b; }
UHAL_TEAM_REDUCTION(group_count, INDEX, add_counts)

/* `bits`: of the ITEMS elements from `first` on those that are not 0; elements from `end` on count as 0. */
#if DENSE
#define READ_FLAGS(x, layout, first, end, bits)                             \
  do {                                                                      \
    if ((first) + ITEMS <= (end)) {                                         \
      T values[ITEMS];                                                      \
      X_LOAD8(x, first, values);                                            \
      UHAL_UNROLL for (int32 k = 0; k < ITEMS; ++k) {                       \
        bits |= (uint32)(values[k] != 0) << k;                              \
      }                                                                     \
    } else {                                                                \
      for (int32 k = 0; k < ITEMS && (first) + k < (end); ++k) {            \
        bits |= (uint32)(X_LOAD(x, (first) + k) != 0) << k;                 \
      }                                                                     \
    }                                                                       \
  } while (0)
#else
#define READ_FLAGS(x, layout, first, end, bits)                             \
  do {                                                                      \
    for (int32 k = 0; k < ITEMS && (first) + k < (end); ++k) {              \
      INDEX offsets[2] = {0, 0};                                            \
      UHAL_ADD_OFFSETS(layout, 2, (first) + k, offsets);                    \
      bits |= (uint32)(X_LOAD(x, offsets[1]) != 0) << k;                    \
    }                                                                       \
  } while (0)
#endif

UHAL_INLINE int32 count_bits(uint32 bits) {
  int32 count = 0;
  UHAL_UNROLL for (int32 k = 0; k < ITEMS; ++k) count += (int32)(bits >> k & 1u);
  return count;
}

/* totals[part]: how many are not 0. A part is `part_length` elements, a multiple of TILE; `elements` in all. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void count_parts(UHAL_POINTER(mask), UHAL_POINTER(totals),
                                                               MaskLayout layout, INDEX elements, INDEX part_length) {
  UHAL_LOCAL_MEMORY INDEX scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, mask);
  const INDEX begin = UHAL_GROUP_ID(0) * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;
  INDEX count = 0;
  for (INDEX first = begin + team.lane * ITEMS; first < end; first += TILE) {
    uint32 bits = 0;
    READ_FLAGS(x, layout, first, end, bits);
    count += count_bits(bits);
  }
  count = group_count(count, scratch, team);
  if (team.lane == 0) UHAL_ADDRESS(INDEX, totals)[UHAL_GROUP_ID(0)] = count;
}

UHAL_INLINE void store_index(UHAL_GLOBAL char* to, int32 is_int64, INDEX at, INDEX index) {
  if (is_int64) {
    ((UHAL_GLOBAL int64*)to)[at] = index;
  } else {
    ((UHAL_GLOBAL int32*)to)[at] = (int32)index;
  }
}

/* Row r of the indices begins at r * row_step; those from `room` on are not there. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void nonzero(UHAL_POINTER(mask), UHAL_POINTER(totals),
                                                           UHAL_POINTER(count), UHAL_POINTER(indices),
                                                           MaskLayout layout, Coordinates coordinates, INDEX elements,
                                                           INDEX part_length, INDEX room, INDEX row_step,
                                                           INDEX coordinate_step, int32 count_is_int64,
                                                           int32 indices_are_int64) {
  UHAL_LOCAL_MEMORY INDEX scratch[UHAL_GROUP];
  UHAL_LOCAL_MEMORY int32 counts[UHAL_GROUP];
  UHAL_LOCAL_MEMORY uint16 found[TILE];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  const int32 id = team.lane;
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, mask);
  UHAL_GLOBAL const INDEX* totals = UHAL_ADDRESS(const INDEX, totals);
  UHAL_GLOBAL char* indices = UHAL_ADDRESS(char, indices);
  const INDEX part = UHAL_GROUP_ID(0);
  const INDEX begin = part * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;

  INDEX before = 0;
  for (INDEX i = id; i < part; i += UHAL_GROUP) before += totals[i];
  before = group_count(before, scratch, team);
  if (id == 0 && part == UHAL_GROUP_COUNT(0) - 1) {
    store_index(UHAL_ADDRESS(char, count), count_is_int64, 0, before + totals[part]);
  }

  for (INDEX tile = begin; tile < end && before < room; tile += TILE) {
    uint32 bits = 0;
    READ_FLAGS(x, layout, tile + id * ITEMS, end, bits);

    /* Where those of this work-item go, in two levels: its block, and the blocks before. */
    const int32 own = count_bits(bits);
    const int32 block = id / BLOCK;
    counts[id] = own;
    UHAL_BARRIER();
    int32 at = 0;
    for (int32 other = block * BLOCK; other < id; ++other) at += counts[other];
    UHAL_BARRIER();
    if (id % BLOCK == BLOCK - 1 || id == UHAL_GROUP - 1) counts[block] = at + own;
    UHAL_BARRIER();
    int32 of_tile = 0;
    for (int32 other = 0; other * BLOCK < UHAL_GROUP; ++other) {
      if (other == block) at += of_tile;
      of_tile += counts[other];
    }
    for (int32 k = 0; k < ITEMS; ++k) {
      if ((bits >> k & 1u) != 0) found[at++] = (uint16)(id * ITEMS + k);
    }
    UHAL_BARRIER();

    /* Neighbours write neighbours. */
    for (int32 e = id; e < of_tile; e += UHAL_GROUP) {
      if (before + e >= room) continue;
      const INDEX to = (before + e) * row_step;
      INDEX rest = tile + found[e];
      if (coordinates.rank == 0) {
        store_index(indices, indices_are_int64, to, rest);
        continue;
      }
      for (INDEX axis = coordinates.rank - 1; axis >= 0; --axis) {
        const INDEX length = UHAL_AT(coordinates.shape, axis);
        const INDEX next = axis > 0 ? rest / length : 0;
        store_index(indices, indices_are_int64, to + axis * coordinate_step, rest - next * length);
        rest = next;
      }
    }
    before += of_tile;
    UHAL_BARRIER();
  }
}
