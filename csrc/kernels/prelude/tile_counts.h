/* How often each digit occurs in the tile of keys of each work-group: what a pass of radix sort begins with
 * (stable_order.cl), and what a kernel that makes the keys leaves for the first pass. All of a group call each;
 * UHAL_GROUP: its size. */

/* Of the digit of a key that one pass sorts by, at most. */
#define MOST_DIGIT_BITS 9
#define MOST_DIGITS (1 << MOST_DIGIT_BITS)

/* `counts` has room for MOST_DIGITS. A key of the tile is counted by uhal_local_add_int32(counts + its digit, 1). */
UHAL_INLINE void begin_tile_counts(UHAL_LOCAL int32* counts, int32 digits) {
  for (int32 digit = (int32)UHAL_LOCAL_ID(0); digit < digits; digit += UHAL_GROUP) counts[digit] = 0;
  UHAL_BARRIER();
}

/* totals[tile][digit] */
UHAL_INLINE void end_tile_counts(UHAL_LOCAL const int32* counts, int32 digits, UHAL_GLOBAL int32* totals) {
  UHAL_BARRIER();
  for (int32 digit = (int32)UHAL_LOCAL_ID(0); digit < digits; digit += UHAL_GROUP) {
    totals[UHAL_GROUP_ID(0) * digits + digit] = counts[digit];
  }
}
