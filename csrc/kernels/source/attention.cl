/* Attention and its gradients by tiles, so that no score reaches global memory: softmax is updated as tiles of keys
 * come by (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018), and the gradients form the scores
 * anew from the logsumexp (Dao et al., FlashAttention, 2022).
 *
 * A work-group has SIDE x SIDE work-items and forms WIDTH columns of TILE rows of a result, going through the other
 * operand TILE rows at a time. Work-item (x, y) holds the rows y * PER_ITEM + i, i < PER_ITEM, and of scores the
 * columns x + j * SIDE, j < PER_ITEM, of results the columns x + j * SIDE, j < COLUMNS. Heads of any size: scores are
 * summed CHUNK elements at a time, and results wider than WIDTH are formed in slices.
 *
 * Macros: SIDE, COLUMNS; and X, the dtype of the operands, or MIXED if theirs differ: then dtypes come as arguments.
 * Masks and sums have dtypes of their own in any case. */
#include "csrc/kernels/prelude/floating.h"

#define GROUP (SIDE * SIDE)
#if UHAL_COMPUTE_double
#define PER_ITEM 2
#else
#define PER_ITEM 4
#endif
#define TILE (SIDE * PER_ITEM)
#define PITCH (TILE + 4) /* of a transposed tile in local memory: rows of a work-item stay aligned, and banks differ */
#define CHUNK 16
#define WIDTH (SIDE * COLUMNS)

/* Local memory for two chunks of score operands, for a chunk of values, and for one number per row and x. */
#define CHUNK_ELEMENTS (2 * CHUNK * PITCH > CHUNK * WIDTH ? 2 * CHUNK * PITCH : CHUNK * WIDTH)

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
  for (int32 i = (int32)UHAL_LOCAL_ID(0); i < TILE * CHUNK; i += GROUP) {
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
  const int32 x = (int32)UHAL_LOCAL_ID(0) % SIDE;
  const int32 y = (int32)UHAL_LOCAL_ID(0) / SIDE;
  for (int32 i = 0; i < PER_ITEM; ++i) {
    for (int32 j = 0; j < PER_ITEM; ++j) products[i][j] = 0;
  }
  for (INDEX start = 0; start < a->columns; start += CHUNK) {
    UHAL_BARRIER();
    load_transposed(chunk, a, first_a, start);
    load_transposed(other, b, first_b, start);
    UHAL_BARRIER();
    for (int32 c = 0; c < CHUNK; ++c) {
      T left[PER_ITEM], right[PER_ITEM];
      UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) left[i] = chunk[c * PITCH + y * PER_ITEM + i];
      UHAL_UNROLL for (int32 j = 0; j < PER_ITEM; ++j) right[j] = other[c * PITCH + x + j * SIDE];
      UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) {
        UHAL_UNROLL for (int32 j = 0; j < PER_ITEM; ++j) products[i][j] += left[i] * right[j];
      }
    }
  }
}

/* result += weights^T @ values[first..., slice...], where weights[c][r] is the weight of row first + c of values for
 * row r of the result. Begins with a barrier, after which weights are in step. */
UHAL_INLINE void add_weighted(UHAL_LOCAL T* chunk, UHAL_LOCAL const T* weights, const Matrix* values, INDEX first,
                              INDEX slice, T result[PER_ITEM][COLUMNS]) {
  const int32 x = (int32)UHAL_LOCAL_ID(0) % SIDE;
  const int32 y = (int32)UHAL_LOCAL_ID(0) / SIDE;
  const int32 rows = values->rows - first < TILE ? (int32)(values->rows - first) : TILE;
  for (int32 start = 0; start < rows; start += CHUNK) {
    UHAL_BARRIER();
    for (int32 i = (int32)UHAL_LOCAL_ID(0); i < CHUNK * WIDTH; i += GROUP) {
      const INDEX row = first + start + i / WIDTH;
      const INDEX column = slice + i % WIDTH;
      T value = 0;
      if (row < values->rows && column < values->columns) {
        value = LOAD(values, values->offset + row * values->row_stride + column * values->column_stride);
      }
      chunk[i] = value;
    }
    UHAL_BARRIER();
    for (int32 c = 0; c < CHUNK; ++c) {
      T weight[PER_ITEM], value[COLUMNS];
      UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) weight[i] = weights[(start + c) * PITCH + y * PER_ITEM + i];
      UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) value[j] = chunk[c * WIDTH + x + j * SIDE];
      UHAL_UNROLL for (int32 i = 0; i < PER_ITEM; ++i) {
        UHAL_UNROLL for (int32 j = 0; j < COLUMNS; ++j) result[i][j] += weight[i] * value[j];
      }
    }
  }
}

/* result[first..., slice...] = factor[row] * sums */
UHAL_INLINE void store_rows(const Matrix* result, INDEX first, INDEX slice, T sums[PER_ITEM][COLUMNS],
                            const T factor[PER_ITEM]) {
  const int32 x = (int32)UHAL_LOCAL_ID(0) % SIDE;
  const int32 y = (int32)UHAL_LOCAL_ID(0) / SIDE;
  for (int32 i = 0; i < PER_ITEM; ++i) {
    const INDEX row = first + y * PER_ITEM + i;
    if (row >= result->rows) continue;
    for (int32 j = 0; j < COLUMNS; ++j) {
      const INDEX column = slice + x + j * SIDE;
      if (column >= result->columns) continue;
      STORE(result, result->offset + row * result->row_stride + column * result->column_stride,
            sums[i][j] * factor[i]);
    }
  }
}

