/* Matrix products of 16x16x16 numbers of 16 bits, summed in float32: the word of the dialect for matrix cores. A source
 * includes it after it has defined UHAL_PRODUCT_DTYPE, 10 for float16 or 11 for bfloat16; its host has asked
 * DeviceTraits::matrix_form, and defines UHAL_MATRIX_FORM as that:
 *
 *   1  NVIDIA's from sm_80 on: mma.sync and ldmatrix, whose layouts the PTX manual gives ("Matrix fragments for
 *      mma.m16n8k16 with floating point type"); a step is two of these products, side by side
 *   2  RDNA3's (gfx11): v_wmma_f32_16x16x16 in waves of 32, whose layouts the RDNA3 ISA manual gives ("Wave Matrix
 *      Multiply Accumulate"). The product is formed transposed, so that a lane's sums are of one row
 *   3  all of form 1 and, beside it, wgmma of sm_90a (the PTX manual's "Asynchronous Warpgroup Level Matrix
 *      Instructions"), products of 64 rows, of which four warps have 16 each
 *
 * 32 work-items in a row, lanes 0 to 31, make a product together and hold its parts between them:
 *
 *   uhal_left, uhal_right, uhal_sum          16 rows of 16 terms; 16 terms of 16 columns; 16x16 sums, eight a lane
 *   uhal_load_left(&a, tile)                 a[row][term] lies at row * pitch + term
 *   uhal_load_right(&b, tile)                b[term][column] lies at column * pitch + term
 *   uhal_load_right_across(&b, tile, pitch)  b[term][column] lies at term * pitch + column
 *   uhal_add_product(&sum, &a, &b)           sum += a @ b
 *   uhal_left_of_sum(&a, &sum, lane)         sums as factors of the next product, rounded to the operands' dtype
 *   uhal_store_sum(pointer, &sum, pitch, lane)
 *
 * A tile is where a lane's part lies in local memory: uhal_tile_of(pointer) moved by uhal_left_lane(lane, pitch),
 * uhal_right_lane or uhal_across_lane elements (uhal_tile_at). Pointers and pitches are multiples of 8 elements, which
 * are 16 bytes; where the pitch is an odd multiple, no two lanes meet in a bank.
 *
 * Element i of a lane's sum is in row uhal_sum_row(lane, i) and column uhal_sum_column(lane, i). A lane has elements of
 * UHAL_SUM_ROWS rows: element i is of the uhal_sum_slot(i)-th of them, which is row uhal_slot_row(lane, slot). The
 * lanes with elements of a row combine a value each by uhal_row_maximum and uhal_row_total: all of them get it. All
 * lanes exchange values by uhal_of_lane_across(value, distance): that of the lane whose number differs in the bits of
 * `distance`.
 *
 *   uhal_copy_async(tile, pointer, inside)   16 bytes from global to local memory, on its way while others compute
 *                                            where there is such a way; zeros if not `inside`, and then the pointer is
 *                                            not followed
 *   uhal_await_copies()                      until the lane's own copies are there; a barrier shares them
 *   uhal_fast_exp2(x)                        2^x, off by two units in the last place; 0 below float32's normal numbers
 *
 * Products of form 3 lie in panels: UHAL_PANEL columns of all rows of a tile, then the next ones, with the 16 bytes of
 * a row in another order, so that no two meet in a bank: element (row, column) of a tile of so many rows is at
 * uhal_panel_place(row, column, rows), where column is a multiple of 8. Tiles begin at multiples of 1,024 bytes and
 * have multiples of 8 rows. Four warps ask together, each for its own 16 rows, and get the sums of 16 rows and
 * UHAL_PRODUCT_COLUMNS columns, which the source defines before it includes this: 32, 64, 96 or 128. Both factors
 * are read from local memory anew for each product, 64 rows of one and the columns of the other, so that more columns
 * at a time leave more of its rate to others; with the left factor in registers 64 columns do.
 *
 *   uhal_begin_products()                    before the first product of some, and after their sums or factors changed
 *   uhal_add_panel_product(sums, left, right, is_first)  sums[n] (+)= a @ b, of each n 16 columns: a[row][term] and
 *                                            b[term][column] of all rows and columns lie at row * UHAL_PANEL + term
 *                                            and column * UHAL_PANEL + term of two tiles' panels
 *   uhal_add_panel_product_across(sums, &a, right)       sums[n] += a @ b for 64 columns: of a each warp has its own
 *                                            rows, and b[term][column] lies at term * UHAL_PANEL + column
 *   uhal_commit_products()                   those asked for are on their way, as one batch
 *   uhal_await_products(pending)             until all batches but the last `pending` are done; sums may be read after
 *   uhal_settle_sums(&sum)                   ... this, which tells the compiler of one of them
 *
 * Copies to panels are waited for by uhal_await_copies, which shows them to the products' way to memory, too.
 */
