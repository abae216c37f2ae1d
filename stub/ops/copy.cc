// UHAL_OP_COPY and UHAL_OP_CAST between strided views.

#include "stub/ops/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "csrc/backends/common/complex_parts.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/move.h"
#include "stub/common/parallel.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Bytes of rows that are copied together: in longer ones a step from row to row costs nothing.
constexpr int64_t kShortRow = 16384;
constexpr int kTo = 0;
constexpr int kFrom = 1;

// Elements of any dtype move as blobs of their size.
struct Blob16 {
  uint64_t half[2];
};

// A loop of its own, of operands that do not overlap: it becomes vectors with their elements turned around.
template <class Blob>
UNIHAL_VECTORIZED void reverse_run(int64_t count, Blob* __restrict to, const Blob* __restrict from) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[count - 1 - i];
}

template <class Blob>
void copy_run(int64_t count, char* to, int64_t to_stride, const char* from, int64_t from_stride) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Blob));
    return;
  }
  Blob* out = reinterpret_cast<Blob*>(to);
  const Blob* in = reinterpret_cast<const Blob*>(from);
  if (from_stride == 0) {
    const Blob value = in[0];
    for (int64_t i = 0; i < count; ++i) out[i * to_stride] = value;
  } else if (to_stride == 1 && from_stride == -1) {
    reverse_run(count, out, in - (count - 1));
  } else if (to_stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i * from_stride];
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * to_stride] = in[i * from_stride];
  }
}

// The bytes of a short row, whose last vector may lie across the one before: a call of memcpy() costs more than the
// shortest, and for some thousand bytes it takes an instruction that is slow to begin.
template <class Blob>
UNIHAL_INLINE void move_row(int64_t count, Blob* to, const Blob* from) {
  constexpr int64_t kBytes = 32;
  using Vector = VectorOf<char, kBytes>::loose;
  const int64_t bytes = count * static_cast<int64_t>(sizeof(Blob));
  if (bytes < kBytes) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  const auto move = [=](int64_t at) UNIHAL_INLINE_LAMBDA {
    const Vector* const source = reinterpret_cast<const Vector*>(reinterpret_cast<const char*>(from) + at);
    *reinterpret_cast<Vector*>(reinterpret_cast<char*>(to) + at) = *source;
  };
  int64_t at = 0;
  // Few enough steps that the processor foresees the last one.
  for (; at < bytes - 4 * kBytes; at += 4 * kBytes) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) move(at + i * kBytes);
  }
  for (; at < bytes - kBytes; at += kBytes) move(at);
  move(bytes - kBytes);
}

// Short rows, each of which begins so many elements behind the one before.
template <class Blob>
UNIHAL_VECTORIZED void copy_rows(int64_t rows, int64_t count, char* to, int64_t to_row, int64_t to_stride,
                                 const char* from, int64_t from_row, int64_t from_stride) {
  Blob* out = reinterpret_cast<Blob*>(to);
  const Blob* in = reinterpret_cast<const Blob*>(from);
  for (; rows > 0; --rows, out += to_row, in += from_row) {
    if (to_stride == 1 && from_stride == 1) {
      move_row(count, out, in);
    } else {
      copy_run<Blob>(count, reinterpret_cast<char*>(out), to_stride, reinterpret_cast<const char*>(in), from_stride);
    }
  }
}

// Transposes a tile: rows of `to` (adjacent elements) from columns of `from` (adjacent elements).
using CopyTile = void (*)(int64_t rows, int64_t columns, char* to, int64_t to_row, const char* from,
                          int64_t from_column);

// The side of a tile of elements of a size: it stays in the first-level cache both ways, and of each row and column as
// many of the cache's lines as there is room for are moved at a time.
constexpr int64_t tile_side(int64_t size) { return size <= 4 ? 64 : size == 8 ? 32 : 16; }
// Rows of tiles where the threads would have too few of them.
constexpr int64_t kLowTile = 16;

template <class Blob>
UNIHAL_VECTORIZED void copy_tile(int64_t rows, int64_t columns, char* to, int64_t to_row, const char* from,
                                 int64_t from_column) {
  Blob* out = reinterpret_cast<Blob*>(to);
  const Blob* in = reinterpret_cast<const Blob*>(from);
  const auto copy_rest = [=](int64_t row, int64_t row_end, int64_t column) UNIHAL_INLINE_LAMBDA {
    for (int64_t r = row; r < row_end; ++r) {
      for (int64_t c = column; c < columns; ++c) out[r * to_row + c] = in[c * from_column + r];
    }
  };
  int64_t row = 0;
  if constexpr (sizeof(Blob) <= 8) {
    constexpr int64_t kSquare = (sizeof(Blob) <= 2 ? 16 : 32) / sizeof(Blob);
    for (; row + kSquare <= rows; row += kSquare) {
      int64_t column = 0;
      for (; column + kSquare <= columns; column += kSquare) {
        transpose_square(in + column * from_column + row, from_column, out + row * to_row + column, to_row);
      }
      copy_rest(row, row + kSquare, column);
    }
  } else {  // two of a row are a vector
    using Half = VectorOf<uint64_t, 32>;
    for (; row < rows; ++row) {
      int64_t column = 0;
      for (; column + 2 <= columns; column += 2) {
        const Blob* const first = in + column * from_column + row;
        typename Half::type pair;
        load_halves(reinterpret_cast<const uint64_t*>(first), reinterpret_cast<const uint64_t*>(first + from_column),
                    pair);
        *reinterpret_cast<typename Half::loose*>(out + row * to_row + column) = pair;
      }
      copy_rest(row, row + 1, column);
    }
  }
  copy_rest(row, rows, 0);
}

