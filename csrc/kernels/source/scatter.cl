/* Applies the updates of a scatter, in the order of the places that they are for (csrc/kernels/ops/index.cc).
 *
 * Update number order[s] is for the place with key keys[s]; those of one place follow each other, in row-major order.
 * Each work-item has one element of one place, so that the result does not depend on who comes first. Macros:
 * UHAL_WIDE_INDEX, UHAL_RANK, and ELEMENT (overwrite: a type of the data's size) or dtype DATA (combine). */

UHAL_LAYOUT(WindowLayout, 2) /* data, rows */

#ifdef ELEMENT

typedef struct {
  uint64 low;
  uint64 high;
} Pair;

/* The last update of a place stays. */
UHAL_KERNEL void overwrite(UHAL_POINTER(data), UHAL_POINTER(rows), UHAL_POINTER(keys), UHAL_POINTER(order),
                           UHAL_POINTER(data_offsets), UHAL_POINTER(row_offsets), INDEX updates, INDEX window,
                           uint32 outside, WindowLayout layout) {
  UHAL_GLOBAL ELEMENT* to = UHAL_ADDRESS(ELEMENT, data);
  UHAL_GLOBAL const ELEMENT* from = UHAL_ADDRESS(const ELEMENT, rows);
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL const uint32* origin = UHAL_ADDRESS(const uint32, order);
  UHAL_GLOBAL const INDEX* place_of = UHAL_ADDRESS(const INDEX, data_offsets);
  UHAL_GLOBAL const INDEX* row_of = UHAL_ADDRESS(const INDEX, row_offsets);
  UHAL_FOR_ITEMS(i, updates * window) {
    const INDEX s = i / window;
    const uint32 mine = key[s];
    if (mine == outside || (s + 1 < updates && key[s + 1] == mine)) continue;
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(layout, 2, i - s * window, offsets);
    to[place_of[origin[s]] + offsets[0]] = from[row_of[origin[s]] + offsets[1]];
  }
}

#endif

#ifdef DATA_DTYPE

/* `reduction` is a uhal_reduction. */
UHAL_INLINE T combined(int32 reduction, T x, T y) {
#if UHAL_IS_COMPLEX
  return reduction == 1 ? complex_add(x, y) : complex_multiply(x, y);
#else
  switch (reduction) {
    case 1:
      return x + y;
    case 3:
      return x * y;
#if UHAL_IS_FLOATING /* a NaN stays */
    case 4:
      return x > y || x != x ? x : y;
    default:
      return x < y || x != x ? x : y;
#else
    case 4:
      return x > y ? x : y;
    default:
      return x < y ? x : y;
#endif
  }
#endif
}

/* All updates of a place are combined with what is there, and rounded once at the end. */
UHAL_KERNEL void combine(UHAL_POINTER(data), UHAL_POINTER(rows), UHAL_POINTER(keys), UHAL_POINTER(order),
                         UHAL_POINTER(data_offsets), UHAL_POINTER(row_offsets), INDEX updates, INDEX window,
                         uint32 outside, int32 reduction, WindowLayout layout) {
  UHAL_GLOBAL DATA_STORAGE* to = UHAL_ADDRESS(DATA_STORAGE, data);
  UHAL_GLOBAL const DATA_STORAGE* from = UHAL_ADDRESS(const DATA_STORAGE, rows);
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL const uint32* origin = UHAL_ADDRESS(const uint32, order);
  UHAL_GLOBAL const INDEX* place_of = UHAL_ADDRESS(const INDEX, data_offsets);
  UHAL_GLOBAL const INDEX* row_of = UHAL_ADDRESS(const INDEX, row_offsets);
  UHAL_FOR_ITEMS(i, updates * window) {
    INDEX s = i / window;
    const uint32 mine = key[s];
    if (mine == outside || (s > 0 && key[s - 1] == mine)) continue;
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(layout, 2, i - s * window, offsets);
    const INDEX place = place_of[origin[s]] + offsets[0];
    T value = DATA_LOAD(to, place);
    do {
      value = combined(reduction, value, DATA_LOAD(from, row_of[origin[s]] + offsets[1]));
      ++s;
    } while (s < updates && key[s] == mine);
    DATA_STORE(to, place, value);
  }
}

#endif
