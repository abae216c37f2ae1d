/* nonzero: the positions of the elements that are not 0, in row-major order, and compact: the elements of another
 * tensor there (csrc/kernels/ops/nonzero.cc).
 *
 * The mask is cut into as many parts as there are work-groups, and a part into runs. `count_parts` reads it, counts
 * those of each run and part, and leaves of a run, where they are few, their places or the elements there, else a bit
 * for each element of the mask: in the same room. `nonzero` and `compact` begin each part where the parts before it end.
 * No group waits for another.
 *
 * Macros: X: the dtype of the mask, ELEMENT: of compact: a type of the size of x's elements, or of half of it where
 * HALVES is 2, GATHER: of compact: x lies in order, and count_parts leaves its elements, not their places, ITEMS:
 * neighbours that one work-item of count_parts looks at together: 16 of a mask of bytes, else 8, DENSE: it lies in order
 * and aligned to so many, UHAL_GROUP. */
#include "csrc/kernels/prelude/count_before.h"
#include "csrc/kernels/prelude/group.h"

/* Loads that a work-item has under way. */
#define TURNS 4

#if ITEMS == 16
#define FLAGS uint16
#else
#define FLAGS uint8
#endif

/* Elements of a word of bits; those that a group lists from bits at a time; those of a run, of which a place is a
 * number of 16 bits. */
#define WORD 32
#define FOUR 4
#define TILE (WORD * UHAL_GROUP)
#define TILES 8
#define RUN (TILES * TILE)

/* Elements of a run that a group reads before it lists them. */
#define PIECE (TURNS * ITEMS * UHAL_GROUP)

/* Bytes that a list has for an element: a place, and what is compacted. */
#if GATHER
#define LISTED_BYTES ((int32)sizeof(ELEMENT) * HALVES > 2 ? (int32)sizeof(ELEMENT) * HALVES : 2)
#else
#define LISTED_BYTES 2
#endif

/* How many of a run's `length` elements, a multiple of FOUR * WORD, are listed at most: in the room of their bits. */
#define MOST_LISTED(length) ((length) / (8 * LISTED_BYTES))
#define WHOLE_FOURS(length) (((length) + FOUR * WORD - 1) / (FOUR * WORD) * (FOUR * WORD))

UHAL_LAYOUT(MaskLayout, 2) /* row-major order, mask */

#ifdef ELEMENT
UHAL_LAYOUT(DataLayout, 2) /* row-major order, x */

/* `offset`: where in x the element at `position` lies, in elements; `layout` is the kernel's, of x. */
#if GATHER
#define FIND_ELEMENT(position, offset) const INDEX offset = (position)
#else
#define FIND_ELEMENT(position, offset)            \
  INDEX offsets[2] = {0, 0};                      \
  UHAL_ADD_OFFSETS(layout, 2, position, offsets); \
  const INDEX offset = offsets[1]
#endif

/* Copies the elements of `from` at first + places[0 to listed - 1] to each step-th of `to`. All of the group. */
#define GATHER_ELEMENTS(from, first, places, listed, to, step)         \
  for (INDEX e = id; e < (listed); e += TURNS * UHAL_GROUP) {          \
    ELEMENT elements[TURNS * HALVES];                                  \
    UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {           \
      const INDEX i = e + turn * UHAL_GROUP;                           \
      if (i < (listed)) {                                              \
        FIND_ELEMENT((first) + places[i], offset);                     \
        UHAL_UNROLL for (int32 k = 0; k < HALVES; ++k) {               \
          elements[turn * HALVES + k] = (from)[offset * HALVES + k];   \
        }                                                              \
      }                                                                \
    }                                                                  \
    UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {           \
      const INDEX i = e + turn * UHAL_GROUP;                           \
      if (i < (listed)) {                                              \
        UHAL_UNROLL for (int32 k = 0; k < HALVES; ++k) {               \
          (to)[i * (step) * HALVES + k] = elements[turn * HALVES + k]; \
        }                                                              \
      }                                                                \
    }                                                                  \
  }
#endif

typedef struct {
  INDEX rank; /* 0: numbers of elements, not coordinates */
  INDEX shape[UHAL_RANK];
} Coordinates;

UHAL_INLINE INDEX add_counts(INDEX a, INDEX b) { return a + b; }
UHAL_TEAM_REDUCTION(group_count, INDEX, add_counts)

/* `bits`: of the ITEMS elements from `first` on those that are not 0; elements from `end` on count as 0. */
#if DENSE && ITEMS == 16
/* A bit for each byte of a word that is not 0: the highest bit of a byte is that of itself, or carried there by the
 * others. The product puts bits 0, 8, 16 and 24 side by side. */
