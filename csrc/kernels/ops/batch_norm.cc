// Batch norm and its gradient: source/batch_norm.cl, and source/norm_sums.cl for the sums of the gradient.
#include <algorithm>

#include "csrc/kernels/map_function.h"
#include "csrc/kernels/norm_sums.h"
#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Work-items that join the pieces of a channel.
constexpr int64_t kMostChannelFinishers = 32;

// The stride of a vector over the channels, or of the channels of an image.
int64_t channel_stride(const uhal_tensor* view) {
  if (view == nullptr) return 0;
  return view->rank > 1 ? view->strides[1] : view->strides[0];
}

// What forward and backward share: the points of a channel, and the division of work.
class BatchNorm {
 public:
  // `images` are the operands of x's shape, x first: those of the kernels' layout.
  BatchNorm(Queue& queue, const uhal_op& op, const uhal_tensor* const* images, int count)
      : queue_(queue),
        attributes_(norm_attributes(op)),
        compute_(floating_compute(op)),
        channels_(images[0]->shape[1]),
        spaces_(spaces_of(op, images, count)),
        mixed_(differ(images, count)),
        unit_(mixed_ ? 1 : unit_of_inner(spaces_, images, count)),
        points_(in_units(spaces_.inner, unit_)),
        plan_(queue.traits(), channels_, points_.count, images[0]->strides[1], points_.strides[0][points_.rank - 1],
              unit_),
        kind_(layout_kind(points_)) {
    for (int i = 0; i < op.input_count + op.output_count; ++i) {
      const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
      kind_.wide |= view != nullptr && !kernels::fits_32_bits(*view);
    }
    kind_.wide |= !kernels::fits_32_bits(2 * plan_.pieces * channels_);
    dtype_ = images[0]->dtype;
  }

  const uhal_norm_attributes& attributes() const { return attributes_; }
  Compute compute() const { return compute_; }
  int64_t channels() const { return channels_; }
  int64_t elements() const { return spaces_.inner.count; }  // of a channel
  size_t moments_bytes() const { return static_cast<size_t>(2 * plan_.pieces * channels_ * compute_bytes(compute_)); }
  // Of teams that join the pieces of a channel; the others of the group have channels beside it.
  Teams finishers() const {
    Teams teams = plan_.teams;  // for their group
    teams.adjacent = false;
    teams.lanes =
        static_cast<int32_t>(std::min({power_of_two_from(plan_.pieces), kMostChannelFinishers, int64_t{teams.group}}));
    return teams;
  }
  Grid grid_of_pieces() const { return plan_.grid(channels_); }

  void append_points(Arguments& arguments) const { append_layout(arguments, points_, kind_); }
  void append_teams(Arguments& arguments) const { plan_.teams.append(arguments); }

  // The struct of the numbers of channels, points and pieces, and of the strides of `count` operands; then that of
  // their dtypes.
  void append_channels(Arguments& arguments, const uhal_tensor* const* operands, int count) const {
    int64_t members[16] = {channels_, points_.count, plan_.pieces};
    int32_t dtypes[13];
    for (int k = 0; k < count; ++k) {
      members[3 + k] = channel_stride(operands[k]);
      dtypes[k] = dtype_of(operands[k]);
    }
    append_indices(arguments, members, 3 + count, kind_.wide);
    arguments.bytes(dtypes, sizeof(int32_t) * static_cast<size_t>(count));
  }

  uhal_status run(const char* entry, const Arguments& arguments, const Grid& grid) const {
    KernelSpec spec(sources::batch_norm, entry);
    spec.compute(compute_);
    kind_.define(spec);
    plan_.teams.define(spec);
    define_activation(spec, attributes_.activation);
    spec.define("UNIT", unit_);
    if (mixed_) {
      spec.define("MIXED", 1);
    } else {
      spec.dtype("X", dtype_);
    }
    return queue_.run(spec, arguments, grid);
  }

 private:
  static NormSpaces spaces_of(const uhal_op& op, const uhal_tensor* const* images, int count) {
    NormOperand operands[kMaxOperands];
    for (int k = 0; k < count; ++k) operands[k] = {images[k], NormOperand::kElements};
    return NormAxes(op, operands, count).by_statistic();
  }

  static bool differ(const uhal_tensor* const* images, int count) {
    bool differ = false;
    for (int k = 0; k < count; ++k) differ |= images[k]->dtype != images[0]->dtype;
    return differ;
  }

  static Space in_units(Space space, int64_t unit) {
    count_in_units(space, unit);
    return space;
  }

  Queue& queue_;
  uhal_norm_attributes attributes_;
  Compute compute_;
  int64_t channels_;
  NormSpaces spaces_;
  bool mixed_;
  int64_t unit_;  // UNIT
  Space points_;  // of a channel, in units
  ColumnPlan plan_;
  LayoutKind kind_;
  uhal_dtype dtype_;
};

// A vector over the channels in the workspace.
uhal_tensor workspace_vector(void* data, int64_t channels, Compute compute) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = data;
  view.dtype = compute_dtype(compute);
  view.rank = 1;
  view.shape[0] = channels;
  view.strides[0] = 1;
  return view;
}

