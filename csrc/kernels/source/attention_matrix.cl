/* Attention and its gradients on matrix cores, for operands of one 16-bit dtype: as attention.cl, softmax is updated as
 * tiles of keys come by, and the gradients form the scores anew; but a warp's scores, weights and results stay in its
 * registers, and only operands lie in local memory.
 *
 * A work-group forms ROWS rows of a result, of which a warp of 32 work-items has BLOCKS times 16. Their own operands stay
 * in local memory; those of the other side stream by, TILE rows at a time, of which the next are on their way while the
 * warps work on these. Weights are kept relative to a maximum that is raised only where a row exceeds it by LEEWAY, since
 * raising it costs a multiplication of all that was summed. Scores count in powers of two.
 *
 * Macros: X, the dtype; HEAD, a multiple of 16 that holds the features of all operands (zeros fill it up); WARPS, BLOCKS,
 * TILE, multiple of 16; VECTOR, whether operands and results move 16 bytes at a time (elements of rows lie side by side,
 * everything aligned); HAS_MASK; OWN_IN_REGISTERS, whether a warp keeps its own operands there rather than read them anew
 * for each tile; GROUPS, as UHAL_GROUPS_OF takes it. Of attention_matrix_forward AHEAD, see there. Of
 * attention_matrix_gradient BY_KEY; PAIRED, see there; STEP, how many rows of a tile are taken at a time, and SLICE, how
 * many columns of the results: both multiples of 16. With form 3 of matrix_product.h BLOCKS is 1, WARPS a multiple of 4,
 * HEAD and SLICE of 64, TILE and STEP a UHAL_PRODUCT_COLUMNS or, without AHEAD, a multiple of 64, VECTOR set, and
 * OWN_IN_REGISTERS not. AHEAD and PAIRED are of form 3 alone. */
#include "csrc/kernels/prelude/floating.h"
#define UHAL_PRODUCT_DTYPE X_DTYPE
#if AHEAD || TILE < 64
#define UHAL_PRODUCT_COLUMNS TILE
#else
#define UHAL_PRODUCT_COLUMNS 64
#endif
#include "csrc/kernels/prelude/matrix_product.h"

#define GROUP (WARPS * UHAL_LANES)
#define WARP_ROWS (BLOCKS * 16)
#define ROWS (WARPS / (PAIRED ? 2 : 1) * WARP_ROWS)
#define PITCH (HEAD + 8)

/* Operands in local memory: rows with a pitch, or panels. Warps of a team take the same steps. */
#if UHAL_MATRIX_FORM == 3
#define OPERAND_ELEMENTS(rows) ((rows)*HEAD)
#define OPERAND_PLACE(row, column, rows) uhal_panel_place(row, column, rows)
#define ROW_DISTANCE UHAL_PANEL
#define LEFT_LANE 0
#define RIGHT_LANE 0
#define ACROSS_LANE 0
#define TEAM 4
#else
#define OPERAND_ELEMENTS(rows) ((rows)*PITCH)
#define OPERAND_PLACE(row, column, rows) ((row)*PITCH + (column))
#define ROW_DISTANCE PITCH
#define LEFT_LANE uhal_left_lane(lane, PITCH)
#define RIGHT_LANE uhal_right_lane(lane, PITCH)
#define ACROSS_LANE uhal_across_lane(lane, PITCH)
#define TEAM 1
#endif
#define TEAM_ROWS (TEAM * WARP_ROWS)
#define TILE_ELEMENTS OPERAND_ELEMENTS(TILE)

/* Rows are moved 8 elements a work-item: so many of them move a row, or a panel's part of it. */
#if UHAL_MATRIX_FORM == 3
#define ROW_ITEMS 8
#define ROW_COLUMNS UHAL_PANEL
#else
#define ROW_ITEMS (HEAD <= 32 ? 4 : HEAD <= 64 ? 8 : HEAD <= 128 ? 16 : 32)
#define ROW_COLUMNS HEAD
#endif

#define HIDDEN (-INFINITY) /* the score of what a row does not see */
#define LEEWAY 8.0f
#define LOG2_E 1.44269504088896340736f
#define LN_2 0.693147180559945309417f

/* All members are INDEX, so that the host appends them as one array. */
typedef struct {
  INDEX batch, head, row, column;
} Strides;

typedef struct {
  INDEX heads, tiles, slices;
} Tasks;

/* One head of an operand. */
typedef struct {
  UHAL_GLOBAL X_STORAGE* data;
  INDEX row_stride, column_stride, rows, columns;
} Matrix;

UHAL_INLINE Matrix head_of(UHAL_GLOBAL X_STORAGE* data, Strides strides, INDEX batch, INDEX head, INDEX rows,
                           INDEX columns) {
  Matrix matrix;
  matrix.data = data + (batch * strides.batch + head * strides.head);
  matrix.row_stride = strides.row;
  matrix.column_stride = strides.column;
  matrix.rows = rows;
  matrix.columns = columns;
  return matrix;
}

/* tile[r][c] = matrix[first + r][c], r < count, c < HEAD; zero outside. It is there after uhal_await_copies and a
 * barrier. Work-items `id` of `items`, a multiple of 64, do it together. */
UHAL_INLINE void load_rows_by(UHAL_LOCAL uint16* tile, const Matrix* matrix, INDEX first, const int32 count,
                              int32 id, const int32 items) {
#if VECTOR
  const int32 at_a_time = items / ROW_ITEMS; /* of form 3 a multiple of 8: rows lie as those before */
  const int32 column = id % ROW_ITEMS * 8;
  const int32 own = id / ROW_ITEMS; /* of a few rows at a time, this work-item's */
  const uhal_tile to = uhal_tile_at(uhal_tile_of(tile), OPERAND_PLACE(own, column, count));
  if (ROW_COLUMNS % (ROW_ITEMS * 8) != 0 && column >= ROW_COLUMNS) return;
  const INDEX row = first + own;
  UHAL_GLOBAL const X_STORAGE* from = matrix->data + (row * matrix->row_stride + column);
  UHAL_UNROLL for (int32 i = 0; i < count; i += at_a_time) {
    if (count % at_a_time == 0 || i + own < count) {
      UHAL_UNROLL for (int32 start = 0; start < HEAD; start += ROW_COLUMNS) {
        const int32 inside = row + i < matrix->rows && start + column < matrix->columns;
        uhal_copy_async(uhal_tile_at(to, i * ROW_DISTANCE + start * count),
                        inside ? from + (i * matrix->row_stride + start) : matrix->data, inside);
      }
    }
  }
#else
  for (int32 i = id; i < count * HEAD; i += items) {
    const INDEX row = first + i / HEAD;
    const INDEX column = i % HEAD;
    const int32 inside = row < matrix->rows && column < matrix->columns;
    tile[i / HEAD * PITCH + i % HEAD] =
        inside ? matrix->data[row * matrix->row_stride + column * matrix->column_stride] : (uint16)0;
  }
#endif
}
UHAL_INLINE void load_rows(UHAL_LOCAL uint16* tile, const Matrix* matrix, INDEX first, const int32 count) {
  load_rows_by(tile, matrix, first, count, (int32)UHAL_LOCAL_ID(0), GROUP);
}

