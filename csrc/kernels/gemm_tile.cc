#include "csrc/kernels/gemm_tile.h"

#include <algorithm>

namespace unihal::kernels {

// The paces of the first ones were measured by benchmarks/opencl_gemm.py on an NVIDIA H100: 44, 35, 30 and 26 TFLOP/s
// at 4096, of which the order is that of the elements each loads per multiplication. Those at the end are for
// `unihal tune`: on that device they are no faster than the best of the others.
const GemmTile kGemmTiles[] = {
    {128, 128, 8, 8, 8, 8, 1, 1.00F}, {128, 64, 16, 8, 4, 8, 2, 1.25F}, {64, 128, 16, 4, 8, 8, 2, 1.25F},
    {64, 64, 16, 4, 4, 8, 2, 1.46F},  {32, 32, 32, 4, 4, 8, 1, 1.69F},  {128, 16, 16, 8, 4, 4, 1, 2.00F},
    {16, 128, 16, 4, 8, 8, 1, 2.00F}, {128, 128, 8, 8, 8, 8, 2, 1.03F}, {64, 64, 8, 8, 8, 8, 2, 1.37F},
    {64, 64, 16, 4, 4, 8, 1, 1.47F},
};
const int32_t kGemmTileCount = sizeof kGemmTiles / sizeof *kGemmTiles;

namespace {

// A part of k should be worth the pass that adds the parts.
constexpr int64_t kLeastSplit = 256;
constexpr int64_t kMostSplits = 64;
constexpr double kSplitPenalty = 1.25;

// Work-items that a unit's time is shared out to in whole groups.
constexpr int32_t kUnitThreads = 256;

// Multiplications that a unit does in the time in which a group is started and its result written, and in which an
// element of a part's sums is written and read again.
constexpr double kGroupCost = 8192;
constexpr double kPartialCost = 64;

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// How long a product takes, in multiplications of a unit.
double cost(const DeviceTraits& traits, const MatmulProblem& problem, const GemmTile& tile, int64_t splits) {
  const int64_t groups = divide_up(problem.m, tile.m) * divide_up(problem.n, tile.n) * problem.batch_count() * splits;
  const int32_t shared_by = std::max(1, kUnitThreads / tile.threads());
  const double rounds = static_cast<double>(divide_up(groups, static_cast<int64_t>(traits.compute_units) * shared_by));
  const double length = static_cast<double>(divide_up(problem.k, splits));
  const double time = rounds * shared_by * (length * tile.m * tile.n * tile.pace + kGroupCost);
  if (splits == 1) return time;
  const double partial = static_cast<double>(problem.m * problem.n * problem.batch_count() * splits);
  return kSplitPenalty * time + kPartialCost * partial / traits.compute_units;
}

}  // namespace

std::string GemmTile::name() const {
  return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "/" + std::to_string(micro_m) + "x" +
         std::to_string(micro_n);
}

bool fits(const GemmTile& tile, const DeviceTraits& traits, int64_t element_bytes) {
  // Registers: 64 sums of 8 bytes are more than a work-item has.
  if (element_bytes > 4 && tile.micro_m * tile.micro_n > 32) return false;
  return tile.threads() <= traits.max_group_size && tile.local_bytes(element_bytes) <= traits.local_memory;
}

GemmPlan plan_gemm(const DeviceTraits& traits, const MatmulProblem& problem, int64_t element_bytes, int32_t tile) {
  GemmPlan best = {-1, 1};
  double best_cost = 0;
  const bool chosen = tile >= 0 && tile < kGemmTileCount && fits(kGemmTiles[tile], traits, element_bytes);
  for (int32_t i = chosen ? tile : 0; i < (chosen ? tile + 1 : kGemmTileCount); ++i) {
    const GemmTile& candidate = kGemmTiles[i];
    if (!fits(candidate, traits, element_bytes)) continue;
    const int64_t most = std::clamp<int64_t>(problem.k / kLeastSplit, 1, kMostSplits);
    for (int64_t splits = 1; splits <= most; splits *= 2) {
      const double time = cost(traits, problem, candidate, splits);
      if (best.tile >= 0 && time >= best_cost) continue;
      best = {i, static_cast<int32_t>(splits)};
      best_cost = time;
    }
  }
  return best;
}

}  // namespace unihal::kernels