using CopyRows = void (*)(int64_t rows, int64_t count, char* to, int64_t to_row, int64_t to_stride, const char* from,
                          int64_t from_row, int64_t from_stride);

struct Mover {
  CopyRun run;
  CopyRows rows;
  CopyTile tile;
};

Mover mover(int64_t size) {
  switch (size) {
    case 1:
      return {copy_run<uint8_t>, copy_rows<uint8_t>, copy_tile<uint8_t>};
    case 2:
      return {copy_run<uint16_t>, copy_rows<uint16_t>, copy_tile<uint16_t>};
    case 4:
      return {copy_run<uint32_t>, copy_rows<uint32_t>, copy_tile<uint32_t>};
    case 8:
      return {copy_run<uint64_t>, copy_rows<uint64_t>, copy_tile<uint64_t>};
    default:
      return {copy_run<Blob16>, copy_rows<Blob16>, copy_tile<Blob16>};
  }
}

// The axis along which `from` is adjacent while `to` is adjacent along the last one; -1 if there is no such pair.
int transposed_axis(const Space& space) {
  const int last = space.rank - 1;
  if (space.strides[kTo][last] != 1 || std::abs(space.strides[kFrom][last]) < 2) return -1;
  for (int i = last - 1; i >= 0; --i) {
    if (space.strides[kFrom][i] == 1 && space.shape[i] >= 4 && space.shape[last] >= 4) return i;
  }
  return -1;
}

// Tile by tile over the two axes of a transpose, for each position of the other axes.
void copy_transposed(const Space& space, int axis, int64_t size, char* to, const char* from) {
  const CopyTile tile = mover(size).tile;
  const int64_t side = tile_side(size);
  const int last = space.rank - 1;
  const int64_t rows = space.shape[axis];
  const int64_t columns = space.shape[last];
  const int64_t to_row = space.strides[kTo][axis];
  const int64_t from_column = space.strides[kFrom][last];
  const int64_t outer = space.count / (rows * columns);
  const int64_t threads = kThreads ? omp_get_max_threads() : 1;
  const int64_t height = threads == 1 || outer * rows >= 4 * threads * side ? side : kLowTile;
  const int64_t row_tiles = (rows + height - 1) / height;
  parallel_for(outer * row_tiles, height * columns, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item % row_tiles * height;
      int64_t rest = item / row_tiles;
      int64_t to_offset = row * to_row;
      int64_t from_offset = row;
      for (int i = last - 1; i >= 0; --i) {
        if (i == axis) continue;
        const int64_t coordinate = rest % space.shape[i];
        rest /= space.shape[i];
        to_offset += coordinate * space.strides[kTo][i];
        from_offset += coordinate * space.strides[kFrom][i];
      }
      for (int64_t column = 0; column < columns; column += side) {
        tile(std::min(height, rows - row), std::min(side, columns - column), to + (to_offset + column) * size, to_row,
             from + (from_offset + column * from_column) * size, from_column);
      }
    }
  });
}

void copy_short_rows(const Space& space, int64_t size, char* to, const char* from) {
  const CopyRows copy = mover(size).rows;
  const int last = space.rank - 1;
  const int64_t count = space.inner();
  Space rows = space;
  rows.rank = last;
  rows.count = space.count / count;
  parallel_for(rows.count, count, [&](int64_t begin, int64_t end) {
    Cursor cursor(rows, begin);
    while (begin < end) {
      const int64_t together = std::min(end - begin, cursor.run());
      copy(together, count, to + cursor.offset(kTo) * size, space.strides[kTo][last - 1], space.strides[kTo][last],
           from + cursor.offset(kFrom) * size, space.strides[kFrom][last - 1], space.strides[kFrom][last]);
      cursor.advance(together);
      begin += together;
    }
  });
}

