/* Reductions over the work-items of a work-group, for sources that include it. The group has one axis and a power of
 * two of work-items, UHAL_GROUP (csrc/kernels/teams.h).
 *
 * A group is divided into teams of equal size, each of which reduces something of its own (a row, a column):
 *
 *   UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
 *   const uhal_team team = uhal_make_team(lanes, adjacent);
 *   T sum = 0;
 *   for (INDEX i = team.lane; i < length; i += team.lanes) sum += ...;    its share
 *   sum = uhal_team_sum(sum, scratch, team);                              all members get the same
 *
 * All work-items of the group call a reduction together, those without work with the neutral element; after it scratch
 * can be used again. It need not have a barrier. The order in which values are combined does not depend on timing. */

typedef struct {
  int32 lane;     /* the work-item in its team, from 0 to lanes - 1 */
  int32 lanes;    /* the members of a team: a power of two */
  int32 distance; /* from a member's number in the group to the next member's */
  int32 index;    /* the team in its group, from 0 to teams - 1 */
  int32 teams;
} uhal_team;

/* Teams of `lanes` work-items. Adjacent members (for rows that lie along the lanes in memory), or adjacent teams (for
 * columns that lie side by side). Both arguments are the same in all work-items. */
UHAL_INLINE uhal_team uhal_make_team(int32 lanes, int32 adjacent) {
  const int32 id = (int32)UHAL_LOCAL_ID(0);
  uhal_team team;
  team.lanes = lanes;
  team.teams = UHAL_GROUP / lanes;
  if (adjacent) {
    team.lane = id & (lanes - 1);
    team.index = id / lanes;
    team.distance = 1;
  } else {
    team.index = id & (team.teams - 1);
    team.lane = id / team.teams;
    team.distance = team.teams;
  }
  return team;
}

/* The members that combine the values of the others: as many as each of them then has values to combine. */
#define UHAL_TEAM_HEADS 16

/* Where a warp's work-items can hand each other values (UHAL_WARP of gpu.h), adjacent members first combine by that, in
 * pairs, pairs of pairs and so on, the lower numbers on the left: all get the same bits. A team within a warp is done
 * then, without a barrier; of a larger one, each warp leaves its value in local memory. */
#ifdef UHAL_WARP
#define UHAL_REDUCE_BY_WARPS(type, combine)                                              \
  if (team.distance == 1) {                                                              \
    UHAL_UNROLL for (int32 mask = 1; mask < UHAL_WARP; mask *= 2) {                      \
      if (mask < team.lanes) {                                                           \
        const type other = uhal_shuffle(value, mask);                                    \
        value = (team.lane & mask) != 0 ? combine(other, value) : combine(value, other); \
      }                                                                                  \
    }                                                                                    \
    if (team.lanes <= UHAL_WARP) return value;                                           \
    UHAL_LOCAL type* first_warp = scratch + (team.index * team.lanes);                   \
    if ((team.lane & (UHAL_WARP - 1)) == 0) first_warp[team.lane] = value;               \
    UHAL_BARRIER();                                                                      \
    value = first_warp[0];                                                               \
    for (int32 member = UHAL_WARP; member < team.lanes; member += UHAL_WARP) {           \
      value = combine(value, first_warp[member]);                                        \
    }                                                                                    \
    UHAL_BARRIER();                                                                      \
    return value;                                                                        \
  }
#else
#define UHAL_REDUCE_BY_WARPS(type, combine)
#endif

/* Defines `type name(type value, UHAL_LOCAL type* scratch, uhal_team team)`: combine(a, b) over the members of a team.
 * In two levels rather than as a binary tree: fewer barriers, and none in a loop, which compilers for CPUs take long
 * over. */
#define UHAL_TEAM_REDUCTION(name, type, combine)                                                    \
  UHAL_INLINE type name(type value, UHAL_LOCAL type* scratch, uhal_team team) {                     \
    UHAL_REDUCE_BY_WARPS(type, combine)                                                             \
    UHAL_LOCAL type* own = scratch + (int32)UHAL_LOCAL_ID(0);                                       \
    UHAL_LOCAL type* first = own - team.lane * team.distance;                                       \
    const int32 heads = team.lanes < UHAL_TEAM_HEADS ? team.lanes : UHAL_TEAM_HEADS;                \
    *own = value;                                                                                   \
    UHAL_BARRIER();                                                                                 \
    if (team.lane < heads) {                                                                        \
      for (int32 member = team.lane + heads; member < team.lanes; member += heads) {                \
        value = combine(value, first[member * team.distance]);                                      \
      }                                                                                             \
      *own = value;                                                                                 \
    }                                                                                               \
    UHAL_BARRIER();                                                                                 \
    value = *first;                                                                                 \
    for (int32 head = 1; head < heads; ++head) value = combine(value, first[head * team.distance]); \
    UHAL_BARRIER();                                                                                 \
    return value;                                                                                   \
  }

#if !UHAL_IS_COMPLEX

UHAL_INLINE T uhal_add(T a, T b) { return a + b; }

/* NaN wins. */
UHAL_INLINE T uhal_larger(T a, T b) { return (a > b || a != a) ? a : b; }

UHAL_TEAM_REDUCTION(uhal_team_sum, T, uhal_add)
UHAL_TEAM_REDUCTION(uhal_team_maximum, T, uhal_larger)

#endif
