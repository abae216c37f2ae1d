// Attention and its gradient: source/attention.cl, or on matrix cores attention_matrix.cc. The gradient is three sums
// of one form, submitted one after the other.
#include "csrc/kernels/ops/attention.h"

#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

using Strides = AttentionStrides;
using Indices = AttentionIndices;
constexpr int kAxes = kAttentionAxes;

// The smaller of the two work-group sizes of attention.cl, for devices that cannot run the larger one.
constexpr int kSmallSide = 8;
constexpr int kSide = 16;
constexpr int64_t kLargeLocalMemory = 28 << 10;  // bytes that groups of kSide x kSide work-items need, at most

class Attention {
 public:
  Attention(Queue& queue, const uhal_op& op)
      : queue_(queue),
        op_(op),
        attributes_(attention_attributes(op)),
        compute_(floating_compute(op)),
        batches_(op.inputs[0]->shape[0]),
        heads_(op.inputs[0]->shape[1]),
        queries_(op.inputs[0]->shape[2]),
        keys_(op.inputs[1]->shape[2]),
        depth_(op.inputs[0]->shape[3]),
        width_(op.inputs[2]->shape[3]) {
    const DeviceTraits& traits = queue.traits();
    side_ = traits.max_group_size >= kSide * kSide && traits.local_memory >= kLargeLocalMemory ? kSide : kSmallSide;
    tile_ = side_ * (compute_ == Compute::kFloat ? 4 : 2);
    for (int i = 0; i < op.input_count + op.output_count; ++i) {
      const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
      if (view == nullptr) continue;
      wide_ |= !fits_32_bits(*view);
      // Masks and sums have dtypes of their own in any case.
      const bool is_mask = i == 3;
      const bool is_sum = view->rank == 3;
      mixed_ |= !is_mask && !is_sum && view->dtype != op.inputs[0]->dtype;
    }
    wide_ |= !fits_32_bits(batches_ * heads_ * (queries_ + keys_ + 2 * tile_) * (depth_ + width_ + 1));
  }

  uhal_status forward();
  uhal_status backward();

 private:
  // One of the sums that make up the gradient, in the words of attention_gradient.
  struct Gradient {
    const uhal_tensor *own, *other, *own_value, *other_value, *factor, *result;
    bool of_scores, by_key;
  };

  // How the work-groups share the rows and columns of a result.
  struct Tasks {
    int32_t columns_per_item;
    int64_t tasks, tiles, slices;
  };

  Tasks tasks(int64_t rows, int64_t columns) const {
    Tasks result;
    const int64_t per_item = (columns + side_ - 1) / side_;
    result.columns_per_item = per_item <= 2 ? 2 : per_item <= 4 || is_compact() ? 4 : 8;
    const int64_t slice = result.columns_per_item * side_;
    result.tiles = (rows + tile_ - 1) / tile_;
    result.slices = std::max<int64_t>(1, (columns + slice - 1) / slice);
    result.tasks = batches_ * heads_ * result.tiles * result.slices;
    return result;
  }

  // Whether work-items keep to their share; with eight columns the sums alone would take half of it.
  bool is_compact() const { return queue_.traits().item_share.registers != 0 && compute_ == Compute::kFloat && !wide_; }

  KernelSpec spec(const char* entry, int32_t columns_per_item) const {
    KernelSpec spec(sources::attention, entry);
    spec.compute(compute_).define("UHAL_WIDE_INDEX", wide_).define("SIDE", side_).define("COLUMNS", columns_per_item);
    spec.define("COMPACT", is_compact());
    if (mixed_) {
      spec.define("MIXED", 1);
    } else {
      spec.dtype("X", op_.inputs[0]->dtype);
    }
    return spec;
  }

  Grid grid(int64_t groups) const {
    Grid grid;
    grid.groups[0] = groups;
    grid.group_size[0] = side_ * side_;
    return grid;
  }
  const uhal_tensor* mask() const { return input_of(op_, 3); }

  uhal_status form_offsets(const void* offsets);
  uhal_status form_gradient(const Gradient& gradient, const void* offsets);

  Queue& queue_;
  const uhal_op& op_;
  uhal_attention_attributes attributes_;
  Compute compute_;
  int64_t batches_, heads_, queries_, keys_, depth_, width_;
  int32_t side_, tile_;
  bool wide_ = false;
  bool mixed_ = false;
};

uhal_status Attention::forward() {
  const uhal_tensor* logsumexp = output_of(op_, 1);
  const Tasks share = tasks(queries_, width_);
  if (share.tasks == 0) return UHAL_OK;
  const uhal_tensor* operands[] = {op_.inputs[0], op_.inputs[1], op_.inputs[2], mask(), op_.outputs[0], logsumexp};
  Arguments arguments;
  for (const uhal_tensor* operand : operands) arguments.pointer(data_of(operand));
  Indices indices;
  indices.add(heads_).add(share.tiles).add(share.slices);
  indices.add(queries_).add(keys_).add(depth_).add(width_);
  for (const uhal_tensor* operand : operands) {
    indices.add(Strides::of(operand, operand == logsumexp ? kAxes - 2 : kAxes - 1));
  }
  indices.append_to(arguments, wide_);
  int32_t dtypes[6];
  for (int i = 0; i < 6; ++i) dtypes[i] = dtype_of(operands[i]);
  arguments.bytes(dtypes, sizeof dtypes).real(attributes_.scale, compute_);
  arguments.int32(attributes_.causal != 0).int32(mask() != nullptr).int32(logsumexp != nullptr);
  return queue_.run(spec("attention_forward", share.columns_per_item), arguments, grid(share.tasks));
}