UHAL_INLINE uint32 bits_of_bytes(uint32 word) {
  const uint32 high = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
  return (high * 0x01020408u) >> 24 & 15u;
}
#define READ_FLAGS(x, layout, first, end, bits)                                             \
  do {                                                                                      \
    if ((first) + ITEMS <= (end)) {                                                         \
      const uhal_four_uint32 words = *(UHAL_GLOBAL const uhal_four_uint32*)((x) + (first)); \
      bits = bits_of_bytes(words.x) | bits_of_bytes(words.y) << 4;                          \
      bits |= bits_of_bytes(words.z) << 8 | bits_of_bytes(words.w) << 12;                   \
    } else {                                                                                \
      for (int32 k = 0; k < ITEMS && (first) + k < (end); ++k) {                            \
        bits |= (uint32)(X_LOAD(x, (first) + k) != 0) << k;                                 \
      }                                                                                     \
    }                                                                                       \
  } while (0)
#elif DENSE
#define READ_FLAGS(x, layout, first, end, bits)                  \
  do {                                                           \
    if ((first) + ITEMS <= (end)) {                              \
      T values[ITEMS];                                           \
      X_LOAD8(x, first, values);                                 \
      UHAL_UNROLL for (int32 k = 0; k < ITEMS; ++k) {            \
        bits |= (uint32)(values[k] != 0) << k;                   \
      }                                                          \
    } else {                                                     \
      for (int32 k = 0; k < ITEMS && (first) + k < (end); ++k) { \
        bits |= (uint32)(X_LOAD(x, (first) + k) != 0) << k;      \
      }                                                          \
    }                                                            \
  } while (0)
#else
#define READ_FLAGS(x, layout, first, end, bits)                \
  do {                                                         \
    for (int32 k = 0; k < ITEMS && (first) + k < (end); ++k) { \
      INDEX offsets[2] = {0, 0};                               \
      UHAL_ADD_OFFSETS(layout, 2, (first) + k, offsets);       \
      bits |= (uint32)(X_LOAD(x, offsets[1]) != 0) << k;       \
    }                                                          \
  } while (0)
#endif

/* Sums of neighbouring bits, then of pairs and of fours, side by side in one word; a product adds the bytes up. */
UHAL_INLINE int32 count_bits(uint32 bits) {
  bits -= (bits >> 1) & 0x55555555u;
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0fu;
  return (int32)((bits * 0x01010101u) >> 24);
}

/* Lists a work-item's own places: those of its bits, of which the first is that of place `first`, from found[at] on.
 * Tells where the next ones go. */
UHAL_INLINE int32 list_places(uint32 bits, UHAL_LOCAL uint16* found, int32 at, int32 first) {
  for (; bits != 0; bits &= bits - 1) found[at++] = (uint16)(first + count_bits((bits & (0u - bits)) - 1u));
  return at;
}

/* Of a run, in local memory. One member is written and another read, which compilers allow of a union. */
typedef union {
  FLAGS flags[RUN / ITEMS];
  uint32 words[RUN / WORD];
  uhal_four_uint32 fours[RUN / (FOUR * WORD)];
} RunBits;
typedef union {
  uint16 places[MOST_LISTED(RUN)];
  uint32 pairs[MOST_LISTED(RUN) / 2];
} RunPlaces;

