// UHAL_OP_SEGMENT_REDUCE.
//
// Elements are met in the order of their segments: unsorted ids are put in order first, equal ones as they come, which
// moves ids and no rows. Then each work-item combines a chunk of elements at one place of their rows, and what chunks
// have of a segment together is combined in further launches, each over a thirty-second of what the one before had: one
// long segment is no slower than many short ones. No atomic operations on data, and the same bits each time.
//
// One number for all elements (counting, histograms) goes another way: counts in local memory, or, of many segments, in
// global memory.

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/stable_order.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Elements of a chunk. Of long rows neighbouring work-items read neighbours; of short ones each reads its own elements,
// which should not be further apart than a line of memory.
constexpr int64_t kChunk = 64;
constexpr int64_t kChunkOfShortRows = 16;
constexpr int64_t kShortRow = 16;

constexpr int64_t kWideUnit = 4;

// Segments that are counted in local memory.
constexpr int64_t kMostBins = 4096;

uhal_segment_attributes segment_attributes(const uhal_op& op) {
  return attributes_or(
      op, uhal_segment_attributes{sizeof(uhal_segment_attributes), UHAL_REDUCE_SUM, UHAL_SEGMENT_UNSORTED, 0, 0, 0, 0});
}

int64_t elements_of(const uhal_op& op) {
  return input_of(op, 2) != nullptr ? op.inputs[2]->shape[0] : op.inputs[0]->shape[0];
}

// The axes of a view but the first.
uhal_tensor row_of(const uhal_tensor& view) {
  uhal_tensor row = view;
  --row.rank;
  std::copy_n(view.shape + 1, row.rank, row.shape);
  std::copy_n(view.strides + 1, row.rank, row.strides);
  return row;
}

// Device memory for one array after the other, each aligned to 256 bytes.
size_t take(size_t* used, int64_t bytes) {
  const size_t offset = *used;
  *used += (static_cast<size_t>(bytes) + 255) / 256 * 256;
  return offset;
}

class SegmentReduce {
 public:
  SegmentReduce(Queue& queue, const uhal_op& op)
      : queue_(queue),
        op_(op),
        x_(*op.inputs[0]),
        ids_(*op.inputs[1]),
        indices_(input_of(op, 2)),
        weights_(input_of(op, 3)),
        y_(*op.outputs[0]),
        counts_(output_of(op, 1)),
        attributes_(segment_attributes(op)),
        elements_(elements_of(op)),
        segments_(y_.shape[0]),
        x_row_(row_of(x_)),
        y_row_(row_of(y_)),
        row_(make_row(x_row_, y_row_)),
        unit_(unit()),
        group_(std::min(256, queue.traits().max_group_size)) {}

  uhal_status run() {
    if (attributes_.ignore_out_of_range == 0 && elements_ > 0) {
      const uhal_status status = queue_.error_cell(op_, &cell_, &ticket_);
      if (status != UHAL_OK) return status;
    }
    if (counts_only()) return count();
    uhal_status status = fill_view(queue_, attributes_.empty, attributes_.integer_empty, y_);
    if (status == UHAL_OK && counts_ != nullptr && elements_ == 0) status = fill_view(queue_, 0, 0, *counts_);
    if (status != UHAL_OK || elements_ == 0) return status;
    return reduce();
  }

 private:
  static Space make_row(const uhal_tensor& x_row, const uhal_tensor& y_row) {
    const uhal_tensor* views[] = {&x_row, &y_row};
    return make_space(views, 2);
  }

  // -- one number for all elements

  int64_t most_bins() const { return std::min(kMostBins, queue_.traits().local_memory / 2 / 4); }

  bool counts_only() const {
    return attributes_.form == UHAL_SEGMENT_UNSORTED && attributes_.reduction == UHAL_REDUCE_SUM &&
           is_integer(x_.dtype) && indices_ == nullptr && weights_ == nullptr && row_.count == 1 && elements_ > 1 &&
           x_.strides[0] == 0 && segments_ > 0;
  }

