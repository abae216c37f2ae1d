// The instructions of prelude/matrix_product.h on the host, as the RDNA3 ISA manual defines them: what a wave of 32
// does, done with memory that the lanes share.

static float uhal_element_of(uint32 pair, int half) {
  const uint32 bits = pair >> 16 * half & 0xffff;
#if UHAL_PRODUCT_DTYPE == 11
  return __uint_as_float(bits << 16);
#else
  return on_host::float_of_half(bits);
#endif
}

// v_wmma_f32_16x16x16: a has row l of its matrix in lane l, b column l, and the upper half of the wave the same again;
// element i of c is in row 2 * i + lane / 16 and column lane % 16.
static void uhal_multiply_waves(float* sum, const uint32* rows, const uint32* columns) {
  const int lane = on_host::lane();
  on_host::Warp& warp = on_host::warp();
  for (int i = 0; i < 8; ++i) {
    warp.words[lane][i] = rows[i];
    warp.words[lane][8 + i] = columns[i];
  }
  on_host::sync_warp();
  for (int i = 0; i < 16; ++i) {
    on_host::require(warp.words[lane][i] == warp.words[lane ^ 16][i], "wmma: the halves of the wave differ");
  }
  for (int i = 0; i < 8; ++i) {
    const int row = 2 * i + lane / 16;
    float total = sum[i];
    for (int k = 0; k < 16; ++k) {
      total +=
          uhal_element_of(warp.words[row][k / 2], k % 2) * uhal_element_of(warp.words[lane % 16][8 + k / 2], k % 2);
    }
    sum[i] = total;
  }
  on_host::sync_warp();
}

static uint32 uhal_of_lane(uint32 bits, int lane) {
  on_host::Warp& warp = on_host::warp();
  warp.words[on_host::lane()][0] = bits;
  on_host::sync_warp();
  const uint32 other = warp.words[lane][0];
  on_host::sync_warp();
  return other;
}
static uint32 uhal_of_neighbour(uint32 bits) { return uhal_of_lane(bits, on_host::lane() ^ 1); }
static uint32 uhal_of_other_half(uint32 bits) { return uhal_of_lane(bits, on_host::lane() ^ 16); }
static float uhal_of_lane_across(float value, int32 distance) {
  return __uint_as_float(uhal_of_lane(__float_as_uint(value), on_host::lane() ^ distance));
}

// v_perm_b32, of the places 0 to 7.
static uint32 uhal_bytes_of(uint32 high, uint32 low, uint32 places) {
  const uint64 bytes = (uint64)high << 32 | low;
  uint32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32 place = places >> 8 * i & 0xff;
    on_host::require(place < 8, "v_perm_b32: a place is beyond both operands");
    result |= (uint32)(bytes >> 8 * place & 0xff) << 8 * i;
  }
  return result;
}

static int32 uhal_lane() { return on_host::lane(); }
static float uhal_fast_exp2(float x) { return __builtin_exp2f(x); }
