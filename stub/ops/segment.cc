// UHAL_OP_SEGMENT_REDUCE.
//
// Two ways to share the work, both of which give the same bits on any number of threads. By segments: each thread has a
// range of them and goes through the elements of those; of unsorted ids it reads all. By parts, for unsorted ids of
// short rows, where reading the ids is most of the work: each part of the elements has accumulators of its own, which
// are joined in order; how many parts follows from the shapes alone.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "stub/common/indices.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/copy.h"
#include "stub/ops/segment.h"
#include "stub/ops/segment_rows.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int64_t kShortRow = 8;  // elements
constexpr int64_t kMostParts = 8;
constexpr int64_t kRowsAhead = 24;
constexpr int64_t kFewElements = 2048;
constexpr int64_t kFewElementsOfSums = 16384;
// Rows that are looked up at a time, before those of them that a group has are combined.
constexpr int64_t kRowsLookedUp = 256;

// -- how elements are combined

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct Maximum {
  template <class T>
  static T of(T a, T b) {
    const T best = a > b ? a : b;  // b where either is NaN: one instruction
    return a != a ? a : best;
  }
};
struct Minimum {
  template <class T>
  static T of(T a, T b) {
    const T best = a < b ? a : b;
    return a != a ? a : best;
  }
};

// -- rows

// Rows of one segment that are combined in one go, in which its sum is read and written once.
constexpr int64_t kRowsTogether = 16;

// Segments of rows that were looked up together.
constexpr int64_t kSegmentsTogether = 64;

// Combines a segment's rows with its sum where there is no CombineRows, which keeps it in registers from row to row: it
// goes through memory with each.
template <class T, class Combine, bool weighted>
UNIHAL_VECTORIZED void combine_in_memory(int64_t length, int64_t ahead, const SegmentRows& segment) {
  T* __restrict const sum = static_cast<T*>(segment.sum);
  for (int64_t k = 0; k < segment.count; ++k) {
    const T* const row = static_cast<const T*>(segment.rows[k]);
    const T weight = weighted ? static_cast<const T*>(segment.weights)[k * segment.weight_step] : T{1};
    __builtin_prefetch(segment.rows[k + ahead]);
    if (segment.begins && k == 0) {
      for (int64_t i = 0; i < length; ++i) sum[i] = weighted ? static_cast<T>(row[i] * weight) : row[i];
    } else {
      for (int64_t i = 0; i < length; ++i) {
        sum[i] = Combine::of(sum[i], weighted ? static_cast<T>(row[i] * weight) : row[i]);
      }
    }
  }
}

// Where rows by index are, of a table of `count` that are `bytes` apart; whether an index is outside, whose row is
// anywhere.
template <class Index>
UNIHAL_VECTORIZED bool place_rows(int64_t elements, const Index* indices, int64_t step, int64_t count,
                                  const char* table, int64_t bytes, const void** rows) {
  const auto first = reinterpret_cast<uintptr_t>(table);
  int64_t signs = 0;
  if (step == 1 && bytes >= 0 && bytes <= INT32_MAX && count <= INT32_MAX) {  // no vector multiplies 64 bits
    const auto apart = static_cast<uint32_t>(bytes);
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t row = indices[i];
      signs |= row | (count - 1 - row);
      rows[i] = reinterpret_cast<const void*>(first + uintptr_t{static_cast<uint32_t>(row)} * apart);
    }
  } else {
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t row = indices[i * step];
      signs |= row | (count - 1 - row);
      rows[i] = reinterpret_cast<const void*>(first + static_cast<uintptr_t>(row) * static_cast<uintptr_t>(bytes));
    }
  }
  return signs < 0;
}

// The first of the elements from `begin` to `end` whose sorted id is at least `segment`: those before it are not looked
// at.
int64_t first_element_of(const SegmentProblem& problem, int64_t begin, int64_t end, int64_t segment) {
  const IndexReader id_at(problem.ids);
  const int64_t step = problem.ids.strides[0];
  for (int64_t length = end - begin; length > 0;) {
    const int64_t half = length / 2;
    const bool before = id_at((begin + half) * step) < segment;
    begin = before ? begin + half + 1 : begin;
    length = before ? length - half - 1 : half;
  }
  return begin;
}

