/* Matrix products of 16x16x16 numbers of 16 bits, summed in float32: the word of the dialect for matrix cores. A source
 * includes it after it has defined UHAL_PRODUCT_DTYPE, 10 for float16 or 11 for bfloat16; its host has asked
 * DeviceTraits::matrix_form, and defines UHAL_MATRIX_FORM as that:
 *
 *   1  NVIDIA's from sm_80 on: mma.sync and ldmatrix, whose layouts the PTX manual gives ("Matrix fragments for
 *      mma.m16n8k16 with floating point type"); a step is two of these products, side by side
 *   2  RDNA3: v_wmma_f32_16x16x16, in waves of 32
 *
 * 32 work-items in a row, lanes 0 to 31, make a product together and hold its parts between them:
 *
 *   uhal_left      16 rows of 16 terms            uhal_load_left(&a, tile)           a[row][term] at row * pitch + term
 *   uhal_right     16 terms of 16 columns         uhal_load_right(&b, tile)          b[term][column] at column * pitch
 * + term uhal_load_right_across(&b, tile)   b[term][column] at term * pitch + column uhal_sum       16x16 sums, eight a
 * lane       uhal_add_product(&sum, &a, &b)     sum += a @ b uhal_store_sum(pointer, &sum, pitch, lane)
 *   uhal_left_of_sum(&a, &sum, scratch, lane)     sums as factors of the next product, rounded to the operands' dtype
 *
 * A tile is where a lane's part lies in local memory: uhal_tile_of(pointer) moved by uhal_left_lane(lane, pitch),
 * uhal_right_lane or uhal_across_lane elements (uhal_tile_at). Pointers and pitches are multiples of 8 elements, which
 * are 16 bytes; where the pitch is an odd multiple, no two lanes meet in a bank.
 *
 * Element i of a lane's sum is in row uhal_sum_row(lane, i) and column uhal_sum_column(lane, i). A lane has elements of
 * UHAL_SUM_ROWS rows: element i is of the uhal_sum_slot(i)-th of them, which is row uhal_slot_row(lane, slot). The
 * lanes with elements of a row combine a value each by uhal_row_maximum and uhal_row_total: all of them get it.
 *
 *   uhal_copy_async(tile, pointer, inside)   16 bytes from global to local memory, on its way while others compute;
 *                                            zeros if not `inside`, and then the pointer is not followed
 *   uhal_await_copies()                      until the lane's own copies are there; a barrier shares them
 *   uhal_fast_exp2(x)                        2^x, off by two units in the last place; 0 below float32's normal numbers
 */
#define UHAL_LANES 32

#if UHAL_MATRIX_FORM == 1

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
UHAL_INLINE void uhal_load_right_across(uhal_right* part, uhal_tile tile) {
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
UHAL_INLINE void uhal_await_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }

UHAL_INLINE float uhal_fast_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
#endif

#define uhal_load_right uhal_load_left

UHAL_INLINE void uhal_add_product(uhal_sum* sum, const uhal_left* a, const uhal_right* b) {
  uhal_multiply_half(sum->elements, a, b->pairs[0], b->pairs[1]);
  uhal_multiply_half(sum->elements + 4, a, b->pairs[2], b->pairs[3]);
}

/* A lane's sums are those of its factors. */
UHAL_INLINE void uhal_left_of_sum(uhal_left* part, const uhal_sum* sum) {
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

#endif
