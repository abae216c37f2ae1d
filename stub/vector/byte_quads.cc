#include "stub/vector/byte_quads.h"

#include <algorithm>
#include <cstring>

#include "stub/vector/vectorize.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Intrinsics need it with each compiler; nothing is chosen before main(), so that sanitizers do not mind.
#define UNIHAL_BYTE_QUADS __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace unihal::stub {

bool has_byte_quads() {
  static const bool has = has_wide_vectors() && __builtin_cpu_supports("avx512vnni");
  return has;
}

namespace {

constexpr int64_t kVector = 64;  // bytes
constexpr int64_t kColumnVectors = kQuadColumns * 4 / kVector;
constexpr uint32_t kTurned = 0x80808080;

// One quad of a line whose bytes lie anywhere.
uint32_t load_quad(const uint8_t* from, int64_t stride, int64_t count) {
  uint8_t quad[4] = {};
  for (int64_t q = 0; q < count; ++q) quad[q] = from[q * stride];
  uint32_t word;
  std::memcpy(&word, quad, sizeof word);
  return word;
}

// Four rows along the depth of up to `present` lines that lie side by side, 16 lines at a time.
template <int64_t height>
UNIHAL_BYTE_QUADS void pack_side_by_side(const uint8_t* from, int64_t depth_stride, int64_t present, int64_t depth,
                                         uint32_t turn, uint8_t* packed) {
  constexpr int64_t kLines = 16;
  const __m128i turned = _mm_set1_epi32(static_cast<int>(turn));
  for (int64_t p = 0; p < depth; p += 4, from += 4 * depth_stride, packed += 4 * height) {
    for (int64_t line = 0; line < height; line += kLines) {
      const int64_t lines = std::clamp<int64_t>(present - line, 0, kLines);
      const auto mask = static_cast<__mmask16>((1U << lines) - 1);
      __m128i rows[4];
      for (int64_t q = 0; q < 4; ++q) {
        const bool inside = p + q < depth;
        rows[q] = _mm_maskz_loadu_epi8(inside ? mask : __mmask16{0}, from + (inside ? q * depth_stride : 0) + line);
        rows[q] = _mm_xor_si128(rows[q], turned);
      }
      const __m128i low = _mm_unpacklo_epi8(rows[0], rows[1]), low_next = _mm_unpacklo_epi8(rows[2], rows[3]);
      const __m128i high = _mm_unpackhi_epi8(rows[0], rows[1]), high_next = _mm_unpackhi_epi8(rows[2], rows[3]);
      auto* const to = reinterpret_cast<__m128i*>(packed + 4 * line);
      _mm_storeu_si128(to, _mm_unpacklo_epi16(low, low_next));
      _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low, low_next));
      if (height - line < kLines) continue;
      _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high, high_next));
      _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high, high_next));
    }
  }
}

// A panel behind its corrections.
template <int64_t height>
void pack_panel(const uint8_t* from, int64_t line_stride, int64_t depth_stride, int64_t present, int64_t depth,
                uint32_t turn, uint8_t* packed) {
  if (line_stride == 1) {
    pack_side_by_side<height>(from, depth_stride, present, depth, turn, packed);
    return;
  }
  for (int64_t line = 0; line < height; ++line, packed += 4, from += line_stride) {
    uint8_t* to = packed;
    int64_t p = 0;
    for (; line < present && depth_stride == 1 && p + 4 <= depth; p += 4, to += 4 * height) {
      uint32_t quad;
      std::memcpy(&quad, from + p, sizeof quad);
      quad ^= turn;
      std::memcpy(to, &quad, sizeof quad);
    }
    for (; p < depth; p += 4, to += 4 * height) {
      const int64_t count = line < present ? std::min<int64_t>(4, depth - p) : 0;
      const uint32_t quad = load_quad(from + p * depth_stride, depth_stride, count) ^ turn;
      std::memcpy(to, &quad, sizeof quad);
    }
  }
}

// With a' and b' as packed, a = a' + 128 of unsigned rows and b = b' - 128 of signed columns, the sum of a b is that of
// a' b', without 128 times that of a' where columns are signed, and with 128 times that of b where rows are unsigned.
UNIHAL_BYTE_QUADS void correct_rows(int64_t quads, uint8_t* panel) {
  __m256i sums = _mm256_setzero_si256();
  for (int64_t quad = 1; quad <= quads; ++quad) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + quad * 4 * kQuadRows));
    sums = _mm256_dpbusd_epi32(sums, _mm256_set1_epi8(1), bytes);
  }
  sums = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sums, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel), sums);
}