#define UHAL_LANES 32

#if UHAL_MATRIX_FORM == 1 || UHAL_MATRIX_FORM == 3

typedef struct {
  uint32 pairs[4];
} uhal_left;
typedef uhal_left uhal_right;
typedef struct {
  float elements[8]; /* of the left half 0 to 3, then of the right one */
} uhal_sum;

#define UHAL_SUM_ROWS 2
#define uhal_sum_slot(i) ((i) >> 1 & 1)
#define uhal_slot_row(lane, slot) (((lane) >> 2) + (slot) * 8)
#define uhal_sum_row(lane, i) uhal_slot_row(lane, uhal_sum_slot(i))
#define uhal_sum_column(lane, i) (((lane) & 3) * 2 + ((i) & 1) + ((i) >> 2) * 8)

#define uhal_left_lane(lane, pitch) (((lane) & 15) * (pitch) + ((lane) >> 4) * 8)
#define uhal_right_lane(lane, pitch) ((((lane) & 7) + ((lane) >> 4) * 8) * (pitch) + ((lane) >> 3 & 1) * 8)
#define uhal_across_lane uhal_left_lane

#ifdef UHAL_MATRIX_INSTRUCTIONS /* a file that has them in the manual's words: tests/kernels/test_matrix_kernels.py */
#include UHAL_MATRIX_INSTRUCTIONS
#else
typedef uint32 uhal_tile;
#define uhal_tile_of(pointer) ((uint32)__cvta_generic_to_shared(pointer))
#define uhal_tile_at(tile, count) ((tile) + 2u * (uint32)(count))

UHAL_INLINE void uhal_load_left(uhal_left* part, uhal_tile tile) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(part->pairs[0]), "=r"(part->pairs[1]), "=r"(part->pairs[2]), "=r"(part->pairs[3])
               : "r"(tile));
}
UHAL_INLINE void uhal_load_right_across(uhal_right* part, uhal_tile tile, int32) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(part->pairs[0]), "=r"(part->pairs[1]), "=r"(part->pairs[2]), "=r"(part->pairs[3])
               : "r"(tile));
}

#if UHAL_PRODUCT_DTYPE == 11
#define UHAL_PRODUCT_TYPE "bf16"
#else
#define UHAL_PRODUCT_TYPE "f16"
#endif
UHAL_INLINE void uhal_multiply_half(float* sum, const uhal_left* a, uint32 first, uint32 second) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." UHAL_PRODUCT_TYPE "." UHAL_PRODUCT_TYPE
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a->pairs[0]), "r"(a->pairs[1]), "r"(a->pairs[2]), "r"(a->pairs[3]), "r"(first), "r"(second));
}

