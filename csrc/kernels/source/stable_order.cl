/* Puts 32-bit keys in ascending order, equal ones as they came, and says where each came from (stable_order.h).
 *
 * Two ways: `rank` counts for each key those that go before it, for few keys; the passes of `radix` sort many keys by up
 * to nine of their bits at a time. In a pass each group puts its tile of keys in order in local memory, LOCAL_BITS at a
 * time, so that what it then writes lies together. Macros: GROUP, the size of a work-group; TILE, the keys that a group
 * moves, EACH to an item; LOCAL_BITS. */

#define EACH (TILE / GROUP)
#define MOST_DIGITS 512
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
/* Items whose values one item adds up by itself. */
#define BLOCK 16
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

/* The sum of the values of the items before this one, in two levels. All items call it together. */
UHAL_INLINE uint32 items_before(uint32 own, UHAL_LOCAL uint32* scratch, INDEX item) {
  const INDEX block = item / BLOCK;
  scratch[item] = own;
  UHAL_BARRIER();
  uint32 in_block = 0;
  for (INDEX k = block * BLOCK; k < item; ++k) in_block += scratch[k];
  UHAL_BARRIER();
  if (item % BLOCK == BLOCK - 1) scratch[block] = in_block + own;
  UHAL_BARRIER();
  uint32 blocks = 0;
  for (INDEX k = 0; k < block; ++k) blocks += scratch[k];
  UHAL_BARRIER();
  return blocks + in_block;
}

/* How often each digit occurs in the tile of each group: totals[digit][group]. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_count(UHAL_POINTER(keys), UHAL_POINTER(totals), INDEX count,
                                                          int32 shift, int32 digits) {
  UHAL_LOCAL_MEMORY int32 counts[MOST_DIGITS];
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL uint32* total = UHAL_ADDRESS(uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  for (INDEX digit = item; digit < digits; digit += GROUP) counts[digit] = 0;
  UHAL_BARRIER();
  const INDEX begin = UHAL_GROUP_ID(0) * TILE;
  const INDEX end = begin + TILE < count ? begin + TILE : count;
  uint32 own[EACH]; /* all are under way together */
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = begin + k * GROUP + item;
    own[k] = i < end ? key[i] : 0u;
  }
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    if (begin + k * GROUP + item < end) uhal_local_add_int32(counts + (own[k] >> shift & (uint32)(digits - 1)), 1);
  }
  UHAL_BARRIER();
  for (INDEX digit = item; digit < digits; digit += GROUP) {
    total[digit * UHAL_GROUP_COUNT(0) + UHAL_GROUP_ID(0)] = (uint32)counts[digit];
  }
}

/* For each digit one group: replaces its totals by the sums of those of the tiles before, and sums[digit] is of all. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_scan(UHAL_POINTER(totals), UHAL_POINTER(sums), INDEX tiles) {
  UHAL_LOCAL_MEMORY uint32 scratch[GROUP];
  UHAL_LOCAL_MEMORY uint32 through[1];
  const INDEX digit = UHAL_GROUP_ID(0);
  UHAL_GLOBAL uint32* total = UHAL_ADDRESS(uint32, totals) + digit * tiles;
  const INDEX item = UHAL_LOCAL_ID(0);
  uint32 before = 0;
  for (INDEX begin = 0; begin < tiles; begin += GROUP) {
    const INDEX i = begin + item;
    const uint32 own = i < tiles ? total[i] : 0u;
    const uint32 sum = before + items_before(own, scratch, item);
    if (i < tiles) total[i] = sum;
    if (item == GROUP - 1) through[0] = sum + own;
    UHAL_BARRIER();
    before = through[0];
  }
  if (item == 0) UHAL_ADDRESS(uint32, sums)[digit] = before;
}

/* Puts a tile in order by a digit of at most LOCAL_BITS, equal ones as they lie. Each item has EACH neighbours, and
 * their digits' counts are a column of `counts`; the places of a digit follow those of smaller ones, and in it those of an
 * item those of the items before. */
