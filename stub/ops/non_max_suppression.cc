// Of boxes in their order those that no kept one overlaps: each is held against the kept ones, side by side.
#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/staging.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Kept boxes that one is held against before the answer is asked for.
constexpr int64_t kBlock = 32;

// Arrays of the kept boxes, an entry each.
template <typename T>
struct Kept {
  T *low_x, *low_y, *high_x, *high_y, *area;
};

template <typename T>
UNIHAL_VECTORIZED bool overlaps_any(const Kept<T>& kept, int64_t count, int64_t candidate, T threshold) {
  const T low_x = kept.low_x[candidate], low_y = kept.low_y[candidate];
  const T high_x = kept.high_x[candidate], high_y = kept.high_y[candidate], area = kept.area[candidate];
  if (!(area > 0)) return false;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    int found = 0;
    for (int64_t i = begin; i < end; ++i) {
      const T width = std::min(high_x, kept.high_x[i]) - std::max(low_x, kept.low_x[i]);
      const T height = std::min(high_y, kept.high_y[i]) - std::max(low_y, kept.low_y[i]);
      const T shared = std::max(width, T(0)) * std::max(height, T(0));
      const bool overlap = shared > threshold * (area + kept.area[i] - shared);
      found |= static_cast<int>(overlap) & static_cast<int>(kept.area[i] > 0);
    }
    if (found != 0) return true;
  }
  return false;
}

template <typename T>
uhal_status suppress(const Launch& launch, uhal_dtype dtype) {
  const auto attributes =
      attributes_or(launch.op, uhal_non_max_suppression_attributes{sizeof(uhal_non_max_suppression_attributes), 0.5});
  const AxisOrder table = row_major(2), list = row_major(1);
  Staging staging(launch);
  const uhal_tensor* boxes = staging.input(0, dtype, &table);
  const uhal_tensor* keep = staging.output(0, launch.op.outputs[0]->dtype, &list);
  if (staging.status() != UHAL_OK) return staging.status();
  const int64_t n = boxes->shape[0];
  T* const numbers = staging.take<T>(static_cast<size_t>(5 * n));
  if (staging.status() != UHAL_OK) return staging.status();
  const Kept<T> kept = {numbers, numbers + n, numbers + 2 * n, numbers + 3 * n, numbers + 4 * n};
  const T* corners = data_of<const T>(boxes);
  auto* const answers = data_of<uint8_t>(keep);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i, corners += 4) {
    // The candidate lies behind the kept ones.
    kept.low_x[count] = std::min(corners[0], corners[2]);
    kept.high_x[count] = std::max(corners[0], corners[2]);
    kept.low_y[count] = std::min(corners[1], corners[3]);
    kept.high_y[count] = std::max(corners[1], corners[3]);
    kept.area[count] = (kept.high_x[count] - kept.low_x[count]) * (kept.high_y[count] - kept.low_y[count]);
    const bool stays = !overlaps_any(kept, count, count, static_cast<T>(attributes.threshold));
    answers[i] = stays ? 1 : 0;
    count += stays ? 1 : 0;
  }
  return staging.finish();
}

}  // namespace

const char* refuse_non_max_suppression(const uhal_op& op) {
  return is_floating(op.inputs[0]->dtype) ? nullptr : "boxes are floating point: cast them first";
}

uhal_status run_non_max_suppression(const Launch& launch) {
  if (element_count(*launch.op.outputs[0]) == 0) return UHAL_OK;
  const bool wide = launch.op.inputs[0]->dtype == UHAL_FLOAT64;
  return wide ? suppress<double>(launch, UHAL_FLOAT64) : suppress<float>(launch, UHAL_FLOAT32);
}

}  // namespace unihal::stub
