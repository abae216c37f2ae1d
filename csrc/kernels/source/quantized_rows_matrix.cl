/* Up to 8 rows times weights of few bits that lie along k, on matrix cores: what quantized_rows.cl does, where 16-bit rows
 * meet an instruction of 16 channels by 16 terms by 8 rows (form 1 of prelude/matrix_product.h). A work-group takes 16
 * channels; its warps walk along k, 16 bytes of a channel a lane at a time, and add their shares at the end.
 *
 * Weights become factors by a mask alone. As bits of a float16, a whole number n below 2^10 is n 2^-24, exactly; above the
 * upper bits of 2^7, a bfloat16's, it is 2^7 + n. The factors' common power and the zero points leave the sums: of weights
 * w, zero point z and numbers a it is (sum of w a) - z (sum of a), where the latter is the product with ones.
 *
 * The order of terms is free, as long as weights and rows agree on it. With n for the number of weights in a word: four
 * neighbouring lanes hold 4 n neighbouring terms each (a block is as long as a step), or they exchange words until each
 * holds n of each of four neighbouring sets of 4 n (BY_SETS, of shorter blocks).
 *
 * Macros: dtypes A (float16 or bfloat16), C (float32 where there is none), D, S, Z; BITS (8 of float16 only), IS_SIGNED,
 * ZEROS: as of quantized_rows.cl; WARPS; BY_SETS; SETS (of a scale); UHAL_ACTIVATION. */
#define UHAL_PRODUCT_DTYPE A_DTYPE
#include "csrc/kernels/prelude/map_functions.h"
#include "csrc/kernels/prelude/matrix_product.h"
#include "csrc/kernels/source/quantized_rows.h"

#define CHANNELS 16
#define ROWS 8
#define WORD_WEIGHTS (32 / BITS)
#define SET_WEIGHTS (4 * WORD_WEIGHTS)
#define STEP_WEIGHTS (4 * SET_WEIGHTS)

#if UHAL_PRODUCT_DTYPE == 11
#define FACTOR_OF(bits) (((bits)&0x000f000fu) | 0x43004300u)
#define FACTOR_BIAS 128.0f /* of each factor */
#define EVEN_SCALE 1.0f
#define ODD_SCALE 1.0f
#define ONES 0x3f803f80u
#else
#if BITS == 4
#define FACTOR_OF(bits) ((bits)&0x000f000fu)
#else
#define FACTOR_OF(bits) ((bits)&0x00ff00ffu)
#endif
#define FACTOR_BIAS 0.0f
#define EVEN_SCALE 16777216.0f
#define ODD_SCALE 1048576.0f
#define ONES 0x3c003c00u
#endif

/* Words of lanes that differ in the bits of `distance`. */
UHAL_INLINE uint32 word_across(uint32 word, int32 distance) {
  return uhal_bits_of_float(uhal_of_lane_across(uhal_float_of_bits(word), distance));
}

/* Of four neighbouring lanes, word j of lane i for word i of lane j. */
UHAL_INLINE void exchange(uint32* words, int32 quarter) {
  UHAL_UNROLL for (int32 distance = 1; distance < 4; distance *= 2) {
    const int32 upper = (quarter & distance) != 0;
    UHAL_UNROLL for (int32 j = 0; j < 4; ++j) {
      if ((j & distance) != 0) continue;
      const uint32 received = word_across(upper ? words[j] : words[j + distance], distance);
      if (upper) {
        words[j] = received;
      } else {
        words[j + distance] = received;
      }
    }
  }
}

/* The lower halves of two words, and the upper ones. */
UHAL_INLINE uint32 lower_halves(uint32 first, uint32 second) { return (first & 0xffffu) | second << 16; }
UHAL_INLINE uint32 upper_halves(uint32 first, uint32 second) { return first >> 16 | (second & 0xffff0000u); }

/* sums[2 * i + e] += over the terms of a word of channel lane / 4 + 8 * i, times row lane % 4 * 2 + e. Of 4 bits, terms of
 * odd numbers are summed apart: their factors are 16 times as large. */