/* matrix[first + r][start + c] = tile[r][c], r < ROWS, c < count. */
UHAL_INLINE void store_rows(UHAL_LOCAL const uint16* tile, const Matrix* matrix, INDEX first, INDEX start,
                            const int32 count) {
  const int32 id = (int32)UHAL_LOCAL_ID(0);
#if VECTOR
  for (int32 i = id; i < ROWS * (count / 8); i += GROUP) {
    const INDEX row = first + i / (count / 8);
    const INDEX column = start + i % (count / 8) * 8;
    if (row >= matrix->rows || column >= matrix->columns) continue;
    *(UHAL_GLOBAL uhal_four_uint32*)(matrix->data + (row * matrix->row_stride + column)) =
        *(UHAL_LOCAL const uhal_four_uint32*)(tile + i / (count / 8) * PITCH + i % (count / 8) * 8);
  }
#else
  for (int32 i = id; i < ROWS * count; i += GROUP) {
    const INDEX row = first + i / count;
    const INDEX column = start + i % count;
    if (row >= matrix->rows || column >= matrix->columns) continue;
    matrix->data[row * matrix->row_stride + column * matrix->column_stride] = tile[i / count * PITCH + i % count];
  }
#endif
}

/* Of a warp's own operands, block m and columns k * 16...: `own` is the operand's number, own_tile where a lane's part of the
 * first one lies. */
#if OWN_IN_REGISTERS
#define OWN_PART(part, own, m, k) part = own_parts[own][m][k]
#else
#define OWN_PART(part, own, m, k) \
  uhal_load_left(&part, uhal_tile_at(own_tile, ((own)*ROWS + (m)*16) * PITCH + (k)*16))
#endif

/* To be declared once they are there: own_parts, if they are kept. */
#if OWN_IN_REGISTERS
#define DECLARE_OWN_PARTS(count)                                                                                      \
  uhal_left own_parts[count][BLOCKS][HEAD / 16];                                                                      \
  UHAL_UNROLL for (int32 uhal_own = 0; uhal_own < (count); ++uhal_own) {                                              \
    UHAL_UNROLL for (int32 uhal_m = 0; uhal_m < BLOCKS; ++uhal_m) {                                                   \
      UHAL_UNROLL for (int32 uhal_k = 0; uhal_k < HEAD / 16; ++uhal_k) {                                              \
        uhal_load_left(&own_parts[uhal_own][uhal_m][uhal_k],                                                          \
                       uhal_tile_at(own_tile, (uhal_own * ROWS + uhal_m * 16) * PITCH + uhal_k * 16));                \
      }                                                                                                               \
    }                                                                                                                 \
  }
#else
#define DECLARE_OWN_PARTS(count)
#endif

#if UHAL_MATRIX_FORM == 3

/* As below, of one block. Both ask for products, and AWAIT_PRODUCTS says when their sums are there. */
#define FEATURES_PLACE(k, rows) ((k) / 4 * ((rows)*UHAL_PANEL) + (k) % 4 * 16)
#define MULTIPLY_TILES(sums, columns, own, other)                                                                 \
  do {                                                                                                            \
    uhal_begin_products();                                                                                        \
    UHAL_UNROLL for (int32 uhal_n = 0; uhal_n < (columns); uhal_n += UHAL_PRODUCT_COLUMNS) {                      \
      UHAL_UNROLL for (int32 uhal_k = 0; uhal_k < HEAD / 16; ++uhal_k) {                                          \
        uhal_add_panel_product(&(sums)[0][uhal_n / 16], uhal_tile_at(own, FEATURES_PLACE(uhal_k, ROWS)),          \
                               uhal_tile_at(other, uhal_n * UHAL_PANEL + FEATURES_PLACE(uhal_k, TILE)),           \
                               uhal_k == 0);                                                                      \
      }                                                                                                           \
    }                                                                                                             \
    uhal_commit_products();                                                                                       \
  } while (0)
#define MULTIPLY(sums, blocks, columns, own, other) \
  MULTIPLY_TILES(sums, columns, uhal_tile_at(own_tile, (own)*OPERAND_ELEMENTS(ROWS)), other)
#define ADD_WEIGHTED(sums, columns, weights, terms, across)                                                           \
  do {                                                                                                                \
    uhal_begin_products();                                                                                            \
    UHAL_UNROLL for (int32 uhal_k = 0; uhal_k < (terms) / 16; ++uhal_k) {                                             \
      UHAL_UNROLL for (int32 uhal_n = 0; uhal_n < (columns) / UHAL_PANEL; ++uhal_n) {                                 \
        uhal_add_panel_product_across(&(sums)[0][uhal_n * 4], &(weights)[0][uhal_k],                                  \
                                      uhal_tile_at(across, (uhal_k * 16 + uhal_n * TILE) * UHAL_PANEL));              \
      }                                                                                                               \
    }                                                                                                                 \
    uhal_commit_products();                                                                                           \
  } while (0)
#define SETTLE(sums, columns) \
  UHAL_UNROLL for (int32 uhal_n = 0; uhal_n < (columns) / 16; ++uhal_n) uhal_settle_sums(&(sums)[0][uhal_n])
#define AWAIT_PRODUCTS(pending, sums, columns) \
  do {                                         \
    uhal_await_products(pending);              \
    SETTLE(sums, columns);                     \
  } while (0)

#else
#define AWAIT_PRODUCTS(pending, sums, columns)

