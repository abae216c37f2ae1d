/* A few rows times weights of few bits that lie along k: memory is what it waits for. A team takes COLUMNS channels;
 * its members walk along k, 16 bytes of each channel at a time.
 *
 * Macros: dtypes A, C (float32 where there is none), D, S (scales), Z (zero points that are not packed); BITS (8 or 4),
 * IS_SIGNED, ROWS, COLUMNS, WIDE (channels begin at multiples of 16 bytes), A_WIDE (rows of a at those of what a word of
 * weights takes), PARTS (parts of 16 bytes of weights with a scale each: 1 or 2), ZEROS (0: one number, 1: an array of Z,
 * 2: packed), WHOLE_ZEROS (1: they are whole numbers of at most 8 bits), UHAL_ACTIVATION, UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/map_functions.h"
#include "csrc/kernels/source/quantized_rows.h"

#if BITS == 4
#define WORD_WEIGHTS_NUMBER 8
#else
#define WORD_WEIGHTS_NUMBER 4
#endif
#define WORD_WEIGHTS (32 / BITS)     /* weights of a word of 32 bits */
#define HALF_WEIGHTS (16 / BITS)     /* of half of one */
#define CHUNK_WEIGHTS (128 / BITS)   /* of 16 bytes */
#define LOWEST ((1u << BITS) - 1u)   /* the bits of the first */

/* What a float's bits are with a whole number n below 2^23 in its mantissa: 2^23 + n. */
#define EXACT_BITS 0x4b000000u
#define EXACT_ONE 8388608.0f

/* The product of HALF_WEIGHTS weights at the low end of `bits` with those of `a`: of number i the sum that is 2^(BITS i)
 * times what it should be, exactly. */
#define ADD_HALF(bits, a, sums)                                                                               \
  UHAL_UNROLL for (int32 i = 0; i < HALF_WEIGHTS; ++i) {                                                      \
    const float place = (float)(1u << (BITS * i));                                                            \
    const float exact = uhal_float_of_bits(((bits) & (LOWEST << (BITS * i))) | EXACT_BITS);                   \
    const T weight = WHOLE_ZEROS ? exact - (EXACT_ONE + zero * place) : (exact - EXACT_ONE) - zero * place;   \
    UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) sums[r][i] += a[r][i] * weight;                              \
  }

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void quantized_rows(
    UHAL_POINTER(a), UHAL_POINTER(b), UHAL_POINTER(scales), UHAL_POINTER(zeros), UHAL_POINTER(c), UHAL_POINTER(d),
    QUANTIZED_SHAPE shape, T zero_point, int32 block_shift, int32 rows, int32 has_c, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  const INDEX first_column = (UHAL_GROUP_ID(0) * team.teams + team.index) * COLUMNS;
  UHAL_GLOBAL const A_STORAGE* activations = UHAL_ADDRESS(const A_STORAGE, a);
  UHAL_GLOBAL const uint8* weights = UHAL_ADDRESS(const uint8, b);

  /* What lies beyond the last channel, or the last row, is the last one again; its sums go nowhere. */
  INDEX columns[COLUMNS];
  UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
    columns[j] = first_column + j < shape.n ? first_column + j : shape.n - 1;
  }
  INDEX row_offsets[ROWS];
  UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) row_offsets[r] = (r < rows ? r : rows - 1) * shape.a_row;

  T totals[ROWS][COLUMNS];
  UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) {
    UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) totals[r][j] = 0;
  }

  INDEX tail = 0;
