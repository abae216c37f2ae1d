// What every way of UHAL_OP_SEGMENT_REDUCE starts from: its operands, and what of them is out of range.
#pragma once

#include <atomic>
#include <cstdint>

#include "csrc/backends/common/attributes.h"
#include "stub/common/kernels.h"
#include "stub/vector/compute.h"

namespace unihal::stub {

struct SegmentProblem {
  const uhal_op& op;
  const uhal_tensor& x;
  const uhal_tensor& ids;
  const uhal_tensor* indices;
  const uhal_tensor* weights;
  const uhal_tensor& y;
  const uhal_tensor* counts;
  uhal_segment_attributes attributes;
  int64_t elements;
  int64_t segments;

  explicit SegmentProblem(const uhal_op& given)
      : op(given),
        x(*given.inputs[0]),
        ids(*given.inputs[1]),
        indices(given.input_count > 2 ? given.inputs[2] : nullptr),
        weights(given.input_count > 3 ? given.inputs[3] : nullptr),
        y(*given.outputs[0]),
        counts(given.output_count > 1 ? given.outputs[1] : nullptr),
        attributes(attributes_or(given, uhal_segment_attributes{sizeof(uhal_segment_attributes), UHAL_REDUCE_SUM,
                                                                UHAL_SEGMENT_UNSORTED, 0, 0, 0, 0})),
        elements(indices != nullptr ? indices->shape[0] : x.shape[0]),
        segments(y.shape[0]) {}

  // How many elements a segment has, where that is asked for.
  void store_count(int64_t segment, int64_t count) const {
    if (counts == nullptr) return;
    if (counts->dtype == UHAL_INT64) {
      static_cast<int64_t*>(counts->data)[segment * counts->strides[0]] = count;
    } else {
      static_cast<int32_t*>(counts->data)[segment * counts->strides[0]] = static_cast<int32_t>(count);
    }
  }

  uhal_status fail_without_memory() const {
    return fail(UHAL_RESOURCE_EXHAUSTED,
                "segment_reduce: the host has no memory left for accumulators of %lld segments",
                static_cast<long long>(segments));
  }
};

// Keeps the first id or index that is outside.
class OutOfRange {
 public:
  explicit OutOfRange(const uhal_segment_attributes& attributes) : attributes_(attributes) {}

  void note(int64_t number, int64_t length, const char* what) {
    if (attributes_.ignore_out_of_range != 0 || (attributes_.ignore_negative != 0 && number < 0)) return;
    if (!seen_.exchange(true, std::memory_order_relaxed)) {
      number_ = number;
      length_ = length;
      what_ = what;
    }
  }

  // After the loops: makes it an error of the stream.
  void report(const Launch& launch) const;

 private:
  const uhal_segment_attributes& attributes_;
  std::atomic<bool> seen_{false};
  int64_t number_ = 0;
  int64_t length_ = 0;
  const char* what_ = "";
};

// Elements of each part that threads share.
inline constexpr int64_t kPartElements = 65536;  // at least

// Counting: sums, or means, of rows of one element, all of which are `number`. T is int64_t or uint64_t, as `type`
// says. Not for offsets, whose ends are known.
template <class T>
uhal_status count_segments(const SegmentProblem& problem, ComputeType type, T number, OutOfRange& outside);

}  // namespace unihal::stub
