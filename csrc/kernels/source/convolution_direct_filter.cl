/* The gradient of small filters (depthwise): each number is a sum over the pixels of all images, which a team of
 * work-items takes (prelude/group.h). Rows are filters and columns are taps, as in convolution_gemm.cl; the walk over the
 * pixels has the source's and the result gradient's offsets. Macros: the dtypes GRADIENT, SOURCE, RESULT. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/convolution_walk.h"

typedef struct {
  Walk columns;
  Walk pixels;
  INDEX input[3];
  INDEX rows, groups;
  INDEX gradient_row_stride, result_row_stride;
  INDEX gradient_group_stride, source_group_stride, result_group_stride;
  INDEX channels_last; /* neighbouring teams take neighbouring filters, else taps */
} Problem;

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void convolution_direct_filter(
    UHAL_POINTER(gradient), UHAL_POINTER(source), UHAL_POINTER(result), Problem problem, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  UHAL_GLOBAL const GRADIENT_STORAGE* const gradient_data = UHAL_ADDRESS(const GRADIENT_STORAGE, gradient);
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data = UHAL_ADDRESS(const SOURCE_STORAGE, source);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  const uhal_team team = uhal_make_team(lanes, adjacent);
  const Digits stride = digits_of(problem.pixels, lanes);
  const INDEX all_rows = problem.rows * problem.groups;
  const INDEX count = all_rows * problem.columns.count;
  for (INDEX base = UHAL_GROUP_ID(0) * team.teams; base < count; base += UHAL_GROUP_COUNT(0) * team.teams) {
    const INDEX piece = min(base + team.index, count - 1);
    const INDEX filter = problem.channels_last ? piece % all_rows : piece / problem.columns.count;
    const INDEX column = problem.channels_last ? piece / all_rows : piece % problem.columns.count;
    const INDEX group = filter / problem.rows;
    const INDEX row = filter - group * problem.rows;
    const Place tap = place_at(problem.columns, digits_of(problem.columns, column));
    const INDEX from = tap.source + group * problem.source_group_stride;
    const INDEX gradient_from = row * problem.gradient_row_stride + group * problem.gradient_group_stride;
    Digits walker = digits_of(problem.pixels, team.lane);
    T sum = 0;
    for (INDEX i = team.lane; i < problem.pixels.count; i += lanes) {
      const Place pixel = place_at(problem.pixels, walker);
      walker = digits_after(problem.pixels, walker, stride);
      if ((UNSIGNED_INDEX)(pixel.z + tap.z) < (UNSIGNED_INDEX)problem.input[0] &&
          (UNSIGNED_INDEX)(pixel.y + tap.y) < (UNSIGNED_INDEX)problem.input[1] &&
          (UNSIGNED_INDEX)(pixel.x + tap.x) < (UNSIGNED_INDEX)problem.input[2]) {
        sum += SOURCE_LOAD(source_data, from + pixel.source) * GRADIENT_LOAD(gradient_data, gradient_from + pixel.other);
      }
    }
    sum = uhal_team_sum(sum, scratch, team);
    if (team.lane == 0 && base + team.index < count) {
      RESULT_STORE(result_data,
                   group * problem.result_group_stride + row * problem.result_row_stride + tap.other, sum);
    }
  }
}
