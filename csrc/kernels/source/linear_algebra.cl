/* Factorizations and solutions of matrices, by blocks of BLOCK rows and columns (csrc/kernels/ops/linear_algebra.cc).
 *
 * Matrices are given by the distances of their rows and of their columns. "Packed" are those of the workspace: one
 * after the other, in the order of their numbers.
 *
 * Macros: X: the dtype of all matrices; OF_ and a kernel: what is compiled; BLOCK; LANES: the work-items of a group;
 * HEADS: those that combine what the others found, 16 at most; TILE: of product_blocks; UHAL_WIDE_INDEX, UHAL_RANK. */
UHAL_LAYOUT(PairLayout, 2)    /* the batches of two operands */
UHAL_LAYOUT(ProductLayout, 3) /* of c, a and b */

#if UHAL_IS_COMPLEX
#define MULTIPLY complex_multiply
#define SUBTRACT complex_subtract
#define ADD complex_add
#define DIVIDE complex_divide
#define IS_ZERO complex_is_zero
#define CONJUGATE complex_conjugate
#define SQUARE complex_norm
UHAL_INLINE T divide_by_real(T x, R y) { return uhal_complex(x.x / y, x.y / y); }
UHAL_INLINE R size_of(T x) { return fabs(x.x) + fabs(x.y); } /* LAPACK's measure of pivots */
#define IMAGINARY(x) ((x).y)
#define MODULUS complex_absolute
#else
#define MULTIPLY(x, y) ((x) * (y))
#define SUBTRACT(x, y) ((x) - (y))
#define ADD(x, y) ((x) + (y))
#define DIVIDE(x, y) ((x) / (y))
#define IS_ZERO(x) ((x) == 0)
#define CONJUGATE(x) (x)
#define SQUARE(x) ((x) * (x))
UHAL_INLINE T divide_by_real(T x, R y) { return x / y; }
UHAL_INLINE R size_of(T x) { return fabs(x); }
#define IMAGINARY(x) ((R)0)
#define MODULUS fabs
#endif

/* The length of two legs, without overflow on the way. */
UHAL_INLINE R hypotenuse(R x, R y) {
  const R longer = x > y ? x : y;
  const R shorter = x > y ? y : x;
  const R ratio = shorter == 0 ? (R)0 : shorter / longer;
  return longer * sqrt(1 + ratio * ratio);
}

UHAL_INLINE T conjugate_if(int32 condition, T x) { return condition ? CONJUGATE(x) : x; }

/* x = a^-1 x for the lower triangle of a, `size` <= BLOCK rows of each; a group takes LANES columns of x. */
#ifdef OF_SOLVE_BLOCK
UHAL_KERNEL UHAL_GROUP_SIZE(LANES, 1, 1) void solve_block(UHAL_POINTER(a), UHAL_POINTER(x), PairLayout layout,
                                                          INDEX columns, INDEX tiles, INDEX a_row, INDEX a_column,
                                                          INDEX x_row, INDEX x_column, int32 size, int32 unit,
                                                          int32 conjugate) {
  UHAL_LOCAL_MEMORY T triangle[BLOCK * BLOCK];
  UHAL_LOCAL_MEMORY T tile[BLOCK * LANES];
  const int32 lane = (int32)UHAL_LOCAL_ID(0);
  const INDEX matrix = UHAL_GROUP_ID(0) / tiles;
  const INDEX column = (UHAL_GROUP_ID(0) - matrix * tiles) * LANES + lane;
  INDEX offsets[2] = {0, 0};
  UHAL_ADD_OFFSETS(layout, 2, matrix, offsets);
  UHAL_GLOBAL X_STORAGE* x = UHAL_ADDRESS(X_STORAGE, x) + offsets[0];
  UHAL_GLOBAL const X_STORAGE* a = UHAL_ADDRESS(const X_STORAGE, a) + offsets[1];
  for (int32 i = lane; i < BLOCK * BLOCK; i += LANES) {
    const int32 row = i / BLOCK;
    const int32 at = i - row * BLOCK;
    if (row < size && (at < row || (at == row && !unit))) {
      triangle[i] = conjugate_if(conjugate, X_LOAD(a, row * a_row + at * a_column));
    }
  }
  if (column < columns) {
    for (int32 i = 0; i < size; ++i) tile[i * LANES + lane] = X_LOAD(x, i * x_row + column * x_column);
  }
  UHAL_BARRIER();
  if (column < columns) {
    for (int32 i = 0; i < size; ++i) {
      T value = tile[i * LANES + lane];
      for (int32 j = 0; j < i; ++j) {
        value = SUBTRACT(value, MULTIPLY(triangle[i * BLOCK + j], tile[j * LANES + lane]));
      }
      if (!unit) value = DIVIDE(value, triangle[i * BLOCK + i]);
      tile[i * LANES + lane] = value;
      X_STORE(x, i * x_row + column * x_column, value);
    }
  }
}
#endif

