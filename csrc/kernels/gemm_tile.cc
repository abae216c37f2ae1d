#include "csrc/kernels/gemm_tile.h"

#include <algorithm>

#include "csrc/backends/common/quotient.h"

namespace unihal::kernels {

// The paces of the first ones were measured by benchmarks/opencl_gemm.py on an NVIDIA H100: 44, 35, 30 and 26 TFLOP/s
// at 4096, of which the order is that of the elements each loads per multiplication. Those at the end are for
// `unihal tune`: on that device they are no faster than the best of the others. The spare ones were measured nowhere:
// their paces are those of tiles that load as much.
const GemmTile kGemmTiles[] = {
    {128, 128, 8, 8, 8, 8, 1, false, 1.00F}, {128, 64, 16, 8, 4, 8, 2, false, 1.25F},
    {64, 128, 16, 4, 8, 8, 2, false, 1.25F}, {64, 64, 16, 4, 4, 8, 2, false, 1.46F},
    {32, 32, 32, 4, 4, 8, 1, false, 1.69F},  {128, 16, 16, 8, 4, 4, 1, false, 2.00F},
    {16, 128, 16, 4, 8, 8, 1, false, 2.00F}, {128, 128, 8, 8, 8, 8, 2, false, 1.03F},
    {64, 64, 8, 8, 8, 8, 2, false, 1.37F},   {64, 64, 16, 4, 4, 8, 1, false, 1.47F},
    {128, 64, 16, 8, 4, 8, 1, true, 1.25F},  {64, 128, 16, 4, 8, 8, 1, true, 1.25F},
    {64, 32, 8, 8, 4, 8, 1, true, 1.58F},    {32, 64, 8, 4, 8, 8, 1, true, 1.58F},
    {32, 32, 8, 4, 4, 8, 1, true, 1.72F},
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

// Whether a tile is considered where none is chosen. No tile of larger numbers keeps to a share: devices that have one
// are slow at those.
bool is_default(const GemmTile& tile, const DeviceTraits& traits, int64_t element_bytes) {
  const bool has_share = traits.item_share.registers != 0 && element_bytes <= 4;
  return has_share ? keeps_to(tile, traits.item_share, element_bytes) : !tile.is_spare;
}

// How long a product takes, in multiplications of a unit.
double cost(const DeviceTraits& traits, const MatmulProblem& problem, const GemmTile& tile, int64_t splits) {
  const int64_t groups =
      quotient_up(problem.m, tile.m) * quotient_up(problem.n, tile.n) * problem.batch_count() * splits;
  const int32_t shared_by = std::max(1, kUnitThreads / tile.threads());
  const double rounds =
      static_cast<double>(quotient_up(groups, static_cast<int64_t>(traits.compute_units) * shared_by));
  const double length = static_cast<double>(quotient_up(problem.k, splits));
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

bool keeps_to(const GemmTile& tile, const ItemShare& share, int64_t element_bytes) {
  // Half of the registers for the sums; the rest for operands, the next step's elements and addresses.
  return 2 * tile.micro_m * tile.micro_n * element_bytes <= int64_t{4} * share.registers &&
         tile.local_bytes(element_bytes) <= int64_t{share.local_memory} * tile.threads();
}

GemmPlan plan_gemm(const DeviceTraits& traits, const MatmulProblem& problem, int64_t element_bytes, int32_t tile) {
  GemmPlan best = {-1, 1};
  double best_cost = 0;
  const bool chosen = tile >= 0 && tile < kGemmTileCount && fits(kGemmTiles[tile], traits, element_bytes);
  for (int32_t i = chosen ? tile : 0; i < (chosen ? tile + 1 : kGemmTileCount); ++i) {
    const GemmTile& candidate = kGemmTiles[i];
    if (!fits(candidate, traits, element_bytes) || !(chosen || is_default(candidate, traits, element_bytes))) continue;
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
