/* Puts 32-bit keys in ascending order, equal ones as they came, and says where each came from (stable_order.h).
 *
 * Two ways: `rank` counts for each key those that go before it, for few keys; the passes of `radix` sort many
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
  shares[item] = share;
  UHAL_BARRIER();
  if (item != 0) return;
  uint32 sum = 0;
  for (INDEX k = 0; k < GROUP; ++k) sum += shares[k];
  UHAL_ADDRESS(uint32, sums)[UHAL_GROUP_ID(0)] = sum;
}

/* Replaces each total by the sum of those before it; `sums` are those of the groups' parts. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void radix_scan(UHAL_POINTER(totals), UHAL_POINTER(sums), INDEX count,
                                                         INDEX length) {
  UHAL_LOCAL_MEMORY uint32 shares[GROUP];
  UHAL_LOCAL_MEMORY uint32 shares_before[GROUP];
  UHAL_GLOBAL uint32* total = UHAL_ADDRESS(uint32, totals);
  const INDEX item = UHAL_LOCAL_ID(0);
  PART_OF_GROUP(count, length, begin, end);
  const INDEX each = (length + GROUP - 1) / GROUP;
  const INDEX first = begin + item * each < end ? begin + item * each : end;
  const INDEX last = first + each < end ? first + each : end;
  uint32 sum = 0;
  for (INDEX i = first; i < last; ++i) sum += total[i];
  shares[item] = sum;
  sum = 0;
  for (INDEX k = item; k < UHAL_GROUP_ID(0); k += GROUP) sum += UHAL_ADDRESS(const uint32, sums)[k];
  shares_before[item] = sum;
  UHAL_BARRIER();
  uint32 before = 0;
  for (INDEX k = 0; k < GROUP; ++k) before += shares_before[k];
  for (INDEX k = 0; k < item; ++k) before += shares[k];
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