// Calls body(element, segment) for the elements from `begin` to `end` of the segments from `first` to `last` - 1, in
// order.
template <class Body>
void for_each_element(const SegmentProblem& problem, int64_t begin, int64_t end, int64_t first, int64_t last,
                      OutOfRange& outside, const Body& body) {
  const IndexReader id_at(problem.ids);
  const int64_t step = problem.ids.strides[0];
  if (problem.attributes.form == UHAL_SEGMENT_OFFSETS) {
    for (int64_t segment = first; segment < last; ++segment) {
      const int64_t from = std::max(id_at(segment * step), begin);
      const int64_t to = std::min(id_at((segment + 1) * step), end);
      for (int64_t element = from; element < to; ++element) body(element, segment);
    }
    return;
  }
  if (problem.attributes.form == UHAL_SEGMENT_SORTED && first > 0) {
    begin = first_element_of(problem, begin, end, first);
  }
  const bool ends = problem.attributes.form == UHAL_SEGMENT_SORTED && last < problem.segments;
  for (int64_t element = begin; element < end; ++element) {
    const int64_t segment = id_at(element * step);
    if (segment >= first && segment < last) {
      body(element, segment);
    } else if (segment < 0 || segment >= problem.segments) {
      outside.note(segment, problem.segments, "id");
    } else if (ends && segment >= last) {
      return;
    }
  }
}

// Accumulators of some segments: rows of the compute type, and how many elements each has.
template <class T>
struct Accumulators {
  T* rows;
  int64_t stride;  // from one row to the next
  int64_t* counts;
};

// -- the work

template <class T, class Combine>
class Reducer {
 public:
  Reducer(const SegmentProblem& problem, ComputeType type, OutOfRange& outside)
      : problem_(problem), outside_(outside), x_(problem.x, type), y_(problem.y, type), type_(type) {}

  uhal_status run() {
    ScratchFrame frame;
    const int64_t length = x_.length();
    if (!take_weights(frame) || !take_repeated(frame)) return problem_.fail_without_memory();
    if (kSums) {
      sums_stored_ = repeated_ == nullptr && x_.is_dense();
      combine_rows_ = vectors().combine_rows(UHAL_REDUCE_SUM, sums_stored_ ? problem_.x.dtype : compute_dtype(type_));
      if (combine_rows_ == nullptr) {  // a dtype whose rows have to be converted
        sums_stored_ = false;
        combine_rows_ = vectors().combine_rows(UHAL_REDUCE_SUM, compute_dtype(type_));
      }
    } else if (weights_ == nullptr) {
      combine_rows_ = vectors().combine_rows(problem_.attributes.reduction, compute_dtype(type_));
    }
    if constexpr (std::is_integral_v<T> && std::is_same_v<Combine, Sum>) {
      if (repeated_ != nullptr && length == 1 && weights_ == nullptr &&
          problem_.attributes.form != UHAL_SEGMENT_OFFSETS) {
        return count_segments(problem_, type_, *repeated_, outside_);
      }
    }
    if (sums_stored_ && problem_.attributes.form == UHAL_SEGMENT_OFFSETS && problem_.indices != nullptr &&
        y_.is_dense() && problem_.y.dtype == problem_.x.dtype) {
      return sum_looked_up();
    }
    const int64_t parts = part_count();
    int64_t* counts = frame.take<int64_t>(static_cast<size_t>(parts * problem_.segments + 1));
    const bool in_place = parts == 1 && y_.in_place();
    T* rows = in_place ? nullptr : frame.take<T>(static_cast<size_t>(parts * problem_.segments * length + 1));
    if (counts == nullptr || (!in_place && rows == nullptr)) return problem_.fail_without_memory();
    std::fill_n(counts, parts * problem_.segments, int64_t{0});
    Accumulators<T> all = {rows, length, counts};
    if (in_place) {
      all.rows = static_cast<T*>(problem_.y.data);
      all.stride = problem_.y.strides[0];
    }
    if (parts > 1) {
      by_parts(all, parts);
    } else {
      by_segments(all);
    }
    return outcome();
  }

 private:
  // Sums of floating numbers, which networks wait for.
  static constexpr bool kSums = std::is_floating_point_v<T> && std::is_same_v<Combine, Sum>;

  uhal_status outcome() const {
    return exhausted_.load() ? fail(UHAL_RESOURCE_EXHAUSTED, "segment_reduce: the host has no memory left for a row")
                             : UHAL_OK;
  }

