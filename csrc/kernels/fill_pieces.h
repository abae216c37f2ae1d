// Fills of any range with any pattern, as pieces that a device's own fill takes.
#ifndef UNIHAL_KERNELS_FILL_PIECES_H_
#define UNIHAL_KERNELS_FILL_PIECES_H_

#include <cstddef>

#include "unihal/status.h"

namespace unihal::kernels {

// Devices want address and size to be multiples of the pattern's: what lies before the first such address, and after
// the last, is filled piece by piece, each aligned to its own size, and the pattern begins somewhere inside of itself.
// Calls fill(begin, piece_bytes, offset, length) for each: `length` bytes at `offset` from the start, filled with the
// pattern of piece_bytes bytes at `begin`. `address` is what the alignment is counted from. Ends at the first failure.
template <class Fill>
uhal_status fill_pieces(size_t address, const void* pattern, size_t pattern_bytes, size_t bytes, Fill&& fill) {
  char repeated[32];
  for (size_t i = 0; i < sizeof repeated; ++i) repeated[i] = static_cast<const char*>(pattern)[i % pattern_bytes];
  const size_t end = address + bytes;
  for (size_t at = address; at < end;) {
    size_t piece = pattern_bytes;
    while (at % piece != 0 || piece > end - at) piece /= 2;
    const size_t length = piece == pattern_bytes ? (end - at) / piece * piece : piece;
    const uhal_status status = fill(repeated + (at - address) % pattern_bytes, piece, at - address, length);
    if (status != UHAL_OK) return status;
    at += length;
  }
  return UHAL_OK;
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_FILL_PIECES_H_