UHAL_INLINE void add_words(float* even, float* odd, float* ones, const uint32* words, const uint32* terms) {
  uhal_left left, one;
  UHAL_UNROLL for (int32 i = 0; i < 4; ++i) one.pairs[i] = ONES;
#if BITS == 4
  const uint32 first = lower_halves(terms[0], terms[2]), second = lower_halves(terms[1], terms[3]);
  const uint32 third = upper_halves(terms[0], terms[2]), fourth = upper_halves(terms[1], terms[3]);
  UHAL_UNROLL for (int32 i = 0; i < 2; ++i) {
    left.pairs[i] = FACTOR_OF(words[i]);
    left.pairs[i + 2] = FACTOR_OF(words[i] >> 8);
  }
  uhal_multiply_half(even, &left, first, second);
  uhal_multiply_half(ones, &one, first, second);
  UHAL_UNROLL for (int32 i = 0; i < 2; ++i) {
#if UHAL_PRODUCT_DTYPE == 11
    left.pairs[i] = FACTOR_OF(words[i] >> 4);
    left.pairs[i + 2] = FACTOR_OF(words[i] >> 12);
#else
    left.pairs[i] = words[i] & 0x00f000f0u;
    left.pairs[i + 2] = words[i] >> 8 & 0x00f000f0u;
#endif
  }
  uhal_multiply_half(odd, &left, third, fourth);
  uhal_multiply_half(ones, &one, third, fourth);
#else
  const uint32 first = lower_halves(terms[0], terms[1]), second = upper_halves(terms[0], terms[1]);
  UHAL_UNROLL for (int32 i = 0; i < 2; ++i) {
    left.pairs[i] = FACTOR_OF(words[i]);
    left.pairs[i + 2] = FACTOR_OF(words[i] >> 8);
  }
  uhal_multiply_half(even, &left, first, second);
  uhal_multiply_half(ones, &one, first, second);
#endif
}

/* Sixteen bytes of two channels; any, beyond the end of k, where the rows' terms are 0. */
#define LOAD_STEP(step)                                                                                              \
  UHAL_UNROLL for (int32 i = 0; i < 2; ++i) {                                                                        \
    const INDEX uhal_byte = ((INDEX)(step)*4 + quarter) * 16;                                                        \
    next[i] = *(UHAL_GLOBAL const uhal_four_uint32*)(weights + channels[i] * shape.b_column +                        \
                                                     (uhal_byte * (8 / BITS) < shape.k ? uhal_byte : (INDEX)0));     \
  }