  uhal_status count() {
    const DeviceTraits& traits = queue_.traits();
    const int64_t wanted = traits.is_cpu ? traits.compute_units : int64_t{8} * traits.compute_units;
    Grid grid;
    grid.groups[0] = std::clamp((elements_ + 16 * group_ - 1) / (16 * group_), int64_t{1}, wanted);
    grid.group_size[0] = group_;
    const bool locally = segments_ <= most_bins();
    const int64_t parts = locally ? grid.groups[0] : 1;
    void* partials;
    uhal_status status = queue_.workspace(static_cast<size_t>(parts * segments_ * 4), &partials);
    if (status == UHAL_OK && !locally) {
      uhal_tensor counts = y_;  // of its first axis
      counts.data = partials;
      counts.dtype = UHAL_INT32;
      counts.rank = 1;
      counts.strides[0] = 1;
      status = fill_view(queue_, 0, 0, counts);
    }
    if (status != UHAL_OK) return status;
    const bool wide = !fits_32_bits(ids_) || !fits_32_bits(y_) || !fits_32_bits(elements_ + grid.groups[0] * group_);
    const auto spec = [&](const char* entry) {
      KernelSpec spec(sources::histogram, entry);
      // Few sizes, since each is a program.
      const int64_t bins = std::min(most_bins(), segments_ <= 256 ? 256 : kMostBins);
      spec.define("BINS", locally ? bins : 0).define("UHAL_GROUP", group_);
      return spec.define("UHAL_WIDE_INDEX", wide);
    };
    Arguments counted;
    counted.pointer(ids_.data).pointer(partials).pointer(cell_).int64(ticket_);
    for (int64_t value : {elements_, ids_.strides[0], segments_}) append_index(counted, value, wide);
    counted.int32(ids_.dtype == UHAL_INT64).int32(attributes_.ignore_negative);
    status = queue_.run(spec("histogram"), counted, grid);
    if (status != UHAL_OK) return status;

    const Compute compute = compute_of(x_.dtype);
    KernelSpec join = spec("histogram_join");
    join.compute(compute).dtype("X", x_.dtype);
    Arguments joined;
    joined.pointer(partials).pointer(x_.data).pointer(y_.data).pointer(data_of(counts_));
    joined.value_of(attributes_.integer_empty);
    for (int64_t value : {parts, segments_, y_.strides[0], counts_ != nullptr ? counts_->strides[0] : 0}) {
      append_index(joined, value, wide);
    }
    joined.int32(counts_ != nullptr ? counts_->dtype : UHAL_DTYPE_INVALID);
    return queue_.run(join, joined, linear_grid(segments_, group_));
  }

  // -- anything else

  // Neighbours of a row that a work-item takes together: x and y lie in order then, their rows aligned.
  int64_t unit() const {
    const int64_t bytes = kWideUnit * dtype_size(x_.dtype);
    const auto starts_aligned = [bytes](const uhal_tensor& view) {
      return reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(bytes) == 0 &&
             (view.shape[0] == 1 || view.strides[0] % kWideUnit == 0);
    };
    const bool in_order = row_.rank == 1 && row_.strides[0][0] == 1 && row_.strides[1][0] == 1;
    return in_order && row_.count % kWideUnit == 0 && starts_aligned(x_) && starts_aligned(y_) ? kWideUnit : 1;
  }

  // Chunks of a launch over so many elements or partial sums.
  int64_t chunk_of(bool partial) const { return partial || row_.count >= kShortRow ? kChunk : kChunkOfShortRows; }
  int64_t chunks_of(int64_t elements, bool partial) const {
    return (elements + chunk_of(partial) - 1) / chunk_of(partial);
  }