UHAL_INLINE void sort_tile(UHAL_LOCAL uint32* tile, UHAL_LOCAL uint16* counts, UHAL_LOCAL uint32* scratch, INDEX item,
                           int32 shift) {
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
    counts[HALF_AT(digit * GROUP + item)] = (uint16)(counted >> (digit * COUNT_BITS) & COUNT_MASK);
  }
  UHAL_BARRIER();
  uint32 here[LOCAL_DIGITS];
  uint32 sum = 0;
  UHAL_UNROLL for (int32 k = 0; k < LOCAL_DIGITS; ++k) {
    here[k] = counts[HALF_AT(item * LOCAL_DIGITS + k)];
    sum += here[k];
  }
  uint32 before = items_before(sum, scratch, item);
  UHAL_UNROLL for (int32 k = 0; k < LOCAL_DIGITS; ++k) {
    counts[HALF_AT(item * LOCAL_DIGITS + k)] = (uint16)before;
    before += here[k];
  }
  UHAL_BARRIER();
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const uint32 first = counts[HALF_AT(LOCAL_DIGIT(own[k], shift) * GROUP + item)];
    tile[AT(first + (earlier >> (k * COUNT_BITS) & COUNT_MASK))] = own[k];
  }
  UHAL_BARRIER();
}

/* Moves keys, and where they came from, to their places by one digit of `bits`. `order` is NULL in the first pass,
 * where keys are as they came. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_move(UHAL_POINTER(keys), UHAL_POINTER(order),
                                                         UHAL_POINTER(moved_keys), UHAL_POINTER(moved_order),
                                                         UHAL_POINTER(totals), UHAL_POINTER(sums), INDEX count,
                                                         int32 shift, int32 bits, int32 is_first) {
  UHAL_LOCAL_MEMORY uint32 tile[AT(TILE) + 1];
  UHAL_LOCAL_MEMORY uint16 counts[HALF_AT(LOCAL_DIGITS * GROUP) + 2];
  UHAL_LOCAL_MEMORY uint32 scratch[GROUP];
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
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = k * GROUP + item;
    const uint32 digit = i < length ? key[begin + i] >> shift & mask : mask;
    tile[AT(i)] = digit << PLACE_BITS | (uint32)i;
  }
  /* Where the keys of each digit begin that are of this tile. */
  const INDEX each = (digits + GROUP - 1) / GROUP;
  const INDEX first = item * each < digits ? item * each : digits;
  const INDEX last = first + each < digits ? first + each : digits;
  uint32 own = 0;
  for (INDEX digit = first; digit < last; ++digit) {
    own += sum[digit];
    starts[digit] = total[digit * UHAL_GROUP_COUNT(0) + UHAL_GROUP_ID(0)];
  }
  uint32 before = items_before(own, scratch, item);
  for (INDEX digit = first; digit < last; ++digit) {
    starts[digit] += before;
    before += sum[digit];
  }
  UHAL_BARRIER();
  for (int32 sorted = 0; sorted < bits; sorted += LOCAL_BITS) {
    sort_tile(tile, counts, scratch, item, PLACE_BITS + sorted);
  }
  for (INDEX i = item; i < length; i += GROUP) {
    const uint32 digit = tile[AT(i)] >> PLACE_BITS;
    if (i == 0 || tile[AT(i - 1)] >> PLACE_BITS != digit) starts[digit] -= (uint32)i;
  }
  UHAL_BARRIER();
  uint32 from[EACH];
  uint32 moved[EACH];
  uint32 moved_from[EACH];
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = k * GROUP + item;
    from[k] = (uint32)begin + (i < length ? tile[AT(i)] & ((1u << PLACE_BITS) - 1u) : 0u);
    moved[k] = key[from[k]];
    moved_from[k] = is_first ? from[k] : origin[from[k]];
  }
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = k * GROUP + item;
    if (i < length) {
      const uint32 to = starts[tile[AT(i)] >> PLACE_BITS] + (uint32)i;
      moved_key[to] = moved[k];
      moved_origin[to] = moved_from[k];
    }
  }
}