/* Two numbers rounded to the operands' dtype, the first in the lower half. */
UHAL_INLINE uint32 uhal_pair_of(float first, float second) {
  uint32 pair;
  asm("cvt.rn." UHAL_PRODUCT_TYPE "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
UHAL_INLINE float uhal_of_lane_across(float value, int32 distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}

UHAL_INLINE void uhal_copy_async(uhal_tile tile, UHAL_GLOBAL const void* pointer, int32 inside) {
  const int32 bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(tile), "l"(pointer), "r"(bytes) : "memory");
}
UHAL_INLINE void uhal_await_copies() {
  asm volatile("cp.async.wait_all;" : : : "memory");
#if UHAL_MATRIX_FORM == 3
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#endif
}

UHAL_INLINE float uhal_fast_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

#if UHAL_MATRIX_FORM == 3
/* A panel as the manual's "matrix descriptor": its address in units of 16 bytes, 1,024 bytes between eight rows and the
 * next, swizzled over 128 bytes. */
UHAL_INLINE uint64 uhal_panel_of(uhal_tile address) {
  return 0x4000004000010000ull | (uint64)((address & 0x3ffffu) >> 4);
}
#define UHAL_EIGHT_SUMS(sum)                                                                          \
  "+f"((sum).elements[0]), "+f"((sum).elements[1]), "+f"((sum).elements[2]), "+f"((sum).elements[3]), \
      "+f"((sum).elements[4]), "+f"((sum).elements[5]), "+f"((sum).elements[6]), "+f"((sum).elements[7])
#define UHAL_PANEL_SUMS(sums) \
  UHAL_EIGHT_SUMS((sums)[0]), UHAL_EIGHT_SUMS((sums)[1]), UHAL_EIGHT_SUMS((sums)[2]), UHAL_EIGHT_SUMS((sums)[3])
#define UHAL_PANEL_OPERANDS                                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define UHAL_PANEL_PRODUCT(columns) \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." UHAL_PRODUCT_TYPE "." UHAL_PRODUCT_TYPE
UHAL_INLINE void uhal_add_panel_product_across(uhal_sum* sums, const uhal_left* a, uhal_tile right) {
  asm volatile("{.reg .pred adds; setp.ne.b32 adds, 1, 0; " UHAL_PANEL_PRODUCT(
                   "64") " {" UHAL_PANEL_OPERANDS "}, {%32, %33, %34, %35}, %36, adds, 1, 1, 1;}"
               : UHAL_PANEL_SUMS(sums)
               : "r"(a->pairs[0]), "r"(a->pairs[1]), "r"(a->pairs[2]), "r"(a->pairs[3]), "l"(uhal_panel_of(right)));
}

/* What the statement of a product says of its columns: how many, the sums, and the numbers of what follows them. */
#if UHAL_PRODUCT_COLUMNS == 32
#define UHAL_COLUMNS "32"
#define UHAL_SUM_OPERANDS "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define UHAL_PRODUCT_SUMS(sums) UHAL_EIGHT_SUMS((sums)[0]), UHAL_EIGHT_SUMS((sums)[1])
#define UHAL_LEFT_OPERAND "%16"
#define UHAL_RIGHT_OPERAND "%17"
#define UHAL_FIRST_OPERAND "%18"
#elif UHAL_PRODUCT_COLUMNS == 64
#define UHAL_COLUMNS "64"
#define UHAL_SUM_OPERANDS UHAL_PANEL_OPERANDS
#define UHAL_PRODUCT_SUMS(sums) UHAL_PANEL_SUMS(sums)
#define UHAL_LEFT_OPERAND "%32"
#define UHAL_RIGHT_OPERAND "%33"
#define UHAL_FIRST_OPERAND "%34"
#elif UHAL_PRODUCT_COLUMNS == 96
#define UHAL_COLUMNS "96"
#define UHAL_SUM_OPERANDS \
  UHAL_PANEL_OPERANDS ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define UHAL_PRODUCT_SUMS(sums) UHAL_PANEL_SUMS(sums), UHAL_EIGHT_SUMS((sums)[4]), UHAL_EIGHT_SUMS((sums)[5])
#define UHAL_LEFT_OPERAND "%48"
#define UHAL_RIGHT_OPERAND "%49"
#define UHAL_FIRST_OPERAND "%50"
#elif UHAL_PRODUCT_COLUMNS == 128
#define UHAL_COLUMNS "128"
#define UHAL_SUM_OPERANDS                                                                        \
  UHAL_PANEL_OPERANDS                                                                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define UHAL_PRODUCT_SUMS(sums) UHAL_PANEL_SUMS(sums), UHAL_PANEL_SUMS((sums) + 4)
#define UHAL_LEFT_OPERAND "%64"
#define UHAL_RIGHT_OPERAND "%65"
#define UHAL_FIRST_OPERAND "%66"
#endif
UHAL_INLINE void uhal_add_panel_product(uhal_sum* sums, uhal_tile left, uhal_tile right, const int32 is_first) {
  asm volatile("{.reg .pred adds; setp.eq.b32 adds, " UHAL_FIRST_OPERAND
               ", 0; " UHAL_PANEL_PRODUCT(UHAL_COLUMNS) " {" UHAL_SUM_OPERANDS "}, " UHAL_LEFT_OPERAND
                                                        ", " UHAL_RIGHT_OPERAND ", adds, 1, 1, 0, 0;}"
               : UHAL_PRODUCT_SUMS(sums)
               : "l"(uhal_panel_of(left)), "l"(uhal_panel_of(right)), "r"(is_first));
}
UHAL_INLINE void uhal_begin_products() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
UHAL_INLINE void uhal_commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
#define uhal_await_products(pending) asm volatile("wgmma.wait_group.sync.aligned " #pending ";" : : : "memory")
UHAL_INLINE void uhal_settle_sums(uhal_sum* sum) { asm volatile("" : UHAL_EIGHT_SUMS(*sum) : : "memory"); }
#endif
#endif

#if UHAL_MATRIX_FORM == 3
#define UHAL_PANEL 64
#define uhal_panel_place(row, column, rows) \
  ((column) / UHAL_PANEL * ((rows) * UHAL_PANEL) + (row) * UHAL_PANEL + ((((column) >> 3) ^ (row)) & 7) * 8)
#endif

#define uhal_load_right uhal_load_left

UHAL_INLINE void uhal_add_product(uhal_sum* sum, const uhal_left* a, const uhal_right* b) {
  uhal_multiply_half(sum->elements, a, b->pairs[0], b->pairs[1]);
  uhal_multiply_half(sum->elements + 4, a, b->pairs[2], b->pairs[3]);
}

/* A lane's sums are those of its factors. */
UHAL_INLINE void uhal_left_of_sum(uhal_left* part, const uhal_sum* sum, int32) {
  UHAL_UNROLL for (int32 i = 0; i < 4; ++i) {
    part->pairs[i] = uhal_pair_of(sum->elements[2 * i], sum->elements[2 * i + 1]);
  }
}

UHAL_INLINE void uhal_store_sum(UHAL_LOCAL uint16* to, const uhal_sum* sum, int32 pitch, int32 lane) {
  UHAL_UNROLL for (int32 i = 0; i < 8; i += 2) {
    *(UHAL_LOCAL uint32*)(to + uhal_sum_row(lane, i) * pitch + uhal_sum_column(lane, i)) =
        uhal_pair_of(sum->elements[i], sum->elements[i + 1]);
  }
}

UHAL_INLINE float uhal_row_maximum(float value) {
  value = fmax(value, uhal_of_lane_across(value, 1));
  return fmax(value, uhal_of_lane_across(value, 2));
}
UHAL_INLINE float uhal_row_total(float value) {
  value += uhal_of_lane_across(value, 1);
  return value + uhal_of_lane_across(value, 2);
}

#elif UHAL_MATRIX_FORM == 2

typedef struct {
  uint32
      pairs[8]; /* of lane l, and of lane l + 16 the same: row l (of the right: column l), terms 2 * i and the next */
} uhal_left;
typedef uhal_left uhal_right;
typedef struct {
  float elements[8]; /* of lane l: row l % 16, columns 2 * i + l / 16 */
} uhal_sum;

#define UHAL_SUM_ROWS 1
#define uhal_sum_slot(i) 0
#define uhal_slot_row(lane, slot) ((lane) & 15)
#define uhal_sum_row(lane, i) ((lane) & 15)
#define uhal_sum_column(lane, i) (2 * (i) + ((lane) >> 4))

#define uhal_left_lane(lane, pitch) (((lane) & 15) * (pitch))
#define uhal_right_lane uhal_left_lane
/* Two columns of every other term, of which a lane and its neighbour then exchange what is the other's. */
#define uhal_across_lane(lane, pitch) (((lane) & 1) * (pitch) + ((lane) & 14))

typedef UHAL_LOCAL uint16* uhal_tile;
#define uhal_tile_of(pointer) (pointer)
#define uhal_tile_at(tile, count) ((tile) + (count))

#ifdef UHAL_MATRIX_INSTRUCTIONS
#include UHAL_MATRIX_INSTRUCTIONS
#else
typedef short uhal_sixteen_int16 __attribute__((ext_vector_type(16)));
typedef _Float16 uhal_sixteen_float16 __attribute__((ext_vector_type(16)));
typedef float uhal_eight_float32 __attribute__((ext_vector_type(8)));

/* sum[2 * i + lane / 16][lane % 16] += rows @ columns: of lane l, row l % 16 and column l % 16. */
UHAL_INLINE void uhal_multiply_waves(float* sum, const uint32* rows, const uint32* columns) {
  uhal_eight_float32 sums;
  __builtin_memcpy(&sums, sum, sizeof sums);
#if UHAL_PRODUCT_DTYPE == 11
  uhal_sixteen_int16 a, b;
#else
  uhal_sixteen_float16 a, b;
#endif
  __builtin_memcpy(&a, rows, sizeof a);
  __builtin_memcpy(&b, columns, sizeof b);
#if UHAL_PRODUCT_DTYPE == 11
  sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, sums);
#else
  sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, sums);
