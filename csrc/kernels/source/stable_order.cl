/* Puts 32-bit keys in ascending order, equal ones as they came, and says where each came from (stable_order.h).
 *
 * Two ways: `rank` counts for each key those that go before it, for few keys; the passes of `radix` sort many keys by up
 * to eight of their bits at a time. In a pass each group puts its tile of keys in order in local memory, four bits at a
 * time, so that what it then writes lies together. Macros: GROUP, the size of a work-group; TILE, the keys that a group
 * moves, EACH to an item. */

#define EACH (TILE / GROUP)
#define MOST_DIGITS 256
#define LOCAL_DIGITS 16
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
  for (INDEX i = begin + item; i < end; i += GROUP) {
    uhal_local_add_int32(counts + (key[i] >> shift & (uint32)(digits - 1)), 1);
  }
  UHAL_BARRIER();
  for (INDEX digit = item; digit < digits; digit += GROUP) {
    total[digit * UHAL_GROUP_COUNT(0) + UHAL_GROUP_ID(0)] = (uint32)counts[digit];
  }
}

/* The part of the totals of each group. */
#define PART_OF_GROUP(count, length, begin, end)      \
  const INDEX begin = UHAL_GROUP_ID(0) * (length);    \
  const INDEX end = begin + (length) < (count) ? begin + (length) : (count)

/* sums[group]: of its part of the totals, which is `length` of them. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_sums(UHAL_POINTER(totals), UHAL_POINTER(sums), INDEX count,
                                                         INDEX length) {
  UHAL_LOCAL_MEMORY uint32 shares[GROUP];
  UHAL_GLOBAL const uint32* total = UHAL_ADDRESS(const uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  PART_OF_GROUP(count, length, begin, end);
  uint32 share = 0;
  for (INDEX i = begin + item; i < end; i += GROUP) share += total[i];
  const uint32 before = items_before(share, shares, item);
  if (item == GROUP - 1) UHAL_ADDRESS(uint32, sums)[UHAL_GROUP_ID(0)] = before + share;
}

/* Replaces each total by the sum of those before it; `sums` are those of the groups' parts. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_scan(UHAL_POINTER(totals), UHAL_POINTER(sums), INDEX count,
                                                         INDEX length) {
  UHAL_LOCAL_MEMORY uint32 shares[GROUP];
  UHAL_LOCAL_MEMORY uint32 parts_before[1];
  UHAL_GLOBAL uint32* total = UHAL_ADDRESS(uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  PART_OF_GROUP(count, length, begin, end);
  const INDEX each = (length + GROUP - 1) / GROUP;
  const INDEX first = begin + item * each < end ? begin + item * each : end;
  const INDEX last = first + each < end ? first + each : end;
  uint32 of_parts = 0;
  for (INDEX k = item; k < UHAL_GROUP_ID(0); k += GROUP) of_parts += UHAL_ADDRESS(const uint32, sums)[k];
  const uint32 parts = items_before(of_parts, shares, item) + of_parts;
  if (item == GROUP - 1) parts_before[0] = parts;
  uint32 sum = 0;
  for (INDEX i = first; i < last; ++i) sum += total[i];
  uint32 before = items_before(sum, shares, item) + parts_before[0];
  for (INDEX i = first; i < last; ++i) {
    const uint32 here = total[i];
    total[i] = before;
    before += here;
  }
}

/* Puts a tile in order by a digit of at most four bits, equal ones as they lie. Each item has EACH neighbours, and
 * counts its digits in a column of `counts`; the places of a digit follow those of smaller ones, and in it those of an
 * item those of the items before. */
