/* Attention and its gradients by tiles, so that no score reaches global memory: softmax is updated as tiles of keys
 * come by (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018), and the gradients form the scores
 * anew from the logsumexp (Dao et al., FlashAttention, 2022).
 *
 * A work-group has SIDE x SIDE work-items and forms WIDTH columns of TILE rows of a result, going through the other
 * operand TILE rows at a time. Work-item (x, y) holds the rows y * PER_ITEM + i, i < PER_ITEM, and of scores the
 * columns x * PER_ITEM + j, j < PER_ITEM, of results COLUMNS, FOUR that lie side by side and then as many of all others
 * before its next: so local memory is read FOUR elements at a time. Heads of any size: scores are summed CHUNK elements at
 * a time, and results wider than WIDTH are formed in slices.
 *
 * Macros: SIDE, COLUMNS, COMPACT (1: within 64 registers and 16 KiB of local memory); and X, the dtype of the operands, or MIXED if theirs differ: then dtypes come as arguments.
 * Masks and sums have dtypes of their own in any case. */
#include "csrc/kernels/prelude/floating.h"

#define GROUP (SIDE * SIDE)
#if UHAL_COMPUTE_double
#define PER_ITEM 2
#else
#define PER_ITEM 4
#endif
#define FOUR (PER_ITEM < COLUMNS ? PER_ITEM : COLUMNS)
#define COLUMN(x, j) ((x) * FOUR + (j) / FOUR * FOUR * SIDE + (j) % FOUR)
#define TILE (SIDE * PER_ITEM)
#define PITCH (TILE + 4) /* of a transposed tile in local memory: rows of a work-item stay aligned, and banks differ */
/* Elements of a chunk, and rows of weights that are in local memory at a time: all of a tile, or as many as are multiplied
 * between two barriers, the least local memory for these 64 KiB of four SIMDs or the most work between barriers. */
#if COMPACT
#define CHUNK 16
#define KEPT_WEIGHTS CHUNK
#elif UHAL_IS_AMD && UHAL_COMPUTE_float
#define CHUNK 32
#define KEPT_WEIGHTS CHUNK
#else
#define CHUNK 16
#define KEPT_WEIGHTS TILE
#endif
#define WIDTH (SIDE * COLUMNS)

/* Local memory for two chunks of score operands, for a chunk of values, and for one number per row and x. */
#define CHUNK_ELEMENTS (2 * CHUNK * PITCH > CHUNK * WIDTH ? 2 * CHUNK * PITCH : CHUNK * WIDTH)

/* values[0 to count-1] = p[0 to count-1], of local memory, where count is 2 or 4 and p a multiple of it. */
#if UHAL_COMPUTE_double
#define LOAD_LOCAL(values, p, count) (values)[0] = (p)[0], (values)[1] = (p)[1]
#define STORE_LOCAL(p, values, count) (p)[0] = (values)[0], (p)[1] = (values)[1]
#else
#define LOAD_LOCAL(values, p, count)                             \
  do {                                                           \
    if ((count) == 4) {                                          \
      const T4 uhal_wide = *(UHAL_LOCAL const T4*)(p);           \
      (values)[0] = uhal_wide.x, (values)[1] = uhal_wide.y;      \
      (values)[(count)-2] = uhal_wide.z, (values)[(count)-1] = uhal_wide.w; \
    } else {                                                     \
      (values)[0] = (p)[0], (values)[1] = (p)[1];                \
    }                                                            \
  } while (0)
#define STORE_LOCAL(p, values, count)            \
  do {                                           \
    T4 uhal_wide;                                \
    uhal_wide.x = (values)[0];                   \
    uhal_wide.y = (values)[1];                   \
    uhal_wide.z = (values)[2];                   \
    uhal_wide.w = (values)[3];                   \
    *(UHAL_LOCAL T4*)(p) = uhal_wide;            \
  } while (0)
#endif

/* The number of a work-item in its group, anew wherever it is asked for: what follows from it would else be kept in
 * registers throughout. */
