/* segment_reduce of one number for all elements: how often each id occurs, counted in local memory, or where there are
 * too many segments for it in global memory (csrc/kernels/ops/segment.cc). Integers add up to the same in any order.
 *
 * Macros: BINS: the most segments, 0: counted in global memory, UHAL_GROUP; X: the dtype of x and y (join). */
#include "csrc/kernels/prelude/ids.h"

#if BINS
#define COUNT_ONE(s) uhal_local_add_int32(bins + (s), 1)
#else
#define COUNT_ONE(s) uhal_atomic_add_int32(partials + (s), 1)
#endif

/* partials[group][segment]: among the ids of a group; without BINS partials[segment], zeros before, of all groups. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void histogram(UHAL_POINTER(ids), UHAL_POINTER(partials),
                                                             UHAL_POINTER(errors), int64 ticket, INDEX count,
                                                             INDEX step, INDEX segments, int32 of_int64,
                                                             int32 ignore_negative) {
  UHAL_GLOBAL const char* ids = UHAL_ADDRESS(const char, ids);
  UHAL_GLOBAL int32* partials = UHAL_ADDRESS(int32, partials);
#if BINS
  UHAL_LOCAL_MEMORY int32 bins[BINS];
  const INDEX item = UHAL_LOCAL_ID(0);
  for (INDEX s = item; s < segments; s += UHAL_GROUP) bins[s] = 0;
  UHAL_BARRIER();
#endif
  for (INDEX i = UHAL_GLOBAL_ID(0); i < count; i += UHAL_GLOBAL_SIZE(0)) {
    const int64 id = read_id(ids, of_int64, i * step);
    if (id >= 0 && id < segments) {
      COUNT_ONE(id);
    } else if (ticket != 0 && !(ignore_negative && id < 0)) {
      uhal_report_error(UHAL_ADDRESS(int64, errors), ticket, id, segments);
    }
  }
#if BINS
  UHAL_BARRIER();
  partials += UHAL_GROUP_ID(0) * segments;
  for (INDEX s = item; s < segments; s += UHAL_GROUP) partials[s] = bins[s];
#endif
}

#ifdef X_DTYPE

/* y = x times the count, `empty` where it is 0. counts_dtype is 0 where no counts are wanted. */
UHAL_KERNEL void histogram_join(UHAL_POINTER(partials), UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(counts),
                                T empty, INDEX groups, INDEX segments, INDEX y_step, INDEX counts_step,
                                int32 counts_dtype) {
  UHAL_GLOBAL const int32* partials = UHAL_ADDRESS(const int32, partials);
  UHAL_FOR_ITEMS(s, segments) {
    int32 count = 0;
    for (INDEX group = 0; group < groups; ++group) count += partials[group * segments + s];
    const T value = X_LOAD(UHAL_ADDRESS(const X_STORAGE, x), 0);
    X_STORE(UHAL_ADDRESS(X_STORAGE, y), s * y_step, count == 0 ? empty : value * (T)count);
    if (counts_dtype == 5) { /* int64 */
      UHAL_ADDRESS(int64, counts)[s * counts_step] = count;
    } else if (counts_dtype == 4) { /* int32 */
      UHAL_ADDRESS(int32, counts)[s * counts_step] = count;
    }
  }
}

#endif