/* c = a @ b, or c - a @ b, of complex numbers, with conj(a) or conj(b) where that is asked for; a group takes TILE x
 * TILE elements of c. */
#ifdef OF_PRODUCT_BLOCKS
typedef struct {
  INDEX m, n, k;
  INDEX tiles_m, tiles_n;
  INDEX a_row, a_column, b_row, b_column, c_row, c_column;
} ProductShape;

UHAL_KERNEL UHAL_GROUP_SIZE(TILE* TILE, 1, 1) void product_blocks(UHAL_POINTER(a), UHAL_POINTER(b), UHAL_POINTER(c),
                                                                  ProductLayout layout, ProductShape shape,
                                                                  int32 conjugate_a, int32 conjugate_b,
                                                                  int32 subtract) {
  UHAL_LOCAL_MEMORY T a_tile[TILE * TILE];
  UHAL_LOCAL_MEMORY T b_tile[TILE * TILE];
  const int32 lane = (int32)UHAL_LOCAL_ID(0);
  const int32 row_in_tile = lane / TILE;
  const int32 column_in_tile = lane - row_in_tile * TILE;
  INDEX rest = UHAL_GROUP_ID(0);
  const INDEX tile_n = rest % shape.tiles_n;
  rest /= shape.tiles_n;
  const INDEX tile_m = rest % shape.tiles_m;
  INDEX offsets[3] = {0, 0, 0};
  UHAL_ADD_OFFSETS(layout, 3, rest / shape.tiles_m, offsets);
  UHAL_GLOBAL X_STORAGE* c = UHAL_ADDRESS(X_STORAGE, c) + offsets[0];
  UHAL_GLOBAL const X_STORAGE* a = UHAL_ADDRESS(const X_STORAGE, a) + offsets[1];
  UHAL_GLOBAL const X_STORAGE* b = UHAL_ADDRESS(const X_STORAGE, b) + offsets[2];
  const INDEX row = tile_m * TILE + row_in_tile;
  const INDEX column = tile_n * TILE + column_in_tile;
  T sum = C(0);
  for (INDEX first = 0; first < shape.k; first += TILE) {
    const INDEX a_at = first + column_in_tile;
    const INDEX b_at = first + row_in_tile;
    T value = C(0);
    if (row < shape.m && a_at < shape.k) value = X_LOAD(a, row * shape.a_row + a_at * shape.a_column);
    a_tile[lane] = conjugate_if(conjugate_a, value);
    value = C(0);
    if (column < shape.n && b_at < shape.k) value = X_LOAD(b, b_at * shape.b_row + column * shape.b_column);
    b_tile[lane] = conjugate_if(conjugate_b, value);
    UHAL_BARRIER();
    for (int32 i = 0; i < TILE; ++i) {
      sum = ADD(sum, MULTIPLY(a_tile[row_in_tile * TILE + i], b_tile[i * TILE + column_in_tile]));
    }
    UHAL_BARRIER();
  }
  if (row < shape.m && column < shape.n) {
    const INDEX at = row * shape.c_row + column * shape.c_column;
    X_STORE(c, at, subtract ? SUBTRACT(X_LOAD(c, at), sum) : sum);
  }
}
#endif

