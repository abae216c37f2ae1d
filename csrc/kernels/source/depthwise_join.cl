/* The parts that depthwise_filter.cl has left of each sum, added up: by a team of work-items (prelude/group.h) each.
 * Macros: the dtype RESULT, UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"

/* Loads that a work-item has under way. */
#define TURNS 4

typedef struct {
  INDEX parts, channels, window[2];
  INDEX result_channel, result_stride[2];
} Problem;

/* parts[part][tap][channel] */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void depthwise_join(UHAL_POINTER(parts), UHAL_POINTER(result),
                                                                  Problem problem, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  UHAL_GLOBAL const T* const parts_data = UHAL_ADDRESS(const T, parts);
  const uhal_team team = uhal_make_team(lanes, adjacent);
  const INDEX count = problem.channels * problem.window[0] * problem.window[1];
  const INDEX piece = UHAL_GROUP_ID(0) * team.teams + team.index;
  T sum = 0;
  if (piece < count) {
    for (INDEX part = team.lane; part < problem.parts; part += TURNS * lanes) {
      UHAL_UNROLL for (int32 turn = 0; turn < TURNS; ++turn) {
        const INDEX at = part + turn * lanes;
        if (at < problem.parts) sum += parts_data[at * count + piece];
      }
    }
  }
  sum = uhal_team_sum(sum, scratch, team);
  if (team.lane == 0 && piece < count) {
    const INDEX tap = piece / problem.channels;
    const INDEX channel = piece - tap * problem.channels;
    const INDEX y = tap / problem.window[1];
    RESULT_STORE(UHAL_ADDRESS(RESULT_STORAGE, result),
                 channel * problem.result_channel + y * problem.result_stride[0] +
                     (tap - y * problem.window[1]) * problem.result_stride[1],
                 sum);
  }
}
