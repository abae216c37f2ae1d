#include "csrc/kernels/stable_order.h"

#include <algorithm>
#include <utility>

#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Up to this many keys, comparing each with each takes less than the launches of radix sort.
constexpr int64_t kFewKeys = 1024;
constexpr int kMostDigitBits = 9;
// Bits by which a group puts its tile in order at a time, at most.
constexpr int kMostLocalBits = 4;
constexpr int64_t kKeysPerItem = 8;  // at most: counts of an item's keys have four bits
// Of local memory: a word for each key, counts of 16 bits and a sum for each item, a thirty-second more of most of it;
// the digits' beginnings.
constexpr int64_t kItemBytes = kKeysPerItem * 4 + 1 + (1 << kMostLocalBits) * 2 + 1 + 4;
constexpr int64_t kDigitBytes = (1 << kMostDigitBits) * 4 + 64;
constexpr int32_t kDigitsOfScan = 8;  // DIGITS of the source

}  // namespace

StableOrder::StableOrder(const DeviceTraits& traits, int64_t count, uint32_t largest)
    : count_(count), passes_(0), digit_bits_(0), local_bits_(kMostLocalBits), group_(256) {
  while (group_ > traits.max_group_size) group_ /= 2;
  // One program has all kernels, so that few keys have a tile too.
  while (group_ > 1 && kItemBytes * group_ + kDigitBytes > traits.local_memory) group_ /= 2;
  tile_ = group_ * kKeysPerItem;
  if (count <= kFewKeys) return;
  int bits = 0;
  for (uint64_t rest = std::max(largest, 1u); rest != 0; rest >>= 1) ++bits;
  passes_ = (bits + kMostDigitBits - 1) / kMostDigitBits;
  digit_bits_ = (bits + passes_ - 1) / passes_;  // as many in each pass: fewer digits are fewer counts
  const int turns = (digit_bits_ + kMostLocalBits - 1) / kMostLocalBits;
  local_bits_ = std::max((digit_bits_ + turns - 1) / turns, kMostLocalBits - 1);  // two programs
}

size_t StableOrder::bytes() const {
  const size_t keys = static_cast<size_t>(count_) * sizeof(uint32_t);
  if (passes_ == 0) return 2 * keys;
  return 3 * keys + static_cast<size_t>(counts() + digits()) * sizeof(uint32_t);
}

KernelSpec StableOrder::spec(const char* entry) const {
  return KernelSpec(sources::stable_order, entry)
      .define("UHAL_GROUP", group_)
      .define("TILE", tile_)
      .define("LOCAL_BITS", local_bits_);
}

uhal_status StableOrder::rank(Queue& queue, const void* keys, void* sorted_keys, void* order) const {
  Arguments arguments;
  arguments.pointer(keys).pointer(sorted_keys).pointer(order).int32(static_cast<int32_t>(count_));
  return queue.run(spec("rank"), arguments, linear_grid(count_, group_));
}

Grid StableOrder::FirstCounts::grid(int64_t count) const {
  Grid grid;
  grid.groups[0] = (count + tile - 1) / tile;
  grid.group_size[0] = group;
  return grid;
}

StableOrder::FirstCounts StableOrder::first_counts(void* workspace) const {
  if (passes_ == 0) return {};
  return {group_, tile_, static_cast<int32_t>(digits()), totals(workspace)};
}

uhal_status StableOrder::run(Queue& queue, void* keys, void* workspace, const void** sorted_keys, const void** order,
                             bool counted) const {
  uint32_t* const block = static_cast<uint32_t*>(workspace);
  void* from_keys = keys;
  void* to_keys = block;
  void* to_order = block + count_;
  void* from_order = block + 2 * count_;  // not of a sort by counting
  uint32_t* const totals = this->totals(workspace);
  void* const sums = totals + counts();
  *sorted_keys = to_keys;
  *order = to_order;
  if (passes_ == 0) return rank(queue, keys, to_keys, to_order);

  const int32_t count = static_cast<int32_t>(count_);
  const int32_t of_digits = static_cast<int32_t>(digits());
  const Grid each_tile = FirstCounts{group_, tile_, of_digits, totals}.grid(count_);
  Grid each_digit = each_tile;
  const int32_t of_group = std::min(group_, kDigitsOfScan);
  each_digit.groups[0] = (digits() + of_group - 1) / of_group;
  for (int pass = 0; pass < passes_; ++pass) {
    const int32_t shift = pass * digit_bits_;
    uhal_status status = UHAL_OK;
    if (pass > 0 || !counted) {
      Arguments digits_of;
      digits_of.pointer(from_keys).pointer(totals).int32(count).int32(shift).int32(of_digits);
      status = queue.run(spec("radix_count"), digits_of, each_tile);
      if (status != UHAL_OK) return status;
    }
    Arguments scanned;
    scanned.pointer(totals).pointer(sums).int32(static_cast<int32_t>(tiles())).int32(of_digits);
    status = queue.run(spec("radix_scan"), scanned, each_digit);
    if (status != UHAL_OK) return status;
    Arguments moved;
    moved.pointer(from_keys).pointer(from_order).pointer(to_keys).pointer(to_order).pointer(totals).pointer(sums);
    moved.int32(count).int32(shift).int32(digit_bits_).int32(pass == 0);
    status = queue.run(spec("radix_move"), moved, each_tile);
    if (status != UHAL_OK) return status;
    *sorted_keys = to_keys;
    *order = to_order;
    std::swap(from_keys, to_keys);
    std::swap(from_order, to_order);
  }
  return UHAL_OK;
}

}  // namespace unihal::kernels