/* The number (from 1) of the first 0 on the diagonal of each a, or 0: a group for each. */
#ifdef OF_FIRST_ZERO
UHAL_KERNEL UHAL_GROUP_SIZE(LANES, 1, 1) void first_zero(UHAL_POINTER(a), UHAL_POINTER(info), PairLayout layout,
                                                         INDEX size, INDEX step) {
  UHAL_LOCAL_MEMORY INDEX first[LANES];
  const int32 lane = (int32)UHAL_LOCAL_ID(0);
  INDEX offsets[2] = {0, 0};
  UHAL_ADD_OFFSETS(layout, 2, UHAL_GROUP_ID(0), offsets);
  UHAL_GLOBAL const X_STORAGE* a = UHAL_ADDRESS(const X_STORAGE, a) + offsets[1];
  INDEX found = size;
  for (INDEX i = lane; i < size && found == size; i += LANES) {
    if (IS_ZERO(X_LOAD(a, i * step))) found = i;
  }
  first[lane] = found;
  UHAL_BARRIER();
  if (lane == 0) {
    for (int32 i = 1; i < LANES; ++i) found = first[i] < found ? first[i] : found;
    UHAL_ADDRESS(int32, info)[offsets[0]] = found < size ? (int32)found + 1 : 0;
  }
}
#endif

/* Cholesky's factor of the `size` <= BLOCK rows and columns at `first` of packed n x n matrices, of whose lower
 * triangle a work-item has a row. */
#ifdef OF_CHOLESKY_BLOCK
#define PITCH (BLOCK + 1) /* of rows, which then begin in different banks of local memory */

UHAL_KERNEL UHAL_GROUP_SIZE(BLOCK, 1, 1) void cholesky_block(UHAL_POINTER(a), UHAL_POINTER(info), INDEX n, INDEX first,
                                                             int32 size) {
  UHAL_LOCAL_MEMORY T block[BLOCK * PITCH];
  UHAL_LOCAL_MEMORY R pivots[BLOCK];
  const int32 lane = (int32)UHAL_LOCAL_ID(0);
  UHAL_GLOBAL X_STORAGE* a = UHAL_ADDRESS(X_STORAGE, a) + (UHAL_GROUP_ID(0) * n + first) * n + first;
  for (int32 i = 0; i < size; ++i) {
    if (lane <= i) block[i * PITCH + lane] = X_LOAD(a, i * n + lane);
  }
  UHAL_GLOBAL_BARRIER(); /* all have read what is written below */
  int32 wrong = 0;
  for (int32 j = 0; j < size; ++j) {
    T value = C(0);
    if (lane >= j && lane < size) {
      value = block[lane * PITCH + j];
      for (int32 i = 0; i < j; ++i) {
        value = SUBTRACT(value, MULTIPLY(block[lane * PITCH + i], CONJUGATE(block[j * PITCH + i])));
      }
    }
    if (lane == j) pivots[j] = UHAL_REAL(value);
    UHAL_BARRIER();
    const R pivot = pivots[j];
    const R root = sqrt(pivot);
    if (wrong == 0 && !(pivot > 0)) wrong = j + 1;
    if (lane >= j && lane < size) {
      value = lane == j ? C(root) : divide_by_real(value, root);
      block[lane * PITCH + j] = value;
      X_STORE(a, lane * n + j, value);
    }
    UHAL_BARRIER();
  }
  if (lane == 0) {
    UHAL_GLOBAL int32* info = UHAL_ADDRESS(int32, info) + UHAL_GROUP_ID(0);
    if (first == 0 || *info == 0) *info = wrong == 0 ? 0 : (int32)first + wrong;
  }
}

/* What is above the diagonal of packed n x n matrices becomes 0, and the triangle of those that failed NaN. */
UHAL_KERNEL void finish_cholesky(UHAL_POINTER(a), UHAL_POINTER(info), INDEX n, INDEX count) {
  UHAL_GLOBAL X_STORAGE* a = UHAL_ADDRESS(X_STORAGE, a);
  UHAL_FOR_ITEMS(i, count) {
    const INDEX line = i / n;
    const INDEX column = i - line * n;
    const INDEX matrix = line / n;
    const INDEX row = line - matrix * n;
    if (column > row) {
      X_STORE(a, i, C(0));
    } else if (UHAL_ADDRESS(const int32, info)[matrix] != 0) {
      const R infinity = INFINITY;
      X_STORE(a, i, C(infinity - infinity));
    }
  }
}
#endif

/* LU factors of the `size` <= BLOCK columns from `first` on of packed m x n matrices that lie in columns, with
 * exchanges of the rows of these columns. A work-item has every LANES-th row. */
