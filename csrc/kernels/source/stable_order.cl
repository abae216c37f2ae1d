/* Puts 32-bit keys in ascending order, equal ones as they came, and says where each came from (stable_order.h).
 *
 * Two ways: `rank` counts for each key those that go before it, for few keys; the passes of `radix` sort many keys by up
 * to nine of their bits at a time. In a pass each group puts its tile of keys in order in local memory, LOCAL_BITS at a
 * time, so that what it then writes lies together.
 *
 * Macros: UHAL_GROUP, the size of a work-group; TILE, the keys that a group moves, EACH to an item; LOCAL_BITS. */
#include "csrc/kernels/prelude/count_before.h"
#include "csrc/kernels/prelude/tile_counts.h"

#define EACH (TILE / UHAL_GROUP)
#define LOCAL_DIGITS (1 << LOCAL_BITS)
/* A key in local memory: its digit above its place in the tile. */
#define PLACE_BITS 16
#define LOCAL_DIGIT(key, shift) ((key) >> (shift) & (uint32)(LOCAL_DIGITS - 1))
/* How often an item's keys, eight at most, have each digit: COUNT_BITS of a word for each. */
#define COUNT_BITS 4
#define COUNT_MASK 15u
#if LOCAL_BITS > 3
#define COUNTS uint64
#else
#define COUNTS uint32
#endif
/* Neighbouring digits of a group of radix_scan: they lie in one sector of memory. */
#define DIGITS (UHAL_GROUP < 8 ? UHAL_GROUP : 8)
#define STRIPS (UHAL_GROUP / DIGITS)
/* Where an element of local memory is: a word is left out after 32, so that items which go through neighbours of their
 * own do not meet in a bank. Of words, and of halves of words. */
#define AT(i) ((i) + ((i) >> 5))
#define HALF_AT(i) ((i) + ((i) >> 6 << 1))

UHAL_KERNEL void rank(UHAL_POINTER(keys), UHAL_POINTER(sorted_keys), UHAL_POINTER(order), INDEX count) {
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL uint32* sorted_key = UHAL_ADDRESS(uint32, sorted_keys);
  UHAL_GLOBAL uint32* origin = UHAL_ADDRESS(uint32, order);
  UHAL_FOR_ITEMS(i, count) {
    const uint32 mine = key[i];
    INDEX before = 0;
    for (INDEX k = 0; k < i; ++k) before += key[k] <= mine;
    for (INDEX k = i + 1; k < count; ++k) before += key[k] < mine;
    sorted_key[before] = mine;
    origin[before] = (uint32)i;
  }
}

/* totals[tile][digit]: how often the digit occurs in the tile, of which each group has one. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void radix_count(UHAL_POINTER(keys), UHAL_POINTER(totals), INDEX count,
                                                               int32 shift, int32 digits) {
  UHAL_LOCAL_MEMORY int32 counts[MOST_DIGITS];
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  const INDEX begin = UHAL_GROUP_ID(0) * TILE;
  const INDEX end = begin + TILE < count ? begin + TILE : count;
  const INDEX first = begin + UHAL_LOCAL_ID(0);
  uint32 own[EACH]; /* all are under way together */
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) own[k] = first + k * UHAL_GROUP < end ? key[first + k * UHAL_GROUP] : 0u;
  begin_tile_counts(counts, digits);
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    if (first + k * UHAL_GROUP < end) uhal_local_add_int32(counts + (own[k] >> shift & (uint32)(digits - 1)), 1);
  }
  end_tile_counts(counts, digits, UHAL_ADDRESS(int32, totals));
}

/* Each group has DIGITS neighbouring digits, and of each STRIPS items, each with a strip of the tiles: replaces totals by
 * the sums of those of the tiles before, and sums[digit] is of all. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void radix_scan(UHAL_POINTER(totals), UHAL_POINTER(sums), INDEX tiles,
                                                              INDEX digits) {
  UHAL_LOCAL_MEMORY int32 of_strips[UHAL_GROUP];
  const INDEX item = UHAL_LOCAL_ID(0);
  const INDEX strip = item / DIGITS;
  const INDEX digit = UHAL_GROUP_ID(0) * DIGITS + item % DIGITS;
  const INDEX length = (tiles + STRIPS - 1) / STRIPS;
  const INDEX first = strip * length;
  const INDEX last = digit >= digits ? first : first + length < tiles ? first + length : tiles;
  UHAL_GLOBAL int32* total = UHAL_ADDRESS(int32, totals) + digit;
  int32 own = 0;
  for (INDEX begin = first; begin < last; begin += EACH) {
    UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) own += begin + k < last ? total[(begin + k) * digits] : 0;
  }
  of_strips[item] = own;
  UHAL_BARRIER();
  int32 before = 0;
  UHAL_UNROLL for (int32 other = 0; other < STRIPS - 1; ++other) {
    before += other < strip ? of_strips[other * DIGITS + item % DIGITS] : 0;
  }
  if (strip == STRIPS - 1 && digit < digits) UHAL_ADDRESS(int32, sums)[digit] = before + own;
  for (INDEX begin = first; begin < last; begin += EACH) {
    int32 values[EACH];
    UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) values[k] = begin + k < last ? total[(begin + k) * digits] : 0;
    UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
      if (begin + k < last) total[(begin + k) * digits] = before;
      before += values[k];
    }
  }
}

#ifdef UHAL_WARP

#define WARPS (UHAL_GROUP / UHAL_WARP)
/* The place in the tile of an item's k-th key: a warp has neighbours. */
#define PLACE(k) (item / UHAL_WARP * (EACH * UHAL_WARP) + (k) * UHAL_WARP + item % UHAL_WARP)
#define COUNTED (WARPS * MOST_DIGITS)