uhal_status Attention::form_offsets(const void* offsets) {
  const uhal_tensor& y = *op_.inputs[4];
  const uhal_tensor& dy = *op_.inputs[6];
  const int64_t count = batches_ * heads_ * queries_;
  if (count == 0) return UHAL_OK;
  Arguments arguments;
  const uhal_tensor& logsumexp = *op_.inputs[5];
  arguments.pointer(y.data).pointer(dy.data).pointer(logsumexp.data).pointer(offsets);
  Indices indices;
  indices.add(heads_).add(queries_).add(width_).add(count).add(Strides::of(&y)).add(Strides::of(&dy));
  indices.add(Strides::of(&logsumexp, kAxes - 2));
  indices.append_to(arguments, wide_);
  arguments.int32(y.dtype).int32(dy.dtype).int32(logsumexp.dtype);
  // COLUMNS is of no account here: the one that the gradient of q needs, so that both come from one compilation.
  return queue_.run(spec("attention_offsets", tasks(queries_, depth_).columns_per_item), arguments,
                    grid((count + side_ - 1) / side_));
}

uhal_status Attention::form_gradient(const Gradient& gradient, const void* offsets) {
  const int64_t rows = gradient.result->shape[2];
  const int64_t columns = gradient.result->shape[3];
  const Tasks share = tasks(rows, columns);
  if (share.tasks == 0 || columns == 0) return UHAL_OK;
  const uhal_tensor* operands[] = {gradient.own,    gradient.other, gradient.own_value, gradient.other_value,
                                   gradient.factor, mask(),         gradient.result};
  Arguments arguments;
  for (int i = 0; i < 6; ++i) arguments.pointer(data_of(operands[i]));
  arguments.pointer(offsets).pointer(gradient.result->data);
  Strides mask_strides = Strides::of(mask());
  if (gradient.by_key) std::swap(mask_strides.axes[2], mask_strides.axes[3]);
  Indices indices;
  indices.add(heads_).add(share.tiles).add(share.slices);
  indices.add(rows).add(gradient.by_key ? queries_ : keys_).add(depth_);
  indices.add(gradient.of_scores ? width_ : 0).add(columns);
  for (int i = 0; i < 5; ++i) indices.add(Strides::of(operands[i]));
  indices.add(mask_strides).add(Strides::of(gradient.result));
  indices.append_to(arguments, wide_);
  int32_t dtypes[7];
  for (int i = 0; i < 7; ++i) dtypes[i] = dtype_of(operands[i]);
  arguments.bytes(dtypes, sizeof dtypes).real(attributes_.scale, compute_);
  arguments.int32(attributes_.causal != 0).int32(mask() != nullptr);
  arguments.int32(gradient.of_scores).int32(gradient.by_key);
  return queue_.run(spec("attention_gradient", share.columns_per_item), arguments, grid(share.tasks));
}

uhal_status Attention::backward() {
  void* offsets;
  const int64_t bytes = 2 * batches_ * heads_ * queries_ * compute_bytes(compute_);
  uhal_status status = queue_.workspace(static_cast<size_t>(std::max<int64_t>(1, bytes)), &offsets);
  if (status == UHAL_OK) status = form_offsets(offsets);
  const uhal_tensor *q = op_.inputs[0], *k = op_.inputs[1], *v = op_.inputs[2], *dy = op_.inputs[6];
  const Gradient gradients[] = {
      {q, k, dy, v, k, op_.outputs[0], true, false},
      {k, q, v, dy, q, op_.outputs[1], true, true},
      {k, q, v, dy, dy, op_.outputs[2], false, true},
  };
  for (const Gradient& gradient : gradients) {
    if (status == UHAL_OK) status = form_gradient(gradient, offsets);
  }
  return status;
}

}  // namespace

const char* refuse_attention(const DeviceTraits& traits, const uhal_op& op) {
  if (traits.max_group_size < kSmallSide * kSmallSide) {
    return refusal("attention needs work-groups of %d items, and the device allows %d: compute it on the CPU",
                   kSmallSide * kSmallSide, traits.max_group_size);
  }
  return refuse_attention_dtypes(op);
}

uhal_status run_attention(Queue& queue, const uhal_op& op) {
  if (takes_matrix_attention(queue.traits(), op)) return run_matrix_attention(queue, op);
  Attention attention(queue, op);
  return op.kind == UHAL_OP_ATTENTION ? attention.forward() : attention.backward();
}

}  // namespace unihal::kernels