#ifdef OF_LU_PANEL
UHAL_KERNEL UHAL_GROUP_SIZE(LANES, 1, 1) void lu_panel(UHAL_POINTER(a), UHAL_POINTER(pivots), UHAL_POINTER(info),
                                                       INDEX m, INDEX n, INDEX steps, INDEX first, int32 size) {
  UHAL_LOCAL_MEMORY R sizes[LANES];
  UHAL_LOCAL_MEMORY INDEX places[LANES];
  const int32 lane = (int32)UHAL_LOCAL_ID(0);
  UHAL_GLOBAL X_STORAGE* a = UHAL_ADDRESS(X_STORAGE, a) + (UHAL_GROUP_ID(0) * n + first) * m;
  UHAL_GLOBAL int32* pivots = UHAL_ADDRESS(int32, pivots) + UHAL_GROUP_ID(0) * steps;
  int32 wrong = 0;
  for (int32 j = 0; j < size; ++j) {
    UHAL_GLOBAL X_STORAGE* column = a + j * m;
    const INDEX top = first + j;
    R largest = -1;
    INDEX place = top;
    for (INDEX row = lane; row < m; row += LANES) {
      if (row >= top) {
        const R found = size_of(X_LOAD(column, row));
        if (found > largest) {
          largest = found;
          place = row;
        }
      }
    }
    sizes[lane] = largest;
    places[lane] = place;
    UHAL_GLOBAL_BARRIER(); /* all have read what is exchanged below */
    if (lane < HEADS) { /* of equal ones the first row, as LAPACK */
      for (int32 i = lane + HEADS; i < LANES; i += HEADS) {
        if (sizes[i] > largest || (sizes[i] == largest && places[i] < place)) {
          largest = sizes[i];
          place = places[i];
        }
      }
      sizes[lane] = largest;
      places[lane] = place;
    }
    UHAL_BARRIER();
    largest = sizes[0];
    place = places[0];
    for (int32 i = 1; i < HEADS; ++i) {
      if (sizes[i] > largest || (sizes[i] == largest && places[i] < place)) {
        largest = sizes[i];
        place = places[i];
      }
    }
    if (lane == 0) pivots[top] = (int32)place;
    if (place != top) {
      for (int32 i = lane; i < size; i += LANES) {
        UHAL_GLOBAL X_STORAGE* exchanged = a + i * m;
        const T upper = X_LOAD(exchanged, top);
        X_STORE(exchanged, top, X_LOAD(exchanged, place));
        X_STORE(exchanged, place, upper);
      }
    }
    UHAL_GLOBAL_BARRIER();
    const T pivot = X_LOAD(column, top);
    const int32 is_zero = IS_ZERO(pivot);
    if (wrong == 0 && is_zero) wrong = (int32)top + 1;
    for (INDEX row = lane; row < m; row += LANES) {
      if (row > top && !is_zero) {
        const T factor = DIVIDE(X_LOAD(column, row), pivot);
        X_STORE(column, row, factor);
        for (int32 i = j + 1; i < size; ++i) {
          UHAL_GLOBAL X_STORAGE* other = a + i * m;
          X_STORE(other, row, SUBTRACT(X_LOAD(other, row), MULTIPLY(factor, X_LOAD(other, top))));
        }
      }
    }
    UHAL_GLOBAL_BARRIER();
  }
  if (lane == 0) {
    UHAL_GLOBAL int32* info = UHAL_ADDRESS(int32, info) + UHAL_GROUP_ID(0);
    if (first == 0 || *info == 0) *info = wrong;
  }
}

/* The exchanges of a panel, in the other columns, and in the order of rows as one more. */
UHAL_KERNEL void exchange_rows(UHAL_POINTER(a), UHAL_POINTER(pivots), UHAL_POINTER(order), INDEX m, INDEX n,
                               INDEX steps, INDEX first, INDEX count, int32 size, int32 has_order) {
  const INDEX others = n - size + (has_order ? 1 : 0);
  UHAL_FOR_ITEMS(i, count) {
    const INDEX matrix = i / others;
    const INDEX other = i - matrix * others;
    UHAL_GLOBAL const int32* pivots = UHAL_ADDRESS(const int32, pivots) + matrix * steps;
    if (other < n - size) {
      UHAL_GLOBAL X_STORAGE* column =
          UHAL_ADDRESS(X_STORAGE, a) + (matrix * n + (other < first ? other : other + size)) * m;
      for (INDEX row = first; row < first + size; ++row) {
        const INDEX place = pivots[row];
        const T upper = X_LOAD(column, row);
        X_STORE(column, row, X_LOAD(column, place));
        X_STORE(column, place, upper);
      }
    } else {
      UHAL_GLOBAL int32* order = UHAL_ADDRESS(int32, order) + matrix * m;
      for (INDEX row = first; row < first + size; ++row) {
        const INDEX place = pivots[row];
        const int32 upper = order[row];
        order[row] = order[place];
        order[place] = upper;
      }
    }
  }
}