/* Puts a tile in order by its digits, equal ones as they lie. A warp sees at once which of 32 keys have the same digit, and
 * keeps how many of each it has had; then each item adds up a share of the digits over the warps. */
UHAL_INLINE void sort_tile(const uint32* own, UHAL_LOCAL uint32* tile, UHAL_LOCAL uint16* counts,
                           UHAL_LOCAL int32* scratch, INDEX item, int32 bits) {
  const INDEX digits = 1 << bits;
  for (INDEX i = item; i < WARPS * digits; i += UHAL_GROUP) counts[i] = 0;
  UHAL_BARRIER();
  UHAL_LOCAL uint16* of_warp = counts + item / UHAL_WARP * digits;
  const uint32 lanes_before = (1u << item % UHAL_WARP) - 1u;
  uint32 rank[EACH]; /* among the keys of the warp that have the digit */
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const uint32 digit = own[k] >> PLACE_BITS;
    uint32 equal = 0xffffffffu;
    UHAL_UNROLL for (int32 bit = 0; bit < MOST_DIGIT_BITS; ++bit) {
      const uint32 is_set = digit >> bit & 1u;
      equal &= uhal_ballot((int32)is_set) ^ (is_set - 1u);
    }
    const uint32 had = of_warp[digit];
    UHAL_WARP_BARRIER();
    if ((equal & lanes_before) == 0) of_warp[digit] = (uint16)(had + uhal_set_bits(equal));
    UHAL_WARP_BARRIER();
    rank[k] = had + uhal_set_bits(equal & lanes_before);
  }
  UHAL_BARRIER();
  const INDEX each = (digits + UHAL_GROUP - 1) / UHAL_GROUP;
  const INDEX first = item * each < digits ? item * each : digits;
  const INDEX last = first + each < digits ? first + each : digits;
  int32 sum = 0;
  for (INDEX digit = first; digit < last; ++digit) {
    UHAL_UNROLL for (int32 warp = 0; warp < WARPS; ++warp) sum += counts[warp * digits + digit];
  }
  int32 of_tile;
  uint32 before = (uint32)uhal_count_before(sum, scratch, (int32)item, &of_tile);
  for (INDEX digit = first; digit < last; ++digit) {
    UHAL_UNROLL for (int32 warp = 0; warp < WARPS; ++warp) {
      const uint32 here = counts[warp * digits + digit];
      counts[warp * digits + digit] = (uint16)before;
      before += here;
    }
  }
  UHAL_BARRIER();
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) tile[AT(of_warp[own[k] >> PLACE_BITS] + rank[k])] = own[k];
  UHAL_BARRIER();
}

#else

#define PLACE(k) ((k) * UHAL_GROUP + item)
#define COUNTED (HALF_AT(LOCAL_DIGITS * UHAL_GROUP) + 2)

/* Puts a tile in order by a digit of at most LOCAL_BITS, equal ones as they lie. Each item has EACH neighbours, and
 * their digits' counts are a column of `counts`; the places of a digit follow those of smaller ones, and in it those of an
 * item those of the items before. */
UHAL_INLINE void sort_tile_locally(UHAL_LOCAL uint32* tile, UHAL_LOCAL uint16* counts, UHAL_LOCAL int32* scratch,
                                   INDEX item, int32 shift) {
  uint32 own[EACH];
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) own[k] = tile[AT(item * EACH + k)];
  COUNTS counted = 0;
  uint32 earlier = 0; /* of each key: how many of the item's keys before it have its digit */
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const uint32 at = LOCAL_DIGIT(own[k], shift) * COUNT_BITS;
    earlier |= (uint32)(counted >> at & COUNT_MASK) << (k * COUNT_BITS);
    counted += (COUNTS)1 << at;
  }
  UHAL_UNROLL for (int32 digit = 0; digit < LOCAL_DIGITS; ++digit) {
    counts[HALF_AT(digit * UHAL_GROUP + item)] = (uint16)(counted >> (digit * COUNT_BITS) & COUNT_MASK);
  }
  UHAL_BARRIER();
  uint32 here[LOCAL_DIGITS];
  int32 sum = 0;
  UHAL_UNROLL for (int32 k = 0; k < LOCAL_DIGITS; ++k) {
    here[k] = counts[HALF_AT(item * LOCAL_DIGITS + k)];
    sum += (int32)here[k];
  }
  int32 of_tile;
  uint32 before = (uint32)uhal_count_before(sum, scratch, (int32)item, &of_tile);
  UHAL_UNROLL for (int32 k = 0; k < LOCAL_DIGITS; ++k) {
    counts[HALF_AT(item * LOCAL_DIGITS + k)] = (uint16)before;
    before += here[k];
  }
  UHAL_BARRIER();
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const uint32 first = counts[HALF_AT(LOCAL_DIGIT(own[k], shift) * UHAL_GROUP + item)];
    tile[AT(first + (earlier >> (k * COUNT_BITS) & COUNT_MASK))] = own[k];
  }
  UHAL_BARRIER();
}