#if WIDE
  const INDEX chunks = shape.k / CHUNK_WEIGHTS;
  tail = chunks * CHUNK_WEIGHTS;
  uhal_four_uint32 next[COLUMNS];
  if (team.lane < chunks) {
    UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
      next[j] = *(UHAL_GLOBAL const uhal_four_uint32*)(weights + columns[j] * shape.b_column + (INDEX)team.lane * 16);
    }
  }
  for (INDEX chunk = team.lane; chunk < chunks; chunk += team.lanes) {
    uint32 words[COLUMNS][4];
    UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
      words[j][0] = next[j].x ^ FLIP, words[j][1] = next[j].y ^ FLIP;
      words[j][2] = next[j].z ^ FLIP, words[j][3] = next[j].w ^ FLIP;
    }
    if (chunk + team.lanes < chunks) {
      UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
        next[j] = *(UHAL_GLOBAL const uhal_four_uint32*)(weights + columns[j] * shape.b_column +
                                                         (chunk + team.lanes) * 16);
      }
    }
    UHAL_UNROLL for (int32 part = 0; part < PARTS; ++part) {
      const INDEX first = chunk * CHUNK_WEIGHTS + part * (CHUNK_WEIGHTS / PARTS);
      const INDEX block = first >> block_shift;
      T sums[COLUMNS][ROWS][HALF_WEIGHTS];
      T zeros_of[COLUMNS];
      T scales_of[COLUMNS];
      UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
        zeros_of[j] = ZERO_OF(block, columns[j]);
        scales_of[j] = SCALE_OF(block, columns[j]);
        UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) {
          UHAL_UNROLL for (int32 i = 0; i < HALF_WEIGHTS; ++i) sums[j][r][i] = 0;
        }
      }
      UHAL_UNROLL for (int32 word = 0; word < 4 / PARTS; ++word) {
        T low[ROWS][WORD_WEIGHTS];
        T high[ROWS][HALF_WEIGHTS];
        UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) {
          const INDEX at = first + word * WORD_WEIGHTS;
#if A_WIDE
          UHAL_WIDE(A_LOAD, WORD_WEIGHTS_NUMBER)(activations, row_offsets[r] + at, low[r]);
#else
          UHAL_UNROLL for (int32 i = 0; i < WORD_WEIGHTS; ++i) {
            low[r][i] = A_LOAD(activations, row_offsets[r] + (at + i) * shape.a_column);
          }
#endif
          UHAL_UNROLL for (int32 i = 0; i < HALF_WEIGHTS; ++i) high[r][i] = low[r][HALF_WEIGHTS + i];
        }
        UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
          const uint32 bits = words[j][part * (4 / PARTS) + word];
          const T zero = zeros_of[j];
          ADD_HALF(bits, low, sums[j]);
          ADD_HALF(bits >> 16, high, sums[j]);
        }
      }
      UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
        UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) {
          T sum = sums[j][r][0];
          UHAL_UNROLL for (int32 i = 1; i < HALF_WEIGHTS; ++i) sum += sums[j][r][i] * (1.0f / (float)(1u << (BITS * i)));
          totals[r][j] += sum * scales_of[j];
        }
      }
    }
  }
#endif
  for (INDEX i = tail + team.lane; i < shape.k; i += team.lanes) {
    const INDEX block = i >> block_shift;
    UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
      const T weight = (WEIGHT_OF(i, columns[j]) - ZERO_OF(block, columns[j])) * SCALE_OF(block, columns[j]);
      UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) {
        totals[r][j] += A_LOAD(activations, row_offsets[r] + i * shape.a_column) * weight;
      }
    }
  }

  UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) {
    UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) totals[r][j] = uhal_team_sum(totals[r][j], scratch, team);
  }
  if (team.lane != 0) return;
  UHAL_UNROLL for (int32 r = 0; r < ROWS; ++r) {
    UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) {
      if (r >= rows || first_column + j >= shape.n) continue;
      T sum = totals[r][j];
      if (has_c) {
        sum += C_LOAD(UHAL_ADDRESS(const C_STORAGE, c), r * shape.c_row + (first_column + j) * shape.c_column);
      }
      D_STORE(UHAL_ADDRESS(D_STORAGE, d), r * shape.d_row + (first_column + j) * shape.d_column, uhal_activate(sum));
    }
  }
}
