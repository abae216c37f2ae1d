/* nonzero: the positions of the elements that are not 0, in row-major order, and compact: the elements of another tensor
 * there (csrc/kernels/ops/nonzero.cc).
 *
 * The mask is cut into as many parts as there are work-groups. `count_parts` reads it, leaves a bit for each element and
 * counts those of each part; `nonzero` and `compact` begin each part where the parts before it end, and go through its
 * bits tile by tile. No group waits for another.
 *
 * Macros: X: the dtype of the mask, ELEMENT: of compact: a type of the size of x's elements, or of half of it where
 * HALVES is 2, ITEMS: neighbours that one work-item of count_parts looks at together: 16 of a mask of
 * bytes, else 8, DENSE: it lies in order and aligned to so many, UHAL_GROUP. */
#include "csrc/kernels/prelude/count_before.h"
#include "csrc/kernels/prelude/group.h"

/* Loads that a work-item has under way. */
#define TURNS 4

#if ITEMS == 16
#define FLAGS uint16
#else
#define FLAGS uint8
#endif

/* Elements of a word of bits: those that one work-item of nonzero looks at; and those of a group. */
#define WORD 32
#define FOUR 4
#define TILE (WORD * UHAL_GROUP)

/* Tiles of a run: whose elements, of 256 work-items, numbers of 16 bits count. */
#define RUN 8

UHAL_LAYOUT(MaskLayout, 2) /* row-major order, mask */

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
#define READ_FLAGS(x, layout, first, end, bits)                                                              \
  do {                                                                                                       \
    if ((first) + ITEMS <= (end)) {                                                                          \
      const uhal_four_uint32 words = *(UHAL_GLOBAL const uhal_four_uint32*)((x) + (first));                  \
      bits = bits_of_bytes(words.x) | bits_of_bytes(words.y) << 4;                                           \
      bits |= bits_of_bytes(words.z) << 8 | bits_of_bytes(words.w) << 12;                                    \
    } else {                                                                                                 \
      for (int32 k = 0; k < ITEMS && (first) + k < (end); ++k) {                                             \
        bits |= (uint32)(X_LOAD(x, (first) + k) != 0) << k;                                                  \
      }                                                                                                      \
    }                                                                                                        \
  } while (0)
#elif DENSE
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

/* Sums of neighbouring bits, then of pairs and of fours, side by side in one word; a product adds the bytes up. */
UHAL_INLINE int32 count_bits(uint32 bits) {
  bits -= (bits >> 1) & 0x55555555u;
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0fu;
  return (int32)((bits * 0x01010101u) >> 24);
}

