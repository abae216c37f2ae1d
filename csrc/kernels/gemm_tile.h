// The shapes of tile that gemm_tile.cl can be compiled for, and which one a product takes.
#ifndef UNIHAL_KERNELS_GEMM_TILE_H_
#define UNIHAL_KERNELS_GEMM_TILE_H_

#include <string>

#include "csrc/backends/common/matmul_problem.h"
#include "csrc/kernels/queue.h"

namespace unihal::kernels {

// The macros of gemm_tile.cl. A group of (m / micro_m) * (n / micro_n) work-items computes a tile of m x n.
struct GemmTile {
  int16_t m, n, k;
  int16_t micro_m, micro_n;
  int16_t lanes_n;
  int16_t buffers;
  bool is_spare;  // keeps to the ItemShare of devices that have one, and is for no others unless they choose it
  float pace;     // the time of a multiplication with the device full of groups; 1: that of the fastest tile

  int32_t threads() const { return m / micro_m * (n / micro_n); }
  int64_t local_bytes(int64_t element_bytes) const { return element_bytes * buffers * k * (m + 4 + n + 4); }
  std::string name() const;  // "128x128x8/8x8"
};

// A tile, and into how many parts k is cut, each summed by groups of its own.
struct GemmPlan {
  int32_t tile;  // a number of kGemmTiles
  int32_t splits;
};

// All tiles. Their numbers are kept in the store of `unihal tune`: append only.
extern const GemmTile kGemmTiles[];
extern const int32_t kGemmTileCount;

// Whether the device has the work-items and the local memory of a tile.
bool fits(const GemmTile& tile, const DeviceTraits& traits, int64_t element_bytes);

// Whether a work-item takes no more than its share.
bool keeps_to(const GemmTile& tile, const ItemShare& share, int64_t element_bytes);

// The tile expected to be fastest: by how much of it is padding, how much it leaves of the device idle, and what it
// does per element that it loads. `tile` (-1: any) is the only one considered if it fits.
GemmPlan plan_gemm(const DeviceTraits& traits, const MatmulProblem& problem, int64_t element_bytes, int32_t tile = -1);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_GEMM_TILE_H_
