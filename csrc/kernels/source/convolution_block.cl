/* The products of convolution_gemm.cl on a CPU: a group is one work-item, which makes a tile of ROWS x COLUMNS in steps
 * of DEPTH terms. A panel of the source is gathered into the cache, to be read in vectors for four rows at a time.
 * Without barriers, which a CPU would pay for with all its registers. */
#include "csrc/kernels/prelude/map_functions.h"
#include "csrc/kernels/prelude/convolution_walk.h"
#include "csrc/kernels/prelude/convolution_product.h"

UHAL_KERNEL UHAL_GROUP_SIZE(1, 1, 1) void convolution_block(UHAL_POINTER(a), UHAL_POINTER(source), UHAL_POINTER(bias),
                                                            UHAL_POINTER(result), Product product) {
  UHAL_LOCAL T panel[DEPTH * COLUMNS];
  UHAL_LOCAL T sums[ROWS * COLUMNS];
  UHAL_LOCAL INDEX column_source[COLUMNS], column_z[COLUMNS], column_y[COLUMNS], column_x[COLUMNS];
  UHAL_LOCAL INDEX column_other[COLUMNS];
  UHAL_LOCAL INDEX term_other[DEPTH];
  const Part part = part_of(product, UHAL_GROUP_ID(0));
  const INDEX rows = min(product.rows - part.first_row, (INDEX)ROWS);
  const INDEX columns = min(product.columns.count - part.first_column, (INDEX)COLUMNS);
  UHAL_GLOBAL const A_STORAGE* const a_data = UHAL_ADDRESS(const A_STORAGE, a) + part.group * product.a_group_stride +
                                              part.first_row * product.a_row_stride;
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data =
      UHAL_ADDRESS(const SOURCE_STORAGE, source) + part.group * product.source_group_stride;
  PRODUCT_RESULT(part);

  /* Columns beyond the last one are the last one again: their sums go nowhere. */
  for (INDEX j = 0; j < COLUMNS; ++j) {
    const INDEX column = part.first_column + min(j, columns - 1);
    const Place place = place_at(product.columns, digits_of(product.columns, column));
    column_source[j] = place.source;
    column_z[j] = place.z;
    column_y[j] = place.y;
    column_x[j] = place.x;
    column_other[j] = place.other;
  }
  for (INDEX i = 0; i < ROWS * COLUMNS; ++i) sums[i] = 0;
  Digits walker = digits_of(product.terms, part.begin);
  const Digits one = digits_of(product.terms, 1);
  for (INDEX first = part.begin; first < part.end; first += DEPTH) {
    const INDEX length = min(part.end - first, (INDEX)DEPTH);
    for (INDEX depth = 0; depth < length; ++depth) {
      const Place term = place_at(product.terms, walker);
      walker = digits_after(product.terms, walker, one);
      term_other[depth] = term.other;
      for (INDEX j = 0; j < COLUMNS; ++j) {
        const Place column = {column_source[j], 0, column_z[j], column_y[j], column_x[j]};
        T value = 0;
        if (MEETS(term, column)) value = SOURCE_LOAD(source_data, term.source + column.source);
        panel[depth * COLUMNS + j] = value;
      }
    }
    for (INDEX i = 0; i < rows; i += 4) {
      const INDEX last = rows - 1 - i; /* rows beyond it are it again */
      UHAL_GLOBAL const A_STORAGE* const a0 = a_data + i * product.a_row_stride;
      UHAL_GLOBAL const A_STORAGE* const a1 = a0 + min(last, (INDEX)1) * product.a_row_stride;
      UHAL_GLOBAL const A_STORAGE* const a2 = a0 + min(last, (INDEX)2) * product.a_row_stride;
      UHAL_GLOBAL const A_STORAGE* const a3 = a0 + min(last, (INDEX)3) * product.a_row_stride;
      UHAL_LOCAL T* const sum = sums + i * COLUMNS;
      T16 s00 = uhal_load16(sum, 0), s01 = uhal_load16(sum, 1), s10 = uhal_load16(sum, 2), s11 = uhal_load16(sum, 3);
      T16 s20 = uhal_load16(sum, 4), s21 = uhal_load16(sum, 5), s30 = uhal_load16(sum, 6), s31 = uhal_load16(sum, 7);
      for (INDEX depth = 0; depth < length; ++depth) {
        const T16 b0 = uhal_load16(panel, 2 * depth);
        const T16 b1 = uhal_load16(panel, 2 * depth + 1);
        const INDEX offset = term_other[depth];
        const T x0 = A_LOAD(a0, offset), x1 = A_LOAD(a1, offset), x2 = A_LOAD(a2, offset), x3 = A_LOAD(a3, offset);
        s00 += x0 * b0;
        s01 += x0 * b1;
        s10 += x1 * b0;
        s11 += x1 * b1;
        s20 += x2 * b0;
        s21 += x2 * b1;
        s30 += x3 * b0;
        s31 += x3 * b1;
      }
      uhal_store16(sum, 0, s00);
      uhal_store16(sum, 1, s01);
      uhal_store16(sum, 2, s10);
      uhal_store16(sum, 3, s11);
      uhal_store16(sum, 4, s20);
      uhal_store16(sum, 5, s21);
      uhal_store16(sum, 6, s30);
      uhal_store16(sum, 7, s31);
    }
  }
  for (INDEX i = 0; i < rows; ++i) {
    for (INDEX j = 0; j < columns; ++j) {
      PRODUCT_STORE(part, part.first_row + i, part.first_column + j, column_other[j], sums[i * COLUMNS + j]);
    }
  }
}