/* totals[part]: how many are not 0; flags: a bit for each element, those after the last one 0. A part is `part_length`
 * elements, a multiple of TILE; `elements` in all. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void count_parts(UHAL_POINTER(mask), UHAL_POINTER(totals),
                                                               UHAL_POINTER(flags), MaskLayout layout, INDEX elements,
                                                               INDEX part_length) {
  UHAL_LOCAL_MEMORY INDEX scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, mask);
  UHAL_GLOBAL FLAGS* flags = UHAL_ADDRESS(FLAGS, flags);
  const INDEX begin = UHAL_GROUP_ID(0) * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;
  /* Whole words of bits, of which those that follow read four at once. */
  const INDEX end_of_flags = (end + FOUR * WORD - 1) / (FOUR * WORD) * (FOUR * WORD);
  INDEX count = 0;
  for (INDEX tile = begin + team.lane * ITEMS; tile < end_of_flags; tile += TURNS * ITEMS * UHAL_GROUP) {
    uint32 bits[TURNS];
    UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {
      const INDEX first = tile + turn * (ITEMS * UHAL_GROUP);
      bits[turn] = 0;
      READ_FLAGS(x, layout, first, end, bits[turn]);
    }
    UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {
      const INDEX first = tile + turn * (ITEMS * UHAL_GROUP);
      if (first < end_of_flags) flags[first / ITEMS] = (FLAGS)bits[turn];
      count += count_bits(bits[turn]);
    }
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

/* Lists a work-item's own places: those of its bits, of which the first is that of place `first`, from found[at] on.
 * Tells where the next ones go. */
UHAL_INLINE int32 list_places(uint32 bits, UHAL_LOCAL uint16* found, int32 at, int32 first) {
  for (; bits != 0; bits &= bits - 1) found[at++] = (uint16)(first + count_bits((bits & (0u - bits)) - 1u));
  return at;
}

/* bits[RUN]: a work-item's words of the run of tiles that begins at `run`. */
#define READ_RUN(run, bits)                                                                                         \
  UHAL_UNROLL for (int32 word = 0; word < RUN; word += FOUR) {                                                      \
    const INDEX at = (run) + (id * RUN + word) * WORD;                                                              \
    uhal_four_uint32 four;                                                                                          \
    four.x = four.y = four.z = four.w = 0;                                                                          \
    if (at < end) four = *(UHAL_GLOBAL const uhal_four_uint32*)(words + at / WORD);                                 \
    (bits)[word] = four.x, (bits)[word + 1] = four.y, (bits)[word + 2] = four.z, (bits)[word + 3] = four.w;         \
  }

/* Goes through a part, whose first run the work-items have read already, and calls `write` for lists of places in it that are not 0: of a run of tiles at once where those
 * are few, since what waits for memory best waits together, else of each tile. write(first, listed): all of the group,
 * for places first + found[0 to listed - 1]; the group has written `before` ones before. */
#define FOR_LISTED_PLACES(write)                                                                                    \
  for (INDEX run = begin; run < end && before < room; run += RUN * TILE) {                                          \
    int32 own = 0;                                                                                                  \
    UHAL_UNROLL for (int32 word = 0; word < RUN; ++word) own += count_bits(bits[word]);                             \
    int32 of_run;                                                                                                   \
    int32 at = uhal_count_before(own, counts, id, &of_run);                                                         \
    const int32 are_few = of_run <= TILE;                                                                           \
    if (are_few) {                                                                                                  \
      UHAL_UNROLL for (int32 word = 0; word < RUN; ++word) {                                                        \
        at = list_places(bits[word], found, at, (id * RUN + word) * WORD);                                          \
      }                                                                                                             \
    }                                                                                                               \
    UHAL_BARRIER();                                                                                                 \
    if (are_few) {                                                                                                  \
      write(run, of_run);                                                                                           \
      before += of_run;                                                                                             \
    } else {                                                                                                        \
      for (INDEX tile = run; tile < end && tile < run + RUN * TILE; tile += TILE) {                                 \
        const uint32 of_word = tile + id * WORD < end ? words[(tile + id * WORD) / WORD] : 0;                       \
        int32 of_tile;                                                                                              \
        list_places(of_word, found, uhal_count_before(count_bits(of_word), counts, id, &of_tile), id * WORD);       \
        UHAL_BARRIER();                                                                                             \
        write(tile, of_tile);                                                                                       \
        before += of_tile;                                                                                          \
        UHAL_BARRIER();                                                                                             \
      }                                                                                                             \
    }                                                                                                               \
    if (run + RUN * TILE < end) READ_RUN(run + RUN * TILE, bits);                                                   \
    UHAL_BARRIER();                                                                                                 \
  }

#ifdef ELEMENT

UHAL_LAYOUT(DataLayout, 2) /* row-major order, x */

#define WRITE_ELEMENTS(first, listed)                                                                        \
  for (int32 e = id; e < (listed); e += TURNS * UHAL_GROUP) {                                                \
    ELEMENT elements[TURNS * HALVES];                                                                        \
    UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {                                                 \
      const int32 i = e + turn * UHAL_GROUP;                                                                 \
      if (i < (listed) && before + i < room) {                                                               \
        INDEX offsets[2] = {0, 0};                                                                           \
        UHAL_ADD_OFFSETS(layout, 2, (first) + found[i], offsets);                                            \
        UHAL_UNROLL for (int32 k = 0; k < HALVES; ++k) {                                                     \
          elements[turn * HALVES + k] = from[offsets[1] * HALVES + k];                                       \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
    UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {                                                 \
      const int32 i = e + turn * UHAL_GROUP;                                                                 \
      if (i < (listed) && before + i < room) {                                                               \
        UHAL_UNROLL for (int32 k = 0; k < HALVES; ++k) {                                                     \
          values[(before + i) * value_step * HALVES + k] = elements[turn * HALVES + k];                      \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
  }

/* The elements of x at the places that are not 0; value r goes to r * value_step, those from `room` on are not there.
 * count: nothing where it is 0. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void compact(UHAL_POINTER(flags), UHAL_POINTER(totals),
                                                           UHAL_POINTER(count), UHAL_POINTER(x), UHAL_POINTER(values),
                                                           DataLayout layout, INDEX elements, INDEX part_length,
                                                           INDEX room, INDEX value_step, int32 count_is_int64) {
  UHAL_LOCAL_MEMORY INDEX scratch[UHAL_GROUP];
  UHAL_LOCAL_MEMORY int32 counts[UHAL_GROUP];
  UHAL_LOCAL_MEMORY uint16 found[TILE];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  const int32 id = team.lane;
  UHAL_GLOBAL const uint32* words = UHAL_ADDRESS(const uint32, flags);
  UHAL_GLOBAL const INDEX* totals = UHAL_ADDRESS(const INDEX, totals);
  UHAL_GLOBAL const ELEMENT* from = UHAL_ADDRESS(const ELEMENT, x);
  UHAL_GLOBAL ELEMENT* values = UHAL_ADDRESS(ELEMENT, values);
  UHAL_GLOBAL char* count = UHAL_ADDRESS(char, count);
  const INDEX part = UHAL_GROUP_ID(0);
  const INDEX begin = part * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;

  uint32 bits[RUN];
  READ_RUN(begin, bits);
  INDEX before = count_before_part(totals, part, scratch, team);
  if (id == 0 && part == UHAL_GROUP_COUNT(0) - 1 && count != 0) {
    store_index(count, count_is_int64, 0, before + totals[part]);
  }
  FOR_LISTED_PLACES(WRITE_ELEMENTS);
}

#else

/* Neighbours write neighbours. */
#define WRITE_INDICES(first, listed)                                                                          \
  for (int32 e = id; e < (listed); e += UHAL_GROUP) {                                                         \
    if (before + e >= room) continue;                                                                         \
    const INDEX to = (before + e) * row_step;                                                                 \
    INDEX rest = (first) + found[e];                                                                          \
    if (coordinates.rank == 0) {                                                                              \
      store_index(indices, indices_are_int64, to, rest);                                                      \
      continue;                                                                                               \
    }                                                                                                         \
    for (INDEX axis = coordinates.rank - 1; axis >= 0; --axis) {                                              \
      const INDEX length = UHAL_AT(coordinates.shape, axis);                                                  \
      const INDEX quotient = axis > 0 ? rest / length : 0;                                                    \
      store_index(indices, indices_are_int64, to + axis * coordinate_step, rest - quotient * length);         \
      rest = quotient;                                                                                        \
    }                                                                                                         \
  }

/* Row r of the indices begins at r * row_step; those from `room` on are not there. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void nonzero(UHAL_POINTER(flags), UHAL_POINTER(totals),
                                                           UHAL_POINTER(count), UHAL_POINTER(indices),
                                                           Coordinates coordinates, INDEX elements, INDEX part_length,
                                                           INDEX room, INDEX row_step, INDEX coordinate_step,
                                                           int32 count_is_int64, int32 indices_are_int64) {
  UHAL_LOCAL_MEMORY INDEX scratch[UHAL_GROUP];
  UHAL_LOCAL_MEMORY int32 counts[UHAL_GROUP];
  UHAL_LOCAL_MEMORY uint16 found[TILE];
  const uhal_team team = uhal_make_team(UHAL_GROUP, 1);
  const int32 id = team.lane;
  UHAL_GLOBAL const uint32* words = UHAL_ADDRESS(const uint32, flags);
  UHAL_GLOBAL const INDEX* totals = UHAL_ADDRESS(const INDEX, totals);
  UHAL_GLOBAL char* indices = UHAL_ADDRESS(char, indices);
  const INDEX part = UHAL_GROUP_ID(0);
  const INDEX begin = part * part_length;
  const INDEX end = begin + part_length < elements ? begin + part_length : elements;

  uint32 bits[RUN];
  READ_RUN(begin, bits);
  INDEX before = count_before_part(totals, part, scratch, team);
  if (id == 0 && part == UHAL_GROUP_COUNT(0) - 1) {
    store_index(UHAL_ADDRESS(char, count), count_is_int64, 0, before + totals[part]);
  }

  FOR_LISTED_PLACES(WRITE_INDICES);
}

#endif
