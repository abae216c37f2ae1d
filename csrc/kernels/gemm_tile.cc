#include "csrc/kernels/gemm_tile.h"

#include <algorithm>

namespace unihal::kernels {

const GemmTile kGemmTiles[] = {
    {128, 128, 8, 8, 8, 8, 2}, {128, 64, 8, 8, 8, 8, 2},  {64, 128, 8, 8, 8, 8, 2},  {64, 64, 16, 4, 4, 8, 2},
    {32, 32, 16, 4, 4, 8, 2},  {128, 16, 16, 8, 4, 4, 1}, {16, 128, 16, 4, 8, 8, 1},
};
const int32_t kGemmTileCount = sizeof kGemmTiles / sizeof *kGemmTiles;

namespace {

// A part of k should be worth the pass that adds the parts.
constexpr int64_t kLeastSplit = 256;
constexpr int64_t kMostSplits = 64;

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Multiplications that a unit does in the time in which a group is started and its result written.
constexpr double kGroupCost = 8192;

// Multiplications in the time in which a unit writes and reads an element of a part's sums.
constexpr double kPartialCost = 64;

// How long a product takes, in multiplications per unit of the device at a large tile's pace.
double cost(const DeviceTraits& traits, const MatmulProblem& problem, const GemmTile& tile, int64_t splits) {
  // The elements that a multiplication loads from local memory slow it down: what makes large register blocks pay.
  const double pace = 1 + 2.0 * (1.0 / tile.micro_m + 1.0 / tile.micro_n) + 8.0 * (1.0 / tile.m + 1.0 / tile.n);
  const int64_t groups = divide_up(problem.m, tile.m) * divide_up(problem.n, tile.n) * problem.batch_count() * splits;
  // Small groups share a unit: its time is shared out in wholes of 256 work-items.
  const double units = static_cast<double>(traits.compute_units) * std::max(1, 256 / tile.threads());
  const double rounds = std::max(1.0, static_cast<double>(groups) / units);
  const double filled = groups > units ? static_cast<double>(divide_up(groups, static_cast<int64_t>(units))) : rounds;
  const double length = static_cast<double>(divide_up(problem.k, splits));
  const double work = (length * tile.m * tile.n * pace + kGroupCost) * std::max(1, 256 / tile.threads());
  double time = filled * work;
  if (splits > 1) {
    time += kPartialCost * static_cast<double>(problem.m * problem.n * problem.batch_count() * splits) /
            traits.compute_units;
  }
  return time;
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