/* One number of each work-item for each of its rows, for all work-items of that row to read: exchange[row][x]. */
UHAL_INLINE void exchange_rows(UHAL_LOCAL T* exchange, const T own[PER_ITEM]) {
  const int32 x = (int32)UHAL_LOCAL_ID(0) % SIDE;
  const int32 y = (int32)UHAL_LOCAL_ID(0) / SIDE;
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

UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void attention_forward(UHAL_POINTER(q), UHAL_POINTER(k), UHAL_POINTER(v),
                                                        UHAL_POINTER(mask), UHAL_POINTER(y), UHAL_POINTER(logsumexp),
                                                        Forward p, ForwardDtypes dtypes, T scale, int32 causal,
                                                        int32 has_mask, int32 has_logsumexp) {
  UHAL_LOCAL_MEMORY T chunk[CHUNK_ELEMENTS];
  UHAL_LOCAL_MEMORY T weights[TILE * PITCH];
  const int32 x = (int32)UHAL_LOCAL_ID(0) % SIDE;
  const int32 item_row = (int32)UHAL_LOCAL_ID(0) / SIDE * PER_ITEM;
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
    for (int32 i = 0; i < PER_ITEM; ++i) {
      const INDEX row = first + item_row + i;
      own[i] = maximum[i];
      for (int32 j = 0; j < PER_ITEM; ++j) {
        const INDEX column = other + x + j * SIDE;
        T score = HIDDEN;
        if (row < p.queries && column < p.keys && (!causal || column <= row + p.keys - p.queries)) {
          score = scores[i][j] * scale;
          if (has_mask) {
            const INDEX in_mask = of_mask + row * p.mask.row + column * p.mask.column;
            score += uhal_load_floating(dtypes.mask, masks, in_mask);
          }
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
        weights[(x + j * SIDE) * PITCH + item_row + i] = weight;
      }
    }
    add_weighted(chunk, weights, &values, other, slice, average);
  }

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
  Strides y, dy;
} Offsets;

/* offsets[b, h, m] = sum of y * dy over a row: what the gradient of softmax subtracts. SIDE work-items form one. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void attention_offsets(UHAL_POINTER(y), UHAL_POINTER(dy),
                                                                UHAL_POINTER(offsets), Offsets p, int32 y_dtype,
                                                                int32 dy_dtype) {
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
    to[index] = sum;
  }
  UHAL_BARRIER();
}

typedef struct {
  Tasks tasks;
  INDEX rows, others, depth, width, columns;
  Strides own, other, own_value, other_value, factor, mask, logsumexp, result;
} Backward;

typedef struct {
  int32 own, other, own_value, other_value, factor, mask, logsumexp, result;
} BackwardDtypes;

/* One of the three gradients, each a sum over the rows of the other operand:
 *   dq[m] = sum over n of dscore[m, n] * k[n]    own = q, other = k, own_value = dy, other_value = v,  factor = k
 *   dk[n] = sum over m of dscore[m, n] * q[m]    own = k, other = q, own_value = v,  other_value = dy, factor = q
 *   dv[n] = sum over m of p[m, n] * dy[m]        own = k, other = q,                                   factor = dy
 * with p = exp(score - logsumexp) and dscore = p * (dy @ v^T - offset) * scale; of_scores tells dscore from p, and
 * by_key whether the rows of the result are keys. The mask's strides are by rows of the result and of the other. */
UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) void attention_gradient(
    UHAL_POINTER(own), UHAL_POINTER(other), UHAL_POINTER(own_value), UHAL_POINTER(other_value), UHAL_POINTER(factor),
    UHAL_POINTER(mask), UHAL_POINTER(logsumexp), UHAL_POINTER(offsets), UHAL_POINTER(result), Backward p,
    BackwardDtypes dtypes, T scale, int32 causal, int32 has_mask, int32 of_scores, int32 by_key) {
  UHAL_LOCAL_MEMORY T chunk[CHUNK_ELEMENTS];
  UHAL_LOCAL_MEMORY T weights[TILE * PITCH];
  const int32 x = (int32)UHAL_LOCAL_ID(0) % SIDE;
  const int32 item_row = (int32)UHAL_LOCAL_ID(0) / SIDE * PER_ITEM;
  UHAL_GLOBAL const char* masks = UHAL_ADDRESS(const char, mask);
  UHAL_GLOBAL const char* sums = UHAL_ADDRESS(const char, logsumexp);
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
  UHAL_GLOBAL const T* row_offsets = UHAL_ADDRESS(const T, offsets) + pair * queries;

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
    UHAL_BARRIER(); /* weights of the tile before are no longer read */
    for (int32 i = 0; i < PER_ITEM; ++i) {
      const INDEX row = first + item_row + i;
      for (int32 j = 0; j < PER_ITEM; ++j) {
        const INDEX column = start + x + j * SIDE;
        const INDEX query = by_key ? column : row;
        const INDEX key = by_key ? row : column;
        T weight = 0;
        if (query < queries && key < keys && (!causal || key <= query + keys - queries)) {
          T score = scores[i][j] * scale;
          if (has_mask) {
            const INDEX in_mask = of_mask + row * p.mask.row + column * p.mask.column;
            score += uhal_load_floating(dtypes.mask, masks, in_mask);
          }
          const T sum = uhal_load_floating(dtypes.logsumexp, sums,
                                  batch * p.logsumexp.batch + head * p.logsumexp.head + query * p.logsumexp.row);
          weight = exp(score - (sum == HIDDEN ? 0 : sum));
          if (of_scores) weight *= (products[i][j] - row_offsets[query]) * scale;
        }
        weights[(x + j * SIDE) * PITCH + item_row + i] = weight;
      }
    }
    add_weighted(chunk, weights, &factors, start, slice, gradient);
  }
  T one[PER_ITEM];
  for (int32 i = 0; i < PER_ITEM; ++i) one[i] = 1;
  store_rows(&results, first, slice, gradient, one);
}