UHAL_INLINE void sort_tile(UHAL_LOCAL uint32* keys, UHAL_LOCAL uint32* places, UHAL_LOCAL uint16* counts,
                           UHAL_LOCAL uint32* scratch, INDEX item, int32 shift, uint32 mask) {
  uint32 own_keys[EACH];
  uint32 own_places[EACH];
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    own_keys[k] = keys[AT(item * EACH + k)];
    own_places[k] = places[AT(item * EACH + k)];
  }
  UHAL_UNROLL for (int32 digit = 0; digit < LOCAL_DIGITS; ++digit) counts[HALF_AT(digit * GROUP + item)] = 0;
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) ++counts[HALF_AT((own_keys[k] >> shift & mask) * GROUP + item)];
  UHAL_BARRIER();
  uint32 sum = 0;
  UHAL_UNROLL for (int32 k = 0; k < LOCAL_DIGITS; ++k) sum += counts[HALF_AT(item * LOCAL_DIGITS + k)];
  uint32 before = items_before(sum, scratch, item);
  UHAL_UNROLL for (int32 k = 0; k < LOCAL_DIGITS; ++k) {
    const uint32 here = counts[HALF_AT(item * LOCAL_DIGITS + k)];
    counts[HALF_AT(item * LOCAL_DIGITS + k)] = (uint16)before;
    before += here;
  }
  UHAL_BARRIER();
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const uint32 at = counts[HALF_AT((own_keys[k] >> shift & mask) * GROUP + item)]++;
    keys[AT(at)] = own_keys[k];
    places[AT(at)] = own_places[k];
  }
  UHAL_BARRIER();
}

/* Moves keys, and where they came from, to their places by one digit, whose lower four bits are `low` and whose others
 * `high`, as masks. `order` is NULL in the first pass, where keys are as they came. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_move(UHAL_POINTER(keys), UHAL_POINTER(order),
                                                         UHAL_POINTER(moved_keys), UHAL_POINTER(moved_order),
                                                         UHAL_POINTER(totals), INDEX count, int32 shift, int32 low,
                                                         int32 high, int32 is_first) {
  UHAL_LOCAL_MEMORY uint32 tile_keys[AT(TILE) + 1];
  UHAL_LOCAL_MEMORY uint32 tile_places[AT(TILE) + 1];
  UHAL_LOCAL_MEMORY uint16 counts[HALF_AT(LOCAL_DIGITS * GROUP) + 2];
  UHAL_LOCAL_MEMORY uint32 scratch[GROUP];
  UHAL_LOCAL_MEMORY uint32 starts[MOST_DIGITS];
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL const uint32* origin = UHAL_ADDRESS(const uint32, order);
  UHAL_GLOBAL uint32* moved_key = UHAL_ADDRESS(uint32, moved_keys);
  UHAL_GLOBAL uint32* moved_origin = UHAL_ADDRESS(uint32, moved_order);
  UHAL_GLOBAL const uint32* total = UHAL_ADDRESS(const uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  const INDEX begin = UHAL_GROUP_ID(0) * TILE;
  const INDEX length = begin + TILE < count ? TILE : count - begin;
  /* Places without a key have the largest digit, and stay behind all keys. */
  UHAL_UNROLL for (int32 k = 0; k < EACH; ++k) {
    const INDEX i = k * GROUP + item;
    tile_keys[AT(i)] = i < length ? key[begin + i] : 0xffffffffu;
    tile_places[AT(i)] = (uint32)i;
  }
  UHAL_BARRIER();
  sort_tile(tile_keys, tile_places, counts, scratch, item, shift, (uint32)low);
  sort_tile(tile_keys, tile_places, counts, scratch, item, shift + 4, (uint32)high);
  const uint32 mask = (uint32)(low | high << 4);
  for (INDEX i = item; i < length; i += GROUP) {
    const uint32 digit = tile_keys[AT(i)] >> shift & mask;
    if (i == 0 || (tile_keys[AT(i - 1)] >> shift & mask) != digit) starts[digit] = (uint32)i;
  }
  UHAL_BARRIER();
  for (INDEX i = item; i < length; i += GROUP) {
    const uint32 digit = tile_keys[AT(i)] >> shift & mask;
    const uint32 to = total[digit * (uint32)UHAL_GROUP_COUNT(0) + (uint32)UHAL_GROUP_ID(0)] + (uint32)i - starts[digit];
    const uint32 from = (uint32)begin + tile_places[AT(i)];
    moved_key[to] = tile_keys[AT(i)];
    moved_origin[to] = is_first ? from : origin[from];
  }
}
