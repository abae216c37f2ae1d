// Maps of a launch group that are held back to become one launch (uhal_launch_group_start).
//
// What is held at a time is alike, one function with the same parameters on the same dtypes over operands without gaps,
// and independent: none reads or writes what another one writes, so that their order does not matter. Views and
// attributes are copied; the operands' memory is the stream's until submit().
//
// Threads: one at a time.
#ifndef UNIHAL_KERNELS_HELD_MAPS_H_
#define UNIHAL_KERNELS_HELD_MAPS_H_

#include "csrc/kernels/held_ranges.h"
#include "csrc/kernels/map_chain.h"

namespace unihal::kernels {

class HeldMaps {
 public:
  explicit HeldMaps(const DeviceTraits& traits) : traits_(traits) {}
  HeldMaps(const HeldMaps&) = delete;
  HeldMaps& operator=(const HeldMaps&) = delete;

  bool is_empty() const { return maps_.members == 0; }

  // Holds a validated op back, if it is a map that can be and goes with what is held already. Else nothing changes.
  bool hold(const uhal_op& op);

  // Submits what is held as one launch. Nothing is held afterwards, whatever it returns.
  uhal_status submit(Queue& queue);

 private:
  struct Member;  // what an op adds to the lists below

  static bool describe(const MapChain& chain, Member* member);
  bool begin(const uhal_op& op, const Member& member);
  bool is_alike(const MapChain& chain, const Member& member) const;
  bool is_independent(const Member& member) const;
  bool has_room(const Member& member) const;
  void add(const Member& member);

  const DeviceTraits& traits_;
  int most_members_ = 0;
  int64_t items_ = 0;       // of the launch, at most
  bool is_of_one_ = false;  // all members have one element, and any pattern of operands
  JoinedMaps maps_;

  MapChain chain_;                   // of the first op, with
  uhal_tensor views_[kMaxOperands];  // copies of its views, outputs first

  HeldRanges<JoinedMaps::kMostMembers * UHAL_MAP_MAX_OUTPUTS, JoinedMaps::kMostMembers * UHAL_MAP_MAX_INPUTS> ranges_;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_HELD_MAPS_H_
