/* What gathers and scatters do with their indices (csrc/kernels/ops/index.cc).
 *
 * Macros: UHAL_WIDE_INDEX, UHAL_RANK; for gather also ELEMENT, a type of the size of what is copied, and its ZERO. */

/* How an index addresses the data; lengths and strides are those of the data's indexed axes, one per component. */
typedef struct {
  INDEX components;
  INDEX component_stride;
  INDEX of_int64;       /* the indices are int64, else int32 */
  INDEX negative_wraps; /* uhal_index_attributes */
  INDEX lengths[UHAL_RANK];
  INDEX strides[UHAL_RANK];
} Lookup;

UHAL_INLINE int64 read_index(UHAL_GLOBAL const char* indices, INDEX of_int64, INDEX at) {
  return of_int64 ? ((UHAL_GLOBAL const int64*)indices)[at] : ((UHAL_GLOBAL const int32*)indices)[at];
}

/* For the index at offset `at`: `inside`, whether all its components are; adds to `offset` where it points in the data,
 * and makes `place` its number among all indexed positions, counted on from what it was. A macro, so that the lookup is
 * read from where arguments lie. An index that is not inside is reported unless `ticket` is 0. */
#define LOOK_UP(lookup, indices, at, errors, ticket, inside, offset, place)                               \
  do {                                                                                                    \
    inside = 1;                                                                                           \
    for (INDEX component = 0; inside && component < (lookup).components; ++component) {                   \
      const int64 given = read_index(indices, (lookup).of_int64, (at) + component * (lookup).component_stride); \
      const int64 length = UHAL_AT((lookup).lengths, component);                                          \
      const int64 index = given < 0 && (lookup).negative_wraps ? given + length : given;                  \
      if (index < 0 || index >= length) {                                                                 \
        inside = 0;                                                                                       \
        if (ticket != 0) uhal_report_error(errors, ticket, given, length);                                \
      } else {                                                                                            \
        offset += (INDEX)index * UHAL_AT((lookup).strides, component);                                    \
        place = place * (INDEX)length + (INDEX)index;                                                     \
      }                                                                                                   \
    }                                                                                                     \
  } while (0)

#ifdef ELEMENT

typedef struct {
  uint64 low;
  uint64 high;
} Pair;

UHAL_LAYOUT(GatherLayout, 3) /* rows, data, indices */

/* What a work-item copies: all that it reads is under way before it writes, since each waits for its index first. */
#define TURNS 4

/* rows = data at the indices; zero where they are outside. An element of the layout is one ELEMENT. Work-items have
 * neighbours in each turn. */
UHAL_KERNEL void gather(UHAL_POINTER(rows), UHAL_POINTER(data), UHAL_POINTER(indices), UHAL_POINTER(errors),
                        int64 ticket, INDEX count, GatherLayout layout, Lookup lookup) {
  UHAL_GLOBAL ELEMENT* to = UHAL_ADDRESS(ELEMENT, rows);
  UHAL_GLOBAL const ELEMENT* from = UHAL_ADDRESS(const ELEMENT, data);
  UHAL_GLOBAL const char* index = UHAL_ADDRESS(const char, indices);
  UHAL_GLOBAL int64* cell = UHAL_ADDRESS(int64, errors);
  const INDEX first = UHAL_GROUP_ID(0) * TURNS * UHAL_LOCAL_SIZE(0) + UHAL_LOCAL_ID(0);
  const ELEMENT zero = ZERO;
  ELEMENT values[TURNS];
  INDEX places[TURNS];
  UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
    const INDEX i = first + k * UHAL_LOCAL_SIZE(0);
    values[k] = zero;
    places[k] = 0;
    if (i < count) {
      INDEX offsets[3] = {0, 0, 0};
      UHAL_ADD_OFFSETS(layout, 3, i, offsets);
      INDEX offset = offsets[1];
      INDEX place = 0;
      int32 inside;
      LOOK_UP(lookup, index, offsets[2], cell, ticket, inside, offset, place);
      if (inside) values[k] = from[offset];
      places[k] = offsets[0];
    }
  }
  UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
    if (first + k * UHAL_LOCAL_SIZE(0) < count) to[places[k]] = values[k];
  }
}

#endif

UHAL_LAYOUT(UpdateLayout, 5) /* row-major order, rows, data, indices, keys */

/* The updates of a scatter, one per index: the key of the place that each is for, `outside` if there is none, and the
 * offsets of its window in the rows and in the data. */
UHAL_KERNEL void locate(UHAL_POINTER(indices), UHAL_POINTER(keys), UHAL_POINTER(row_offsets),
                        UHAL_POINTER(data_offsets), UHAL_POINTER(errors), int64 ticket, INDEX count, uint32 outside,
                        UpdateLayout layout, Lookup lookup) {
  UHAL_GLOBAL const char* index = UHAL_ADDRESS(const char, indices);
  UHAL_GLOBAL uint32* key = UHAL_ADDRESS(uint32, keys);
  UHAL_GLOBAL INDEX* row_offset = UHAL_ADDRESS(INDEX, row_offsets);
  UHAL_GLOBAL INDEX* data_offset = UHAL_ADDRESS(INDEX, data_offsets);
  UHAL_GLOBAL int64* cell = UHAL_ADDRESS(int64, errors);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[5] = {0, 0, 0, 0, 0};
    UHAL_ADD_OFFSETS(layout, 5, i, offsets);
    INDEX offset = offsets[2];
    INDEX place = 0;
    int32 inside;
    LOOK_UP(lookup, index, offsets[3], cell, ticket, inside, offset, place);
    key[i] = inside ? (uint32)(offsets[4] + place) : outside;
    row_offset[i] = offsets[1];
    data_offset[i] = offset;
  }
}
