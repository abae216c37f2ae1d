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

#elif UHAL_RUNS

/* Runs of `bytes` that lie dense on both sides, and begin anywhere: each work-item writes 16 bytes at a multiple of
 * that, made of words that it reads at multiples of 4, and the ends of a run by themselves. `layout` has the other
 * axes, in units; each run is written in `pieces`; y_place and x_place: the last four bits of the addresses. */
#define PIECE 16

UHAL_KERNEL void runs(UHAL_POINTER(y), UHAL_POINTER(x), const Layout layout, INDEX bytes, INDEX pieces, INDEX count,
                      int32 y_place, int32 x_place) {
  UHAL_FOR_ITEMS(i, count) {
    const INDEX run = i / pieces;
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(layout, 2, run, offsets);
    const int64 to = (int64)offsets[0] * UHAL_SIZE;
    const int64 from = (int64)offsets[1] * UHAL_SIZE;
    UHAL_GLOBAL char* y = UHAL_ADDRESS(char, y) + to;
    UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, x) + from;
    const int32 head = (int32)((y_place + to) & (PIECE - 1));
    const INDEX first = (i - run * pieces) * PIECE - head;
    if (first >= 0 && first + PIECE <= bytes) {
      const int32 shift = (int32)((x_place + from + first) & 3);
      UHAL_GLOBAL const uint32* words = (UHAL_GLOBAL const uint32*)(x + first - shift);
      uhal_four_uint32 piece;
      piece.x = words[0], piece.y = words[1], piece.z = words[2], piece.w = words[3];
      if (shift != 0) {
        const uint32 next = words[4];
        const int32 low = 8 * shift;
        const int32 high = 32 - low;
        piece.x = piece.x >> low | piece.y << high;
        piece.y = piece.y >> low | piece.z << high;
        piece.z = piece.z >> low | piece.w << high;
        piece.w = piece.w >> low | next << high;
      }
      *(UHAL_GLOBAL uhal_four_uint32*)(y + first) = piece;
    } else {
      const INDEX end = first + PIECE < bytes ? first + PIECE : bytes;
      for (INDEX at = first < 0 ? 0 : first; at < end; at += UHAL_SIZE) {
        *(UHAL_GLOBAL UNIT*)(y + at) = *(UHAL_GLOBAL const UNIT*)(x + at);
      }
    }
  }
}

#elif UHAL_JOINED

/* Several copies of rows, for which addresses are numbers: of GPU backends. `first` is the work-item that begins. */
typedef struct {
  uint64 to[UHAL_MEMBERS];
  uint64 from[UHAL_MEMBERS];
  int32 count[UHAL_MEMBERS];
  int32 columns[UHAL_MEMBERS];
  int32 to_pitch[UHAL_MEMBERS];
  int32 from_pitch[UHAL_MEMBERS];
  int32 first[UHAL_MEMBERS];
} Members;

UHAL_KERNEL void joined(const Members copies, int32 members) {
  const int32 item = UHAL_GLOBAL_ID(0);
  int32 member = 0;
  for (int32 k = 1; k < members; ++k) member = item >= copies.first[k] ? k : member;
  const int32 i = item - copies.first[member], columns = copies.columns[member];
  if (i < copies.count[member]) {
    const int64 row = i / columns, column = i % columns;
    UNIT* const to = UHAL_ADDRESS_IN(UNIT, copies.to[member]);
    const UNIT* const from = UHAL_ADDRESS_IN(const UNIT, copies.from[member]);
    to[row * copies.to_pitch[member] + column] = from[row * copies.from_pitch[member] + column];
  }
}

#elif UHAL_SPREAD

/* Each unit of x, and the zeros behind it: `layout` goes over x and the units of y that take it, which are the first
 * ones of blocks of `planes` by `rows` by `columns` units. */
UHAL_KERNEL void spread(UHAL_POINTER(y), UHAL_POINTER(x), const UNIT zero, const Layout layout, INDEX planes,
                        INDEX rows, INDEX columns, INDEX y_plane, INDEX y_row, INDEX y_column, INDEX count) {
  UHAL_GLOBAL UNIT* y = UHAL_ADDRESS(UNIT, y);
  UHAL_GLOBAL const UNIT* x = UHAL_ADDRESS(const UNIT, x);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(layout, 2, i, offsets);
    UNIT value = x[offsets[1]];
    for (INDEX plane = 0; plane < planes; ++plane) {
      for (INDEX row = 0; row < rows; ++row) {
        for (INDEX column = 0; column < columns; ++column) {
          y[offsets[0] + plane * y_plane + row * y_row + column * y_column] = value;
          value = zero;
        }
      }
    }
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