  uhal_status reduce() {
    const bool sorts = attributes_.form == UHAL_SEGMENT_UNSORTED;
    const bool means = attributes_.reduction == UHAL_REDUCE_MEAN;
    const StableOrder sort(queue_.traits(), elements_, static_cast<uint32_t>(segments_ + 1));
    const Compute compute = compute_of(x_.dtype);
    const int64_t chunks = chunks_of(elements_, false);
    const int64_t partials = chunks > 1 ? 2 * chunks : 0;
    const int64_t later_partials = partials > 0 ? 2 * chunks_of(partials, true) : 0;
    const int64_t value_bytes = row_.count * compute_bytes(compute);
    size_t used = 0;
    const size_t keys_at = take(&used, elements_ * 4);
    const size_t sort_at = take(&used, sorts ? static_cast<int64_t>(sort.bytes()) : 0);
    const size_t counts_at = take(&used, means ? segments_ * 4 : 0);
    const size_t partial_keys_at[] = {take(&used, partials * 4), take(&used, later_partials * 4)};
    const size_t partials_at[] = {take(&used, partials * value_bytes), take(&used, later_partials * value_bytes)};
    void* workspace;
    uhal_status status = queue_.workspace(used, &workspace);
    if (status != UHAL_OK) return status;
    char* const block = static_cast<char*>(workspace);

    wide_ = !fits_32_bits(x_) || !fits_32_bits(y_) || !fits_32_bits(ids_) || !fits_32_bits(2 * partials * row_.count) ||
            !fits_32_bits(chunks * row_.count) || (indices_ != nullptr && !fits_32_bits(*indices_)) ||
            (weights_ != nullptr && !fits_32_bits(*weights_));
    const void* keys = block + keys_at;
    const void* order = nullptr;
    const StableOrder::FirstCounts counts = sorts ? sort.first_counts(block + sort_at) : StableOrder::FirstCounts{};
    status = find_keys(block + keys_at, counts);
    if (status == UHAL_OK && sorts) {
      status = sort.run(queue_, block + keys_at, block + sort_at, &keys, &order, counts.digits > 0);
    }
    if (status == UHAL_OK && means) status = count_segments(keys, block + counts_at, 1, false);
    if (status == UHAL_OK && counts_ != nullptr) {
      status = count_segments(keys, counts_->data, counts_->strides[0], counts_->dtype == UHAL_INT64);
    }
    if (row_.count == 0) return status;

    const void* values = x_.data;
    bool partial = false;
    for (int64_t left = elements_, round = 0; status == UHAL_OK; ++round) {
      const int64_t launched = chunks_of(left, partial);
      char* const to_keys = block + partial_keys_at[round % 2];
      char* const to = block + partials_at[round % 2];
      status = combine(partial, values, keys, order, block + counts_at, to_keys, to, left, launched, compute);
      if (launched == 1) break;
      left = 2 * launched;
      values = to;
      keys = to_keys;
      partial = true;
    }
    return status;
  }

  KernelSpec spec(const char* entry) const {
    KernelSpec spec(sources::segment, entry);
    spec.define("UHAL_WIDE_INDEX", wide_);
    return spec;
  }

  uhal_status find_keys(void* keys, const StableOrder::FirstCounts& counts) {
    const bool counted = counts.digits > 0;
    Arguments arguments;
    arguments.pointer(ids_.data).pointer(keys);
    if (counted) arguments.pointer(counts.totals);
    arguments.pointer(cell_).int64(ticket_);
    for (int64_t value : {elements_, ids_.strides[0], segments_}) append_index(arguments, value, wide_);
    arguments.int32(ids_.dtype == UHAL_INT64);
    if (!counted) arguments.int32(attributes_.form == UHAL_SEGMENT_OFFSETS);
    arguments.int32(attributes_.ignore_negative);
    KernelSpec keys_of = spec(counted ? "segment_keys_counted" : "segment_keys");
    keys_of.define("UHAL_RANK", 4);
    if (!counted) return queue_.run(keys_of, arguments, linear_grid(elements_, group_));
    arguments.int32(counts.digits);
    keys_of.define("UHAL_GROUP", counts.group).define("TILE", counts.tile);
    return queue_.run(keys_of, arguments, counts.grid(elements_));
  }