UHAL_KERNEL UHAL_GROUP_SIZE(WARPS* UHAL_LANES, 1, 1) void quantized_rows_matrix(
    UHAL_POINTER(a), UHAL_POINTER(b), UHAL_POINTER(scales), UHAL_POINTER(zeros), UHAL_POINTER(c), UHAL_POINTER(d),
    QUANTIZED_SHAPE shape, T zero_point, int32 block_shift, int32 rows, int32 has_c) {
  UHAL_LOCAL_MEMORY float shares[WARPS][ROWS * CHANNELS];
  const int32 id = (int32)UHAL_LOCAL_ID(0);
  const int32 warp = id / UHAL_LANES;
  const int32 lane = id % UHAL_LANES;
  const int32 quarter = lane % 4;
  const INDEX first_channel = UHAL_GROUP_ID(0) * CHANNELS;
  UHAL_GLOBAL const A_STORAGE* activations = UHAL_ADDRESS(const A_STORAGE, a) + lane / 4 * shape.a_row;
  UHAL_GLOBAL const uint8* weights = UHAL_ADDRESS(const uint8, b);

  /* What lies beyond the last channel is the last one again; its sums go nowhere. */
  INDEX channels[2];
  UHAL_UNROLL for (int32 i = 0; i < 2; ++i) {
    const INDEX channel = first_channel + lane / 4 + 8 * i;
    channels[i] = channel < shape.n ? channel : shape.n - 1;
  }
  float totals[4] = {0, 0, 0, 0};
  float even[4] = {0, 0, 0, 0};
  float odd[4] = {0, 0, 0, 0};
  float ones[4] = {0, 0, 0, 0};

  const INDEX steps = (shape.k + STEP_WEIGHTS - 1) / STEP_WEIGHTS;
  uhal_four_uint32 next[2];
  if (warp < steps) LOAD_STEP(warp)
  for (INDEX step = warp; step < steps; step += WARPS) {
    uint32 words[2][4];
    UHAL_UNROLL for (int32 i = 0; i < 2; ++i) {
      words[i][0] = next[i].x ^ FLIP, words[i][1] = next[i].y ^ FLIP;
      words[i][2] = next[i].z ^ FLIP, words[i][3] = next[i].w ^ FLIP;
    }
    if (step + WARPS < steps) LOAD_STEP(step + WARPS)
#if BY_SETS
    UHAL_UNROLL for (int32 i = 0; i < 2; ++i) exchange(words[i], quarter);
#endif
    UHAL_UNROLL for (int32 j = 0; j < 4; ++j) {
      const INDEX set = step * STEP_WEIGHTS + (BY_SETS ? j * SET_WEIGHTS : 0);
      const INDEX at = set + (BY_SETS ? quarter * WORD_WEIGHTS : quarter * SET_WEIGHTS + j * WORD_WEIGHTS);
      uint32 terms[4] = {0, 0, 0, 0};
      if (lane / 4 < rows && at < shape.k) {
#if BITS == 4
        const uhal_four_uint32 loaded = *(UHAL_GLOBAL const uhal_four_uint32*)(activations + at);
        terms[0] = loaded.x, terms[1] = loaded.y, terms[2] = loaded.z, terms[3] = loaded.w;
#else
        UHAL_GLOBAL const uint32* loaded = (UHAL_GLOBAL const uint32*)(activations + at);
        terms[0] = loaded[0], terms[1] = loaded[1];
#endif
      }
      const uint32 both[2] = {words[0][j], words[1][j]};
      add_words(even, odd, ones, both, terms);
      if (j != 3 && !(BY_SETS && (j + 1) % SETS == 0)) continue;
      /* The end of a block, or of what this warp has of it. */
      const INDEX block = (set < shape.k ? set : shape.k - 1) >> block_shift;
      UHAL_UNROLL for (int32 i = 0; i < 2; ++i) {
        const float zero = ZERO_OF(block, channels[i]) + FACTOR_BIAS;
        const float scale = SCALE_OF(block, channels[i]);
        UHAL_UNROLL for (int32 e = 2 * i; e < 2 * i + 2; ++e) {
          totals[e] += (even[e] * EVEN_SCALE + odd[e] * ODD_SCALE - zero * ones[e]) * scale;
          even[e] = odd[e] = ones[e] = 0;
        }
      }
    }
  }

  UHAL_UNROLL for (int32 e = 0; e < 4; ++e) {
    shares[warp][(quarter * 2 + e % 2) * CHANNELS + lane / 4 + e / 2 * 8] = totals[e];
  }
  UHAL_BARRIER();
  const int32 row = id / CHANNELS;
  const INDEX channel = first_channel + id % CHANNELS;
  if (row >= rows || channel >= shape.n) return;
  float sum = shares[0][id];
  UHAL_UNROLL for (int32 other = 1; other < WARPS; ++other) sum += shares[other][id];
  if (sum != sum) {
    /* An infinite number meets factors and zero points apart, and the difference is NaN: term by term it may not be. */
    UHAL_GLOBAL const A_STORAGE* own_row = UHAL_ADDRESS(const A_STORAGE, a) + row * shape.a_row;
    sum = 0;
    for (INDEX i = 0; i < shape.k; ++i) {
      const INDEX block = i >> block_shift;
      sum += A_LOAD(own_row, i) * ((WEIGHT_OF(i, channel) - ZERO_OF(block, channel)) * SCALE_OF(block, channel));
    }
  }
  if (has_c) sum += C_LOAD(UHAL_ADDRESS(const C_STORAGE, c), row * shape.c_row + channel * shape.c_column);
  D_STORE(UHAL_ADDRESS(D_STORAGE, d), row * shape.d_row + channel * shape.d_column, uhal_activate(sum));
}
