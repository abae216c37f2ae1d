/* What the kernels of a few rows times weights of few bits share: where operands lie, and what a block's zero point and
 * scale are. Their sources define the macros BITS, IS_SIGNED, ZEROS and the dtypes S and Z, and have a `shape`, and the
 * bytes of the `weights`. */
typedef struct {
  INDEX n, k;
  INDEX a_row, a_column, b_row, b_column; /* strides; those of b in bytes */
  INDEX scale_row, scale_column, zero_row, zero_column, c_row, c_column, d_row, d_column;
} QUANTIZED_SHAPE;

/* Signed weights are counted from their least: both then have the bits of a number that is not negative. */
#if IS_SIGNED && BITS == 4
#define FLIP 0x88888888u
#define LEAST 8
#elif IS_SIGNED
#define FLIP 0x80808080u
#define LEAST 128
#else
#define FLIP 0u
#define LEAST 0
#endif

/* The zero point of a block, counted as weights are. */
#if ZEROS == 2
#define ZERO_OF(block, column)                                                                             \
  ((T)((UHAL_ADDRESS(const uint8, zeros)[((block) >> 1) * shape.zero_row + (column) * shape.zero_column] ^ \
        (uint8)FLIP) >>                                                                                    \
           (((block) & 1) * 4) &                                                                           \
       15))
#elif ZEROS == 1
#define ZERO_OF(block, column) \
  (Z_LOAD(UHAL_ADDRESS(const Z_STORAGE, zeros), (block) * shape.zero_row + (column) * shape.zero_column) + (T)LEAST)
#else
#define ZERO_OF(block, column) (zero_point + (T)LEAST)
#endif
#define SCALE_OF(block, column) \
  S_LOAD(UHAL_ADDRESS(const S_STORAGE, scales), (block) * shape.scale_row + (column) * shape.scale_column)

/* One weight, counted from the least. */
#define BYTE_OF(i, column) \
  ((uint32)(uint8)(weights[(column) * shape.b_column + (BITS == 4 ? (i) >> 1 : (i)) * shape.b_row] ^ (uint8)FLIP))
#define WEIGHT_OF(i, column) ((T)(BITS == 4 ? BYTE_OF(i, column) >> (((i) & 1) * 4) & 15u : BYTE_OF(i, column)))