#endif
  __builtin_memcpy(sum, &sums, sizeof sums);
}

/* Of lane l what lane l ^ 1 has; what lane l ^ 16 has. */
UHAL_INLINE uint32 uhal_of_neighbour(uint32 bits) {
  return (uint32)__builtin_amdgcn_mov_dpp((int32)bits, 0xb1, 0xf, 0xf, true); /* quad_perm:[1,0,3,2] */
}
UHAL_INLINE uint32 uhal_of_other_half(uint32 bits) {
  return __builtin_amdgcn_permlanex16(bits, bits, 0x76543210u, 0xfedcba98u, false, false);
}
/* Byte i is that which byte i of `places` numbers: of `low` 0 to 3, of `high` 4 to 7. */
UHAL_INLINE uint32 uhal_bytes_of(uint32 high, uint32 low, uint32 places) {
  return __builtin_amdgcn_perm(high, low, places);
}
UHAL_INLINE int32 uhal_lane() { return (int32)__builtin_amdgcn_mbcnt_lo(~0u, 0); }
UHAL_INLINE float uhal_of_lane_across(float value, int32 distance) {
  const int32 bits = (int32)uhal_bits_of_float(value);
  return uhal_float_of_bits(__builtin_amdgcn_ds_bpermute((uhal_lane() ^ distance) * 4, bits));
}
UHAL_INLINE float uhal_fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
#endif

