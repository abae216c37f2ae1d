/* The products of convolution_gemm.cl on a CPU: a group is one work-item, which makes a tile of ROWS x COLUMNS in steps
 * of DEPTH terms. A panel of the source is gathered into the cache, to be read in vectors for four rows at a time.
 * Without barriers, which a CPU would pay for with all its registers. */
#include "csrc/kernels/prelude/map_functions.h"
#include "csrc/kernels/prelude/convolution_walk.h"
#include "csrc/kernels/prelude/convolution_product.h"
#include "csrc/kernels/prelude/panel_product.h"

#define OFFSET_OF_TERM(depth) term_other[depth]

UHAL_KERNEL UHAL_GROUP_SIZE(1, 1, 1) void convolution_block(UHAL_POINTER(a), UHAL_POINTER(source), UHAL_POINTER(bias),
                                                            UHAL_POINTER(result), Product product) {
  UHAL_LOCAL_MEMORY T panel[DEPTH * COLUMNS];
  UHAL_LOCAL_MEMORY T sums[ROWS * COLUMNS];
  UHAL_LOCAL_MEMORY INDEX column_source[COLUMNS], column_z[COLUMNS], column_y[COLUMNS], column_x[COLUMNS];
  UHAL_LOCAL_MEMORY INDEX column_other[COLUMNS];
  UHAL_LOCAL_MEMORY INDEX term_other[DEPTH];
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
      UHAL_ADD_PANEL_PRODUCT(sum, panel, length, a0, a1, a2, a3, OFFSET_OF_TERM);
    }
  }
  for (INDEX i = 0; i < rows; ++i) {
    for (INDEX j = 0; j < columns; ++j) {
      PRODUCT_STORE(part, part.first_row + i, part.first_column + j, column_other[j], sums[i * COLUMNS + j]);
    }
  }
}