  int64_t part_count() const {
    if (problem_.attributes.form != UHAL_SEGMENT_UNSORTED || x_.length() >= kShortRow) return 1;
    const int64_t least = std::max(kPartElements, 16 * problem_.segments);
    return std::clamp(problem_.elements / least, int64_t{1}, kMostParts);
  }

  // Weights in the compute type.
  bool take_weights(ScratchFrame& frame) {
    if (problem_.weights == nullptr) return true;
    uhal_tensor converted = *problem_.weights;
    if (converted.dtype != compute_dtype(type_)) {
      converted.dtype = compute_dtype(type_);
      converted.strides[0] = 1;
      converted.data = frame.take<T>(static_cast<size_t>(problem_.elements + 1));
      if (converted.data == nullptr) return false;
      cast_views(*problem_.weights, converted);
    }
    weights_ = static_cast<const T*>(converted.data);
    weight_step_ = converted.strides[0];
    return true;
  }

  // A row that stands for all, as of ones to be counted, is converted once.
  bool take_repeated(ScratchFrame& frame) {
    if (problem_.x.strides[0] != 0 || problem_.x.shape[0] == 0 || problem_.indices != nullptr) return true;
    T* row = frame.take<T>(static_cast<size_t>(x_.length() + 1));
    repeated_ = row != nullptr ? static_cast<const T*>(x_.read(0, row)) : nullptr;
    return row != nullptr;
  }

  // Whether rows are combined where they are.
  bool combines_in_place() const { return repeated_ != nullptr || x_.in_place() || sums_stored_; }

  // Row of an element, of the compute type or as it is stored; zeros where its index is outside.
  const void* row_of(int64_t element, T* buffer) const {
    if (repeated_ != nullptr) return repeated_;
    int64_t row = element;
    if (problem_.indices != nullptr) {
      row = IndexReader(*problem_.indices)(element * problem_.indices->strides[0]);
      if (row < 0 || row >= problem_.x.shape[0]) {
        outside_.note(row, problem_.x.shape[0], "index");
        std::fill_n(buffer, x_.length(), T{0});
        return buffer;
      }
    }
    return sums_stored_ ? x_.at(row) : x_.read(row, buffer);
  }

  // Rows of one element that need no looking up.
  void accumulate_numbers(const Accumulators<T>& to, int64_t begin, int64_t end, int64_t first, int64_t last) {
    const T* x = repeated_ != nullptr ? repeated_ : reinterpret_cast<const T*>(x_.at(0));
    const int64_t step = repeated_ != nullptr ? 0 : problem_.x.strides[0];
    for_each_element(problem_, begin, end, first, last, outside_, [&](int64_t element, int64_t segment) {
      T value = x[element * step];
      if (weights_ != nullptr) value *= weights_[element * weight_step_];
      T& sum = to.rows[segment * to.stride];
      sum = to.counts[segment]++ == 0 ? value : Combine::of(sum, value);
    });
  }

  void accumulate(const Accumulators<T>& to, int64_t begin, int64_t end, int64_t first, int64_t last) {
    if (x_.length() == 1 && problem_.indices == nullptr && (repeated_ != nullptr || x_.in_place())) {
      return accumulate_numbers(to, begin, end, first, last);
    }
    ScratchFrame frame;
    T* buffer = frame.take<T>(static_cast<size_t>(x_.length() + 1));
    if (buffer == nullptr) {
      exhausted_.store(true, std::memory_order_relaxed);
      return;
    }
    if (problem_.attributes.form == UHAL_SEGMENT_OFFSETS && problem_.indices != nullptr &&
        (x_.in_place() || sums_stored_)) {
      return accumulate_looked_up(to, begin, end, first, last, buffer);
    }
    const bool of_type = repeated_ != nullptr || x_.in_place();
    if (of_type && weights_ == nullptr && (end - begin) * x_.length() <= kFewElements) {
      return accumulate_few(to, begin, end, first, last, buffer);
    }
    if (problem_.attributes.form == UHAL_SEGMENT_SORTED && problem_.indices == nullptr && repeated_ == nullptr &&
        combines_in_place()) {
      return accumulate_sorted(to, begin, end, first, last);
    }
    // In the buffer there is room for one row that is converted; where rows are in place it has only zeros.
    const int64_t together = combines_in_place() ? kRowsTogether : 1;
    const bool looks_ahead = combines_in_place() && problem_.indices != nullptr;
    const void* rows[2 * kRowsTogether];  // and as many that will be looked up soon, or the same again
    T weights[kRowsTogether];
    SegmentRows group = {rows, 0, weights_ != nullptr ? weights : nullptr, 1, nullptr, false};
    int64_t of_segment = -1;
    for_each_element(problem_, begin, end, first, last, outside_, [&](int64_t element, int64_t segment) {
      if (group.count == together || of_segment != segment) combine(to, of_segment, kRowsTogether, group);
      of_segment = segment;
      rows[group.count] = row_of(element, buffer);
      rows[group.count + kRowsTogether] = looks_ahead ? row_ahead(element, end, rows[group.count]) : rows[group.count];
      weights[group.count++] = weights_ != nullptr ? weights_[element * weight_step_] : T{1};
    });
    combine(to, of_segment, kRowsTogether, group);
  }