UNIHAL_BYTE_QUADS void correct_columns(int64_t quads, bool is_signed, uint8_t* panel) {
  const auto added = static_cast<int>(is_signed ? 4 * 128 * quads : 0);
  for (int64_t vector = 0; vector < kColumnVectors; ++vector, panel += kVector) {
    __m512i sums = _mm512_set1_epi32(-added);
    for (int64_t quad = 1; quad <= quads; ++quad) {
      sums = _mm512_dpbusd_epi32(sums, _mm512_loadu_si512(panel + quad * 4 * kQuadColumns), _mm512_set1_epi8(1));
    }
    _mm512_storeu_si512(panel, _mm512_maskz_slli_epi32(__mmask16{0xffff}, sums, 7));  // GCC 12 warns without a mask
  }
}

}  // namespace

void pack_quad_rows(const ByteLines& a, int64_t lines, int64_t depth, uint8_t* packed) {
  for (int64_t line = 0; line < lines; line += kQuadRows, packed += quad_panel_bytes(kQuadRows, depth)) {
    pack_panel<kQuadRows>(a.data + line * a.line_stride, a.line_stride, a.depth_stride,
                          std::min(kQuadRows, lines - line), depth, a.is_signed ? 0 : kTurned, packed + 4 * kQuadRows);
    if (a.other_is_signed) {
      correct_rows((depth + 3) / 4, packed);
    } else {
      std::memset(packed, 0, 4 * kQuadRows);
    }
  }
}

void pack_quad_columns(const ByteLines& b, int64_t lines, int64_t depth, uint8_t* packed) {
  for (int64_t line = 0; line < lines; line += kQuadColumns, packed += quad_panel_bytes(kQuadColumns, depth)) {
    pack_panel<kQuadColumns>(b.data + line * b.line_stride, b.line_stride, b.depth_stride,
                             std::min(kQuadColumns, lines - line), depth, b.is_signed ? kTurned : 0,
                             packed + 4 * kQuadColumns);
    if (!b.other_is_signed) {
      correct_columns((depth + 3) / 4, b.is_signed, packed);
    } else {
      std::memset(packed, 0, 4 * kQuadColumns);
    }
  }
}

UNIHAL_BYTE_QUADS void multiply_quads(int64_t depth, const uint8_t* a, const uint8_t* b, int32_t* tile) {
  static_assert(kColumnVectors == 3, "its loop over vectors is written out");
  __m512i sums[kQuadRows][kColumnVectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQuadRows; ++i) {
    int32_t correction;
    std::memcpy(&correction, a + 4 * i, sizeof correction);
    sums[i][0] = _mm512_add_epi32(_mm512_loadu_si512(b), _mm512_set1_epi32(correction));
    sums[i][1] = _mm512_add_epi32(_mm512_loadu_si512(b + kVector), _mm512_set1_epi32(correction));
    sums[i][2] = _mm512_add_epi32(_mm512_loadu_si512(b + 2 * kVector), _mm512_set1_epi32(correction));
  }
  for (int64_t p = 0; p < depth; p += 4) {
    a += 4 * kQuadRows;
    b += 4 * kQuadColumns;
    const __m512i first = _mm512_loadu_si512(b), second = _mm512_loadu_si512(b + kVector);
    const __m512i third = _mm512_loadu_si512(b + 2 * kVector);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kQuadRows; ++i) {
      int32_t quad;
      std::memcpy(&quad, a + 4 * i, sizeof quad);
      const __m512i factors = _mm512_set1_epi32(quad);
      sums[i][0] = _mm512_dpbusd_epi32(sums[i][0], first, factors);
      sums[i][1] = _mm512_dpbusd_epi32(sums[i][1], second, factors);
      sums[i][2] = _mm512_dpbusd_epi32(sums[i][2], third, factors);
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQuadRows; ++i, tile += kQuadColumns) {
    _mm512_storeu_si512(tile, sums[i][0]);
    _mm512_storeu_si512(tile + 16, sums[i][1]);
    _mm512_storeu_si512(tile + 32, sums[i][2]);
  }
}

}  // namespace unihal::stub

#else

namespace unihal::stub {

bool has_byte_quads() { return false; }
void pack_quad_rows(const ByteLines& /*a*/, int64_t /*lines*/, int64_t /*depth*/, uint8_t* /*packed*/) {}
void pack_quad_columns(const ByteLines& /*b*/, int64_t /*lines*/, int64_t /*depth*/, uint8_t* /*packed*/) {}
void multiply_quads(int64_t /*depth*/, const uint8_t* /*a*/, const uint8_t* /*b*/, int32_t* /*tile*/) {}

}  // namespace unihal::stub

#endif