/* sums[block][n] = own rows of a warp times rows n * 16... of a tile: `other` is where a lane's part lies. */
#define MULTIPLY(sums, blocks, columns, own, other)                                                                   \
  do {                                                                                                                \
    UHAL_UNROLL for (int32 uhal_m = 0; uhal_m < (blocks); ++uhal_m) {                                                 \
      UHAL_UNROLL for (int32 uhal_n = 0; uhal_n < (columns) / 16; ++uhal_n) {                                         \
        UHAL_UNROLL for (int32 uhal_i = 0; uhal_i < 8; ++uhal_i) (sums)[uhal_m][uhal_n].elements[uhal_i] = 0;         \
      }                                                                                                               \
    }                                                                                                                 \
    UHAL_UNROLL for (int32 uhal_k = 0; uhal_k < HEAD / 16; ++uhal_k) {                                                \
      uhal_left uhal_a[blocks];                                                                                       \
      UHAL_UNROLL for (int32 uhal_m = 0; uhal_m < (blocks); ++uhal_m) OWN_PART(uhal_a[uhal_m], own, uhal_m, uhal_k);  \
      UHAL_UNROLL for (int32 uhal_n = 0; uhal_n < (columns) / 16; ++uhal_n) {                                         \
        uhal_right uhal_b;                                                                                            \
        uhal_load_right(&uhal_b, uhal_tile_at(other, uhal_n * 16 * PITCH + uhal_k * 16));                             \
        UHAL_UNROLL for (int32 uhal_m = 0; uhal_m < (blocks); ++uhal_m) {                                             \
          uhal_add_product(&(sums)[uhal_m][uhal_n], &uhal_a[uhal_m], &uhal_b);                                        \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
  } while (0)

/* sums[block][n] += weights[block][k] times rows k * 16... of a tile, columns n * 16...: `across` is a lane's part. */
#define ADD_WEIGHTED(sums, columns, weights, terms, across)                                                           \
  do {                                                                                                                \
    UHAL_UNROLL for (int32 uhal_k = 0; uhal_k < (terms) / 16; ++uhal_k) {                                             \
      UHAL_UNROLL for (int32 uhal_n = 0; uhal_n < (columns) / 16; ++uhal_n) {                                         \
        uhal_right uhal_b;                                                                                            \
        uhal_load_right_across(&uhal_b, uhal_tile_at(across, uhal_k * 16 * PITCH + uhal_n * 16), PITCH);                     \
        UHAL_UNROLL for (int32 uhal_m = 0; uhal_m < BLOCKS; ++uhal_m) {                                               \
          uhal_add_product(&(sums)[uhal_m][uhal_n], &(weights)[uhal_m][uhal_k], &uhal_b);                             \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
  } while (0)
#endif

#define FOR_BLOCKS(m) UHAL_UNROLL for (int32 m = 0; m < BLOCKS; ++m)
#define FOR_SLOTS(slot) UHAL_UNROLL for (int32 slot = 0; slot < UHAL_SUM_ROWS; ++slot)
#define FOR_SUMS(n, columns) UHAL_UNROLL for (int32 n = 0; n < (columns) / 16; ++n)
#define FOR_ELEMENTS(i) UHAL_UNROLL for (int32 i = 0; i < 8; ++i)

/* Whether own rows are keys. */
#ifdef BY_KEY
#define OF_KEYS BY_KEY
#else
#define OF_KEYS 0
#endif

/* What hides scores of own rows and columns of others: a mask, the edges, and the causal order, in which query m sees the
 * keys up to m + shift. The mask's strides are by own rows and others. */
typedef struct {
  INDEX rows, others, shift, in_mask;
  Strides mask;
  UHAL_GLOBAL const char* masks;
  float scale;
  int32 causal, mask_dtype;
} Sight;

/* Of scores of 16 rows from `first` on and `count` columns from `other` on: with a mask they are scaled and it is added,
 * and what is not seen is hidden. BY_KEY columns beyond the last are left, since sums are infinite there; and rows
 * beyond the last are not kept. */
UHAL_INLINE void hide_scores(uhal_sum* scores, const int32 count, const Sight* sight, INDEX first, INDEX other,
                             int32 lane) {
#if HAS_MASK
  FOR_SUMS(n, count) {
    FOR_ELEMENTS(i) {
      const INDEX row = first + uhal_sum_row(lane, i);
      const INDEX column = other + n * 16 + uhal_sum_column(lane, i);
      float score = scores[n].elements[i] * sight->scale;
      if (row < sight->rows && column < sight->others) {
        const INDEX in_mask = sight->in_mask + row * sight->mask.row + column * sight->mask.column;
        score += uhal_load_floating(sight->mask_dtype, sight->masks, in_mask) * LOG2_E;
      }
      scores[n].elements[i] = score;
    }
  }
#endif
  if (OF_KEYS ? !(sight->causal && first + 15 > other + sight->shift)
              : other + count <= sight->others && !(sight->causal && other + count - 1 > first + sight->shift)) {
    return;
  }
  FOR_SUMS(n, count) {
    FOR_ELEMENTS(i) {
      const INDEX row = first + uhal_sum_row(lane, i);
      const INDEX column = other + n * 16 + uhal_sum_column(lane, i);
      const INDEX query = OF_KEYS ? column : row;
      const INDEX key = OF_KEYS ? row : column;
      if ((!OF_KEYS && column >= sight->others) || (sight->causal && key > query + sight->shift)) {
        scores[n].elements[i] = HIDDEN;
      }
    }
  }
}

#ifndef BY_KEY /* -- forward ----------------------------------------------------------------------------------- */

/* Elements of local memory: own rows, and two tiles of keys and values. */
#define LOCAL_ELEMENTS (OPERAND_ELEMENTS(ROWS) + 4 * TILE_ELEMENTS)

typedef struct {
  Tasks tasks;
  INDEX queries, keys, depth, width;
  Strides q, k, v, mask, y, logsumexp;
} Forward;

/* The maxima that weights of 16 rows are relative to, raised where the scores want it: `kept` says what then remains of
 * what was summed before. Returns whether any of the lane's rows did. */
UHAL_INLINE int32 raise_maxima(const uhal_sum* scores, float factor, float* maximum, float* total, float* kept) {
  float largest[UHAL_SUM_ROWS];
  FOR_SLOTS(slot) largest[slot] = HIDDEN;
  FOR_SUMS(n, TILE) {
    FOR_ELEMENTS(i) largest[uhal_sum_slot(i)] = fmax(largest[uhal_sum_slot(i)], scores[n].elements[i]);
  }
  int32 raised = 0;
  FOR_SLOTS(slot) {
    const float top = uhal_row_maximum(largest[slot]) * factor;
    kept[slot] = 1;
    if (top > maximum[slot] + LEEWAY) {
      kept[slot] = uhal_fast_exp2(maximum[slot] - top);
      maximum[slot] = top;
      total[slot] *= kept[slot];
      raised = 1;
    }
  }
  return raised;
}

/* Scores of 16 rows become weights, which are added to `total`. */
UHAL_INLINE void weigh_scores(uhal_sum* scores, float factor, const float* maximum, float* total) {
  float lowered[UHAL_SUM_ROWS];
  /* Of a row that has seen nothing yet, any finite number keeps 2^-infinity at 0. */
  FOR_SLOTS(slot) lowered[slot] = maximum[slot] == HIDDEN ? 0 : -maximum[slot];
  FOR_SUMS(n, TILE) {
    FOR_ELEMENTS(i) {
      const float weight = uhal_fast_exp2(fma(scores[n].elements[i], factor, lowered[uhal_sum_slot(i)]));
      scores[n].elements[i] = weight;
      total[uhal_sum_slot(i)] += weight;
    }
  }
}

/* `scale` is of scores as powers of two.
 *
 * AHEAD: a tile's weights are multiplied with its values after the next tile's scores have been asked for, so that the
 * products go on while the next tile's weights are formed. Its values come a turn after its keys. */
UHAL_KERNEL UHAL_GROUPS_OF(GROUP, GROUPS) void attention_matrix_forward(
    UHAL_POINTER(q), UHAL_POINTER(k), UHAL_POINTER(v), UHAL_POINTER(mask), UHAL_POINTER(y), UHAL_POINTER(logsumexp),
    Forward p, float scale, int32 causal, int32 mask_dtype, int32 logsumexp_dtype, int32 has_logsumexp) {
  UHAL_LAUNCHED_LOCAL_MEMORY(uint16, local, LOCAL_ELEMENTS)
  UHAL_LOCAL uint16* const streamed = local + OPERAND_ELEMENTS(ROWS);
  const int32 warp = (int32)UHAL_LOCAL_ID(0) / UHAL_LANES;
  const int32 lane = (int32)UHAL_LOCAL_ID(0) % UHAL_LANES;

  /* The last rows first: with causal they are the longest work. */
  const INDEX task = UHAL_GROUP_ID(0);
  const INDEX first = (p.tasks.tiles - 1 - task % p.tasks.tiles) * ROWS;
  const INDEX pair = task / p.tasks.tiles;
  const INDEX batch = pair / p.tasks.heads;
  const INDEX head = pair % p.tasks.heads;
  const Matrix queries = head_of(UHAL_ADDRESS(X_STORAGE, q), p.q, batch, head, p.queries, p.depth);
  const Matrix keys = head_of(UHAL_ADDRESS(X_STORAGE, k), p.k, batch, head, p.keys, p.depth);
  const Matrix values = head_of(UHAL_ADDRESS(X_STORAGE, v), p.v, batch, head, p.keys, p.width);
  const Matrix result = head_of(UHAL_ADDRESS(X_STORAGE, y), p.y, batch, head, p.queries, p.width);
  const float factor = HAS_MASK ? 1 : scale; /* of scores, once the mask is added */

  /* What the last row of the tile sees is what streams by. */
  const INDEX shift = p.keys - p.queries;
  const INDEX seen = first + ROWS + shift;
  const INDEX end = causal && seen < p.keys ? seen : p.keys;
  const INDEX own_row = first + warp * WARP_ROWS;
  Sight sight;
  sight.rows = p.queries, sight.others = p.keys, sight.shift = shift;
  sight.in_mask = batch * p.mask.batch + head * p.mask.head, sight.mask = p.mask;
  sight.masks = UHAL_ADDRESS(const char, mask), sight.mask_dtype = mask_dtype;
  sight.scale = scale, sight.causal = causal;

  load_rows(local, &queries, first, ROWS);
  if (end > 0) {
    load_rows(streamed, &keys, 0, TILE);
#if !AHEAD
    load_rows(streamed + TILE_ELEMENTS, &values, 0, TILE);
#endif
  }
  uhal_await_copies();
  UHAL_BARRIER();
  const uhal_tile own_tile =
      uhal_tile_at(uhal_tile_of(local), OPERAND_PLACE(warp / TEAM * TEAM_ROWS, 0, ROWS) + LEFT_LANE);
  DECLARE_OWN_PARTS(1)

  uhal_sum average[BLOCKS][HEAD / 16];
  float maximum[BLOCKS][UHAL_SUM_ROWS], total[BLOCKS][UHAL_SUM_ROWS]; /* total: this lane's share */
  FOR_BLOCKS(m) {
    FOR_SUMS(n, HEAD) {
      FOR_ELEMENTS(i) average[m][n].elements[i] = 0;
    }
    FOR_SLOTS(slot) {
      maximum[m][slot] = HIDDEN;
      total[m][slot] = 0;
    }
  }

  int32 turn = 0;
#if AHEAD
  if (end > 0) {
    uhal_sum scores[BLOCKS][TILE / 16];
    uhal_left weights[BLOCKS][TILE / 16];
    float kept[UHAL_SUM_ROWS];
    MULTIPLY(scores, BLOCKS, TILE, 0, uhal_tile_of(streamed));
    load_rows(streamed + TILE_ELEMENTS, &values, 0, TILE);
    if (TILE < end) load_rows(streamed + 2 * TILE_ELEMENTS, &keys, TILE, TILE);
    AWAIT_PRODUCTS(0, scores, TILE);
    hide_scores(scores[0], TILE, &sight, own_row, 0, lane);
    raise_maxima(scores[0], factor, maximum[0], total[0], kept);
    weigh_scores(scores[0], factor, maximum[0], total[0]);
    FOR_SUMS(n, TILE) uhal_left_of_sum(&weights[0][n], &scores[0][n], lane);
    /* Copies take their turns at local memory: one team starts them, and products of the others go on meanwhile. */
    const int32 team_item = (int32)UHAL_LOCAL_ID(0) % (TEAM * UHAL_LANES);
    const int32 loads = warp / TEAM == WARPS / TEAM - 1;
    for (INDEX other = TILE; other < end; other += TILE) {
      UHAL_LOCAL uint16* const before = streamed + turn * 2 * TILE_ELEMENTS;
      turn ^= 1;
      UHAL_LOCAL uint16* const tile = streamed + turn * 2 * TILE_ELEMENTS;
      /* This tile's keys are there for all and the values before, whose other places all are done with. */
      uhal_await_copies();
      UHAL_BARRIER();
      if (loads) {
        load_rows_by(tile + TILE_ELEMENTS, &values, other, TILE, team_item, TEAM * UHAL_LANES);
        if (other + TILE < end) load_rows_by(before, &keys, other + TILE, TILE, team_item, TEAM * UHAL_LANES);
      }
      MULTIPLY(scores, BLOCKS, TILE, 0, uhal_tile_of(tile));
      ADD_WEIGHTED(average, HEAD, weights, TILE, uhal_tile_at(uhal_tile_of(before), TILE_ELEMENTS));
      AWAIT_PRODUCTS(1, scores, TILE);
      hide_scores(scores[0], TILE, &sight, own_row, other, lane);
      const int32 raised = raise_maxima(scores[0], factor, maximum[0], total[0], kept);
      weigh_scores(scores[0], factor, maximum[0], total[0]);
      /* Until here the weights before are factors. */
      AWAIT_PRODUCTS(0, average, HEAD);
      SETTLE(scores, TILE);
      if (raised) {
        FOR_SUMS(n, HEAD) {
          FOR_ELEMENTS(i) average[0][n].elements[i] *= kept[uhal_sum_slot(i)];
        }
      }
      FOR_SUMS(n, TILE) uhal_left_of_sum(&weights[0][n], &scores[0][n], lane);
    }
    uhal_await_copies();
    UHAL_BARRIER();
    ADD_WEIGHTED(average, HEAD, weights, TILE, uhal_tile_at(uhal_tile_of(streamed), (2 * turn + 1) * TILE_ELEMENTS));
    AWAIT_PRODUCTS(0, average, HEAD);
  }
#else
  for (INDEX other = 0; other < end; other += TILE, turn ^= 1) {
    UHAL_LOCAL uint16* const tile = streamed + turn * 2 * TILE_ELEMENTS;
    /* This tile is there for all, and all are done with the one before: its place is free for the next. */
    uhal_await_copies();
    UHAL_BARRIER();
    if (other + TILE < end) {
      UHAL_LOCAL uint16* const next = streamed + (turn ^ 1) * 2 * TILE_ELEMENTS;
      load_rows(next, &keys, other + TILE, TILE);
      load_rows(next + TILE_ELEMENTS, &values, other + TILE, TILE);
    }
    /* Nothing that the team's rows see. */
    if (causal && other > first + (warp / TEAM + 1) * TEAM_ROWS - 1 + shift) continue;

    uhal_sum scores[BLOCKS][TILE / 16];
    const uhal_tile of_keys = uhal_tile_at(uhal_tile_of(tile), RIGHT_LANE);
    MULTIPLY(scores, BLOCKS, TILE, 0, of_keys);
    AWAIT_PRODUCTS(0, scores, TILE);
    FOR_BLOCKS(m) hide_scores(scores[m], TILE, &sight, own_row + m * 16, other, lane);
    uhal_left weights[BLOCKS][TILE / 16];
    FOR_BLOCKS(m) {
      float kept[UHAL_SUM_ROWS];
      if (raise_maxima(scores[m], factor, maximum[m], total[m], kept)) {
        FOR_SUMS(n, HEAD) {
          FOR_ELEMENTS(i) average[m][n].elements[i] *= kept[uhal_sum_slot(i)];
        }
      }
      weigh_scores(scores[m], factor, maximum[m], total[m]);
      FOR_SUMS(n, TILE) uhal_left_of_sum(&weights[m][n], &scores[m][n], lane);
    }
    const uhal_tile of_values = uhal_tile_at(uhal_tile_of(tile), TILE_ELEMENTS + ACROSS_LANE);
    ADD_WEIGHTED(average, HEAD, weights, TILE, of_values);
    AWAIT_PRODUCTS(0, average, HEAD);
  }
#endif

#if UHAL_MATRIX_FORM == 3
  uhal_await_copies();
  UHAL_BARRIER(); /* results have a pitch, and lie over what others read */
#endif
  /* A warp's own rows are read by it alone. */
  UHAL_GLOBAL char* sums = UHAL_ADDRESS(char, logsumexp);
  FOR_BLOCKS(m) {
    float share[UHAL_SUM_ROWS];
    FOR_SLOTS(slot) {
      const float sum = uhal_row_total(total[m][slot]);
      share[slot] = sum == 0 ? 0 : 1 / sum;
      const INDEX row = own_row + m * 16 + uhal_slot_row(lane, slot);
      if (has_logsumexp && uhal_sum_column(lane, 0) == 0 && row < p.queries) {
        uhal_store_floating(logsumexp_dtype, sums,
                            batch * p.logsumexp.batch + head * p.logsumexp.head + row * p.logsumexp.row,
                            sum == 0 ? HIDDEN : (maximum[m][slot] + log2(sum)) * LN_2);
      }
    }
    FOR_SUMS(n, HEAD) {
      FOR_ELEMENTS(i) average[m][n].elements[i] *= share[uhal_sum_slot(i)];
      uhal_store_sum(local + (warp * WARP_ROWS + m * 16) * PITCH + n * 16, &average[m][n], PITCH, lane);
    }
  }
  UHAL_BARRIER();
  store_rows(local, &result, first, 0, HEAD);
}

#else /* -- gradients ------------------------------------------------------------------------------------------ */

#define STATISTICS_LANES 8 /* work-items for a row */
#define STATISTICS_ROWS (128 / STATISTICS_LANES)

typedef struct {
  INDEX heads, queries, padded, width, count;
  Strides y, dy, logsumexp;
} Statistics;

/* What both gradients need of each query, for `padded` queries of each head:
 *   sums      the logsumexp as a power of two; 0 of a row that sees nothing, whose weights are 0 all the same; +infinity
 *             of a query that there is not, whose weights are 0 by it
 *   offsets   the sum of y * dy: what the gradient of softmax subtracts */
UHAL_KERNEL UHAL_GROUP_SIZE(128, 1, 1) void attention_matrix_statistics(
    UHAL_POINTER(y), UHAL_POINTER(dy), UHAL_POINTER(logsumexp), UHAL_POINTER(sums), UHAL_POINTER(offsets), Statistics p,
    int32 logsumexp_dtype) {
  const int32 lane = (int32)UHAL_LOCAL_ID(0) % STATISTICS_LANES;
  const INDEX index = UHAL_GROUP_ID(0) * STATISTICS_ROWS + (INDEX)UHAL_LOCAL_ID(0) / STATISTICS_LANES;
  const INDEX pair = index / p.padded;
  const INDEX row = index % p.padded;
  float offset = 0;
  const int32 is_row = index < p.count && row < p.queries;
  if (is_row) {
    const Matrix outputs =
        head_of(UHAL_ADDRESS(X_STORAGE, y), p.y, pair / p.heads, pair % p.heads, p.queries, p.width);
    const Matrix gradients =
        head_of(UHAL_ADDRESS(X_STORAGE, dy), p.dy, pair / p.heads, pair % p.heads, p.queries, p.width);
    UHAL_GLOBAL const X_STORAGE* of_output = outputs.data + row * outputs.row_stride;
    UHAL_GLOBAL const X_STORAGE* of_gradient = gradients.data + row * gradients.row_stride;
#if VECTOR
    for (INDEX e = lane * 8; e < p.width; e += STATISTICS_LANES * 8) {
      UHAL_UNROLL for (int32 part = 0; part < 8; part += 4) {
        float left[4], right[4];
        X_LOAD4(of_output, e + part, left);
        X_LOAD4(of_gradient, e + part, right);
        UHAL_UNROLL for (int32 i = 0; i < 4; ++i) offset += left[i] * right[i];
      }
    }
#else
    for (INDEX e = lane; e < p.width; e += STATISTICS_LANES) {
      offset += X_LOAD(of_output, e * outputs.column_stride) * X_LOAD(of_gradient, e * gradients.column_stride);
    }
#endif
  }
  UHAL_UNROLL for (int32 distance = 1; distance < STATISTICS_LANES; distance *= 2) {
    offset += uhal_of_lane_across(offset, distance);
  }
  if (lane != 0 || index >= p.count) return;
  float sum = INFINITY;
  if (is_row) {
    const INDEX at = pair / p.heads * p.logsumexp.batch + pair % p.heads * p.logsumexp.head + row * p.logsumexp.row;
    sum = uhal_load_floating(logsumexp_dtype, UHAL_ADDRESS(const char, logsumexp), at) * LOG2_E;
    if (sum == HIDDEN) sum = 0;
  }
  UHAL_ADDRESS(float, sums)[index] = sum;
  UHAL_ADDRESS(float, offsets)[index] = offset;
}

/* Elements of local memory: the own operands, two turns of the others, and with BY_KEY what is known of the queries. */
#if UHAL_MATRIX_FORM == 3
#define STATISTICS_ELEMENTS (BY_KEY ? 512 : 0) /* panels begin at multiples of 1,024 bytes */
#else
#define STATISTICS_ELEMENTS (BY_KEY ? 4 * TILE : 0) /* sums and offsets */
#endif
#define TURN_ELEMENTS (2 * TILE_ELEMENTS + STATISTICS_ELEMENTS)
#define EXCHANGE_ELEMENTS (PAIRED ? 2 * 64 * TILE : 0)
#define LOCAL_ELEMENTS (2 * OPERAND_ELEMENTS(ROWS) + 2 * TURN_ELEMENTS + EXCHANGE_ELEMENTS)

typedef struct {
  Tasks tasks;
  INDEX rows, others, padded, depth, width;
  Strides own, other, own_value, other_value, mask, result, value_result;
} Backward;

/* A turn's operands, and what is known of its queries; as load_rows_by. */
UHAL_INLINE void load_turn(UHAL_LOCAL uint16* turn, const Matrix* other, const Matrix* other_value, INDEX first,
                           UHAL_GLOBAL const float* sums, UHAL_GLOBAL const float* offsets, int32 id,
                           const int32 items) {
  load_rows_by(turn, other, first, TILE, id, items);
  load_rows_by(turn + TILE_ELEMENTS, other_value, first, TILE, id, items);
#if BY_KEY
  if (id < TILE / 2) {
    const int32 at = id % (TILE / 4) * 4;
    const uhal_tile to = uhal_tile_of(turn + 2 * TILE_ELEMENTS);
    uhal_copy_async(uhal_tile_at(to, id * 8), (id < TILE / 4 ? sums : offsets) + first + at, 1);
  }
#endif
}

#if PAIRED
/* By way of local memory, a work-item of one team gives sums to that of the other team with the same place. */
UHAL_INLINE void give_sum(UHAL_LOCAL float* exchange, int32 n, const uhal_sum* sum) {
  UHAL_UNROLL for (int32 half = 0; half < 2; ++half) {
    uhal_four_float32 four;
    four.x = sum->elements[half * 4], four.y = sum->elements[half * 4 + 1];
    four.z = sum->elements[half * 4 + 2], four.w = sum->elements[half * 4 + 3];
    *(UHAL_LOCAL uhal_four_float32*)(exchange + ((n * 2 + half) * 128 + (int32)UHAL_LOCAL_ID(0) % 128) * 4) = four;
  }
}
UHAL_INLINE void take_sum(UHAL_LOCAL const float* exchange, int32 n, uhal_sum* sum) {
  UHAL_UNROLL for (int32 half = 0; half < 2; ++half) {
    const uhal_four_float32 four =
        *(UHAL_LOCAL const uhal_four_float32*)(exchange + ((n * 2 + half) * 128 + (int32)UHAL_LOCAL_ID(0) % 128) * 4);
    sum->elements[half * 4] = four.x, sum->elements[half * 4 + 1] = four.y;
    sum->elements[half * 4 + 2] = four.z, sum->elements[half * 4 + 3] = four.w;
  }
}
#endif

/* Of each row of the result, a sum over the other rows, with p = 2^(score - sum), dscore = p * (dy @ v^T - offset):
 *   by query   dq[m] = scale * sum over n of dscore[m, n] * k[n]      own = q, own_value = dy, other = k, other_value = v
 *   BY_KEY     dk[n] = scale * sum over m of dscore[m, n] * q[m]      own = k, own_value = v, other = q, other_value = dy
 *              dv[n] = sum over m of p[m, n] * dy[m]
 * The mask's strides are by own rows and others. `scale` is of scores as powers of two, `gradient_scale` of scores.
 *
 * PAIRED, BY_KEY: two teams have the same keys. The first forms scores, weights and dv, the second dy @ v^T and, with the
 * weights that it is given, dk: each has the sums of one result in its registers, for heads whose both are too many. */
UHAL_KERNEL UHAL_GROUPS_OF(GROUP, GROUPS) void attention_matrix_gradient(
    UHAL_POINTER(own), UHAL_POINTER(other), UHAL_POINTER(own_value), UHAL_POINTER(other_value), UHAL_POINTER(mask),
    UHAL_POINTER(sums), UHAL_POINTER(offsets), UHAL_POINTER(result), UHAL_POINTER(value_result), Backward p, float scale,
    float gradient_scale, int32 causal, int32 mask_dtype) {
  UHAL_LAUNCHED_LOCAL_MEMORY(uint16, local, LOCAL_ELEMENTS)
  UHAL_LOCAL uint16* const streamed = local + 2 * OPERAND_ELEMENTS(ROWS);
  const int32 warp = (int32)UHAL_LOCAL_ID(0) / UHAL_LANES;
  const int32 lane = (int32)UHAL_LOCAL_ID(0) % UHAL_LANES;

  /* The longest work of causal attention first: the last queries, the first keys. */
  const INDEX task = UHAL_GROUP_ID(0);
  const INDEX number = task % p.tasks.tiles;
  const INDEX first = (BY_KEY ? number : p.tasks.tiles - 1 - number) * ROWS;
  const INDEX slice = task / p.tasks.tiles % p.tasks.slices * SLICE;
  const INDEX pair = task / p.tasks.tiles / p.tasks.slices;
  const INDEX batch = pair / p.tasks.heads;
  const INDEX head = pair % p.tasks.heads;
  const Matrix left = head_of(UHAL_ADDRESS(X_STORAGE, own), p.own, batch, head, p.rows, p.depth);
  const Matrix right = head_of(UHAL_ADDRESS(X_STORAGE, other), p.other, batch, head, p.others, p.depth);
  const Matrix left_value = head_of(UHAL_ADDRESS(X_STORAGE, own_value), p.own_value, batch, head, p.rows, p.width);
  const Matrix right_value =
      head_of(UHAL_ADDRESS(X_STORAGE, other_value), p.other_value, batch, head, p.others, p.width);
  const Matrix result = head_of(UHAL_ADDRESS(X_STORAGE, result), p.result, batch, head, p.rows, p.depth);
  UHAL_GLOBAL const float* const all_sums = UHAL_ADDRESS(const float, sums) + pair * p.padded;
  UHAL_GLOBAL const float* const all_offsets = UHAL_ADDRESS(const float, offsets) + pair * p.padded;
  const float factor = HAS_MASK ? 1 : scale;

  const INDEX shift = BY_KEY ? p.rows - p.others : p.others - p.rows;
  const int32 own_warp = PAIRED ? warp % TEAM : warp;
  const INDEX own_row = first + own_warp * WARP_ROWS;
  const INDEX team_row = first + own_warp / TEAM * TEAM_ROWS;
  Sight sight;
  sight.rows = p.rows, sight.others = p.others, sight.shift = shift;
  sight.in_mask = batch * p.mask.batch + head * p.mask.head, sight.mask = p.mask;
  sight.masks = UHAL_ADDRESS(const char, mask), sight.mask_dtype = mask_dtype;
  sight.scale = scale, sight.causal = causal;
  INDEX begin = 0, end = p.others;
  if (causal && BY_KEY) {
    if (first > shift) begin = (first - shift) / TILE * TILE; /* the first query that sees a key of the group */
  } else if (causal) {
    if (first + ROWS + shift < end) end = first + ROWS + shift;
  }

  const int32 id = (int32)UHAL_LOCAL_ID(0);
  load_rows(local, &left, first, ROWS);
  load_rows(local + OPERAND_ELEMENTS(ROWS), &left_value, first, ROWS);
  if (begin < end) load_turn(streamed, &right, &right_value, begin, all_sums, all_offsets, id, GROUP);
  uhal_await_copies();
  UHAL_BARRIER();
  const uhal_tile own_tile =
      uhal_tile_at(uhal_tile_of(local), OPERAND_PLACE(own_warp / TEAM * TEAM_ROWS, 0, ROWS) + LEFT_LANE);
  DECLARE_OWN_PARTS(2)
#if !BY_KEY
  float sum_of[BLOCKS][UHAL_SUM_ROWS], offset_of[BLOCKS][UHAL_SUM_ROWS];
  FOR_BLOCKS(m) {
    FOR_SLOTS(slot) {
      sum_of[m][slot] = all_sums[own_row + m * 16 + uhal_slot_row(lane, slot)];
      offset_of[m][slot] = all_offsets[own_row + m * 16 + uhal_slot_row(lane, slot)];
    }
  }
#endif

#if PAIRED
  const int32 team = warp / TEAM;
  UHAL_LOCAL float* const exchange = (UHAL_LOCAL float*)(streamed + 2 * TURN_ELEMENTS);
  uhal_sum gradient[1][HEAD / 16]; /* dv of the first team, dk of the second */
  FOR_SUMS(n, HEAD) {
    FOR_ELEMENTS(i) gradient[0][n].elements[i] = 0;
  }
  int32 turn = 0;
  for (INDEX start = begin; start < end; start += TILE, turn ^= 1) {
    UHAL_LOCAL uint16* const tile = streamed + turn * TURN_ELEMENTS;
    uhal_await_copies();
    UHAL_BARRIER();
    uhal_sum sums[1][TILE / 16]; /* scores of the first team, products of the second */
    const uhal_tile of_tile = uhal_tile_of(tile);
    const uhal_tile own_of_team = uhal_tile_at(own_tile, team * OPERAND_ELEMENTS(ROWS));
    MULTIPLY_TILES(sums, TILE, own_of_team, uhal_tile_at(of_tile, team * TILE_ELEMENTS));
    /* The second team, which waits for the first one's weights. */
    if (team != 0 && start + TILE < end) {
      load_turn(streamed + (turn ^ 1) * TURN_ELEMENTS, &right, &right_value, start + TILE, all_sums, all_offsets,
                id - TEAM * UHAL_LANES, TEAM * UHAL_LANES);
    }
    AWAIT_PRODUCTS(0, sums, TILE);
    uhal_left factors[1][TILE / 16];
    UHAL_LOCAL const float* const known = (UHAL_LOCAL const float*)(tile + 2 * TILE_ELEMENTS);
    if (team == 0) {
      hide_scores(sums[0], TILE, &sight, own_row, start, lane);
      FOR_SUMS(n, TILE) {
        FOR_ELEMENTS(i) {
          const float sum = known[n * 16 + uhal_sum_column(lane, i)];
          sums[0][n].elements[i] = uhal_fast_exp2(fma(sums[0][n].elements[i], factor, -sum));
        }
        give_sum(exchange, n, &sums[0][n]);
      }
    }
    UHAL_BARRIER();
    if (team != 0) {
      FOR_SUMS(n, TILE) {
        uhal_sum weight;
        take_sum(exchange, n, &weight);
        FOR_ELEMENTS(i) {
          const float offset = known[TILE + n * 16 + uhal_sum_column(lane, i)];
          sums[0][n].elements[i] = weight.elements[i] * (sums[0][n].elements[i] - offset);
        }
      }
    }
    FOR_SUMS(n, TILE) uhal_left_of_sum(&factors[0][n], &sums[0][n], lane);
    ADD_WEIGHTED(gradient, HEAD, factors, TILE, uhal_tile_at(of_tile, (1 - team) * TILE_ELEMENTS));
    AWAIT_PRODUCTS(0, gradient, HEAD);
  }

  uhal_await_copies();
  UHAL_BARRIER(); /* nobody reads operands any more, and none are on their way */
  FOR_SUMS(n, HEAD) {
    FOR_ELEMENTS(i) gradient[0][n].elements[i] *= team == 0 ? 1 : gradient_scale;
    uhal_store_sum(local + ((1 - team) * ROWS + warp % TEAM * 16) * PITCH + n * 16, &gradient[0][n], PITCH, lane);
  }
  UHAL_BARRIER();
#else
  uhal_sum gradient[BLOCKS][SLICE / 16];
#if BY_KEY
  uhal_sum value_gradient[BLOCKS][SLICE / 16];
#endif
  FOR_BLOCKS(m) {
    FOR_SUMS(n, SLICE) {
      FOR_ELEMENTS(i) {
        gradient[m][n].elements[i] = 0;
#if BY_KEY
        value_gradient[m][n].elements[i] = 0;
#endif
      }
    }
  }

  int32 turn = 0;
  for (INDEX start = begin; start < end; start += TILE, turn ^= 1) {
    UHAL_LOCAL uint16* const tile = streamed + turn * TURN_ELEMENTS;
    uhal_await_copies();
    UHAL_BARRIER();
    if (start + TILE < end) {
      load_turn(streamed + (turn ^ 1) * TURN_ELEMENTS, &right, &right_value, start + TILE, all_sums, all_offsets, id,
                GROUP);
    }
    for (int32 step = 0; step < TILE; step += STEP) {
      const INDEX others = start + step;
      if (others >= end) break;
      if (causal && (BY_KEY ? team_row > others + STEP - 1 + shift : others > team_row + TEAM_ROWS - 1 + shift)) {
        continue;
      }
      const uhal_tile of_step = uhal_tile_at(uhal_tile_of(tile), step * ROW_DISTANCE);
      const uhal_tile of_right = uhal_tile_at(of_step, RIGHT_LANE);
      uhal_sum scores[BLOCKS][STEP / 16], products[BLOCKS][STEP / 16];
      MULTIPLY(scores, BLOCKS, STEP, 0, of_right);
#if UHAL_MATRIX_FORM == 3
      MULTIPLY(products, BLOCKS, STEP, 1, uhal_tile_at(of_right, TILE_ELEMENTS));
      AWAIT_PRODUCTS(1, scores, STEP);
#endif
      FOR_BLOCKS(m) hide_scores(scores[m], STEP, &sight, own_row + m * 16, others, lane);
#if UHAL_MATRIX_FORM != 3
      MULTIPLY(products, BLOCKS, STEP, 1, uhal_tile_at(of_right, TILE_ELEMENTS));
#endif
      uhal_left score_weights[BLOCKS][STEP / 16];
#if BY_KEY
      uhal_left weights[BLOCKS][STEP / 16];
      UHAL_LOCAL const float* const known = (UHAL_LOCAL const float*)(tile + 2 * TILE_ELEMENTS) + step;
#endif
      FOR_SUMS(n, STEP) {
        FOR_BLOCKS(m) {
          FOR_ELEMENTS(i) {
#if BY_KEY
            const float sum = known[n * 16 + uhal_sum_column(lane, i)];
#else
            const float sum = sum_of[m][uhal_sum_slot(i)];
#endif
            scores[m][n].elements[i] = uhal_fast_exp2(fma(scores[m][n].elements[i], factor, -sum));
          }
#if BY_KEY
          uhal_left_of_sum(&weights[m][n], &scores[m][n], lane);
#endif
        }
      }
      const uhal_tile of_across = uhal_tile_at(of_step, OPERAND_PLACE(0, slice, TILE) + ACROSS_LANE);
#if BY_KEY
      ADD_WEIGHTED(value_gradient, SLICE, weights, STEP, uhal_tile_at(of_across, TILE_ELEMENTS));
#endif
      AWAIT_PRODUCTS(BY_KEY, products, STEP);
      FOR_SUMS(n, STEP) {
        FOR_BLOCKS(m) {
          FOR_ELEMENTS(i) {
#if BY_KEY
            const float offset = known[TILE + n * 16 + uhal_sum_column(lane, i)];
#else
            const float offset = offset_of[m][uhal_sum_slot(i)];
#endif
            products[m][n].elements[i] = scores[m][n].elements[i] * (products[m][n].elements[i] - offset);
          }
          uhal_left_of_sum(&score_weights[m][n], &products[m][n], lane);
        }
      }
      ADD_WEIGHTED(gradient, SLICE, score_weights, STEP, of_across);
      AWAIT_PRODUCTS(0, gradient, SLICE);
#if BY_KEY
      AWAIT_PRODUCTS(0, value_gradient, SLICE);
#endif
    }
  }

  uhal_await_copies();
  UHAL_BARRIER(); /* nobody reads operands any more, and none are on their way */
  FOR_BLOCKS(m) {
    FOR_SUMS(n, SLICE) {
      FOR_ELEMENTS(i) gradient[m][n].elements[i] *= gradient_scale;
      UHAL_LOCAL uint16* const to = local + (warp * WARP_ROWS + m * 16) * PITCH + n * 16;
      uhal_store_sum(to, &gradient[m][n], PITCH, lane);
#if BY_KEY
      uhal_store_sum(to + ROWS * PITCH, &value_gradient[m][n], PITCH, lane);
#endif
    }
  }
  UHAL_BARRIER();
#endif
  store_rows(local, &result, first, slice, SLICE);
#if BY_KEY
  const Matrix value_result =
      head_of(UHAL_ADDRESS(X_STORAGE, value_result), p.value_result, batch, head, p.rows, p.width);
  store_rows(local + ROWS * PITCH, &value_result, first, slice, SLICE);
#endif
}
#endif