#if UHAL_IS_AMD
UHAL_INLINE int32 item_number(void) {
  int32 item = (int32)UHAL_LOCAL_ID(0);
  UHAL_FORGET(item);
  return item;
}
#define ITEM item_number()
#else
#define ITEM ((int32)UHAL_LOCAL_ID(0))
#endif

#define HIDDEN (-(T)INFINITY) /* the score of what a row does not see */

/* All members are INDEX, so that the host appends them as one array. */
typedef struct {
  INDEX batch, head, row, column;
} Strides;

typedef struct {
  INDEX heads, tiles, slices;
} Tasks;

/* One head of an operand. */
typedef struct {
  UHAL_GLOBAL char* data;
  INDEX offset, row_stride, column_stride, rows, columns;
  int32 dtype;
} Matrix;

#if MIXED
#define LOAD(matrix, i) uhal_load_floating((matrix)->dtype, (matrix)->data, i)
#define STORE(matrix, i, value) uhal_store_floating((matrix)->dtype, (matrix)->data, i, value)
#else
#define LOAD(matrix, i) X_LOAD((UHAL_GLOBAL const X_STORAGE*)(matrix)->data, i)
#define STORE(matrix, i, value)                                      \
  do {                                                               \
    UHAL_GLOBAL X_STORAGE* to = (UHAL_GLOBAL X_STORAGE*)(matrix)->data; \
    X_STORE(to, i, value);                                           \
  } while (0)
#endif

UHAL_INLINE Matrix head_of(UHAL_GLOBAL char* data, int32 dtype, Strides strides, INDEX batch, INDEX head, INDEX rows,
                           INDEX columns) {
  Matrix matrix;
  matrix.data = data;
  matrix.dtype = dtype;
  matrix.offset = batch * strides.batch + head * strides.head;
  matrix.row_stride = strides.row;
  matrix.column_stride = strides.column;
  matrix.rows = rows;
  matrix.columns = columns;
  return matrix;
}

/* chunk[c][r] = matrix[first + r][start + c] for a tile of rows; zero outside. */
UHAL_INLINE void load_transposed(UHAL_LOCAL T* chunk, const Matrix* matrix, INDEX first, INDEX start) {
  const int32 item = ITEM;
  UHAL_UNROLL for (int32 part = 0; part < TILE * CHUNK / GROUP; ++part) {
    const int32 i = item + part * GROUP;
    const INDEX row = first + i / CHUNK;
    const INDEX column = start + i % CHUNK;
    T value = 0;
    if (row < matrix->rows && column < matrix->columns) {
      value = LOAD(matrix, matrix->offset + row * matrix->row_stride + column * matrix->column_stride);
    }
    chunk[i % CHUNK * PITCH + i / CHUNK] = value;
  }
}

/* products = a[first_a...] @ b[first_b...]^T, a tile of rows of each. */
UHAL_INLINE void multiply(UHAL_LOCAL T* chunk, const Matrix* a, INDEX first_a, const Matrix* b, INDEX first_b,
                          T products[PER_ITEM][PER_ITEM]) {
  UHAL_LOCAL T* other = chunk + CHUNK * PITCH;
  const int32 x = ITEM % SIDE;
  const int32 y = ITEM / SIDE;
  for (int32 i = 0; i < PER_ITEM; ++i) {
    for (int32 j = 0; j < PER_ITEM; ++j) products[i][j] = 0;
  }
  for (INDEX start = 0; start < a->columns; start += CHUNK) {
    UHAL_BARRIER();
    load_transposed(chunk, a, first_a, start);
    load_transposed(other, b, first_b, start);
    UHAL_BARRIER();
    UHAL_UNROLL for (int32 c = 0; c < CHUNK; ++c) {
      T left[PER_ITEM], right[PER_ITEM];
      LOAD_LOCAL(left, chunk + c * PITCH + y * PER_ITEM, PER_ITEM);
      LOAD_LOCAL(right, other + c * PITCH + x * PER_ITEM, PER_ITEM);
      UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) {
        UHAL_UNROLL for (int32 j = 0; j < PER_ITEM; ++j) products[i][j] += left[i] * right[j];
      }
    }
  }
}

