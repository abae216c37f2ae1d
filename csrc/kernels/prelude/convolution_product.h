/* The products of convolution_gemm.cl: their operands, their parts, where their sums go. It follows convolution_walk.h.
 * Macros: ROWS, COLUMNS, CHECKED_AXES, SPLIT, HAS_BIAS, UHAL_ACTIVATION, the dtypes BIAS and RESULT. The kernels call
 * their arguments product, bias and result. */

/* Whether a tap and a pixel meet inside the image. */
#define INSIDE(a, b, coordinate, axis) \
  ((UNSIGNED_INDEX)((a).coordinate + (b).coordinate) < (UNSIGNED_INDEX)product.input[axis])
#if CHECKED_AXES == 3
#define MEETS(a, b) (INSIDE(a, b, z, 0) && INSIDE(a, b, y, 1) && INSIDE(a, b, x, 2))
#elif CHECKED_AXES == 2
#define MEETS(a, b) (INSIDE(a, b, y, 1) && INSIDE(a, b, x, 2))
#else
#define MEETS(a, b) 1
#endif

typedef struct {
  Walk columns;
  Walk terms;
  INDEX input[3]; /* lengths of the source's spatial axes */
  INDEX rows, groups;
  INDEX a_row_stride, result_row_stride, bias_stride;
  INDEX a_group_stride, source_group_stride, result_group_stride;
  INDEX row_tiles, column_tiles;
  INDEX slice;                                   /* terms of a slice: a multiple of DEPTH, or all */
  INDEX sum_row_stride, sum_column_stride, sums; /* in the workspace: of a row, of a column, of a slice */
} Product;

/* What a work-group makes: a tile, of one group of channels, over the terms from begin to end - 1. */
typedef struct {
  INDEX first_row, first_column;
  INDEX group, slice;
  INDEX begin, end;
} Part;

UHAL_INLINE Part part_of(Product product, INDEX number) {
  Part part;
  part.first_row = number % product.row_tiles * ROWS;
  number /= product.row_tiles;
  part.first_column = number % product.column_tiles * COLUMNS;
  number /= product.column_tiles;
  part.group = number % product.groups;
  part.slice = number / product.groups;
  part.begin = part.slice * product.slice;
  part.end = min(part.begin + product.slice, product.terms.count);
  return part;
}

/* Declares result_data, where a part's sums go. */
#if SPLIT
#define PRODUCT_RESULT(part)         \
  UHAL_GLOBAL T* const result_data = \
      UHAL_ADDRESS(T, result) + (part).slice * product.sums + (part).group * product.rows * product.columns.count
#else
#define PRODUCT_RESULT(part)                      \
  UHAL_GLOBAL RESULT_STORAGE* const result_data = \
      UHAL_ADDRESS(RESULT_STORAGE, result) + (part).group * product.result_group_stride
#endif

#if HAS_BIAS
#define PRODUCT_BIAS(part, row) \
  BIAS_LOAD(UHAL_ADDRESS(const BIAS_STORAGE, bias), ((part).group * product.rows + (row)) * product.bias_stride)
#else
#define PRODUCT_BIAS(part, row) 0
#endif

/* Stores a sum; `other` is its column's offset into the result. */
#if SPLIT
#define PRODUCT_STORE(part, row, column, other, sum) \
  result_data[(row) * product.sum_row_stride + (column) * product.sum_column_stride] = (sum)
#else
#define PRODUCT_STORE(part, row, column, other, sum) \
  RESULT_STORE(result_data, (row) * product.result_row_stride + (other), uhal_activate((sum) + PRODUCT_BIAS(part, row)))
#endif