/* The order of rows before all exchanges. */
UHAL_KERNEL void number_rows(UHAL_POINTER(order), INDEX m, INDEX count) {
  UHAL_FOR_ITEMS(i, count) UHAL_ADDRESS(int32, order)[i] = (int32)(i % m);
}
#endif

/* Householder's reflections of the `size` <= BLOCK columns from `first` on of packed m x n matrices that lie in
 * columns: 1 - tau v v^H, v behind a 1 below the diagonal. E. Anderson et al., LAPACK Users' Guide, 3rd ed.,
 * section 5.4. */
#ifdef OF_QR_PANEL
#define TEAMS (LANES / HEADS)

UHAL_KERNEL UHAL_GROUP_SIZE(LANES, 1, 1) void qr_panel(UHAL_POINTER(a), UHAL_POINTER(taus), INDEX m, INDEX n,
                                                       INDEX steps, INDEX first, int32 size) {
  UHAL_LOCAL_MEMORY R sizes[LANES];
  UHAL_LOCAL_MEMORY T sums[LANES];
  const int32 lane = (int32)UHAL_LOCAL_ID(0);
  const int32 team = lane / HEADS;
  const int32 member = lane - team * HEADS;
  UHAL_GLOBAL X_STORAGE* a = UHAL_ADDRESS(X_STORAGE, a) + (UHAL_GROUP_ID(0) * n + first) * m;
  UHAL_GLOBAL X_STORAGE* taus = UHAL_ADDRESS(X_STORAGE, taus) + UHAL_GROUP_ID(0) * steps + first;
  for (int32 j = 0; j < size; ++j) {
    UHAL_GLOBAL X_STORAGE* column = a + j * m;
    const INDEX top = first + j;
    /* The norm of what is below the diagonal, of numbers so scaled that squares neither overflow nor vanish. */
    R largest = 0;
    for (INDEX row = top + 1 + lane; row < m; row += LANES) {
      const R found = size_of(X_LOAD(column, row));
      largest = found > largest || found != found ? found : largest;
    }
    sizes[lane] = largest;
    UHAL_BARRIER();
    if (lane < HEADS) {
      for (int32 i = lane + HEADS; i < LANES; i += HEADS) {
        largest = sizes[i] > largest || sizes[i] != sizes[i] ? sizes[i] : largest;
      }
      sizes[lane] = largest;
    }
    UHAL_BARRIER();
    for (int32 i = 0; i < HEADS; ++i) largest = sizes[i] > largest || sizes[i] != sizes[i] ? sizes[i] : largest;
    UHAL_BARRIER();
    R sum = 0;
    if (largest > 0) {
      for (INDEX row = top + 1 + lane; row < m; row += LANES) {
        const T scaled = divide_by_real(X_LOAD(column, row), largest);
        sum += SQUARE(scaled);
      }
    }
    sizes[lane] = sum;
    UHAL_BARRIER();
    if (lane < HEADS) {
      for (int32 i = lane + HEADS; i < LANES; i += HEADS) sum += sizes[i];
      sizes[lane] = sum;
    }
    UHAL_BARRIER();
    sum = 0;
    for (int32 i = 0; i < HEADS; ++i) sum += sizes[i];
    const T alpha = X_LOAD(column, top);
    const R rest = largest == largest ? largest * sqrt(sum) : largest;
    const int32 reflects = rest != 0 || IMAGINARY(alpha) != 0;
    const R modulus = hypotenuse(MODULUS(alpha), rest);
    const R beta = UHAL_REAL(alpha) > 0 ? -modulus : modulus;
    const T tau = reflects ? divide_by_real(SUBTRACT(C(beta), alpha), beta) : C(0);
    UHAL_GLOBAL_BARRIER(); /* all have read alpha */
    if (reflects) {
      const T divisor = SUBTRACT(alpha, C(beta));
      for (INDEX row = top + 1 + lane; row < m; row += LANES) {
        X_STORE(column, row, DIVIDE(X_LOAD(column, row), divisor));
      }
    }
    if (lane == 0) {
      X_STORE(taus, j, tau);
      if (reflects) X_STORE(column, top, C(beta));
    }
    UHAL_GLOBAL_BARRIER();
    /* 1 - conj(tau) v v^H of the columns to the right, a team for each. */
    for (int32 next = j + 1; next < size; next += TEAMS) {
      UHAL_GLOBAL X_STORAGE* other = a + (next + team) * m;
      const int32 exists = next + team < size;
      T dot = C(0);
      if (exists) {
        for (INDEX row = top + 1 + member; row < m; row += HEADS) {
          dot = ADD(dot, MULTIPLY(CONJUGATE(X_LOAD(column, row)), X_LOAD(other, row)));
        }
      }
      sums[lane] = dot;
      UHAL_BARRIER();
      if (exists) {
        dot = X_LOAD(other, top);
        for (int32 i = 0; i < HEADS; ++i) dot = ADD(dot, sums[team * HEADS + i]);
        dot = MULTIPLY(CONJUGATE(tau), dot);
      }
      UHAL_GLOBAL_BARRIER(); /* all have read what is at the top, and the sums */
      if (exists) {
        for (INDEX row = top + 1 + member; row < m; row += HEADS) {
          X_STORE(other, row, SUBTRACT(X_LOAD(other, row), MULTIPLY(X_LOAD(column, row), dot)));
        }
        if (member == 0) X_STORE(other, top, SUBTRACT(X_LOAD(other, top), dot));
      }
    }
    UHAL_GLOBAL_BARRIER();
  }
}