/* Places for uhal_bytes_of: the lower or the higher halves of `low` and `high`, in this order or in the other. */
#define UHAL_LOW_HALVES 0x05040100u
#define UHAL_LOW_HALVES_SWAPPED 0x01000504u
#define UHAL_HIGH_HALVES 0x07060302u
#define UHAL_HIGH_HALVES_SWAPPED 0x03020706u

/* Two numbers rounded to the operands' dtype, the first in the lower half. */
#if UHAL_PRODUCT_DTYPE == 11
/* To the nearest, ties to even, in the upper half; a NaN becomes the usual one, which has nothing below. */
UHAL_INLINE uint32 uhal_rounded_bits(float value) {
  const uint32 bits = value != value ? 0x7fc00000u : uhal_bits_of_float(value);
  return bits + 0x7fffu + (bits >> 16 & 1u);
}
UHAL_INLINE uint32 uhal_pair_of(float first, float second) {
  return uhal_bytes_of(uhal_rounded_bits(second), uhal_rounded_bits(first), UHAL_HIGH_HALVES);
}
#else
#define uhal_pair_of uhal_float16_pair
#endif

UHAL_INLINE void uhal_load_left(uhal_left* part, uhal_tile tile) {
  UHAL_UNROLL for (int32 i = 0; i < 8; i += 4) {
    const uhal_four_uint32 four = *(UHAL_LOCAL const uhal_four_uint32*)(tile + 2 * i);
    part->pairs[i] = four.x, part->pairs[i + 1] = four.y, part->pairs[i + 2] = four.z, part->pairs[i + 3] = four.w;
  }
}
#define uhal_load_right uhal_load_left

