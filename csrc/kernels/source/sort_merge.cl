/* sort and top_k, between sort.cl's steps: joins sorted runs two by two.
 *
 * A run of `span` elements of a row keeps its first min(span, limit) in order; the last run of a row may be shorter.
 * Runs lie one after the other, rows at multiples of a stride.
 *
 * Macros: KEY_BITS: 32 or 64, UHAL_GROUP. */
#if KEY_BITS == 64
typedef uint64 key_type;
#else
typedef uint32 key_type;
#endif

/* Results of a work-item. */
#define ITEMS 8

UHAL_INLINE INDEX smaller(INDEX a, INDEX b) { return a < b ? a : b; }

/* The elements that run `number` of a row keeps. */
UHAL_INLINE INDEX run_length(INDEX number, INDEX span, INDEX limit, INDEX length) {
  const INDEX begin = number * span;
  return begin >= length ? 0 : smaller(smaller(span, limit), length - begin);
}

/* Which elements are among the first n of two runs together is found by bisection, so that every work-item begins where
 * its results do. An element of the first run goes before an equal one of the second. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void sort_merge(UHAL_POINTER(keys), UHAL_POINTER(positions),
                                                              UHAL_POINTER(merged_keys), UHAL_POINTER(merged_positions),
                                                              INDEX rows, INDEX length, INDEX limit, INDEX span,
                                                              INDEX row_stride, INDEX merged_row_stride) {
  const INDEX kept = smaller(span, limit);
  const INDEX merged_kept = smaller(2 * span, limit);
  const INDEX pairs = (length + 2 * span - 1) / (2 * span);
  const INDEX shares = (merged_kept + ITEMS - 1) / ITEMS;
  const INDEX count = rows * pairs * shares;
  UHAL_FOR_ITEMS(i, count) {
    const INDEX share = i % shares;
    const INDEX pair = i / shares % pairs;
    const INDEX row = i / shares / pairs;
    const INDEX from = row * row_stride + 2 * pair * kept;
    UHAL_GLOBAL const key_type* a = UHAL_ADDRESS(const key_type, keys) + from;
    UHAL_GLOBAL const key_type* b = a + kept;
    UHAL_GLOBAL const int32* a_positions = UHAL_ADDRESS(const int32, positions) + from;
    UHAL_GLOBAL const int32* b_positions = a_positions + kept;
    const INDEX a_length = run_length(2 * pair, span, limit, length);
    const INDEX b_length = run_length(2 * pair + 1, span, limit, length);
    const INDEX first = share * ITEMS;
    const INDEX end = smaller(first + ITEMS, smaller(merged_kept, a_length + b_length));
    if (first >= end) continue;

    INDEX low = first > b_length ? first - b_length : 0;
    INDEX high = smaller(first, a_length);
    while (low < high) {
      const INDEX middle = low + (high - low) / 2;
      if (a[middle] <= b[first - 1 - middle]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    INDEX at_a = low;
    INDEX at_b = first - low;
    const INDEX to = row * merged_row_stride + pair * merged_kept;
    for (INDEX place = first; place < end; ++place) {
      const int32 from_a = at_b >= b_length || (at_a < a_length && a[at_a] <= b[at_b]);
      UHAL_ADDRESS(key_type, merged_keys)[to + place] = from_a ? a[at_a] : b[at_b];
      UHAL_ADDRESS(int32, merged_positions)[to + place] = from_a ? a_positions[at_a] : b_positions[at_b];
      if (from_a) {
        ++at_a;
      } else {
        ++at_b;
      }
    }
  }
}
