#include "csrc/core/collective/validate.h"

#include <string>
#include <string_view>

#include "csrc/backends/common/dtype.h"
#include "csrc/core/base/error.h"
#include "csrc/core/check/allocation_log.h"
#include "csrc/core/memory/live_range.h"

namespace unihal::core {
namespace {

enum class Blocks { NONE, ONE, EACH, PEERS };
enum class Reduction { REDUCES, MOVES };
enum class Peer { ALL, ROOT, OTHER };

struct CollectiveRow {
  const char* name;
  Blocks source;
  Blocks destination;
  Reduction reduction;
  Peer peer;
};

constexpr CollectiveRow kCollectiveRows[] = {
#define UHAL_COLLECTIVE_KIND(KIND, name, source, destination, reduction, peer) \
  {#name, Blocks::source, Blocks::destination, Reduction::reduction, Peer::peer},
#include "csrc/tables/collectives.def"
};
static_assert(sizeof kCollectiveRows / sizeof *kCollectiveRows == UHAL_COLLECTIVE_KIND_LIMIT - 1);
#define UHAL_COLLECTIVE_KIND(KIND, text, ...)                                     \
  static_assert(std::string_view(kCollectiveRows[UHAL_##KIND - 1].name) == #text, \
                "rows are in the order of their numbers");
#include "csrc/tables/collectives.def"

constexpr const char* kReductionNames[UHAL_REDUCTION_LIMIT] = {"sum", "product", "minimum", "maximum", "average"};

const CollectiveRow* find_row(uhal_collective_kind kind) {
  return kind >= 1 && kind < UHAL_COLLECTIVE_KIND_LIMIT ? &kCollectiveRows[kind - 1] : nullptr;
}

// One side of a collective as it is checked.
struct Side {
  const char* role;
  const void* address;
  int64_t blocks;  // 0: it is not looked at
};

// Number of blocks of a side, on this rank.
int64_t blocks_of(Blocks blocks, const Communicator& communicator, const uhal_collective& collective) {
  switch (blocks) {
    case Blocks::ONE:
      return 1;
    case Blocks::EACH:
      return communicator.size;
    case Blocks::PEERS:
      return communicator.rank == collective.peer ? 1 : 0;
    case Blocks::NONE:
      break;
  }
  return 0;
}

uhal_status check_reduction(const CollectiveRow& row, const uhal_collective& collective) {
  const uhal_reduction reduction = collective.reduction;
  if (reduction < 0 || reduction >= UHAL_REDUCTION_LIMIT) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: there is no reduction %d; they are 0 (sum), 1 (product), 2 (minimum), 3 (maximum) and 4 "
                     "(average).",
                     row.name, reduction);
  }
  const uhal_dtype dtype = collective.dtype;
  if (is_complex(dtype) && reduction != UHAL_REDUCTION_SUM && reduction != UHAL_REDUCTION_AVERAGE) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s has no %s; complex numbers have sum and average.", row.name,
                     dtype_name(dtype), kReductionNames[reduction]);
  }
  if (is_integer(dtype) && reduction == UHAL_REDUCTION_AVERAGE) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: %s has no average, which is for floating and complex numbers; take the sum and divide.",
                     row.name, dtype_name(dtype));
  }
  return UHAL_OK;
}

uhal_status check_peer(const CollectiveRow& row, const Communicator& communicator, int32_t peer) {
  if (row.peer == Peer::ALL) return UHAL_OK;
  if (peer < 0 || peer >= communicator.size) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: there is no rank %d; the communicator has ranks 0 to %d.", row.name,
                     peer, communicator.size - 1);
  }
  if (row.peer == Peer::OTHER && peer == communicator.rank) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: the peer is rank %d itself; expected another rank. uhal_copy copies on one device.", row.name,
                     peer);
  }
  return UHAL_OK;
}

uhal_status check_size(const CollectiveRow& row, const Communicator& communicator, const uhal_collective& collective) {
  if (collective.count < 0 || collective.count > INT64_MAX / communicator.size / dtype_size(collective.dtype)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: the count is %lld elements of %s for each of %d ranks; expected 0 or more, and less than "
                     "2^63 bytes in all.",
                     row.name, static_cast<long long>(collective.count), dtype_name(collective.dtype),
                     communicator.size);
  }
  return UHAL_OK;
}

uhal_status check_memory(const CollectiveRow& row, uhal_device* device, const Side& side, size_t bytes) {
  if (side.address == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the %s is NULL; pass an address from uhal_allocate.", row.name,
                     side.role);
  }
  LiveBlock live;
  switch (check_range(device, side.address, bytes, &live)) {
    case RangeCheck::kInside:
      return UHAL_OK;
    case RangeCheck::kWrongKind:
      UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                "%s: the %s at %p is pinned memory; collectives take device and managed memory: copy it there.",
                row.name, side.role, side.address);
      break;
    case RangeCheck::kOutside:
      UHAL_FAIL(UHAL_OUT_OF_RANGE,
                "%s: the %s of %zu bytes at %p reaches beyond its allocation of %zu bytes at %p; pass a smaller count, "
                "or allocate more.",
                row.name, side.role, bytes, side.address, live.bytes, static_cast<void*>(live.base));
      break;
    case RangeCheck::kUnknown:
      UHAL_FAIL(UHAL_OUT_OF_RANGE,
                "%s: the %s at %p lies in no live allocation of %s%s; pass an address from uhal_allocate of the "
                "communicator's device that was not freed.",
                row.name, side.role, side.address, device->label.c_str(), other_owner(*device, side.address).c_str());
      break;
  }
  append_history(*device, side.address);
  return uhal_last_error()->status;
}