  // Rows that lie in the order of their segments: of each segment that follows another all are combined together.
  void accumulate_sorted(const Accumulators<T>& to, int64_t begin, int64_t end, int64_t first, int64_t last) {
    const IndexReader id_at(problem_.ids);
    const int64_t step = problem_.ids.strides[0], final_row = problem_.x.shape[0] - 1;
    const void* rows[kRowsLookedUp + kRowsAhead];
    SegmentRows segments[kSegmentsTogether];
    if (first > 0) begin = first_element_of(problem_, begin, end, first);
    for (int64_t next = 0; begin < end; begin += next) {
      const int64_t together = std::min(kRowsLookedUp, end - begin);
      for (int64_t i = 0; i < together + kRowsAhead; ++i) rows[i] = x_.at(std::min(begin + i, final_row));
      int64_t count = 0;
      for (next = 0; next < together && count < kSegmentsTogether;) {
        const int64_t from = next, segment = id_at((begin + from) * step);
        while (++next < together && id_at((begin + next) * step) == segment) continue;
        if (segment >= first && segment < last) {
          const T* const weights = weights_ != nullptr ? weights_ + (begin + from) * weight_step_ : nullptr;
          segments[count++] = {
              rows + from, next - from, weights, weight_step_, to.rows + segment * to.stride, to.counts[segment] == 0};
          to.counts[segment] += next - from;
        } else if (segment < 0 || segment >= problem_.segments) {
          outside_.note(segment, problem_.segments, "id");
        } else if (segment >= last) {
          return combine_all(count, kRowsAhead, segments);
        }
      }
      combine_all(count, kRowsAhead, segments);
    }
  }

  // Rows that the first cache holds: they are added one by one, since a group of them takes longer than its sums.
  void accumulate_few(const Accumulators<T>& to, int64_t begin, int64_t end, int64_t first, int64_t last, T* zeros) {
    const int64_t length = x_.length();
    for_each_element(problem_, begin, end, first, last, outside_, [&](int64_t element, int64_t segment) {
      const T* const row = static_cast<const T*>(row_of(element, zeros));
      T* __restrict sum = to.rows + segment * to.stride;
      if (to.counts[segment]++ == 0) {
        for (int64_t i = 0; i < length; ++i) sum[i] = row[i];
      } else {
        for (int64_t i = 0; i < length; ++i) sum[i] = Combine::of(sum[i], row[i]);
      }
    });
  }

  // Sums, or means, of rows by index of segments whose ends are known: registers hold them until they are stored.
  uhal_status sum_looked_up() {
    const uhal_tensor &indices = *problem_.indices, &offsets = problem_.ids;
    const LookedUpRows all = {x_.at(0),
                              problem_.x.shape[0],
                              x_.length(),
                              x_.row_bytes(),
                              indices.data,
                              indices.strides[0],
                              indices.dtype == UHAL_INT64,
                              weights_,
                              weight_step_,
                              problem_.elements,
                              offsets.data,
                              offsets.strides[0],
                              offsets.dtype == UHAL_INT64,
                              y_.at(0),
                              y_.row_bytes(),
                              problem_.attributes.reduction == UHAL_REDUCE_MEAN};
    const SumLookedUp sum = vectors().sum_looked_up(problem_.x.dtype);
    const int64_t segments = problem_.segments;
    const int64_t threads = problem_.elements * x_.length() < kSerialWork
                                ? 1
                                : std::clamp<int64_t>(omp_get_max_threads(), 1, std::max<int64_t>(segments, 1));
    parallel_for(threads, kSerialWork, [&](int64_t begin, int64_t end) {
      const int64_t last = segments * end / threads;
      int64_t segment = segments * begin / threads;
      if (problem_.counts != nullptr) store_counts_between(segment, last);
      while ((segment = sum(all, segment, last)) < last) sum_with_missing(segment++);
    });
    return outcome();
  }

