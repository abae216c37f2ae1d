// Work-groups divided into teams, the host's side of prelude/group.h.
#ifndef UNIHAL_KERNELS_TEAMS_H_
#define UNIHAL_KERNELS_TEAMS_H_

#include <algorithm>
#include <cstdint>

#include "csrc/kernels/queue.h"

namespace unihal::kernels {

// The smallest power of two that is at least `value`.
inline int64_t power_of_two_from(int64_t value) {
  int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}

// The work-items of a group that is divided into teams: a power of two, at most 256. The same for all kernels of a
// device, so that the macro UHAL_GROUP adds no variants.
inline int32_t team_group_size(const DeviceTraits& traits) {
  int32_t size = 256;
  while (size > traits.max_group_size) size /= 2;
  return size;
}

struct Teams {
  int32_t group;      // work-items of a work-group
  int32_t lanes = 1;  // work-items of a team: a power of two, at most group
  bool adjacent = true;

  explicit Teams(const DeviceTraits& traits) : group(team_group_size(traits)) {}

  int32_t per_group() const { return group / lanes; }

  // Teams for so many pieces, one each.
  Grid grid(int64_t pieces) const {
    Grid grid;
    grid.groups[0] = std::max<int64_t>((pieces + per_group() - 1) / per_group(), 1);
    grid.group_size[0] = group;
    return grid;
  }

  void define(KernelSpec& spec) const { spec.define("UHAL_GROUP", group); }

  // The arguments of uhal_make_team.
  void append(Arguments& arguments) const { arguments.int32(lanes).int32(adjacent); }
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_TEAMS_H_