/* scores * scale + mask, as far as there are rows and columns; apart from what follows, since most have no mask. */
UHAL_INLINE void finish_scores(T scores[PER_ITEM][PER_ITEM], T scale, int32 has_mask, int32 dtype,
                               UHAL_GLOBAL const char* masks, INDEX of_mask, INDEX row_stride, INDEX column_stride,
                               INDEX rows, INDEX columns, INDEX first_row, INDEX first_column) {
  UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) {
    UHAL_UNROLL for (int32 j = 0; j < PER_ITEM; ++j) scores[i][j] *= scale;
  }
  if (!has_mask) return;
  const int32 x = ITEM % SIDE * PER_ITEM;
  const int32 y = ITEM / SIDE * PER_ITEM;
  const INDEX start = of_mask + first_row * row_stride + first_column * column_stride;
  UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) {
    /* What is outside takes the mask of the last row or column, and is hidden later. */
    const INDEX row = y + i < rows ? y + i : rows - 1;
    UHAL_UNROLL for (int32 j = 0; j < PER_ITEM; ++j) {
      const INDEX column = x + j < columns ? x + j : columns - 1;
      scores[i][j] += uhal_load_floating(dtype, masks, start + row * row_stride + column * column_stride);
    }
  }
}

/* weights[c][r] = own[r][start + c] of each work-item's rows and columns, c < KEPT_WEIGHTS. */
UHAL_INLINE void store_weights(UHAL_LOCAL T* weights, T own[PER_ITEM][PER_ITEM], int32 start) {
  const int32 first = ITEM % SIDE * PER_ITEM - start;
  const int32 y = ITEM / SIDE;
  if (KEPT_WEIGHTS < TILE && (first < 0 || first >= KEPT_WEIGHTS)) return;
  UHAL_UNROLL for (int32 j = 0; j < PER_ITEM; ++j) {
    T column[PER_ITEM];
    UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) column[i] = own[i][j];
    STORE_LOCAL(weights + (first + j) * PITCH + y * PER_ITEM, column, PER_ITEM);
  }
}

/* result += own @ values[first..., slice...], where own[r][c] is the weight of row first + c of values for row r of the
 * result, through local memory, which nobody reads any more if all weights are kept there. */
UHAL_INLINE void add_weighted(UHAL_LOCAL T* chunk, UHAL_LOCAL T* weights, T own[PER_ITEM][PER_ITEM],
                              const Matrix* values, INDEX first, INDEX slice, T result[PER_ITEM][COLUMNS]) {
  const int32 x = ITEM % SIDE;
  const int32 y = ITEM / SIDE;
  const int32 rows = values->rows - first < TILE ? (int32)(values->rows - first) : TILE;
  if (KEPT_WEIGHTS == TILE) store_weights(weights, own, 0);
  for (int32 start = 0; start < rows; start += CHUNK) {
    UHAL_BARRIER();
    if (KEPT_WEIGHTS < TILE) store_weights(weights, own, start);
    const int32 item = ITEM;
    UHAL_UNROLL for (int32 part = 0; part < CHUNK * WIDTH / GROUP; ++part) {
      const int32 i = item + part * GROUP;
      const INDEX row = first + start + i / WIDTH;
      const INDEX column = slice + i % WIDTH;
      T value = 0;
      if (row < values->rows && column < values->columns) {
        value = LOAD(values, values->offset + row * values->row_stride + column * values->column_stride);
      }
      chunk[i] = value;
    }
    UHAL_BARRIER();
    UHAL_UNROLL for (int32 c = 0; c < CHUNK; ++c) {
      T weight[PER_ITEM], value[COLUMNS];
      LOAD_LOCAL(weight, weights + (start % KEPT_WEIGHTS + c) * PITCH + y * PER_ITEM, PER_ITEM);
      UHAL_UNROLL for (int32 j = 0; j < COLUMNS; j += FOUR) LOAD_LOCAL(value + j, chunk + c * WIDTH + COLUMN(x, j), FOUR);
      UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) {
        UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) result[i][j] += weight[i] * value[j];
      }
    }
  }
}