  void store_counts_between(int64_t first, int64_t last) const {
    const IndexReader offset_at(problem_.ids);
    const int64_t step = problem_.ids.strides[0];
    for (int64_t next = offset_at(first * step); first < last; ++first) {
      const int64_t begin = std::max(next, int64_t{0});
      next = offset_at((first + 1) * step);
      problem_.store_count(first, std::max(std::min(next, problem_.elements) - begin, int64_t{0}));
    }
  }

  // One of these segments that has no elements, or such whose rows do not exist.
  void sum_with_missing(int64_t segment) {
    ScratchFrame frame;
    const int64_t length = x_.length(), step = problem_.ids.strides[0];
    T* const zeros = frame.take<T>(static_cast<size_t>(length + 1));
    T* const sum = frame.take<T>(static_cast<size_t>(length + 1));
    if (zeros == nullptr || sum == nullptr) {
      exhausted_.store(true, std::memory_order_relaxed);
      return;
    }
    const IndexReader offset_at(problem_.ids);
    const int64_t begin = std::max(offset_at(segment * step), int64_t{0});
    const int64_t end = std::min(offset_at((segment + 1) * step), problem_.elements);
    if (begin >= end) std::fill_n(sum, length, static_cast<T>(problem_.attributes.empty));
    for (int64_t element = begin; element < end; ++element) {
      const void* const row = row_of(element, zeros);
      const void* const rows[] = {row, row};
      const T* const weight = weights_ != nullptr ? weights_ + element * weight_step_ : nullptr;
      const SegmentRows one = {rows, 1, weight, 1, sum, element == begin};
      combine_rows_(length, 1, 1, &one);
    }
    if (problem_.attributes.reduction == UHAL_REDUCE_MEAN && begin < end) {
      for (int64_t i = 0; i < length; ++i) sum[i] /= static_cast<T>(end - begin);
    }
    y_.write(segment, sum);
  }

  // Rows by index of segments whose ends are known, which are looked up many at a time. `zeros` is room for what stands
  // for rows that do not exist.
  void accumulate_looked_up(const Accumulators<T>& to, int64_t begin, int64_t end, int64_t first, int64_t last,
                            T* zeros) {
    const IndexReader offset_at(problem_.ids);
    const int64_t step = problem_.ids.strides[0];
    std::fill_n(zeros, x_.length(), T{0});
    const void* rows[kRowsLookedUp + kRowsAhead];
    int64_t looked_up = 0, looked_up_end = 0;  // elements that the first of the rows are of
    const int64_t last_end = std::min(offset_at(last * step), end);
    SegmentRows segments[kSegmentsTogether];
    int64_t count = 0;
    for (int64_t segment = first, next = offset_at(first * step); segment < last; ++segment) {
      int64_t element = std::max(next, begin);
      next = offset_at((segment + 1) * step);
      const int64_t stop = std::min(next, end);
      T* const sum = to.rows + segment * to.stride;
      while (element < stop) {
        if (element < looked_up || element >= looked_up_end) {
          combine_all(std::exchange(count, 0), kRowsAhead, segments);
          looked_up = element;
          looked_up_end = std::min(element + kRowsLookedUp, std::max(last_end, stop));
          look_up(looked_up, std::min(looked_up_end + kRowsAhead, std::max(last_end, stop)), zeros, rows);
        }
        if (count == kSegmentsTogether) combine_all(std::exchange(count, 0), kRowsAhead, segments);
        const int64_t elements = std::min(stop, looked_up_end) - element;
        const T* const weights = weights_ != nullptr ? weights_ + element * weight_step_ : nullptr;
        segments[count++] = {rows + (element - looked_up), elements, weights, weight_step_, sum,
                             to.counts[segment] == 0};
        to.counts[segment] += elements;
        element += elements;
      }
    }
    combine_all(count, kRowsAhead, segments);
  }

