// What a queue holds back of a launch group (uhal_launch_group_start): maps or copies, not both at a time, so that
// their order stays.
//
// Threads: one at a time.
#ifndef UNIHAL_KERNELS_HELD_LAUNCHES_H_
#define UNIHAL_KERNELS_HELD_LAUNCHES_H_

#include "csrc/kernels/held_copies.h"
#include "csrc/kernels/held_maps.h"

namespace unihal::kernels {

class HeldLaunches {
 public:
  explicit HeldLaunches(const DeviceTraits& traits) : maps_(traits), copies_(traits) {}

  // Holds a validated op back, if it goes with what is held already. Else nothing changes.
  bool hold(const uhal_op& op) {
    return (copies_.is_empty() && maps_.hold(op)) || (maps_.is_empty() && copies_.hold(op));
  }

  // Submits what is held. Nothing is held afterwards, whatever it returns; never UHAL_UNIMPLEMENTED, by which the core
  // would run on the host what the caller is about to launch, and not what is lost.
  uhal_status submit(Queue& queue) {
    const uhal_status status = maps_.is_empty() ? copies_.submit(queue) : maps_.submit(queue);
    return status == UHAL_UNIMPLEMENTED ? UHAL_INTERNAL : status;
  }

 private:
  HeldMaps maps_;
  HeldCopies copies_;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_HELD_LAUNCHES_H_
