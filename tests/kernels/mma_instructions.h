// The instructions of prelude/matrix_product.h on the host, as the PTX manual defines them: what NVIDIA's GPUs do with
// the registers of 32 lanes, done with memory that the lanes share. Copies come as late as they may.

typedef uint32 uhal_tile;
#define uhal_tile_of(pointer) on_host::local_address(pointer)
#define uhal_tile_at(tile, count) ((tile) + 2u * (uint32)(count))

// ldmatrix.x4: lanes 8 * i to 8 * i + 7 name the eight rows, of 16 bytes, of matrix i. Lane l gets of each matrix the
// elements 2 * (l % 4) and the next of row l / 4; with .trans of column l / 4.
static void uhal_load_matrices(uhal_left* part, uhal_tile tile, bool transposed) {
  const int lane = on_host::lane();
  on_host::Warp& warp = on_host::warp();
  on_host::require(tile % 16 == 0, "ldmatrix: an address is not a multiple of 16");
  warp.words[lane][0] = tile;
  on_host::sync_warp();
  for (int i = 0; i < 4; ++i) {
    uint32 halves[2];
    for (int half = 0; half < 2; ++half) {
      const int row = transposed ? 2 * (lane % 4) + half : lane / 4;
      const int column = transposed ? lane / 4 : 2 * (lane % 4) + half;
      halves[half] = on_host::local_element(warp.words[8 * i + row][0] + 2 * column);
    }
    part->pairs[i] = halves[0] | halves[1] << 16;
  }
  on_host::sync_warp();
}
static void uhal_load_left(uhal_left* part, uhal_tile tile) { uhal_load_matrices(part, tile, false); }
static void uhal_load_right_across(uhal_right* part, uhal_tile tile, int32) { uhal_load_matrices(part, tile, true); }

static float uhal_element_of(uint32 pair, int half) {
  const uint32 bits = pair >> 16 * half & 0xffff;
#if UHAL_PRODUCT_DTYPE == 11
  return __uint_as_float(bits << 16);
#else
  return on_host::float_of_half(bits);
#endif
}

// mma.m16n8k16, with group = lane / 4 and t = lane % 4:
//   a: row group (registers 0, 2) or group + 8 (1, 3), columns 2 * t and the next (0, 1), or those and 8 (2, 3)
//   b: rows 2 * t and the next (register 0), or those and 8 (1); column group
//   c: row group (elements 0, 1) or group + 8 (2, 3); columns 2 * t and the next
static void uhal_multiply_half(float* sum, const uhal_left* a, uint32 first, uint32 second) {
  const int lane = on_host::lane();
  on_host::Warp& warp = on_host::warp();
  for (int i = 0; i < 4; ++i) warp.words[lane][i] = a->pairs[i];
  warp.words[lane][4] = first;
  warp.words[lane][5] = second;
  on_host::sync_warp();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8;
    const int column = 2 * (lane % 4) + i % 2;
    float total = sum[i];
    for (int k = 0; k < 16; ++k) {
      const uint32 left = warp.words[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
      const uint32 right = warp.words[column * 4 + k % 8 / 2][4 + k / 8];
      total += uhal_element_of(left, k % 2) * uhal_element_of(right, k % 2);
    }
    sum[i] = total;
  }
  on_host::sync_warp();
}

// cvt.rn.*x2.f32 d, a, b: a in the upper half, b in the lower one.
static uint32 uhal_pair_of(float first, float second) {
#if UHAL_PRODUCT_DTYPE == 11
  return uhal_bfloat16_of_float(first) | (uint32)uhal_bfloat16_of_float(second) << 16;
#else
  return on_host::half_of_float(first) | on_host::half_of_float(second) << 16;
#endif
}

static float uhal_of_lane_across(float value, int32 distance) {
  on_host::Warp& warp = on_host::warp();
  warp.words[on_host::lane()][0] = __float_as_uint(value);
  on_host::sync_warp();
  const float other = __uint_as_float(warp.words[on_host::lane() ^ distance][0]);
  on_host::sync_warp();
  return other;
}

static void uhal_copy_async(uhal_tile tile, const void* pointer, int32 inside) {
  on_host::require(tile % 16 == 0, "cp.async: an address in local memory is not a multiple of 16");
  on_host::require(!inside || (size_t)pointer % 16 == 0, "cp.async: an address is not a multiple of 16");
  on_host::copy_later(tile, inside ? pointer : nullptr);
}
static void uhal_await_copies() { on_host::finish_copies(); }

static float uhal_fast_exp2(float x) { return __builtin_exp2f(x); }