  // The rows of the elements from `begin` to `end`, and `zeros` for those that there is room for behind them.
  void look_up(int64_t begin, int64_t end, const T* zeros, const void** rows) const {
    const uhal_tensor& indices = *problem_.indices;
    const auto from = [&](auto* data) {
      const int64_t step = indices.strides[0], count = problem_.x.shape[0];
      data += begin * step;
      if (!place_rows(end - begin, data, step, count, x_.at(0), x_.row_bytes(), rows)) return;
      for (int64_t i = 0; i < end - begin; ++i) {
        const auto row = static_cast<int64_t>(data[i * step]);
        if (static_cast<uint64_t>(row) < static_cast<uint64_t>(count)) continue;
        outside_.note(row, count, "index");
        rows[i] = zeros;
      }
    };
    if (indices.dtype == UHAL_INT64) {
      from(static_cast<const int64_t*>(indices.data));
    } else {
      from(static_cast<const int32_t*>(indices.data));
    }
    std::fill(rows + (end - begin), rows + kRowsLookedUp + kRowsAhead, static_cast<const void*>(zeros));
  }

  // The row of an element that will be looked up soon: rows by index lie anywhere. `row` where there is none.
  const void* row_ahead(int64_t element, int64_t end, const void* row) const {
    if (element + kRowsAhead >= end) return row;
    const int64_t next = IndexReader(*problem_.indices)((element + kRowsAhead) * problem_.indices->strides[0]);
    return next >= 0 && next < problem_.x.shape[0] ? x_.at(next) : row;
  }

  // Combines what there is of a group, which is empty then.
  void combine(const Accumulators<T>& to, int64_t segment, int64_t ahead, SegmentRows& group) const {
    if (group.count == 0) return;
    group.sum = to.rows + segment * to.stride;
    group.begins = to.counts[segment] == 0;
    combine_all(1, ahead, &group);
    to.counts[segment] += std::exchange(group.count, 0);
  }

  void combine_all(int64_t count, int64_t ahead, const SegmentRows* segments) const {
    if (combine_rows_ != nullptr) return combine_rows_(x_.length(), ahead, count, segments);
    if constexpr (!kSums) {
      const auto combine =
          weights_ != nullptr ? combine_in_memory<T, Combine, true> : combine_in_memory<T, Combine, false>;
      for (int64_t i = 0; i < count; ++i) combine(x_.length(), ahead, segments[i]);
    }
  }

  // Segments from `first` to `last` - 1, whose accumulators are complete: means, empty ones, and the outputs.
  void finish(const Accumulators<T>& from, int64_t first, int64_t last) const {
    const bool mean = problem_.attributes.reduction == UHAL_REDUCE_MEAN;
    const bool floating = type_ == kFloat || type_ == kDouble;
    const T empty =
        floating ? static_cast<T>(problem_.attributes.empty) : static_cast<T>(problem_.attributes.integer_empty);
    const int64_t length = x_.length();
    const bool together = !y_.in_place() && y_.lie_together() && from.stride == length;
    for (int64_t segment = first; segment < last; ++segment) {
      T* sum = from.rows + segment * from.stride;
      const int64_t count = from.counts[segment];
      if (count == 0) {
        std::fill_n(sum, length, empty);
      } else if (mean) {
        for (int64_t i = 0; i < length; ++i) sum[i] /= static_cast<T>(count);
      }
      if (!together && (sum != reinterpret_cast<T*>(y_.at(segment)) || !y_.in_place())) y_.write(segment, sum);
      problem_.store_count(segment, count);
    }
    if (together) y_.write_many(first, last, from.rows + first * from.stride);
  }

  void by_segments(const Accumulators<T>& all) {
    const int64_t segments = problem_.segments;
    const int64_t work = problem_.elements * x_.length();
    // Short rows cost less than reading all ids once more.
    const bool alone = problem_.attributes.form == UHAL_SEGMENT_UNSORTED && x_.length() < kShortRow;
    const int64_t threads =
        alone || work < kSerialWork ? 1 : std::clamp<int64_t>(omp_get_max_threads(), 1, std::max<int64_t>(segments, 1));
    parallel_for(threads, kSerialWork, [&](int64_t begin, int64_t end) {
      const int64_t last = segments * end / threads;
      // Where each segment's elements are known, sums that are converted are so while a cache has them.
      const bool by_few = problem_.attributes.form == UHAL_SEGMENT_OFFSETS && !y_.in_place();
      const int64_t few =
          by_few ? std::max<int64_t>(kFewElementsOfSums / std::max<int64_t>(x_.length(), 1), 1) : segments;
      for (int64_t first = segments * begin / threads; first < last; first += few) {
        accumulate(all, 0, problem_.elements, first, std::min(first + few, last));
        finish(all, first, std::min(first + few, last));
      }
    });
  }