/* The same by digits of `bits`. */
UHAL_INLINE void sort_tile(const uint32* own, UHAL_LOCAL uint32* tile, UHAL_LOCAL uint16* counts,
                           UHAL_LOCAL int32* scratch, INDEX item, int32 bits) {
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) tile[AT(PLACE(k))] = own[k];
  UHAL_BARRIER();
  for (int32 sorted = 0; sorted < bits; sorted += LOCAL_BITS) {
    sort_tile_locally(tile, counts, scratch, item, PLACE_BITS + sorted);
  }
}

#endif

/* Moves keys, and where they came from, to their places by one digit of `bits`. `order` is NULL in the first pass,
 * where keys are as they came. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void radix_move(UHAL_POINTER(keys), UHAL_POINTER(order),
                                                              UHAL_POINTER(moved_keys), UHAL_POINTER(moved_order),
                                                              UHAL_POINTER(totals), UHAL_POINTER(sums), INDEX count,
                                                              int32 shift, int32 bits, int32 is_first) {
  UHAL_LOCAL_MEMORY uint32 tile[AT(TILE) + 1];
  UHAL_LOCAL_MEMORY uint16 counts[COUNTED];
  UHAL_LOCAL_MEMORY int32 scratch[UHAL_GROUP];
  UHAL_LOCAL_MEMORY uint32 starts[MOST_DIGITS];
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL const uint32* origin = UHAL_ADDRESS(const uint32, order);
  UHAL_GLOBAL uint32* moved_key = UHAL_ADDRESS(uint32, moved_keys);
  UHAL_GLOBAL uint32* moved_origin = UHAL_ADDRESS(uint32, moved_order);
  UHAL_GLOBAL const uint32* total = UHAL_ADDRESS(const uint32, totals);
  UHAL_GLOBAL const uint32* sum = UHAL_ADDRESS(const uint32, sums);
  const INDEX item = UHAL_LOCAL_ID(0);
  const INDEX begin = UHAL_GROUP_ID(0) * TILE;
  const INDEX length = begin + TILE < count ? TILE : count - begin;
  const INDEX digits = 1 << bits;
  const uint32 mask = (uint32)digits - 1u;
  /* Places without a key have the largest digit, and stay behind all keys. */
  uint32 own[EACH];
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = PLACE(k);
    const uint32 digit = i < length ? key[begin + i] >> shift & mask : mask;
    own[k] = digit << PLACE_BITS | (uint32)i;
  }
  /* Where the keys of each digit begin that are of this tile. */
  const INDEX each = (digits + UHAL_GROUP - 1) / UHAL_GROUP;
  const INDEX first = item * each < digits ? item * each : digits;
  const INDEX last = first + each < digits ? first + each : digits;
  uint32 share = 0;
  for (INDEX digit = first; digit < last; ++digit) {
    share += sum[digit];
    starts[digit] = total[UHAL_GROUP_ID(0) * digits + digit];
  }
  int32 of_all;
  uint32 before = (uint32)uhal_count_before((int32)share, scratch, (int32)item, &of_all);
  for (INDEX digit = first; digit < last; ++digit) {
    starts[digit] += before;
    before += sum[digit];
  }
  UHAL_BARRIER();
  sort_tile(own, tile, counts, scratch, item, bits);
  for (INDEX i = item; i < length; i += UHAL_GROUP) {
    const uint32 digit = tile[AT(i)] >> PLACE_BITS;
    if (i == 0 || tile[AT(i - 1)] >> PLACE_BITS != digit) starts[digit] -= (uint32)i;
  }
  UHAL_BARRIER();
  uint32 from[EACH];
  uint32 moved[EACH];
  uint32 moved_from[EACH];
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = k * UHAL_GROUP + item;
    from[k] = (uint32)begin + (i < length ? tile[AT(i)] & ((1u << PLACE_BITS) - 1u) : 0u);
    moved[k] = key[from[k]];
    moved_from[k] = is_first ? from[k] : origin[from[k]];
  }
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = k * UHAL_GROUP + item;
    if (i < length) {
      const uint32 to = starts[tile[AT(i)] >> PLACE_BITS] + (uint32)i;
      moved_key[to] = moved[k];
      moved_origin[to] = moved_from[k];
    }
  }
}
