/* Weights of few bits as numbers, for an ordinary product. An item is eight weights of a channel, which share a scale.
 *
 * Macros: dtypes Y (the result), S (scales), Z (zero points that are not packed); BITS (8 or 4), IS_SIGNED, ALONG_K (1: the
 * result lies channel by channel, with room for whole eights in each; 0: row by row), ZEROS as of quantized_rows.cl. */
typedef struct {
  INDEX n, k, eights, pitch; /* eights along k; pitch of the result's channels or rows */
  INDEX b_row, b_column;     /* strides in bytes */
  INDEX scale_row, scale_column, zero_row, zero_column;
} WEIGHTS_SHAPE;

/* One number of 8 bits, or the low or high half of one. */
UHAL_INLINE T uhal_weight(uint32 byte, int32 high) {
#if BITS == 4
  const int32 value = (int32)(high ? byte >> 4 : byte & 15u);
  return (T)(IS_SIGNED ? (value ^ 8) - 8 : value);
#else
  return (T)(IS_SIGNED ? ((int32)byte ^ 128) - 128 : (int32)byte);
#endif
}

UHAL_KERNEL void quantized_weights(UHAL_POINTER(b), UHAL_POINTER(scales), UHAL_POINTER(zeros), UHAL_POINTER(y),
                                   WEIGHTS_SHAPE shape, INDEX count, T zero_point, int32 block_shift) {
  UHAL_GLOBAL const uint8* weights = UHAL_ADDRESS(const uint8, b);
  UHAL_GLOBAL Y_STORAGE* result = UHAL_ADDRESS(Y_STORAGE, y);
  UHAL_FOR_ITEMS(item, count) {
#if ALONG_K
    const INDEX column = item / shape.eights;
    const INDEX first = (item - column * shape.eights) * 8;
#else
    const INDEX eight = item / shape.n;
    const INDEX column = item - eight * shape.n;
    const INDEX first = eight * 8;
#endif
    const INDEX block = first >> block_shift;
#if ZEROS == 2
    const T zero = uhal_weight(
        UHAL_ADDRESS(const uint8, zeros)[(block >> 1) * shape.zero_row + column * shape.zero_column], (int32)(block & 1));
#elif ZEROS == 1
    const T zero =
        Z_LOAD(UHAL_ADDRESS(const Z_STORAGE, zeros), block * shape.zero_row + column * shape.zero_column);
#else
    const T zero = zero_point;
#endif
    const T scale =
        S_LOAD(UHAL_ADDRESS(const S_STORAGE, scales), block * shape.scale_row + column * shape.scale_column);
    T values[8];
    UHAL_UNROLL for (int32 i = 0; i < 8; ++i) {
      const INDEX row = first + i < shape.k ? first + i : shape.k - 1;
      const INDEX place = column * shape.b_column + (BITS == 4 ? row >> 1 : row) * shape.b_row;
      values[i] = (uhal_weight(weights[place], (int32)(row & 1)) - zero) * scale;
    }
#if ALONG_K
    Y_STORE8(result, column * shape.pitch + first, values);
#else
    UHAL_UNROLL for (int32 i = 0; i < 8; ++i) {
      if (first + i < shape.k) Y_STORE(result, (first + i) * shape.pitch + column, values[i]);
    }
#endif
  }
}
