// UHAL_OP_SORT and UHAL_OP_TOP_K: top_k is a sort of which every step keeps the first k.

#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/rows.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kMergedByItem = 8;  // ITEMS of sort_merge.cl

const char* name_of(const uhal_op& op) { return op.kind == UHAL_OP_SORT ? "sort" : "top_k"; }

uhal_axis_attributes sort_attributes(const uhal_op& op) {
  return attributes_or(op, uhal_axis_attributes{sizeof(uhal_axis_attributes), 0, 0});
}

// Sorted runs in the workspace, rows of them.
struct Runs {
  char* keys;
  char* positions;
};

class Sort {
 public:
  Sort(Queue& queue, const uhal_op& op)
      : queue_(queue),
        x_(*op.inputs[0]),
        values_(*op.outputs[0]),
        indices_(output_of(op, 1)),
        attributes_(sort_attributes(op)),
        rows_(Views(x_, values_, indices_).pointers, 3, attributes_.axis),
        limit_(values_.shape[attributes_.axis]),
        key_bits_(dtype_size(x_.dtype) == 8 ? 64 : 32),
        group_(team_group_size(queue.traits())),
        tile_(group_ * (key_bits_ == 64 ? 4 : 8)),
        tiles_((rows_.length + tile_ - 1) / tile_) {}

  uhal_status run() {
    if (rows_.count() == 0 || limit_ == 0) return UHAL_OK;
    if (tiles_ == 1) return sort_tiles({nullptr, nullptr});

    // Two sets of runs, from one to the other and back.
    const int64_t elements = rows_.count() * row_stride(tile_);
    const int64_t key_bytes = (elements * key_bits_ / 8 + 15) / 16 * 16;
    const int64_t bytes = key_bytes + (elements * 4 + 15) / 16 * 16;
    void* memory;
    uhal_status status = queue_.workspace(static_cast<size_t>(2 * bytes), &memory);
    if (status != UHAL_OK) return status;
    char* const base = static_cast<char*>(memory);
    Runs runs = {base, base + key_bytes};
    Runs merged = {base + bytes, base + bytes + key_bytes};

    status = sort_tiles(runs);
    for (int64_t span = tile_; status == UHAL_OK && span < rows_.length; span *= 2) {
      status = merge(runs, merged, span);
      std::swap(runs, merged);
    }
    return status == UHAL_OK ? write_results(runs) : status;
  }

 private:
  // Absent indices take the layout of the values.
  struct Views {
    Views(const uhal_tensor& x, const uhal_tensor& values, const uhal_tensor* indices)
        : pointers{&x, &values, indices != nullptr ? indices : &values} {}
    const uhal_tensor* pointers[3];
  };

  // Elements from one row of runs of `span` elements to the next.
  int64_t row_stride(int64_t span) const {
    const int64_t runs = (rows_.length + span - 1) / span;
    return std::min(rows_.length, runs * std::min(span, limit_));
  }

  KernelSpec spec(const char* entry) const {
    KernelSpec spec(sources::sort, entry);
    spec.compute(compute_of(x_.dtype)).dtype("X", x_.dtype).define("KEY_BITS", key_bits_).define("TILE", tile_);
    rows_.kind.define(spec);
    spec.define("UHAL_GROUP", group_);
    return spec;
  }

  Arguments& append_operands(Arguments& arguments) const {
    return arguments.pointer(x_.data).pointer(values_.data).pointer(data_of(indices_));
  }

  int32_t indices_dtype() const { return indices_ != nullptr ? indices_->dtype : UHAL_DTYPE_INVALID; }

  uhal_status sort_tiles(const Runs& runs) {
    const int64_t width = tiles_ > 1 ? tile_ : power_of_two_from(rows_.length);
    Arguments arguments;
    append_operands(arguments).pointer(runs.keys).pointer(runs.positions);
    rows_.append(arguments);
    for (int64_t value : {limit_, tiles_, row_stride(tile_)}) append_index(arguments, value, rows_.kind.wide);
    arguments.int32(static_cast<int32_t>(width));
    arguments.int32((attributes_.flags & UHAL_AXIS_DESCENDING) != 0).int32(indices_dtype());
    const int64_t units = (rows_.count() + tile_ / width - 1) / (tile_ / width) * tiles_;
    return queue_.run(spec("sort_tiles"), arguments, linear_grid(units * group_, group_));
  }

  uhal_status merge(const Runs& runs, const Runs& merged, int64_t span) {
    KernelSpec spec(sources::sort_merge, "sort_merge");
    spec.define("KEY_BITS", key_bits_).define("UHAL_WIDE_INDEX", rows_.kind.wide).define("UHAL_RANK", 4);
    spec.define("UHAL_GROUP", group_);
    Arguments arguments;
    arguments.pointer(runs.keys).pointer(runs.positions).pointer(merged.keys).pointer(merged.positions);
    for (int64_t value : {rows_.count(), rows_.length, limit_, span, row_stride(span), row_stride(2 * span)}) {
      append_index(arguments, value, rows_.kind.wide);
    }
    const int64_t pairs = (rows_.length + 2 * span - 1) / (2 * span);
    const int64_t shares = (std::min(2 * span, limit_) + kMergedByItem - 1) / kMergedByItem;
    return queue_.run(spec, arguments, linear_grid(rows_.count() * pairs * shares, group_));
  }

  uhal_status write_results(const Runs& runs) {
    Arguments arguments;
    append_operands(arguments).pointer(runs.positions);
    rows_.append(arguments);
    append_index(arguments, limit_, rows_.kind.wide);
    arguments.int32(indices_dtype());
    return queue_.run(spec("sort_result"), arguments, linear_grid(rows_.count() * limit_, group_));
  }

  Queue& queue_;
  const uhal_tensor& x_;
  const uhal_tensor& values_;
  const uhal_tensor* indices_;
  const uhal_axis_attributes attributes_;
  const Rows rows_;
  const int64_t limit_;  // results per row
  const int key_bits_;
  const int32_t group_;
  const int64_t tile_;   // elements that a work-group sorts in local memory
  const int64_t tiles_;  // of a row
};

}  // namespace

const char* refuse_sort(const DeviceTraits&, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  if (!is_real(x.dtype)) {
    return refusal("%s: dtype %s is not supported; complex numbers have no order and can be copied and cast only",
                   name_of(op), dtype_name(x.dtype));
  }
  const int axis = sort_attributes(op).axis;
  if (x.shape[axis] > INT32_MAX / 2) {
    return refusal("%s: axis %d has length %lld; expected at most %d: sort parts of it", name_of(op), axis,
                   static_cast<long long>(x.shape[axis]), INT32_MAX / 2);
  }
  return nullptr;
}

uhal_status run_sort(Queue& queue, const uhal_op& op) { return Sort(queue, op).run(); }

}  // namespace unihal::kernels