/* result[first..., slice...] = factor[row] * sums */
UHAL_INLINE void store_rows(const Matrix* result, INDEX first, INDEX slice, T sums[PER_ITEM][COLUMNS],
                            const T factor[PER_ITEM]) {
  const int32 x = ITEM % SIDE;
  const int32 y = ITEM / SIDE;
  for (int32 i = 0; i < PER_ITEM; ++i) {
    const INDEX row = first + y * PER_ITEM + i;
    if (row >= result->rows) continue;
    for (int32 j = 0; j < COLUMNS; ++j) {
      const INDEX column = slice + COLUMN(x, j);
      if (column >= result->columns) continue;
      STORE(result, result->offset + row * result->row_stride + column * result->column_stride,
            sums[i][j] * factor[i]);
    }
  }
}

/* One number of each work-item for each of its rows, for all work-items of that row to read: exchange[row][x]. */
UHAL_INLINE void exchange_rows(UHAL_LOCAL T* exchange, const T own[PER_ITEM]) {
  const int32 x = ITEM % SIDE;
  const int32 y = ITEM / SIDE;
  UHAL_BARRIER();
  for (int32 i = 0; i < PER_ITEM; ++i) exchange[(y * PER_ITEM + i) * SIDE + x] = own[i];
  UHAL_BARRIER();
}

typedef struct {
  Tasks tasks;
  INDEX queries, keys, depth, width;
  Strides q, k, v, mask, y, logsumexp;
} Forward;

typedef struct {
  int32 q, k, v, mask, y, logsumexp;
} ForwardDtypes;

UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) UHAL_COMPACT void attention_forward(UHAL_POINTER(q), UHAL_POINTER(k), UHAL_POINTER(v),
                                                        UHAL_POINTER(mask), UHAL_POINTER(y), UHAL_POINTER(logsumexp),
                                                        Forward p, ForwardDtypes dtypes, T scale, int32 causal,
                                                        int32 has_mask, int32 has_logsumexp) {
  UHAL_LOCAL_MEMORY T4 chunk_memory[CHUNK_ELEMENTS / 4]; /* of T4, so that both are aligned */
  UHAL_LOCAL_MEMORY T4 weights_memory[KEPT_WEIGHTS * PITCH / 4];
  UHAL_LOCAL T* chunk = (UHAL_LOCAL T*)chunk_memory;
  UHAL_LOCAL T* weights = (UHAL_LOCAL T*)weights_memory;
  UHAL_GLOBAL const char* masks = UHAL_ADDRESS(const char, mask);
  UHAL_GLOBAL char* sums = UHAL_ADDRESS(char, logsumexp);

  const INDEX task = UHAL_GROUP_ID(0);
  const INDEX first = task % p.tasks.tiles * TILE;
  const INDEX slice = task / p.tasks.tiles % p.tasks.slices * WIDTH;
  const INDEX pair = task / p.tasks.tiles / p.tasks.slices;
  const INDEX batch = pair / p.tasks.heads;
  const INDEX head = pair % p.tasks.heads;
  const INDEX of_mask = batch * p.mask.batch + head * p.mask.head;
  const Matrix queries = head_of(UHAL_ADDRESS(char, q), dtypes.q, p.q, batch, head, p.queries, p.depth);
  const Matrix keys = head_of(UHAL_ADDRESS(char, k), dtypes.k, p.k, batch, head, p.keys, p.depth);
  const Matrix values = head_of(UHAL_ADDRESS(char, v), dtypes.v, p.v, batch, head, p.keys, p.width);
  const Matrix result = head_of(UHAL_ADDRESS(char, y), dtypes.y, p.y, batch, head, p.queries, p.width);

  T maximum[PER_ITEM], total[PER_ITEM], average[PER_ITEM][COLUMNS];
  for (int32 i = 0; i < PER_ITEM; ++i) {
    maximum[i] = HIDDEN;
    total[i] = 0; /* this work-item's share */
    for (int32 j = 0; j < COLUMNS; ++j) average[i][j] = 0;
  }
  /* What the last row of the tile sees, as far as there are keys. */
  const INDEX seen = first + TILE + p.keys - p.queries;
  const INDEX end = causal && seen < p.keys ? seen : p.keys;
  for (INDEX other = 0; other < end; other += TILE) {
    T scores[PER_ITEM][PER_ITEM], own[PER_ITEM];
    multiply(chunk, &queries, first, &keys, other, scores);
    finish_scores(scores, scale, has_mask, dtypes.mask, masks, of_mask, p.mask.row, p.mask.column, p.queries - first,
                  p.keys - other, first, other);
    const int32 x = ITEM % SIDE;
    const int32 item_row = ITEM / SIDE * PER_ITEM;
    for (int32 i = 0; i < PER_ITEM; ++i) {
      const INDEX row = first + item_row + i;
      own[i] = maximum[i];
      for (int32 j = 0; j < PER_ITEM; ++j) {
        const INDEX column = other + x * PER_ITEM + j;
        T score = HIDDEN;
        if (row < p.queries && column < p.keys && (!causal || column <= row + p.keys - p.queries)) {
          score = scores[i][j];
        }
        scores[i][j] = score;
        own[i] = fmax(own[i], score);
      }
    }
    exchange_rows(chunk, own);
    for (int32 i = 0; i < PER_ITEM; ++i) {
      for (int32 k = 0; k < SIDE; ++k) own[i] = fmax(own[i], chunk[(item_row + i) * SIDE + k]);
      /* Of a row that has seen nothing yet, any finite number keeps exp(-infinity) at 0. */
      const T shift = own[i] == HIDDEN ? 0 : own[i];
      const T kept = exp(maximum[i] - shift);
      maximum[i] = own[i];
      total[i] *= kept;
      for (int32 j = 0; j < COLUMNS; ++j) average[i][j] *= kept;
      for (int32 j = 0; j < PER_ITEM; ++j) {
        const T weight = exp(scores[i][j] - shift);
        total[i] += weight;
        scores[i][j] = weight;
      }
    }
    add_weighted(chunk, weights, scores, &values, other, slice, average);
  }

  const int32 x = ITEM % SIDE;
  const int32 item_row = ITEM / SIDE * PER_ITEM;
  exchange_rows(chunk, total);
  T factor[PER_ITEM];
  for (int32 i = 0; i < PER_ITEM; ++i) {
    T sum = 0;
    for (int32 k = 0; k < SIDE; ++k) sum += chunk[(item_row + i) * SIDE + k];
    factor[i] = sum == 0 ? 0 : 1 / sum;
    const INDEX row = first + item_row + i;
    if (has_logsumexp && slice == 0 && x == 0 && row < p.queries) {
      uhal_store_floating(dtypes.logsumexp, sums,
                 batch * p.logsumexp.batch + head * p.logsumexp.head + row * p.logsumexp.row,
                 sum == 0 ? HIDDEN : maximum[i] + log(sum));
    }
  }
  store_rows(&result, first, slice, average, factor);
}

typedef struct {
  INDEX heads, queries, width, count;
  Strides y, dy, logsumexp;
} Offsets;

