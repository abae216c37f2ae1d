// What a queue keeps of the elementwise launches that it has made: one that looks like an earlier one, but for
// addresses and parameters, is planned no more. A training step launches the same few hundred again and again.
//
// Threads: one at a time.
#ifndef UNIHAL_KERNELS_MAP_PLANS_H_
#define UNIHAL_KERNELS_MAP_PLANS_H_

#include <array>
#include <cstdint>
#include <memory>

#include "csrc/kernels/kernel_launch.h"
#include "unihal/op.h"

namespace unihal::kernels {

class KnownKernel;

// What the plan of a UHAL_OP_MAP, UHAL_OP_MAP_CHAIN or UHAL_OP_CAST depends on: functions and which values they take,
// dtypes, shapes, strides, and how far addresses are aligned.
class MapKey {
 public:
  // False if the op is of another kind, or has more axes than are worth a key.
  bool assign(const uhal_op& op);

  // Whether assign(), which has made this one, would make the same of the op, which is looked at only as far as it
  // does.
  bool matches(const uhal_op& op) const;

  uint64_t hash() const { return hash_; }
  bool operator==(const MapKey& other) const;

 private:
  static constexpr int kMaxWords = 96;

  int count_ = 0;
  uint64_t hash_ = 0;
  uint64_t words_[kMaxWords];
};

// A launch of a kernel whose arguments begin with the operands' addresses, outputs first, and the function's
// parameters.
struct MapPlan {
  KnownKernel* kernel = nullptr;  // nullptr: nothing is planned yet
  MapPlan* next = nullptr;        // that of the launch that came after this one's last
  Compute type = Compute::kFloat;
  Grid grid;
  MapKey key;
  Arguments arguments;
};

class MapPlans {
 public:
  // The plan of a launch alike; nullptr if there is none. One that follows the launch before it as it did the last time
  // is found without a search.
  MapPlan* find(const uhal_op& op) {
    MapPlan* const expected = last_ != nullptr ? last_->next : nullptr;
    if (expected == nullptr || expected->kernel == nullptr || !expected->key.matches(op)) return search(op);
    last_ = expected;
    return expected;
  }

  // Where the op's plan is to be kept, in place of another op's; nullptr if it is not worth one.
  MapPlan* make_room(const uhal_op& op);

 private:
  static constexpr size_t kSlots = 128;  // a power of two; each that is used takes some 4 KiB

  MapPlan* search(const uhal_op& op);
  void note_launch(MapPlan* plan);

  MapPlan* last_ = nullptr;  // launched; plans stay where they are, and become other ops'
  std::array<std::unique_ptr<MapPlan>, kSlots> slots_;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_MAP_PLANS_H_
