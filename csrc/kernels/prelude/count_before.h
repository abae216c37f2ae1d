/* Sums over the work-items before each of a work-group, for sources that include it. UHAL_GROUP: the size of the group.
 */

/* Work-items whose counts one of them adds up by itself, where they cannot hand each other values. */
#define UHAL_COUNT_BLOCK 16

/* What the work-items before this one have; *of_group: what all have. `counts` has room for the group's. All of the
 * group call it together; what lies in `counts` may be read until each has come back. */
UHAL_INLINE int32 uhal_count_before(int32 own, UHAL_LOCAL int32* counts, int32 id, int32* of_group) {
#ifdef UHAL_WARP
  int32 before = 0;
  int32 of_warp = own; /* of 1, 2, 4... neighbours, in the end of the warp */
  UHAL_UNROLL for (int32 mask = 1; mask < UHAL_WARP; mask *= 2) {
    const int32 other = uhal_shuffle(of_warp, mask);
    if ((id & mask) != 0) before += other;
    of_warp += other;
  }
  const int32 block = id / UHAL_WARP;
  if (id % UHAL_WARP == 0) counts[block] = of_warp;
  UHAL_BARRIER();
  const int32 blocks = (UHAL_GROUP + UHAL_WARP - 1) / UHAL_WARP;
#else
  const int32 block = id / UHAL_COUNT_BLOCK;
  counts[id] = own;
  UHAL_BARRIER();
  int32 before = 0;
  for (int32 other = block * UHAL_COUNT_BLOCK; other < id; ++other) before += counts[other];
  UHAL_BARRIER();
  if (id % UHAL_COUNT_BLOCK == UHAL_COUNT_BLOCK - 1 || id == UHAL_GROUP - 1) counts[block] = before + own;
  UHAL_BARRIER();
  const int32 blocks = (UHAL_GROUP + UHAL_COUNT_BLOCK - 1) / UHAL_COUNT_BLOCK;
#endif
  int32 total = 0;
  for (int32 other = 0; other < blocks; ++other) {
    if (other == block) before += total;
    total += counts[other];
  }
  *of_group = total;
  return before;
}