/* offsets[b, h, m, 0] = sum of y * dy over a row: what the gradient of softmax subtracts. SIDE work-items form one.
 * offsets[b, h, m, 1] = the row's logsumexp: 0 of one that sees nothing, whose weights are 0 all the same. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void attention_offsets(UHAL_POINTER(y), UHAL_POINTER(dy),
                                                                UHAL_POINTER(logsumexp), UHAL_POINTER(offsets),
                                                                Offsets p, int32 y_dtype, int32 dy_dtype,
                                                                int32 logsumexp_dtype) {
  UHAL_LOCAL_MEMORY T partial[SIDE * (SIDE + 1)];
  const int32 x = (int32)UHAL_LOCAL_ID(0) % SIDE;
  const int32 team = (int32)UHAL_LOCAL_ID(0) / SIDE;
  UHAL_GLOBAL T* to = UHAL_ADDRESS(T, offsets);
  const INDEX index = UHAL_GROUP_ID(0) * SIDE + team;
  T sum = 0;
  if (index < p.count) {
    const INDEX pair = index / p.queries;
    const INDEX row = index % p.queries;
    const Matrix outputs =
        head_of(UHAL_ADDRESS(char, y), y_dtype, p.y, pair / p.heads, pair % p.heads, p.queries, p.width);
    const Matrix gradients =
        head_of(UHAL_ADDRESS(char, dy), dy_dtype, p.dy, pair / p.heads, pair % p.heads, p.queries, p.width);
    const INDEX of_output = outputs.offset + row * outputs.row_stride;
    const INDEX of_gradient = gradients.offset + row * gradients.row_stride;
    for (INDEX e = x; e < p.width; e += SIDE) {
      sum += LOAD(&outputs, of_output + e * outputs.column_stride) *
             LOAD(&gradients, of_gradient + e * gradients.column_stride);
    }
  }
  partial[team * (SIDE + 1) + x] = sum;
  UHAL_BARRIER();
  if (x == 0 && index < p.count) {
    for (int32 k = 1; k < SIDE; ++k) sum += partial[team * (SIDE + 1) + k];
    to[2 * index] = sum;
    const INDEX pair = index / p.queries;
    const INDEX at = pair / p.heads * p.logsumexp.batch + pair % p.heads * p.logsumexp.head +
                     index % p.queries * p.logsumexp.row;
    const T total = uhal_load_floating(logsumexp_dtype, UHAL_ADDRESS(const char, logsumexp), at);
    to[2 * index + 1] = total == HIDDEN ? 0 : total;
  }
  UHAL_BARRIER();
}

typedef struct {
  Tasks tasks;
  INDEX rows, others, depth, width, columns;
  Strides own, other, own_value, other_value, factor, mask, result;
} Backward;

typedef struct {
  int32 own, other, own_value, other_value, factor, mask, result;
} BackwardDtypes;

/* One of the three gradients, each a sum over the rows of the other operand:
 *   dq[m] = sum over n of dscore[m, n] * k[n]    own = q, other = k, own_value = dy, other_value = v,  factor = k
 *   dk[n] = sum over m of dscore[m, n] * q[m]    own = k, other = q, own_value = v,  other_value = dy, factor = q
 *   dv[n] = sum over m of p[m, n] * dy[m]        own = k, other = q,                                   factor = dy
 * with p = exp(score - logsumexp) and dscore = p * (dy @ v^T - offset) * scale; of_scores tells dscore from p, and
 * by_key whether the rows of the result are keys. The mask's strides are by rows of the result and of the other. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) UHAL_COMPACT void attention_gradient(
    UHAL_POINTER(own), UHAL_POINTER(other), UHAL_POINTER(own_value), UHAL_POINTER(other_value), UHAL_POINTER(factor),
    UHAL_POINTER(mask), UHAL_POINTER(offsets), UHAL_POINTER(result), Backward p,
    BackwardDtypes dtypes, T scale, int32 causal, int32 has_mask, int32 of_scores, int32 by_key) {
  UHAL_LOCAL_MEMORY T4 chunk_memory[CHUNK_ELEMENTS / 4]; /* of T4, so that both are aligned */
  UHAL_LOCAL_MEMORY T4 weights_memory[KEPT_WEIGHTS * PITCH / 4];
  UHAL_LOCAL T* chunk = (UHAL_LOCAL T*)chunk_memory;
  UHAL_LOCAL T* weights = (UHAL_LOCAL T*)weights_memory;
  UHAL_GLOBAL const char* masks = UHAL_ADDRESS(const char, mask);
  const INDEX queries = by_key ? p.others : p.rows;
  const INDEX keys = by_key ? p.rows : p.others;

  const INDEX task = UHAL_GROUP_ID(0);
  const INDEX first = task % p.tasks.tiles * TILE;
  const INDEX slice = task / p.tasks.tiles % p.tasks.slices * WIDTH;
  const INDEX pair = task / p.tasks.tiles / p.tasks.slices;
  const INDEX batch = pair / p.tasks.heads;
  const INDEX head = pair % p.tasks.heads;
  const INDEX of_mask = batch * p.mask.batch + head * p.mask.head;
  const Matrix left = head_of(UHAL_ADDRESS(char, own), dtypes.own, p.own, batch, head, p.rows, p.depth);
  const Matrix right = head_of(UHAL_ADDRESS(char, other), dtypes.other, p.other, batch, head, p.others, p.depth);
  const Matrix left_value =
      head_of(UHAL_ADDRESS(char, own_value), dtypes.own_value, p.own_value, batch, head, p.rows, p.width);
  const Matrix right_value =
      head_of(UHAL_ADDRESS(char, other_value), dtypes.other_value, p.other_value, batch, head, p.others, p.width);
  const Matrix factors = head_of(UHAL_ADDRESS(char, factor), dtypes.factor, p.factor, batch, head, p.others, p.columns);
  const Matrix results = head_of(UHAL_ADDRESS(char, result), dtypes.result, p.result, batch, head, p.rows, p.columns);
  UHAL_GLOBAL const T* known = UHAL_ADDRESS(const T, offsets) + 2 * pair * queries;

  T gradient[PER_ITEM][COLUMNS];
  for (int32 i = 0; i < PER_ITEM; ++i) {
    for (int32 j = 0; j < COLUMNS; ++j) gradient[i][j] = 0;
  }
  INDEX begin = 0, end = p.others;
  if (causal && by_key) { /* the first query that sees a key of the tile */
    const INDEX sees = first + queries - keys;
    if (sees > 0) begin = sees;
  } else if (causal) {
    const INDEX seen = first + TILE + keys - queries;
    if (seen < end) end = seen;
  }
  for (INDEX start = begin; start < end; start += TILE) {
    T scores[PER_ITEM][PER_ITEM], products[PER_ITEM][PER_ITEM];
    multiply(chunk, &left, first, &right, start, scores);
    multiply(chunk, &left_value, first, &right_value, start, products); /* nothing of width 0 */
    finish_scores(scores, scale, has_mask, dtypes.mask, masks, of_mask, p.mask.row, p.mask.column, p.rows - first,
                  p.others - start, first, start);
    UHAL_BARRIER(); /* weights of the tile before are no longer read */
    const int32 x = ITEM % SIDE;
    const int32 item_row = ITEM / SIDE * PER_ITEM;
    for (int32 i = 0; i < PER_ITEM; ++i) {
      const INDEX row = first + item_row + i;
      UHAL_UNROLL for (int32 j = 0; j < PER_ITEM; ++j) {
        const INDEX column = start + x * PER_ITEM + j;
        const INDEX query = by_key ? column : row;
        const INDEX key = by_key ? row : column;
        T weight = 0;
        if (query < queries && key < keys && (!causal || key <= query + keys - queries)) {
          weight = exp(scores[i][j] - known[2 * query + 1]);
          if (of_scores) weight *= (products[i][j] - known[2 * query]) * scale;
        }
        scores[i][j] = weight;
      }
    }
    add_weighted(chunk, weights, scores, &factors, start, slice, gradient);
  }
  T one[PER_ITEM];
  for (int32 i = 0; i < PER_ITEM; ++i) one[i] = 1;
  store_rows(&results, first, slice, gradient, one);
}
