/* segment_reduce: rows combined by segments (csrc/kernels/ops/segment.cc).
 *
 * Every element has a key, its segment's number + 1; 0 and segments + 1 stand for those of no segment. Elements are met
 * in the order of their keys, which cuts them into runs. `segment_reduce` gives each work-item a chunk of elements and
 * UNIT neighbours of their rows. A run that lies in one chunk, or in two, is combined by the work-item of the chunk
 * where it begins, and goes to y. What chunks have of longer runs goes to partial sums, two places for each chunk, which
 * the same kernel combines in the next launch (PARTIAL), until one chunk has all; a place that is not needed has key 0,
 * and its values are not read. Which values are combined in what order follows from shapes and keys alone.
 *
 * Macros: X: the dtype of x and y, PARTIAL: values are partial sums, UNIT: 1, or 4 where rows lie in order and aligned
 * to four elements, COMBINE: 3 a product, 4 the largest, 5 the least, else a sum, HAS_INDICES, HAS_WEIGHTS,
 * UHAL_WIDE_INDEX, UHAL_RANK. Of segment_keys_counted: TILE and UHAL_GROUP of stable_order.h. */
#include "csrc/kernels/prelude/ids.h"

UHAL_LAYOUT(RowLayout, 2) /* x, y */

UHAL_INLINE void report(UHAL_GLOBAL int64* errors, int64 ticket, int32 ignore_negative, int64 number, int64 length) {
  if (ticket != 0 && !(ignore_negative && number < 0)) uhal_report_error(errors, ticket, number, length);
}

UHAL_INLINE uint32 key_of(int64 id, INDEX segments) {
  return id < 0 ? 0u : id >= segments ? (uint32)segments + 1u : (uint32)id + 1u;
}

/* The key of each of `count` elements; `offsets`: of segments + 1 beginnings instead of ids. */
UHAL_KERNEL void segment_keys(UHAL_POINTER(ids), UHAL_POINTER(keys), UHAL_POINTER(errors), int64 ticket, INDEX count,
                              INDEX step, INDEX segments, int32 of_int64, int32 offsets, int32 ignore_negative) {
  UHAL_GLOBAL const char* ids = UHAL_ADDRESS(const char, ids);
  UHAL_GLOBAL uint32* keys = UHAL_ADDRESS(uint32, keys);
  UHAL_FOR_ITEMS(i, count) {
    if (offsets) { /* the beginnings that are not after the element */
      INDEX begin = 0;
      INDEX rest = segments + 1;
      while (rest > 0) {
        const INDEX half_of_rest = rest / 2;
        const int32 reached = read_id(ids, of_int64, (begin + half_of_rest) * step) <= i;
        begin = reached ? begin + half_of_rest + 1 : begin;
        rest = reached ? rest - half_of_rest - 1 : half_of_rest;
      }
      keys[i] = (uint32)begin;
    } else {
      const int64 id = read_id(ids, of_int64, i * step);
      keys[i] = key_of(id, segments);
      if (id < 0 || id >= segments) report(UHAL_ADDRESS(int64, errors), ticket, ignore_negative, id, segments);
    }
  }
}

#ifdef TILE
#include "csrc/kernels/prelude/tile_counts.h"

#define TILE_TURNS (TILE / UHAL_GROUP)