  uhal_status count_segments(const void* keys, void* counts, int64_t step, bool is_int64) {
    if (segments_ == 0) return UHAL_OK;
    Arguments arguments;
    arguments.pointer(keys).pointer(counts);
    for (int64_t value : {elements_, segments_, step}) append_index(arguments, value, wide_);
    arguments.int32(is_int64);
    KernelSpec counts_of = spec("segment_counts");
    counts_of.define("UHAL_RANK", 4);
    return queue_.run(counts_of, arguments, linear_grid(segments_, group_));
  }

  uhal_status combine(bool partial, const void* values, const void* keys, const void* order, const void* counts,
                      void* partial_keys, void* partials, int64_t elements, int64_t chunks, Compute compute) {
    LayoutKind kind = layout_kind(row_);
    kind.wide = wide_;
    KernelSpec reduce(sources::segment, "segment_reduce");
    reduce.compute(compute).dtype("X", x_.dtype).define("PARTIAL", partial).define("UNIT", unit_);
    const bool is_sum = attributes_.reduction == UHAL_REDUCE_SUM || attributes_.reduction == UHAL_REDUCE_MEAN;
    reduce.define("COMBINE", is_sum ? 0 : attributes_.reduction);
    reduce.define("HAS_INDICES", !partial && indices_ != nullptr)
        .define("HAS_WEIGHTS", !partial && weights_ != nullptr);
    kind.define(reduce);
    Arguments arguments;
    arguments.pointer(values).pointer(keys).pointer(order).pointer(data_of(indices_)).pointer(data_of(weights_));
    arguments.pointer(counts).pointer(y_.data).pointer(partial_keys).pointer(partials).pointer(cell_).int64(ticket_);
    append_layout(arguments, row_, kind);
    const int64_t work[] = {elements,
                            row_.count,
                            chunk_of(partial),
                            chunks,
                            segments_,
                            x_.shape[0],
                            x_.strides[0],
                            y_.strides[0],
                            indices_ != nullptr ? indices_->strides[0] : 0,
                            weights_ != nullptr ? weights_->strides[0] : 0};
    append_indices(arguments, work, 10, wide_);
    append_neutral(arguments, combining_step(attributes_.reduction), x_.dtype, compute);
    arguments.int32(attributes_.reduction).int32(order != nullptr);
    arguments.int32(indices_ != nullptr && indices_->dtype == UHAL_INT64).int32(attributes_.ignore_negative);
    return queue_.run(reduce, arguments, linear_grid(chunks * (row_.count / unit_), group_));
  }

  Queue& queue_;
  const uhal_op& op_;
  const uhal_tensor& x_;
  const uhal_tensor& ids_;
  const uhal_tensor* indices_;
  const uhal_tensor* weights_;
  const uhal_tensor& y_;
  const uhal_tensor* counts_;
  const uhal_segment_attributes attributes_;
  const int64_t elements_;
  const int64_t segments_;
  const uhal_tensor x_row_;
  const uhal_tensor y_row_;
  const Space row_;
  const int64_t unit_;
  const int32_t group_;
  void* cell_ = nullptr;
  int64_t ticket_ = 0;
  bool wide_ = false;
};

}  // namespace

const char* refuse_segment(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (!is_real(dtype)) {
    return refusal(
        "segment_reduce: dtype %s is not supported; sums of complex numbers are those of their real and imaginary "
        "parts: "
        "give them as one more axis of length 2",
        dtype_name(dtype));
  }
  if (elements_of(op) < kMostOrdered && op.outputs[0]->shape[0] < kMostOrdered - 2) return nullptr;
  return refusal("segment_reduce: more than 2^30 elements or segments cannot be put in order; reduce parts of them");
}

uhal_status run_segment(Queue& queue, const uhal_op& op) { return SegmentReduce(queue, op).run(); }

}  // namespace unihal::kernels