/* totals[part], counts[a run's first element / TILE]: how many are not 0; flags: of each run a bit for each element,
 * those after the last one 0, or of few their places, or what is compacted. A part is `part_length` elements, a multiple
 * of TILE, and of RUN where it is longer than that; `elements` in all. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void count_parts(UHAL_POINTER(mask), UHAL_POINTER(totals),
                                                               UHAL_POINTER(counts), UHAL_POINTER(flags),
#if GATHER
                                                               UHAL_POINTER(data),
#endif
                                                               MaskLayout layout, INDEX elements, INDEX part_length) {
  UHAL_LOCAL_MEMORY int32 shares[UHAL_GROUP];
  UHAL_LOCAL_MEMORY RunBits run_bits;
  UHAL_LOCAL_MEMORY RunPlaces listed;
  const int32 id = (int32)UHAL_LOCAL_ID(0);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, mask);
  const INDEX begin = UHAL_GROUP_ID(0) * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;
  INDEX total = 0;
  for (INDEX run = begin; run < end; run += RUN) {
    const INDEX length = WHOLE_FOURS(end - run < RUN ? end - run : RUN);
    INDEX of_run = 0;
    /* Piece by piece, so that while some groups list others read. */
    for (INDEX piece = 0; piece < length; piece += PIECE) {
      uint32 bits[TURNS];
      UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {
        const INDEX first = run + piece + (turn * UHAL_GROUP + id) * ITEMS;
        bits[turn] = 0;
        READ_FLAGS(x, layout, first, end, bits[turn]);
      }
      UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {
        const INDEX first = piece + (turn * UHAL_GROUP + id) * ITEMS;
        if (first < length) run_bits.flags[first / ITEMS] = (FLAGS)bits[turn];
      }
      UHAL_BARRIER();
      uint32 words[PIECE / TILE];
      int32 share = 0;
      UHAL_UNROLL for (int32 k = 0; k < PIECE / TILE; ++k) {
        const INDEX first = piece + (id * (PIECE / TILE) + k) * WORD;
        words[k] = first < length ? run_bits.words[first / WORD] : 0u;
        share += count_bits(words[k]);
      }
      int32 of_piece;
      int32 at = (int32)of_run + uhal_count_before(share, shares, id, &of_piece);
      of_run += of_piece;
      if (of_run <= MOST_LISTED(RUN)) {
        UHAL_UNROLL for (int32 k = 0; k < PIECE / TILE; ++k) {
          at = list_places(words[k], listed.places, at, (int32)piece + (id * (PIECE / TILE) + k) * WORD);
        }
      }
    }
    UHAL_BARRIER();
    UHAL_GLOBAL uhal_four_uint32* to = UHAL_ADDRESS(uhal_four_uint32, flags) + run / (FOUR * WORD);
    if (of_run <= MOST_LISTED(length)) {
#if GATHER
      UHAL_GLOBAL const ELEMENT* from = UHAL_ADDRESS(const ELEMENT, data);
      GATHER_ELEMENTS(from, run, listed.places, of_run, (UHAL_GLOBAL ELEMENT*)to, 1);
#else
      for (INDEX pair = id; 2 * pair < of_run; pair += UHAL_GROUP) {
        ((UHAL_GLOBAL uint32*)to)[pair] = listed.pairs[pair];
      }
#endif
    } else {
      for (INDEX four = id; four * (FOUR * WORD) < length; four += UHAL_GROUP) to[four] = run_bits.fours[four];
    }
    if (id == 0) UHAL_ADDRESS(int32, counts)[run / TILE] = (int32)of_run;
    total += of_run;
    UHAL_BARRIER();
  }
  if (id == 0) UHAL_ADDRESS(INDEX, totals)[UHAL_GROUP_ID(0)] = total;
}

UHAL_INLINE void store_index(UHAL_GLOBAL char* to, int32 is_int64, INDEX at, INDEX index) {
  if (is_int64) {
    ((UHAL_GLOBAL int64*)to)[at] = index;
  } else {
    ((UHAL_GLOBAL int32*)to)[at] = (int32)index;
  }
}

/* How many are not 0 in the parts before `part`. All of the group call it together. */
UHAL_INLINE INDEX count_before_part(UHAL_GLOBAL const INDEX* totals, INDEX part, UHAL_LOCAL INDEX* scratch,
                                    uhal_team team) {
  INDEX before = 0;
  for (INDEX i = team.lane; i < part; i += TURNS * UHAL_GROUP) {
    UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {
      if (i + turn * UHAL_GROUP < part) before += totals[i + turn * UHAL_GROUP];
    }
  }
  return group_count(before, scratch, team);
}

/* Writes what a part leaves, after `before` ones of others. All of the group:
 * WRITE_LISTED(first, list, listed): what count_parts has listed of the run that begins at `first`, at once, since what
 * waits for memory best waits together;
 * WRITE_PLACES(first, places, listed): what belongs to first + places[0 to listed - 1], of one tile of other runs. */
#define WRITE_PART()                                                                                    \
  for (INDEX run = begin; run < end && before < room; run += RUN) {                                     \
    const INDEX of_run = counts[run / TILE];                                                            \
    if (of_run <= MOST_LISTED(WHOLE_FOURS(end - run < RUN ? end - run : RUN))) {                        \
      WRITE_LISTED(run, words + run / WORD, of_run);                                                    \
      before += of_run;                                                                                 \
    } else {                                                                                            \
      for (INDEX tile = run; tile < end && tile < run + RUN; tile += TILE) {                            \
        const uint32 bits = tile + id * WORD < end ? words[(tile + id * WORD) / WORD] : 0;              \
        int32 of_tile;                                                                                  \
        list_places(bits, found, uhal_count_before(count_bits(bits), shares, id, &of_tile), id * WORD); \
        UHAL_BARRIER();                                                                                 \
        WRITE_PLACES(tile, found, of_tile);                                                             \
        before += of_tile;                                                                              \
        UHAL_BARRIER();                                                                                 \
      }                                                                                                 \
    }                                                                                                   \
  }

#if GATHER
#define WRITE_LISTED(first, list, listed)                                                                    \
  for (INDEX e = id; e < (listed) && before + e < room; e += UHAL_GROUP) {                                   \
    UHAL_UNROLL for (int32 k = 0; k < HALVES; ++k) {                                                         \
      values[(before + e) * value_step * HALVES + k] = ((UHAL_GLOBAL const ELEMENT*)(list))[e * HALVES + k]; \
    }                                                                                                        \
  }