// Any but complex numbers to real ones.
void cast_blocks(const uhal_tensor& x, const uhal_tensor& y) {
  const uhal_tensor* views[] = {&y, &x};
  const Space space = make_space(views, 2);
  if (space.count == 0) return;
  // The source's own compute type holds its values exactly, so the result is rounded once. So does float those of
  // integers of one and two bytes, and without AVX-512 no vector converts from int64.
  // Real numbers are converted as they become complex ones: writing the parts one after the other takes every line of
  // the result twice.
  const bool is_narrow = is_integer(x.dtype) && dtype_size(x.dtype) <= 2;
  const bool becomes_complex = is_complex(y.dtype) && !is_complex(x.dtype);
  const ComputeType type = becomes_complex                     ? compute_type_of(y.dtype)
                           : is_narrow && is_floating(y.dtype) ? kFloat
                                                               : compute_type_of(x.dtype);
  const BlockOperand to(space, kTo, y, type);
  const BlockOperand from(space, kFrom, x, type);
  if (to.dense() && space.dense(kFrom)) {  // in one go
    const LoadLoop load = vectors().load[x.dtype][type];
    parallel_for(space.count, 1, kBlock,
                 [&](int64_t begin, int64_t end) { load(end - begin, from.at(begin), 1, to.at(begin)); });
    return;
  }
  if (from.dense() && space.dense(kTo)) {
    const StoreLoop store = vectors().store[type][y.dtype];
    parallel_for(space.count, 1, kBlock,
                 [&](int64_t begin, int64_t end) { store(end - begin, from.at(begin), to.at(begin), 1); });
    return;
  }
  parallel_for(space.count, 1, kBlock, [&](int64_t begin, int64_t end) {
    BlockBuffer buffer;
    from.prepare(end - begin, buffer);
    Cursor cursor(space, begin);
    while (begin < end) {
      const int64_t count = block_length(space, cursor, end - begin);
      if (void* own = to.span(cursor, count)) {
        from.load(cursor, count, own);
      } else {
        to.store(cursor, count, from.read(cursor, count, buffer));
      }
      cursor.skip(count);
      begin += count;
    }
  });
}

}  // namespace

CopyRun copy_run_of(int64_t size) { return mover(size).run; }

void transpose_elements(int64_t rows, int64_t columns, int64_t size, void* to, int64_t to_row, const void* from,
                        int64_t from_column) {
  const CopyTile tile = mover(size).tile;
  const int64_t side = tile_side(size);
  for (int64_t row = 0; row < rows; row += side) {
    for (int64_t column = 0; column < columns; column += side) {
      tile(std::min(side, rows - row), std::min(side, columns - column),
           static_cast<char*>(to) + (row * to_row + column) * size, to_row,
           static_cast<const char*>(from) + (row + column * from_column) * size, from_column);
    }
  }
}

void copy_views(const uhal_tensor& x, const uhal_tensor& y) {
  const uhal_tensor* views[] = {&y, &x};
  Space space = make_space(views, 2);
  char* to = static_cast<char*>(y.data);
  const char* from = static_cast<const char*>(x.data);
  const int64_t size = dtype_size(y.dtype);
  if (space.count == 0) return;
  if (space.dense(kTo) && space.dense(kFrom)) {
    move_bytes(to, from, space.count * size);
    return;
  }
  if (space.dense(kTo) && space.period(kFrom) == 1) {
    fill_bytes(to, from, size, space.count * size);
    return;
  }
  if (const int axis = transposed_axis(space); axis >= 0) {
    copy_transposed(space, axis, size, to, from);
    return;
  }
  lengthen_rows(space);
  const int last = space.rank - 1;
  if (last > 0 && space.inner() * size <= kShortRow) {
    copy_short_rows(space, size, to, from);
    return;
  }
  const CopyRun run = mover(size).run;
  parallel_for(space.count, 1, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    while (begin < end) {
      const int64_t count = std::min(end - begin, cursor.run());
      run(count, to + cursor.offset(kTo) * size, space.strides[kTo][last], from + cursor.offset(kFrom) * size,
          space.strides[kFrom][last]);
      cursor.advance(count);
      begin += count;
    }
  });
}

void cast_views(const uhal_tensor& x, const uhal_tensor& y) {
  if (is_complex(x.dtype) && !is_complex(y.dtype)) {
    cast_blocks(part(x, false), y);
  } else {
    cast_blocks(x, y);
  }
}

void fill_view(double value, int64_t integer_value, const uhal_tensor& y) {
  alignas(16) char bytes[16];
  if (is_integer(y.dtype)) {
    vectors().store[kInt64][y.dtype](1, &integer_value, bytes, 1);
  } else {
    const uhal_dtype dtype = part_dtype(y.dtype);
    const double parts[2] = {value, 0};
    vectors().store[kDouble][dtype](is_complex(y.dtype) ? 2 : 1, parts, bytes, 1);
  }
  uhal_tensor x = y;
  x.rank = 0;
  x.data = bytes;
  copy_views(x, y);
}

const char* refuse_copy(const uhal_op&) { return nullptr; }

uhal_status run_copy(const Launch& launch) {
  const uhal_tensor& x = *launch.op.inputs[0];
  const uhal_tensor& y = *launch.op.outputs[0];
  if (x.dtype == y.dtype) {
    copy_views(x, y);
  } else {
    cast_views(x, y);
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