/* The same of ids, and how often each of their lowest digits occurs in each tile, for the first pass of their sort. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void segment_keys_counted(UHAL_POINTER(ids), UHAL_POINTER(keys),
                                                                        UHAL_POINTER(totals), UHAL_POINTER(errors),
                                                                        int64 ticket, INDEX count, INDEX step,
                                                                        INDEX segments, int32 of_int64,
                                                                        int32 ignore_negative, int32 digits) {
  UHAL_LOCAL_MEMORY int32 counts[MOST_DIGITS];
  UHAL_GLOBAL uint32* keys = UHAL_ADDRESS(uint32, keys);
  const INDEX begin = UHAL_GROUP_ID(0) * TILE;
  const INDEX end = begin + TILE < count ? begin + TILE : count;
  const INDEX first = begin + UHAL_LOCAL_ID(0);
  int64 found[TILE_TURNS]; /* all are under way together: nothing is reported between */
  UHAL_UNROLL for (int32 k = 0; k < TILE_TURNS; ++k) {
    const INDEX i = first + k * UHAL_GROUP;
    found[k] = i < end ? read_id(UHAL_ADDRESS(const char, ids), of_int64, i * step) : 0;
  }
  begin_tile_counts(counts, digits);
  UHAL_UNROLL for (int32 k = 0; k < TILE_TURNS; ++k) {
    const INDEX i = first + k * UHAL_GROUP;
    if (i < end) {
      const uint32 key = key_of(found[k], segments);
      keys[i] = key;
      uhal_local_add_int32(counts + (key & (uint32)(digits - 1)), 1);
    }
  }
  end_tile_counts(counts, digits, UHAL_ADDRESS(int32, totals));
  UHAL_UNROLL for (int32 k = 0; k < TILE_TURNS; ++k) {
    if (first + k * UHAL_GROUP < end && (found[k] < 0 || found[k] >= segments)) {
      report(UHAL_ADDRESS(int64, errors), ticket, ignore_negative, found[k], segments);
    }
  }
}
#endif

/* The first of `count` ascending keys that is at least `least`. */
UHAL_INLINE INDEX first_key(UHAL_GLOBAL const uint32* keys, INDEX count, uint32 least) {
  INDEX begin = 0;
  while (count > 0) {
    const INDEX half_of_count = count / 2;
    const int32 before = keys[begin + half_of_count] < least;
    begin = before ? begin + half_of_count + 1 : begin;
    count = before ? count - half_of_count - 1 : half_of_count;
  }
  return begin;
}

UHAL_INLINE void store_count(UHAL_GLOBAL char* to, int32 is_int64, INDEX at, INDEX count) {
  if (is_int64) {
    ((UHAL_GLOBAL int64*)to)[at] = count;
  } else {
    ((UHAL_GLOBAL int32*)to)[at] = (int32)count;
  }
}

/* The elements of each segment. */
UHAL_KERNEL void segment_counts(UHAL_POINTER(keys), UHAL_POINTER(counts), INDEX elements, INDEX segments, INDEX step,
                                int32 is_int64) {
  UHAL_GLOBAL const uint32* keys = UHAL_ADDRESS(const uint32, keys);
  UHAL_FOR_ITEMS(s, segments) {
    const INDEX begin = first_key(keys, elements, (uint32)s + 1u);
    const INDEX count = first_key(keys + begin, elements - begin, (uint32)s + 2u);
    store_count(UHAL_ADDRESS(char, counts), is_int64, s * step, count);
  }
}

#ifdef X_DTYPE

/* Elements that are under way together: rows that are looked up have their numbers under way as well. */
#define TURNS (PARTIAL ? 16 : HAS_INDICES ? 4 : 8)

/* What one launch goes through, and where its rows lie. */
typedef struct {
  INDEX elements; /* or partial sums */
  INDEX window;   /* elements of a row */
  INDEX chunk;    /* elements of a chunk */
  INDEX chunks;
  INDEX segments;
  INDEX rows; /* of x; 0 where there are no indices */
  INDEX x_step;
  INDEX y_step;
  INDEX index_step;
  INDEX weight_step;
} Work;

/* A NaN stays. */
#if COMBINE == 3
#define COMBINED(a, b) ((a) * (b))
#elif COMBINE == 4
#define COMBINED(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#elif COMBINE == 5
#define COMBINED(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#else
#define COMBINED(a, b) ((a) + (b))
#endif