UHAL_INLINE void uhal_load_right_across(uhal_right* part, uhal_tile tile, int32 pitch) {
  const uint32 places = (uhal_lane() & 1) != 0 ? UHAL_HIGH_HALVES_SWAPPED : UHAL_LOW_HALVES;
  UHAL_UNROLL for (int32 i = 0; i < 8; ++i) {
    const uint32 own = *(UHAL_LOCAL const uint32*)(tile + 2 * i * pitch);
    part->pairs[i] = uhal_bytes_of(uhal_of_neighbour(own), own, places);
  }
}

UHAL_INLINE void uhal_add_product(uhal_sum* sum, const uhal_left* a, const uhal_right* b) {
  uhal_multiply_waves(sum->elements, b->pairs, a->pairs);
}

/* A lane has every other one of its row's factors, and lane ^ 16 the rest. */
UHAL_INLINE void uhal_left_of_sum(uhal_left* part, const uhal_sum* sum, int32 lane) {
  const uint32 first = lane < 16 ? UHAL_LOW_HALVES : UHAL_LOW_HALVES_SWAPPED;
  const uint32 second = lane < 16 ? UHAL_HIGH_HALVES : UHAL_HIGH_HALVES_SWAPPED;
  UHAL_UNROLL for (int32 i = 0; i < 4; ++i) {
    const uint32 own = uhal_pair_of(sum->elements[2 * i], sum->elements[2 * i + 1]);
    const uint32 other = uhal_of_other_half(own);
    part->pairs[2 * i] = uhal_bytes_of(other, own, first);
    part->pairs[2 * i + 1] = uhal_bytes_of(other, own, second);
  }
}

/* Each half of the lanes stores half of each row. */
UHAL_INLINE void uhal_store_sum(UHAL_LOCAL uint16* to, const uhal_sum* sum, int32 pitch, int32 lane) {
  uhal_left row;
  uhal_left_of_sum(&row, sum, lane);
  uhal_four_uint32 half;
  half.x = lane < 16 ? row.pairs[0] : row.pairs[4];
  half.y = lane < 16 ? row.pairs[1] : row.pairs[5];
  half.z = lane < 16 ? row.pairs[2] : row.pairs[6];
  half.w = lane < 16 ? row.pairs[3] : row.pairs[7];
  *(UHAL_LOCAL uhal_four_uint32*)(to + (lane & 15) * pitch + (lane >> 4) * 8) = half;
}

UHAL_INLINE float uhal_row_maximum(float value) {
  return fmax(value, uhal_float_of_bits(uhal_of_other_half(uhal_bits_of_float(value))));
}
UHAL_INLINE float uhal_row_total(float value) {
  return value + uhal_float_of_bits(uhal_of_other_half(uhal_bits_of_float(value)));
}

/* There is no such way: the lane waits for its loads. */
UHAL_INLINE void uhal_copy_async(uhal_tile tile, UHAL_GLOBAL const void* pointer, int32 inside) {
  uhal_four_uint32 four = 0;
  if (inside) four = *(UHAL_GLOBAL const uhal_four_uint32*)pointer;
  *(UHAL_LOCAL uhal_four_uint32*)tile = four;
}
UHAL_INLINE void uhal_await_copies() {}

#endif
