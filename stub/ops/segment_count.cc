// Counting, as a sum of one whole number for each element: ids are looked at together, and counted in narrow tables.

#include <algorithm>
#include <cstdint>

#include "csrc/backends/common/dtype.h"
#include "stub/common/blocks.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/segment.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Of few segments neighbours are counted in tables of their own: one that is counted again soon would wait until its
// last count is written.
constexpr int64_t kCountTables = 4;
constexpr int64_t kFewSegments = 1024;

// Counts ids of all segments, without a question for each of them about which thread it belongs to. `apart` is from one
// of the tables to the next, or 0 if there is but one.
template <class Id, class Count>
UNIHAL_VECTORIZED void count_ids(const SegmentProblem& problem, int64_t begin, int64_t end, OutOfRange& outside,
                                 Count* counts, int64_t apart) {
  constexpr int64_t kLook = 8;  // ids that are looked at together: mostly all are inside
  const Id* ids = static_cast<const Id*>(problem.ids.data);
  const int64_t step = problem.ids.strides[0];
  const auto segments = static_cast<uint64_t>(problem.segments);
  const auto count_one = [&](int64_t i) {
    const int64_t segment = ids[i * step];
    if (static_cast<uint64_t>(segment) < segments) {
      ++counts[segment];
    } else {
      outside.note(segment, problem.segments, "id");
    }
  };
  for (; step == 1 && begin + kLook <= end; begin += kLook) {
    bool others = false;  // no exit before all are looked at: they are compared as vectors
    for (int64_t i = 0; i < kLook; ++i) others |= static_cast<uint64_t>(int64_t{ids[begin + i]}) >= segments;
    if (others) {
      for (int64_t i = 0; i < kLook; ++i) count_one(begin + i);
      continue;
    }
    for (int64_t i = 0; i < kLook; ++i) ++counts[i % kCountTables * apart + ids[begin + i]];
  }
  for (; begin < end; ++begin) count_one(begin);
}

// What segments of so many times one number have. No choice among two results, which a branch for each segment would be
// made of: which of them are empty is mostly not foreseen.
template <class T, class Count>
UNIHAL_VECTORIZED void write_multiples(int64_t count, const Count* __restrict found, T number, T empty,
                                       T* __restrict sums) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = static_cast<T>(number * static_cast<T>(found[i])) + (found[i] == 0 ? empty : T{0});
  }
}

template <class Count>
void add_parts(int64_t count, const Count* counts, int64_t parts, int64_t segments, Count* sums) {
  std::copy_n(counts, count, sums);
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t i = 0; i < count; ++i) sums[i] += counts[part * segments + i];
  }
}

// One whole number for all elements, whose sums are its multiples: counting. Of these any number of parts gives the
// same. Narrow counts keep twice the segments in a cache.
template <class Count, class T>
uhal_status count_as(const SegmentProblem& problem, ComputeType type, T number, OutOfRange& outside) {
  ScratchFrame frame;
  const int64_t segments = problem.segments, elements = problem.elements;
  const int64_t threads = kThreads ? omp_get_max_threads() : 1;
  const int64_t parts = std::clamp(elements / std::max(kPartElements, 2 * segments), int64_t{1}, threads);
  const int64_t tables = segments <= kFewSegments && elements / kCountTables >= segments ? kCountTables : 1;
  Count* const counts = frame.take<Count>(static_cast<size_t>(parts * tables * segments + 1));
  if (counts == nullptr) return problem.fail_without_memory();
  parallel_for(parts, std::max(elements, segments) / parts, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      Count* const own = counts + part * tables * segments;
      const int64_t apart = tables > 1 ? segments : 0;
      std::fill_n(own, tables * segments, Count{0});
      const int64_t from = elements * part / parts, to = elements * (part + 1) / parts;
      if (problem.ids.dtype == UHAL_INT64) {
        count_ids<int64_t>(problem, from, to, outside, own, apart);
      } else {
        count_ids<int32_t>(problem, from, to, outside, own, apart);
      }
    }
  });
  const bool mean = problem.attributes.reduction == UHAL_REDUCE_MEAN;
  const T empty = static_cast<T>(problem.attributes.integer_empty);
  const int64_t size = dtype_size(problem.y.dtype);
  const StoreLoop store = vectors().store[type][problem.y.dtype];
  parallel_for(segments, parts, [&](int64_t begin, int64_t end) {
    T block[kBlock];
    Count found[kBlock];
    for (; begin < end; begin += kBlock) {
      const int64_t together = std::min(kBlock, end - begin);
      add_parts(together, counts + begin, parts * tables, segments, found);
      if (mean) {
        for (int64_t i = 0; i < together; ++i) block[i] = found[i] == 0 ? empty : number;
      } else {
        write_multiples(together, found, number, empty, block);
      }
      for (int64_t i = 0; i < together && problem.counts != nullptr; ++i) problem.store_count(begin + i, found[i]);
      store(together, block, static_cast<char*>(problem.y.data) + begin * problem.y.strides[0] * size,
            problem.y.strides[0]);
    }
  });
  return UHAL_OK;
}

}  // namespace

template <class T>
uhal_status count_segments(const SegmentProblem& problem, ComputeType type, T number, OutOfRange& outside) {
  return problem.elements <= INT32_MAX ? count_as<int32_t>(problem, type, number, outside)
                                       : count_as<int64_t>(problem, type, number, outside);
}

template uhal_status count_segments(const SegmentProblem&, ComputeType, int64_t, OutOfRange&);
template uhal_status count_segments(const SegmentProblem&, ComputeType, uint64_t, OutOfRange&);

}  // namespace unihal::stub