#if UNIT == 4
#define LOAD_UNIT(x, at, values) X_LOAD4(x, at, values)
#define STORE_UNIT(y, at, values) X_STORE4(y, at, values)
#else
#define LOAD_UNIT(x, at, values) values[0] = X_LOAD(x, at)
#define STORE_UNIT(y, at, values) X_STORE(y, at, values[0])
#endif
#define EACH(k) UHAL_UNROLL for (int32 k = 0; k < UNIT; ++k)

/* `order` is NULL where elements are in the order of their keys; `counts` (int32) are those of the segments, for means.
 */
UHAL_KERNEL void segment_reduce(UHAL_POINTER(x), UHAL_POINTER(keys), UHAL_POINTER(order), UHAL_POINTER(indices),
                                UHAL_POINTER(weights), UHAL_POINTER(counts), UHAL_POINTER(y),
                                UHAL_POINTER(partial_keys), UHAL_POINTER(partials), UHAL_POINTER(errors), int64 ticket,
                                RowLayout layout, Work work, T neutral, int32 reduction, int32 has_order,
                                int32 indices_are_int64, int32 ignore_negative) {
  UHAL_GLOBAL const uint32* keys = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL X_STORAGE* y = UHAL_ADDRESS(X_STORAGE, y);
  UHAL_GLOBAL uint32* partial_keys = UHAL_ADDRESS(uint32, partial_keys);
  UHAL_GLOBAL T* partials = UHAL_ADDRESS(T, partials);
  const INDEX units = work.window / UNIT;
  UHAL_FOR_ITEMS(i, work.chunks * units) {
    const INDEX chunk = i / units;
    const INDEX at_row = (i - chunk * units) * UNIT;
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(layout, 2, at_row, offsets);
    INDEX begin = chunk * work.chunk;
    INDEX end = begin + work.chunk < work.elements ? begin + work.chunk : work.elements;
    /* Whether the first and the last run of the chunk are parts of runs that several chunks combine. */
    int32 head_is_part = work.chunks > 1;
    int32 tail_is_part = work.chunks > 1;
#if PARTIAL
    uint32 needed = 0; /* mostly none is */
    INDEX seen = begin; /* a chunk begins where it is aligned to four */
    for (; seen + 4 * TURNS <= end; seen += 4 * TURNS) {
      uhal_four_uint32 fours[TURNS];
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        fours[k] = *(UHAL_GLOBAL const uhal_four_uint32*)(keys + seen + 4 * k);
      }
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) needed |= fours[k].x | fours[k].y | fours[k].z | fours[k].w;
    }
    for (; seen < end; ++seen) needed |= keys[seen];
    if (needed == 0) {
      if (work.chunks > 1 && at_row == 0) partial_keys[2 * chunk] = partial_keys[2 * chunk + 1] = 0;
      continue;
    }
#else
    {
      const uint32 head = keys[begin];
      const uint32 tail = keys[end - 1];
      const int32 from_before = begin > 0 && keys[begin - 1] == head;
      const int32 goes_on = end < work.elements && keys[end] == tail;
      head_is_part = from_before &&
                     ((goes_on && head == tail) || (begin > work.chunk && keys[begin - work.chunk - 1] == head));
      tail_is_part = goes_on && ((from_before && head == tail) ||
                                 (end + work.chunk < work.elements && keys[end + work.chunk] == tail));
      const INDEX rest = work.elements - end < work.chunk ? work.elements - end : work.chunk;
      if (from_before && !head_is_part) begin += first_key(keys + begin, end - begin, head + 1u);
      if (goes_on && !tail_is_part) end += first_key(keys + end, rest, tail + 1u);
      if (begin >= end) { /* all of it is of the chunk before */
        if (at_row == 0) partial_keys[2 * chunk] = partial_keys[2 * chunk + 1] = 0;
        continue;
      }
    }
#endif
    uint32 current = keys[begin];
    T total[UNIT];
    EACH(u) total[u] = neutral;
    int32 runs = 0;
    for (INDEX first = begin; first < end; first += TURNS) {
      uint32 next_keys[TURNS];
      T values[TURNS][UNIT];
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        next_keys[k] = first + k < end ? keys[first + k] : 0u;
        EACH(u) values[k][u] = neutral;
      }