// Mean and variance of the batch, into the outputs that take them, the running ones among them, and as the first two
// rows of `moments`.
uhal_status take_statistics(const BatchNorm& norm, const uhal_op& op, const uhal_tensor* const* operands,
                            void* moments) {
  Arguments arguments;
  arguments.pointer(operands[0]->data).pointer(moments);
  norm.append_points(arguments);
  norm.append_channels(arguments, operands, 6);
  norm.append_teams(arguments);
  uhal_status status = norm.run("batch_moments", arguments, norm.grid_of_pieces());
  if (status != UHAL_OK) return status;

  const uhal_tensor* statistics[] = {output_of(op, 1), output_of(op, 2), input_of(op, 3),
                                     input_of(op, 4),  output_of(op, 3), output_of(op, 4)};
  Arguments last;
  last.pointer(moments);
  for (const uhal_tensor* vector : statistics) last.pointer(data_of(vector));
  norm.append_channels(last, statistics, 6);
  const double points = static_cast<double>(norm.elements());
  const bool unbiased = norm.attributes().unbiased_running != 0 && points > 1;
  last.real(points > 0 ? norm.attributes().momentum : 1, norm.compute());
  last.real(unbiased ? points / (points - 1) : 1, norm.compute());
  last.int32(statistics[0] != nullptr).int32(statistics[1] != nullptr);
  last.int32(statistics[2] != nullptr && statistics[4] != nullptr);
  last.int32(statistics[3] != nullptr && statistics[5] != nullptr);
  const Teams teams = norm.finishers();
  teams.append(last);
  return norm.run("finish_batch_moments", last, teams.grid(norm.channels()));
}

uhal_status normalize_channels(Queue& queue, const uhal_op& op) {
  const uhal_tensor* images[] = {op.inputs[0], op.outputs[0]};
  const BatchNorm norm(queue, op, images, 2);
  if (norm.channels() == 0) return UHAL_OK;
  const uhal_tensor* operands[] = {op.inputs[0],    op.outputs[0],   input_of(op, 1),
                                   input_of(op, 2), input_of(op, 3), input_of(op, 4)};
  uhal_tensor mean, variance;
  if (norm.attributes().inference == 0) {
    void* moments;
    uhal_status status = queue.workspace(norm.moments_bytes(), &moments);
    if (status == UHAL_OK) status = take_statistics(norm, op, operands, moments);
    if (status != UHAL_OK) return status;
    mean = workspace_vector(moments, norm.channels(), norm.compute());
    variance = mean;
    variance.data = static_cast<char*>(moments) + norm.channels() * compute_bytes(norm.compute());
    operands[4] = &mean;
    operands[5] = &variance;
  }
  if (norm.elements() == 0) return UHAL_OK;
  Arguments arguments;
  for (const uhal_tensor* operand : operands) arguments.pointer(data_of(operand));
  norm.append_points(arguments);
  norm.append_channels(arguments, operands, 6);
  arguments.real(norm.attributes().epsilon, norm.compute());
  arguments.int32(operands[2] != nullptr).int32(operands[3] != nullptr);
  norm.append_teams(arguments);
  return norm.run("batch_normalize", arguments, norm.grid_of_pieces());
}

uhal_status channel_gradients(Queue& queue, const uhal_op& op) {
  const uhal_tensor *x = op.inputs[0], *dy = op.inputs[1], *dx = op.outputs[0];
  const uhal_tensor *dscale = output_of(op, 1), *dbias = output_of(op, 2);
  const uhal_tensor* images[] = {x, dy, dx};
  const BatchNorm norm(queue, op, images, 3);
  if (norm.channels() == 0) return UHAL_OK;
  const bool constant = norm.attributes().inference != 0;
  void* workspace = nullptr;
  if (!constant || dscale != nullptr || dbias != nullptr) {
    const NormSums sums(queue.traits(), op, {x, dy, op.inputs[3], op.inputs[4], dscale, dbias, false});
    uhal_status status = queue.workspace(sums.workspace_bytes(), &workspace);
    if (status == UHAL_OK) status = sums.run(queue, workspace);
    if (status != UHAL_OK) return status;
  }
  if (norm.elements() == 0) return UHAL_OK;
  const uhal_tensor* operands[] = {x, dy, dx, input_of(op, 2), op.inputs[3], op.inputs[4]};
  Arguments arguments;
  for (const uhal_tensor* operand : operands) arguments.pointer(data_of(operand));
  arguments.pointer(workspace);
  norm.append_points(arguments);
  norm.append_channels(arguments, operands, 6);
  arguments.real(norm.attributes().epsilon, norm.compute()).int32(operands[3] != nullptr).int32(constant);
  norm.append_teams(arguments);
  return norm.run("batch_gradient", arguments, norm.grid_of_pieces());
}

}  // namespace

const char* refuse_batch_norm(const DeviceTraits&, const uhal_op& op) { return refuse_norm_operands(op); }

uhal_status run_batch_norm(Queue& queue, const uhal_op& op) {
  return op.kind == UHAL_OP_BATCH_NORM ? normalize_channels(queue, op) : channel_gradients(queue, op);
}

}  // namespace unihal::kernels
