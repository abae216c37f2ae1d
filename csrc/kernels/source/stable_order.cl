/* Puts 32-bit keys in ascending order, equal ones as they came, and says where each came from (stable_order.h).
 *
 * Two ways: `rank` counts for each key those that go before it, for few keys; the three passes of `radix` sort many
 * keys by four of their bits at a time. Macros: GROUP, the size of a work-group; TILE, the keys that a group moves. */

/* Keys `first` to `last`-1 of the tile of this work-item, which follow each other. */
#define KEYS_OF_ITEM(count, first, last)                                                   \
  const INDEX first = UHAL_GROUP_ID(0) * TILE + UHAL_LOCAL_ID(0) * (TILE / GROUP);         \
  const INDEX last = first + TILE / GROUP < (count) ? first + TILE / GROUP : (count)

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

/* How often each of the 16 digits occurs in the tile of each group: totals[digit][group]. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_count(UHAL_POINTER(keys), UHAL_POINTER(totals), INDEX count,
                                                          int32 shift) {
  UHAL_LOCAL_MEMORY uint32 counts[16][GROUP];
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL uint32* total = UHAL_ADDRESS(uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  for (int32 digit = 0; digit < 16; ++digit) counts[digit][item] = 0;
  KEYS_OF_ITEM(count, first, last);
  for (INDEX i = first; i < last; ++i) ++counts[key[i] >> shift & 15][item];
  UHAL_BARRIER();
  for (INDEX digit = item; digit < 16; digit += GROUP) {
    uint32 sum = 0;
    for (INDEX k = 0; k < GROUP; ++k) sum += counts[digit][k];
    total[digit * UHAL_GROUP_COUNT(0) + UHAL_GROUP_ID(0)] = sum;
  }
}

/* Replaces each total by the sum of those before it. One group. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_scan(UHAL_POINTER(totals), INDEX count) {
  UHAL_LOCAL_MEMORY uint32 sums[GROUP];
  UHAL_GLOBAL uint32* total = UHAL_ADDRESS(uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  const INDEX length = (count + GROUP - 1) / GROUP;
  const INDEX first = item * length < count ? item * length : count;
  const INDEX last = first + length < count ? first + length : count;
  uint32 sum = 0;
  for (INDEX i = first; i < last; ++i) sum += total[i];
  sums[item] = sum;
  UHAL_BARRIER();
  uint32 before = 0;
  for (INDEX k = 0; k < item; ++k) before += sums[k];
  for (INDEX i = first; i < last; ++i) {
    const uint32 here = total[i];
    total[i] = before;
    before += here;
  }
}

/* Moves keys, and where they came from, to their places by one digit. `order` is NULL in the first pass, where keys
 * are as they came. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_move(UHAL_POINTER(keys), UHAL_POINTER(order),
                                                         UHAL_POINTER(moved_keys), UHAL_POINTER(moved_order),
                                                         UHAL_POINTER(totals), INDEX count, int32 shift,
                                                         int32 is_first) {
  UHAL_LOCAL_MEMORY uint32 places[16][GROUP];
  UHAL_GLOBAL const uint32* key = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL const uint32* origin = UHAL_ADDRESS(const uint32, order);
  UHAL_GLOBAL uint32* moved_key = UHAL_ADDRESS(uint32, moved_keys);
  UHAL_GLOBAL uint32* moved_origin = UHAL_ADDRESS(uint32, moved_order);
  UHAL_GLOBAL const uint32* total = UHAL_ADDRESS(const uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  for (int32 digit = 0; digit < 16; ++digit) places[digit][item] = 0;
  KEYS_OF_ITEM(count, first, last);
  for (INDEX i = first; i < last; ++i) ++places[key[i] >> shift & 15][item];
  UHAL_BARRIER();
  /* The first place of each digit of each item: after the items before it, in the group's part of the digit's. */
  for (INDEX digit = item; digit < 16; digit += GROUP) {
    uint32 before = total[digit * UHAL_GROUP_COUNT(0) + UHAL_GROUP_ID(0)];
    for (INDEX k = 0; k < GROUP; ++k) {
      const uint32 here = places[digit][k];
      places[digit][k] = before;
      before += here;
    }
  }
  UHAL_BARRIER();
  for (INDEX i = first; i < last; ++i) {
    const uint32 place = places[key[i] >> shift & 15][item]++;
    moved_key[place] = key[i];
    moved_origin[place] = is_first ? (uint32)i : origin[i];
  }
}