#else
#define WRITE_LISTED(first, list, listed) WRITE_PLACES(first, ((UHAL_GLOBAL const uint16*)(list)), listed)
#endif

#ifdef ELEMENT

#define WRITE_PLACES(first, places, listed)                                                          \
  {                                                                                                  \
    const INDEX wanted = room - before < (listed) ? room - before : (listed);                        \
    GATHER_ELEMENTS(from, first, places, wanted, values + before * value_step * HALVES, value_step); \
  }

/* The elements of x at the places that are not 0; value r goes to r * value_step, those from `room` on are not there.
 * count: nothing where it is 0. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void compact(UHAL_POINTER(flags), UHAL_POINTER(totals),
                                                           UHAL_POINTER(counts), UHAL_POINTER(count), UHAL_POINTER(x),
                                                           UHAL_POINTER(values), DataLayout layout, INDEX elements,
                                                           INDEX part_length, INDEX room, INDEX value_step,
                                                           int32 count_is_int64) {
  UHAL_LOCAL_MEMORY INDEX scratch[UHAL_GROUP];
  UHAL_LOCAL_MEMORY int32 shares[UHAL_GROUP];
  UHAL_LOCAL_MEMORY uint16 found[TILE];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  const int32 id = team.lane;
  UHAL_GLOBAL const uint32* words = UHAL_ADDRESS(const uint32, flags);
  UHAL_GLOBAL const INDEX* totals = UHAL_ADDRESS(const INDEX, totals);
  UHAL_GLOBAL const int32* counts = UHAL_ADDRESS(const int32, counts);
  UHAL_GLOBAL const ELEMENT* from = UHAL_ADDRESS(const ELEMENT, x);
  UHAL_GLOBAL ELEMENT* values = UHAL_ADDRESS(ELEMENT, values);
  UHAL_GLOBAL char* count = UHAL_ADDRESS(char, count);
  const INDEX part = UHAL_GROUP_ID(0);
  const INDEX begin = part * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;

  INDEX before = count_before_part(totals, part, scratch, team);
  if (id == 0 && part == UHAL_GROUP_COUNT(0) - 1 && count != 0) {
    store_index(count, count_is_int64, 0, before + totals[part]);
  }
  WRITE_PART();
}

#else

/* Neighbours write neighbours. */
#define WRITE_PLACES(first, places, listed)                                                           \
  for (int32 e = id; e < (listed); e += UHAL_GROUP) {                                                 \
    if (before + e >= room) continue;                                                                 \
    const INDEX to = (before + e) * row_step;                                                         \
    INDEX rest = (first) + places[e];                                                                 \
    if (coordinates.rank == 0) {                                                                      \
      store_index(indices, indices_are_int64, to, rest);                                              \
      continue;                                                                                       \
    }                                                                                                 \
    for (INDEX axis = coordinates.rank - 1; axis >= 0; --axis) {                                      \
      const INDEX length = UHAL_AT(coordinates.shape, axis);                                          \
      const INDEX quotient = axis > 0 ? rest / length : 0;                                            \
      store_index(indices, indices_are_int64, to + axis * coordinate_step, rest - quotient * length); \
      rest = quotient;                                                                                \
    }                                                                                                 \
  }

/* Row r of the indices begins at r * row_step; those from `room` on are not there. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void nonzero(UHAL_POINTER(flags), UHAL_POINTER(totals),
                                                           UHAL_POINTER(counts), UHAL_POINTER(count),
                                                           UHAL_POINTER(indices), Coordinates coordinates,
                                                           INDEX elements, INDEX part_length, INDEX room,
                                                           INDEX row_step, INDEX coordinate_step,
                                                           int32 count_is_int64, int32 indices_are_int64) {
  UHAL_LOCAL_MEMORY INDEX scratch[UHAL_GROUP];
  UHAL_LOCAL_MEMORY int32 shares[UHAL_GROUP];
  UHAL_LOCAL_MEMORY uint16 found[TILE];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  const int32 id = team.lane;
  UHAL_GLOBAL const uint32* words = UHAL_ADDRESS(const uint32, flags);
  UHAL_GLOBAL const INDEX* totals = UHAL_ADDRESS(const INDEX, totals);
  UHAL_GLOBAL const int32* counts = UHAL_ADDRESS(const int32, counts);
  UHAL_GLOBAL char* indices = UHAL_ADDRESS(char, indices);
  const INDEX part = UHAL_GROUP_ID(0);
  const INDEX begin = part * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;

  INDEX before = count_before_part(totals, part, scratch, team);
  if (id == 0 && part == UHAL_GROUP_COUNT(0) - 1) {
    store_index(UHAL_ADDRESS(char, count), count_is_int64, 0, before + totals[part]);
  }

  WRITE_PART();
}

#endif
