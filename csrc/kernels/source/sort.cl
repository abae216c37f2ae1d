/* sort and top_k, the first and the last step: a work-group sorts as much as its local memory holds, whole short rows
 * or a tile of a long one; sort_merge.cl joins tiles; sort_result writes joined rows.
 *
 * Elements are sorted as (key, index): keys are unsigned numbers in the order of the elements, equal for equal ones;
 * the index decides among those, which makes every step stable. Values are read again by their index.
 *
 * Macros: X: the dtype of x and of the values, KEY_BITS: 32 or 64, TILE: elements of a tile, UHAL_GROUP. */
#include "csrc/kernels/prelude/rows.h"

#if KEY_BITS == 64
typedef uint64 key_type;
#else
typedef uint32 key_type;
#endif
#define LAST_KEY ((key_type)-1)
#define SIGN_BIT ((key_type)1 << (KEY_BITS - 1))

UHAL_ROWS(three_rows, 3) /* x, values, indices */

/* The key of an element: NaN after all others, whatever its bits, and zeros of both signs equal. */
UHAL_INLINE key_type key_of(T value, int32 descending) {
#if UHAL_IS_FLOATING
  key_type key = LAST_KEY;
  if (value == value) {
#if KEY_BITS == 64
    const key_type bits = uhal_bits_of_double(value);
#else
    const key_type bits = uhal_bits_of_float(value);
#endif
    key = value == 0 ? SIGN_BIT : (bits & SIGN_BIT) != 0 ? ~bits : bits | SIGN_BIT;
  }
#elif X_DTYPE >= 2 && X_DTYPE <= 5 /* signed integers */
  const key_type key = (key_type)value ^ SIGN_BIT;
#else
  const key_type key = (key_type)value;
#endif
  return descending ? ~key : key;
}

/* The n-th element of a row in order is element `index` of x. */
UHAL_INLINE void write_result(UHAL_GLOBAL const X_STORAGE* x, UHAL_GLOBAL X_STORAGE* values, UHAL_GLOBAL char* indices,
                              int32 indices_dtype, INDEX x_offset, INDEX values_offset, INDEX indices_offset,
                              int32 index) {
  values[values_offset] = x[x_offset];
  if (indices_dtype == 5) { /* int64 */
    ((UHAL_GLOBAL int64*)indices)[indices_offset] = index;
  } else if (indices_dtype == 4) { /* int32 */
    ((UHAL_GLOBAL int32*)indices)[indices_offset] = index;
  }
}

/* Sorts tiles of `width` elements, a power of two, of which TILE / width make up a work-group's. A row of one tile goes
 * to the results, its first `limit` elements; of longer ones, `tiles` per row, the first `limit` of each tile go to
 * keys and positions: tile t of a row begins at t * min(TILE, limit), a row at a multiple of `row_stride`.
 * indices_dtype is 0 where no indices are wanted. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void sort_tiles(UHAL_POINTER(x), UHAL_POINTER(values),
                                                              UHAL_POINTER(indices), UHAL_POINTER(keys),
                                                              UHAL_POINTER(positions), three_rows rows, INDEX limit,
                                                              INDEX tiles, INDEX row_stride, int32 width,
                                                              int32 descending, int32 indices_dtype) {
  UHAL_LOCAL_MEMORY key_type tile_keys[TILE];
  UHAL_LOCAL_MEMORY int32 tile_indices[TILE];
  const int32 id = (int32)UHAL_LOCAL_ID(0);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
  const INDEX rows_of_group = TILE / width;
  const INDEX units = (rows.count + rows_of_group - 1) / rows_of_group * tiles;
  for (INDEX unit = UHAL_GROUP_ID(0); unit < units; unit += UHAL_GROUP_COUNT(0)) {
    const INDEX first_row = unit / tiles * rows_of_group;
    const INDEX tile = unit % tiles;
    for (int32 e = id; e < TILE; e += UHAL_GROUP) {
      const INDEX row = first_row + e / width;
      const INDEX index = tile * width + (e & (width - 1));
      key_type key = LAST_KEY;
      if (row < rows.count && index < rows.length) {
        INDEX offsets[3] = {0, 0, 0};
        UHAL_ADD_OFFSETS(rows, 3, row, offsets);
        key = key_of(X_LOAD(x, offsets[0] + index * rows.along[0]), descending);
      }
      tile_keys[e] = key;
      tile_indices[e] = (int32)index; /* beyond the row: after all of it, whatever the keys */
    }
    UHAL_BARRIER();

    /* Bitonic: runs of length `run` are sorted, every other one the wrong way round, but for the last ones. */
    for (int32 run = 2; run <= width; run *= 2) {
      for (int32 step = run / 2; step > 0; step /= 2) {
        for (int32 pair = id; pair < TILE / 2; pair += UHAL_GROUP) {
          const int32 a = 2 * pair - (pair & (step - 1));
          const int32 b = a + step;
          const int32 ascending = (a & (width - 1) & run) == 0;
          const key_type key_a = tile_keys[a];
          const key_type key_b = tile_keys[b];
          const int32 index_a = tile_indices[a];
          const int32 index_b = tile_indices[b];
          const int32 after = key_a > key_b || (key_a == key_b && index_a > index_b);
          if (after == ascending) {
            tile_keys[a] = key_b;
            tile_keys[b] = key_a;
            tile_indices[a] = index_b;
            tile_indices[b] = index_a;
          }
        }
        UHAL_BARRIER();
      }
    }

    for (int32 e = id; e < TILE; e += UHAL_GROUP) {
      const INDEX row = first_row + e / width;
      const INDEX place = e & (width - 1);
      if (row >= rows.count || place >= limit || tile * width + place >= rows.length) continue;
      const int32 index = tile_indices[e];
      if (tiles > 1) {
        const INDEX to = row * row_stride + tile * (limit < TILE ? limit : TILE) + place;
        UHAL_ADDRESS(key_type, keys)[to] = tile_keys[e];
        UHAL_ADDRESS(int32, positions)[to] = index;
      } else {
        INDEX offsets[3] = {0, 0, 0};
        UHAL_ADD_OFFSETS(rows, 3, row, offsets);
        write_result(x, UHAL_ADDRESS(X_STORAGE, values), UHAL_ADDRESS(char, indices), indices_dtype,
                     offsets[0] + index * rows.along[0], offsets[1] + place * rows.along[1],
                     offsets[2] + place * rows.along[2], index);
      }
    }
    UHAL_BARRIER();
  }
}

/* Writes the results of joined rows: positions[row][place], `limit` of each row. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void sort_result(UHAL_POINTER(x), UHAL_POINTER(values),
                                                               UHAL_POINTER(indices), UHAL_POINTER(positions),
                                                               three_rows rows, INDEX limit, int32 indices_dtype) {
  const INDEX count = rows.count * limit;
  UHAL_FOR_ITEMS(i, count) {
    const INDEX row = i / limit;
    const INDEX place = i % limit;
    const int32 index = UHAL_ADDRESS(const int32, positions)[i];
    INDEX offsets[3] = {0, 0, 0};
    UHAL_ADD_OFFSETS(rows, 3, row, offsets);
    write_result(UHAL_ADDRESS(const X_STORAGE, x), UHAL_ADDRESS(X_STORAGE, values), UHAL_ADDRESS(char, indices),
                 indices_dtype, offsets[0] + index * rows.along[0], offsets[1] + place * rows.along[1],
                 offsets[2] + place * rows.along[2], index);
  }
}