  void by_parts(const Accumulators<T>& all, int64_t parts) {
    const int64_t segments = problem_.segments;
    const auto of_part = [&](int64_t part) {
      return Accumulators<T>{all.rows + part * segments * all.stride, all.stride, all.counts + part * segments};
    };
    parallel_for(parts, kPartElements, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        accumulate(of_part(part), problem_.elements * part / parts, problem_.elements * (part + 1) / parts, 0,
                   segments);
      }
    });
    const int64_t length = x_.length();
    parallel_for(segments, parts * length, [&](int64_t first, int64_t last) {
      for (int64_t part = 1; part < parts; ++part) {
        const Accumulators<T> next = of_part(part);
        for (int64_t segment = first; segment < last; ++segment) {
          if (next.counts[segment] == 0) continue;
          T* sum = all.rows + segment * all.stride;
          const T* row = next.rows + segment * all.stride;
          const bool is_first = all.counts[segment] == 0;
          for (int64_t i = 0; i < length; ++i) sum[i] = is_first ? row[i] : Combine::of(sum[i], row[i]);
          all.counts[segment] += next.counts[segment];
        }
      }
      finish(all, first, last);
    });
  }

  const SegmentProblem& problem_;
  OutOfRange& outside_;
  ViewRows x_;
  ViewRows y_;
  ComputeType type_;
  const T* weights_ = nullptr;
  int64_t weight_step_ = 0;
  const T* repeated_ = nullptr;
  CombineRows combine_rows_ = nullptr;
  bool sums_stored_ = false;  // combine_rows_ takes rows as they are stored
  std::atomic<bool> exhausted_{false};
};

template <class T>
uhal_status run_as(const SegmentProblem& problem, ComputeType type, OutOfRange& outside) {
  switch (problem.attributes.reduction) {
    case UHAL_REDUCE_PRODUCT:
      return Reducer<T, Product>(problem, type, outside).run();
    case UHAL_REDUCE_MAXIMUM:
      return Reducer<T, Maximum>(problem, type, outside).run();
    case UHAL_REDUCE_MINIMUM:
      return Reducer<T, Minimum>(problem, type, outside).run();
    default:
      return Reducer<T, Sum>(problem, type, outside).run();
  }
}

uhal_status run_by_type(const SegmentProblem& problem, OutOfRange& outside) {
  const ComputeType type = compute_type_of(problem.x.dtype);
  switch (type) {
    case kFloat:
      return run_as<float>(problem, type, outside);
    case kDouble:
      return run_as<double>(problem, type, outside);
    case kInt64:
      return run_as<int64_t>(problem, type, outside);
    default:
      return run_as<uint64_t>(problem, type, outside);
  }
}

}  // namespace

void OutOfRange::report(const Launch& launch) const {
  if (!seen_.load(std::memory_order_relaxed)) return;
  char text[256];
  std::snprintf(text, sizeof text,
                "segment_reduce: %s %lld is out of range; expected 0 to %lld. Elements of no segment are left out, "
                "and rows that do not exist are zeros.",
                what_, static_cast<long long>(number_), static_cast<long long>(length_ - 1));
  const char* label = launch.op.label != nullptr ? launch.op.label : "segment_reduce";
  host().stream_error(launch.stream, UHAL_OUT_OF_RANGE, label, text);
}

const char* refuse_segment(const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_real(dtype)) return nullptr;
  return refusal(
      "segment_reduce: dtype %s is not supported; sums of complex numbers are those of their real and imaginary parts: "
      "give them as one more axis of length 2",
      dtype_name(dtype));
}

uhal_status run_segment(const Launch& launch) {
  const SegmentProblem problem(launch.op);
  OutOfRange outside(problem.attributes);
  const uhal_status status = run_by_type(problem, outside);
  if (status == UHAL_OK) outside.report(launch);
  return status;
}

}  // namespace unihal::stub
