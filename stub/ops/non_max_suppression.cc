// Of boxes in their order those that no kept one overlaps: each is held against the kept ones, side by side.
#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Kept boxes that one is held against before the answer is asked for.
constexpr int64_t kBlock = 32;

// Arrays of the kept boxes, an entry each. Of ordered boxes low and high corners are as given.
template <typename T>
struct Kept {
  T *low_x, *low_y, *high_x, *high_y, *area;
};

// What is taken for an overlap.
template <typename T>
struct Rule {
  T extent;
  bool ordered;
};

// Whether two boxes share more than their part of what both cover. A product is compared, not a quotient, as kernels
// do.
template <typename T>
UNIHAL_INLINE bool exceeds(T shared, T covered, T threshold) {
  return covered > 0 ? shared > threshold * covered : covered < 0 ? shared < threshold * covered : !(shared < 0);
}

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
UNIHAL_VECTORIZED bool ordered_overlaps_any(const Kept<T>& kept, int64_t count, int64_t candidate, T threshold,
                                            T extent) {
  const T low_x = kept.low_x[candidate], low_y = kept.low_y[candidate];
  const T high_x = kept.high_x[candidate], high_y = kept.high_y[candidate], area = kept.area[candidate];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    int found = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int apart = static_cast<int>(kept.low_x[i] > high_x) | static_cast<int>(kept.high_x[i] < low_x) |
                        static_cast<int>(kept.low_y[i] > high_y) | static_cast<int>(kept.high_y[i] < low_y);
      const T width = std::min(high_x, kept.high_x[i]) - std::max(low_x, kept.low_x[i]) + extent;
      const T height = std::min(high_y, kept.high_y[i]) - std::max(low_y, kept.low_y[i]) + extent;
      const T shared = width * height;
      found |=
          static_cast<int>(apart == 0) & static_cast<int>(exceeds(shared, area + kept.area[i] - shared, threshold));
    }
    if (found != 0) return true;
  }
  return false;
}

// Fills an entry from four numbers.
template <typename T>
void place(const Kept<T>& kept, int64_t at, const T* corners, const Rule<T>& rule) {
  const bool as_given = rule.ordered;
  const T low_x = as_given ? corners[0] : std::min(corners[0], corners[2]);
  const T high_x = as_given ? corners[2] : std::max(corners[0], corners[2]);
  const T low_y = as_given ? corners[1] : std::min(corners[1], corners[3]);
  const T high_y = as_given ? corners[3] : std::max(corners[1], corners[3]);
  const bool empty = as_given && (high_x < low_x || high_y < low_y);
  kept.low_x[at] = low_x;
  kept.high_x[at] = high_x;
  kept.low_y[at] = low_y;
  kept.high_y[at] = high_y;
  kept.area[at] = empty ? T(0) : (high_x - low_x + rule.extent) * (high_y - low_y + rule.extent);
}

// One list; `numbers` are five for each box.
template <typename T>
void suppress_list(const uhal_non_max_suppression_attributes& attributes, int64_t n, const T* corners, T* numbers,
                   uint8_t* answers) {
  const Kept<T> kept = {numbers, numbers + n, numbers + 2 * n, numbers + 3 * n, numbers + 4 * n};
  const Rule<T> rule = {static_cast<T>(attributes.extent), attributes.ordered != 0};
  const T decay = static_cast<T>(attributes.decay);
  T threshold = static_cast<T>(attributes.threshold);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    place(kept, count, corners + 4 * i, rule);  // the candidate lies behind the kept ones
    const bool stays = rule.ordered ? !ordered_overlaps_any(kept, count, count, threshold, rule.extent)
                                    : !overlaps_any(kept, count, count, threshold);
    answers[i] = stays ? 1 : 0;
    if (!stays) continue;
    ++count;
    if (threshold > T(0.5)) threshold *= decay;
  }
}

template <typename T>
uhal_status suppress(const Launch& launch, uhal_dtype dtype) {
  const auto attributes = attributes_or(
      launch.op, uhal_non_max_suppression_attributes{sizeof(uhal_non_max_suppression_attributes), 0.5, 1, 0, 0, 0});
  const int rank = launch.op.inputs[0]->rank;
  const AxisOrder table = row_major(rank), list = row_major(rank - 1);
  Staging staging(launch);
  const uhal_tensor* boxes = staging.input(0, dtype, &table);
  const uhal_tensor* keep = staging.output(0, launch.op.outputs[0]->dtype, &list);
  if (staging.status() != UHAL_OK) return staging.status();
  const int64_t n = boxes->shape[rank - 2], lists = rank == 3 ? boxes->shape[0] : 1;
  T* const numbers = staging.take<T>(static_cast<size_t>(5 * n * lists));
  if (staging.status() != UHAL_OK) return staging.status();
  const T* const corners = data_of<const T>(boxes);
  auto* const answers = data_of<uint8_t>(keep);
  parallel_for(lists, n * n / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      suppress_list(attributes, n, corners + 4 * n * i, numbers + 5 * n * i, answers + n * i);
    }
  });
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