#if PARTIAL
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        if (next_keys[k] != 0) {
          EACH(u) values[k][u] = UHAL_ADDRESS(const T, x)[(first + k) * work.window + at_row + u];
        }
      }
#else
      /* Step by step for all of them, and nothing is reported between the loads of rows: then these are under way
       * together. */
      INDEX elements[TURNS];
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        elements[k] = has_order && first + k < end ? (INDEX)UHAL_ADDRESS(const uint32, order)[first + k] : first + k;
      }
#if HAS_INDICES
      int64 rows[TURNS];
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        rows[k] = first + k < end
                      ? read_id(UHAL_ADDRESS(const char, indices), indices_are_int64, elements[k] * work.index_step)
                      : 0;
      }
#define ROW(k) rows[k]
#define IS_OUTSIDE(row) ((row) < 0 || (row) >= work.rows)
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        if (first + k < end && IS_OUTSIDE(rows[k])) {
          report(UHAL_ADDRESS(int64, errors), ticket, ignore_negative, rows[k], work.rows);
        }
      }
#else
#define ROW(k) elements[k]
#define IS_OUTSIDE(row) 0
#endif
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        if (first + k < end) {
          if (IS_OUTSIDE(ROW(k))) {
            EACH(u) values[k][u] = 0;
          } else {
            LOAD_UNIT(UHAL_ADDRESS(const X_STORAGE, x), offsets[0] + (INDEX)ROW(k) * work.x_step, values[k]);
          }
        }
      }
#if HAS_WEIGHTS
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        if (first + k < end) {
          const T weight = X_LOAD(UHAL_ADDRESS(const X_STORAGE, weights), elements[k] * work.weight_step);
          EACH(u) values[k][u] *= weight;
        }
      }
#endif
#endif
      /* Beyond the end values are neutral. */
      UHAL_UNROLL for (int32 k = 0; k < TURNS; ++k) {
        if (first + k < end && next_keys[k] != current) {
          if (runs == 0 && work.chunks > 1 && at_row == 0) partial_keys[2 * chunk] = head_is_part ? current : 0;
          if (runs == 0 && head_is_part) {
            EACH(u) partials[2 * chunk * work.window + at_row + u] = total[u];
          } else if (current != 0 && current <= (uint32)work.segments) {
            if (reduction == 2) {
              EACH(u) total[u] /= (T)UHAL_ADDRESS(const int32, counts)[current - 1];
            }
            STORE_UNIT(y, offsets[1] + (INDEX)(current - 1) * work.y_step, total);
          }
          ++runs;
          current = next_keys[k];
          EACH(u) total[u] = neutral;
        }
        EACH(u) total[u] = COMBINED(total[u], values[k][u]);
      }
    }
    const int32 alone_in_part = runs == 0 && head_is_part;
    if (work.chunks > 1 && at_row == 0) {
      if (runs == 0) partial_keys[2 * chunk] = head_is_part ? current : 0;
      partial_keys[2 * chunk + 1] = tail_is_part ? current : 0;
    }
    if (alone_in_part || tail_is_part) {
      if (alone_in_part) {
        EACH(u) partials[2 * chunk * work.window + at_row + u] = total[u];
      }
      if (tail_is_part) { /* of a single run, the second partial sum is that of nothing */
        EACH(u) partials[(2 * chunk + 1) * work.window + at_row + u] = alone_in_part ? neutral : total[u];
      }
    } else if (current != 0 && current <= (uint32)work.segments) {
      if (reduction == 2) {
        EACH(u) total[u] /= (T)UHAL_ADDRESS(const int32, counts)[current - 1];
      }
      STORE_UNIT(y, offsets[1] + (INDEX)(current - 1) * work.y_step, total);
    }
  }
}

#endif
