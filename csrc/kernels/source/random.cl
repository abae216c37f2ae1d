/* Random numbers and dropout (csrc/kernels/ops/random.cc): Philox4x32-10 (Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3"). Words are used, and turned into numbers, as TensorFlow does.
 *
 * Macros: UHAL_WIDE_INDEX, UHAL_RANK; dtype Y; WIDE, whether a number takes two words; TURN, whether the counter moves by
 * a number in memory; DENSE, whether the views lie in row-major order, aligned to four elements, and WIDE is 0; for
 * dropout dtype X and DROPOUT, else DISTRIBUTION, a uhal_distribution, and FRACTION_BITS, those of a word that make a
 * uniform number. */

/* A product and a sum each round, so that all devices give the same numbers. */
UHAL_NO_CONTRACTION

#if WIDE
#define NUMBERS 2 /* of a block */
#else
#define NUMBERS 4
#endif

#if TURN
#define TURN_POINTER UHAL_POINTER(turn),
#define COUNTER_HIGH (counter_high + (uint64)UHAL_ADDRESS(const int64, turn)[0])
#else
#define TURN_POINTER
#define COUNTER_HIGH counter_high
#endif

/* The words of the block that lies `skipped` after a 128-bit counter. */
UHAL_INLINE void draw_words(uint64 key, uint64 counter_low, uint64 counter_high, uint64 skipped, uint32* words) {
  const uint64 low = counter_low + skipped;
  const uint64 high = counter_high + (low < skipped ? 1 : 0);
  uint32 c0 = (uint32)low, c1 = (uint32)(low >> 32), c2 = (uint32)high, c3 = (uint32)(high >> 32);
  uint32 key0 = (uint32)key, key1 = (uint32)(key >> 32);
  for (int32 round = 0; round < 10; ++round) {
    const uint64 product0 = (uint64)0xD2511F53u * c0;
    const uint64 product1 = (uint64)0xCD9E8D57u * c2;
    c0 = (uint32)(product1 >> 32) ^ c1 ^ key0;
    c1 = (uint32)product1;
    c2 = (uint32)(product0 >> 32) ^ c3 ^ key1;
    c3 = (uint32)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

/* The bits of uniform number k of a block. */
UHAL_INLINE uint64 fraction_of(const uint32* words, int32 k, int32 bits) {
#if WIDE
  return (uint64)(words[2 * k] & 0xfffffu) << 32 | words[2 * k + 1];
#else
  return words[k] & (((uint32)1 << bits) - 1);
#endif
}

#if DROPOUT

UHAL_LAYOUT(DropoutLayout, 4) /* row-major order, y, x, mask */

/* Numbers below `threshold`, in units of the last bit of a fraction, are dropped; the others multiplied by `scale`. */
UHAL_KERNEL void dropout(UHAL_POINTER(y), UHAL_POINTER(x), UHAL_POINTER(mask), INDEX count, TURN_POINTER uint64 key,
                         uint64 counter_low, uint64 counter_high, uint64 threshold, T scale, DropoutLayout layout) {
  const uint64 high = COUNTER_HIGH;
  UHAL_GLOBAL Y_STORAGE* to = UHAL_ADDRESS(Y_STORAGE, y);
  UHAL_GLOBAL const X_STORAGE* from = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL uint8* flags = UHAL_ADDRESS(uint8, mask);
  const INDEX blocks = (count + NUMBERS - 1) / NUMBERS;
  UHAL_FOR_ITEMS(block, blocks) {
    uint32 words[4];
    draw_words(key, counter_low, high, (uint64)block, words);
#if DENSE
    const INDEX first = block * NUMBERS;
    if (first + NUMBERS <= count) {
      T values[NUMBERS];
      X_LOAD4(from, first, values);
      uint8 kept[NUMBERS];
      UHAL_UNROLL for (int32 k = 0; k < NUMBERS; ++k) {
        kept[k] = fraction_of(words, k, 23) >= threshold;
        values[k] = kept[k] ? values[k] * scale : 0;
      }
      Y_STORE4(to, first, values);
      uhal_four_uint8 four;
      four.x = kept[0], four.y = kept[1], four.z = kept[2], four.w = kept[3];
      *(UHAL_GLOBAL uhal_four_uint8*)(flags + first) = four;
    } else
#endif
    for (int32 k = 0; k < NUMBERS && block * NUMBERS + k < count; ++k) {
      INDEX offsets[4] = {0, 0, 0, 0};
      UHAL_ADD_OFFSETS(layout, 4, block * NUMBERS + k, offsets);
      const int32 kept = fraction_of(words, k, 23) >= threshold;
      const T value = kept ? X_LOAD(from, offsets[2]) * scale : 0;
      Y_STORE(to, offsets[1], value);
      flags[offsets[3]] = (uint8)kept;
    }
  }
}

#else

UHAL_LAYOUT(RandomLayout, 2) /* row-major order, y */

#if UHAL_IS_FLOATING

/* In [0, 1). Exact. */
UHAL_INLINE T unit(const uint32* words, int32 k) {
  return (T)fraction_of(words, k, FRACTION_BITS) * ((T)1 / (T)((uint64)1 << FRACTION_BITS));
}

/* Box and Muller's transform of uniform numbers k and k + 1 into two normal ones. 1e-7 keeps the logarithm finite. */
UHAL_INLINE void normal_pair(const uint32* words, int32 k, T* values) {
  const T first = unit(words, k);
  const T second = unit(words, k + 1);
  const T radius = sqrt(C(-2) * log(first < C(1.0e-7) ? C(1.0e-7) : first));
#if WIDE
  const T angle = C(6.283185307179586) * second;
#else
  /* 2 pi in two parts: the angle is the exact product, rounded once, as TensorFlow computes it in double. */
  const T angle = fma(C(6.2831855), second, C(-1.7484556e-7) * second);
#endif
  values[k] = sin(angle) * radius;
  values[k + 1] = cos(angle) * radius;
}

#endif

/* Blocks set aside for the numbers of one block, where they may be redrawn, so that blocks can be drawn apart. */
#define RESERVED_BLOCKS (NUMBERS * 64)

/* `first` and `second`: of integers the lowest and how many there are; of Bernoulli's trials the probability in units of
 * the last bit of a fraction. `a` and `b`: as uniform numbers, the lowest and the range; of normal ones, mean and
 * standard deviation. */
UHAL_KERNEL void draw(UHAL_POINTER(y), INDEX count, TURN_POINTER uint64 key, uint64 counter_low, uint64 counter_high,
                      uint64 first, uint64 second, T a, T b, RandomLayout layout) {
  const uint64 high = COUNTER_HIGH;
  UHAL_GLOBAL Y_STORAGE* to = UHAL_ADDRESS(Y_STORAGE, y);
  const INDEX blocks = (count + NUMBERS - 1) / NUMBERS;
  UHAL_FOR_ITEMS(block, blocks) {
    uint32 words[4];
    T values[NUMBERS];
#if DISTRIBUTION == 2
    int32 filled = 0;
    for (uint64 again = 0; filled < NUMBERS; ++again) {
      T drawn[NUMBERS];
      draw_words(key, counter_low, high, (uint64)block * RESERVED_BLOCKS + again, words);
      for (int32 k = 0; k < NUMBERS; k += 2) normal_pair(words, k, drawn);
      for (int32 k = 0; k < NUMBERS; ++k) {
        if (fabs(drawn[k]) < 2 && filled < NUMBERS) values[filled++] = drawn[k] * b + a;
      }
    }
#else
    draw_words(key, counter_low, high, (uint64)block, words);
#if DISTRIBUTION == 3
    for (int32 k = 0; k < NUMBERS; ++k) values[k] = fraction_of(words, k, FRACTION_BITS) < first ? 1 : 0;
#elif !UHAL_IS_FLOATING
    for (int32 k = 0; k < NUMBERS; ++k) {
#if WIDE
      values[k] = words[2 * k] | (uint64)words[2 * k + 1] << 32;
#else
      values[k] = words[k];
#endif
#if DISTRIBUTION == 0
      values[k] = first + (second == 0 ? 0 : values[k] % second);
#endif
    }
#elif DISTRIBUTION == 1
    for (int32 k = 0; k < NUMBERS; k += 2) normal_pair(words, k, values);
    for (int32 k = 0; k < NUMBERS; ++k) values[k] = values[k] * b + a;
#else
    for (int32 k = 0; k < NUMBERS; ++k) values[k] = unit(words, k) * b + a;
#endif
#endif
#if DENSE
    if ((block + 1) * NUMBERS <= count) {
      Y_STORE4(to, block * NUMBERS, values);
    } else
#endif
    for (int32 k = 0; k < NUMBERS && block * NUMBERS + k < count; ++k) {
      INDEX offsets[2] = {0, 0};
      UHAL_ADD_OFFSETS(layout, 2, block * NUMBERS + k, offsets);
      Y_STORE(to, offsets[1], values[k]);
    }
  }
}

#endif
