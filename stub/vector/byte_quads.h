// Sums of products of bytes, four at a time, where the processor has an instruction for it (AVX-512 VNNI).
//
// The instruction multiplies signed bytes with unsigned ones. Rows are packed as signed bytes and columns as unsigned
// ones; of operands of the other kind the upper bit is turned, which adds or subtracts 128, and the sums are corrected
// by sums of rows or columns. A sum of four products fits 32 bits, so that nothing saturates.
#pragma once

#include <cstdint>

namespace unihal::stub {

bool has_byte_quads();

// A tile of the result. A panel is as many lines of an operand, rows of a or columns of b: the corrections of their
// sums, then for each four bytes along the depth those of each line. It is aligned to 64 bytes.
inline constexpr int64_t kQuadRows = 8;
inline constexpr int64_t kQuadColumns = 48;
constexpr int64_t quad_panel_bytes(int64_t height, int64_t depth) { return height * 4 * (1 + (depth + 3) / 4); }

// Lines of an operand and the kinds of both.
struct ByteLines {
  const uint8_t* data;
  int64_t line_stride;
  int64_t depth_stride;
  bool is_signed;
  bool other_is_signed;
};

// Packs panels of rows or of columns, with zeros for what is missing. Only where has_byte_quads().
void pack_quad_rows(const ByteLines& a, int64_t lines, int64_t depth, uint8_t* packed);
void pack_quad_columns(const ByteLines& b, int64_t lines, int64_t depth, uint8_t* packed);

// tile (kQuadRows x kQuadColumns) = a @ b of a panel of each. Sums wrap.
void multiply_quads(int64_t depth, const uint8_t* a, const uint8_t* b, int32_t* tile);

}  // namespace unihal::stub