// Source and destination are apart, or in place as collectives.h says.
uhal_status check_overlap(const CollectiveRow& row, const Communicator& communicator, const Side& source,
                          const Side& destination, size_t block_bytes) {
  if (source.blocks == 0 || destination.blocks == 0) return UHAL_OK;
  const auto from = reinterpret_cast<uintptr_t>(source.address);
  const auto to = reinterpret_cast<uintptr_t>(destination.address);
  const size_t from_bytes = static_cast<size_t>(source.blocks) * block_bytes;
  const size_t to_bytes = static_cast<size_t>(destination.blocks) * block_bytes;
  if (from >= to + to_bytes || to >= from + from_bytes) return UHAL_OK;
  const size_t own = static_cast<size_t>(communicator.rank) * block_bytes;
  const char* allowed = nullptr;
  if (row.source == Blocks::EACH && row.destination == Blocks::EACH) {
    allowed = "they must be apart";
  } else if (row.destination == Blocks::EACH) {
    if (from == to + own) return UHAL_OK;
    allowed = "in place the source is this rank's block of the destination";
  } else if (row.source == Blocks::EACH) {
    if (to == from + own) return UHAL_OK;
    allowed = "in place the destination is this rank's block of the source";
  } else {
    if (from == to) return UHAL_OK;
    allowed = "in place they are the same";
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "%s: the source of %zu bytes at %p and the destination of %zu bytes at %p overlap on rank %d; %s.",
                   row.name, from_bytes, source.address, to_bytes, destination.address, communicator.rank, allowed);
}

void add_range(CheckedCollective* checked, const Side& side, bool writes, size_t block_bytes) {
  if (side.blocks == 0) return;
  const size_t bytes = static_cast<size_t>(side.blocks) * block_bytes;
  checked->ranges[checked->range_count++] = {side.role, writes, side.address, bytes};
  checked->bytes += bytes;
}

// Sums of complex numbers are sums of their parts.
void take_apart(const CollectiveRow& row, uhal_collective* collective) {
  if (row.reduction != Reduction::REDUCES || !is_complex(collective->dtype)) return;
  collective->dtype = collective->dtype == UHAL_COMPLEX64 ? UHAL_FLOAT32 : UHAL_FLOAT64;
  collective->count *= 2;
}

}  // namespace

uhal_status check_collective(const Communicator& communicator, const uhal_collective* collective,
                             CheckedCollective* checked, bool* nothing) {
  *nothing = false;
  if (collective == nullptr || collective->struct_size < sizeof(uhal_collective)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "The collective is %s; pass one with struct_size = sizeof(uhal_collective), %zu.",
                     collective == nullptr ? "NULL" : "too short", sizeof(uhal_collective));
  }
  const CollectiveRow* row = find_row(collective->kind);
  if (row == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "There is no collective of kind %d; collectives.h lists them (UHAL_ALL_REDUCE, ...).",
                     collective->kind);
  }
  if (dtype_size(collective->dtype) == 0) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: there is no dtype %d; tensor.h lists them (UHAL_FLOAT32, ...).",
                     row->name, collective->dtype);
  }
  if (row->reduction == Reduction::REDUCES) UHAL_EXPECT(check_reduction(*row, *collective));
  UHAL_EXPECT(check_peer(*row, communicator, collective->peer));
  UHAL_EXPECT(check_size(*row, communicator, *collective));
  *nothing = collective->count == 0;
  if (*nothing) return UHAL_OK;
  if (collective->dtype == UHAL_FLOAT8_E4M3FN || collective->dtype == UHAL_FLOAT8_E5M2) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: %s is for storage; move it as uint8, or cast it first to what is to be reduced.", row->name,
                     uhal_dtype_name(collective->dtype));
  }
  const size_t block_bytes = static_cast<size_t>(collective->count) * uhal_dtype_size(collective->dtype);
  const Side source = {"source", collective->source, blocks_of(row->source, communicator, *collective)};
  const Side destination = {"destination", collective->destination,
                            blocks_of(row->destination, communicator, *collective)};
  for (const Side& side : {source, destination}) {
    if (side.blocks == 0) continue;
    UHAL_EXPECT(check_memory(*row, communicator.device, side, static_cast<size_t>(side.blocks) * block_bytes));
  }
  UHAL_EXPECT(check_overlap(*row, communicator, source, destination, block_bytes));
  checked->collective = *collective;
  checked->collective.struct_size = sizeof(uhal_collective);
  take_apart(*row, &checked->collective);
  checked->range_count = 0;
  checked->bytes = 0;
  add_range(checked, source, false, block_bytes);
  add_range(checked, destination, true, block_bytes);
  return UHAL_OK;
}

std::string describe_collective(const uhal_collective& collective) {
  return std::string(uhal_collective_kind_name(collective.kind)) + " of " + std::to_string(collective.count) + " " +
         dtype_name(collective.dtype);
}

}  // namespace unihal::core

const char* uhal_collective_kind_name(uhal_collective_kind kind) {
  const unihal::core::CollectiveRow* row = unihal::core::find_row(kind);
  return row != nullptr ? row->name : "invalid";
}
