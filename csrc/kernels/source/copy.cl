/* Copies between strided views, in units of UHAL_SIZE bytes. ops/copy.cc chooses. */
#include "csrc/kernels/prelude/unit.h"

UHAL_LAYOUT(Layout, 2)

#if UHAL_TRANSPOSE

/* The views' rows and columns are swapped: y's columns are neighbours, and x's rows. A group moves a tile through local
 * memory, so that both sides read and write runs; the last column of the tile is there so that its columns lie in
 * different banks. `layout` has the other axes. */
#define TILE 32
#define GROUP_ROWS (UHAL_GROUP / TILE)

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void transpose(UHAL_POINTER(y), UHAL_POINTER(x), const Layout layout,
                                                             INDEX rows, INDEX columns, INDEX y_row, INDEX x_column,
                                                             INDEX row_tiles, INDEX column_tiles) {
  UHAL_LOCAL_MEMORY UNIT tile[TILE][TILE + 1];
  UHAL_GLOBAL UNIT* y = UHAL_ADDRESS(UNIT, y);
  UHAL_GLOBAL const UNIT* x = UHAL_ADDRESS(const UNIT, x);
  const INDEX group = UHAL_GROUP_ID(0);
  const INDEX first_column = group % column_tiles * TILE;
  const INDEX rest = group / column_tiles;
  const INDEX first_row = rest % row_tiles * TILE;
  INDEX offsets[2] = {0, 0};
  UHAL_ADD_OFFSETS(layout, 2, rest / row_tiles, offsets);
  const int32 along = (int32)UHAL_LOCAL_ID(0) % TILE;
  const int32 across = (int32)UHAL_LOCAL_ID(0) / TILE;
  for (int32 k = across; k < TILE; k += GROUP_ROWS) {
    const INDEX row = first_row + along;
    const INDEX column = first_column + k;
    if (row < rows && column < columns) tile[k][along] = x[offsets[1] + column * x_column + row];
  }
  UHAL_BARRIER();
  for (int32 k = across; k < TILE; k += GROUP_ROWS) {
    const INDEX row = first_row + k;
    const INDEX column = first_column + along;
    if (row < rows && column < columns) y[offsets[0] + row * y_row + column] = tile[along][k];
  }
}

#else

UHAL_KERNEL void strided(UHAL_POINTER(y), UHAL_POINTER(x), const Layout layout, INDEX count) {
  UHAL_GLOBAL UNIT* y = UHAL_ADDRESS(UNIT, y);
  UHAL_GLOBAL const UNIT* x = UHAL_ADDRESS(const UNIT, x);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(layout, 2, i, offsets);
    y[offsets[0]] = x[offsets[1]];
  }
}

#endif