/* A panel's v as a matrix of its own: zeros above, ones, and what is below the diagonal. */
UHAL_KERNEL void spread_reflections(UHAL_POINTER(a), UHAL_POINTER(v), INDEX m, INDEX n, INDEX first, INDEX count,
                                    int32 size) {
  const INDEX height = m - first;
  UHAL_FOR_ITEMS(i, count) {
    const INDEX line = i / height;
    const INDEX row = i - line * height;
    const INDEX matrix = line / size;
    const INDEX column = line - matrix * size;
    T value = C(row == column);
    if (row > column) {
      value = X_LOAD(UHAL_ADDRESS(const X_STORAGE, a), (matrix * n + first + column) * m + first + row);
    }
    X_STORE(UHAL_ADDRESS(X_STORAGE, v), i, value);
  }
}

/* t with 1 - v t v^H = the product of a panel's reflections, from `gram`, v^H v; both row by row, BLOCK x BLOCK. A
 * work-item computes a row. R. Schreiber and C. Van Loan, A Storage-Efficient WY Representation, 1989. */
UHAL_KERNEL UHAL_GROUP_SIZE(BLOCK, 1, 1) void join_reflections(UHAL_POINTER(gram), UHAL_POINTER(taus), UHAL_POINTER(t),
                                                               INDEX steps, INDEX first, int32 size) {
  const int32 row = (int32)UHAL_LOCAL_ID(0);
  UHAL_GLOBAL const X_STORAGE* gram = UHAL_ADDRESS(const X_STORAGE, gram) + UHAL_GROUP_ID(0) * (BLOCK * BLOCK);
  UHAL_GLOBAL const X_STORAGE* taus = UHAL_ADDRESS(const X_STORAGE, taus) + UHAL_GROUP_ID(0) * steps + first;
  UHAL_GLOBAL X_STORAGE* t = UHAL_ADDRESS(X_STORAGE, t) + UHAL_GROUP_ID(0) * (BLOCK * BLOCK) + row * BLOCK;
  for (int32 j = 0; j < size && row < size; ++j) {
    const T tau = X_LOAD(taus, j);
    T value = row == j ? tau : C(0);
    if (row < j) {
      for (int32 i = row; i < j; ++i) value = SUBTRACT(value, MULTIPLY(X_LOAD(t, i), X_LOAD(gram, i * BLOCK + j)));
      value = MULTIPLY(value, tau);
    }
    X_STORE(t, j, value);
  }
}

/* What is below the diagonal of packed m x n matrices that lie in columns becomes 0. */
UHAL_KERNEL void clear_below(UHAL_POINTER(a), INDEX m, INDEX n, INDEX count) {
  UHAL_FOR_ITEMS(i, count) {
    const INDEX line = i / m;
    if (i - line * m > line % n) X_STORE(UHAL_ADDRESS(X_STORAGE, a), i, C(0));
  }
}
#endif
