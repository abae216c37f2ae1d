// Attention and its gradient on matrix cores: source/attention_matrix.cl. The gradient is a launch for what is known of
// each query, one for dq, and one for dk and dv: each result is written once, by one work-group, in a fixed order.
#include <algorithm>
#include <cstdint>

#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/attention.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// The kernels, and with that the meaning of a shape's numbers.
enum class Part { kForward, kByQuery, kByKey };

// How a kernel is compiled for heads of up to so many features: the macros of attention_matrix.cl.
struct Shape {
  MatrixForm form;
  Part part;
  int16_t head;
  int16_t warps, blocks, tile;
  int16_t own_in_registers;
  int16_t step, slice;  // of gradients
  int16_t groups = 0;   // that shall fit onto a unit at once; 0: whatever the compiler finds
  int16_t ahead = 0;    // of forward
  int16_t paired = 0;   // of gradients by key

  int64_t rows() const { return warps / (paired != 0 ? 2 : 1) * blocks * int64_t{16}; }
  // As the kernel's LOCAL_ELEMENTS.
  int64_t local_bytes() const {
    const bool has_panels = form == MatrixForm::kWarpgroup;
    const int64_t pitch = has_panels ? head : head + 8;
    const int64_t operands = part == Part::kForward ? 1 : 2;
    const int64_t statistics = part != Part::kByKey ? 0 : has_panels ? 512 : 4 * tile;
    const int64_t exchange = paired != 0 ? 2 * 64 * tile : 0;
    return 2 * (operands * rows() * pitch + 2 * (2 * tile * pitch + statistics) + exchange);
  }
};

constexpr MatrixForm kMma = MatrixForm::kMma;
constexpr MatrixForm kWmma = MatrixForm::kWmma;
constexpr MatrixForm kWarpgroup = MatrixForm::kWarpgroup;

// Of those with room for a head that a device can run, the first for which it has the local memory: the last of each
// head fit into 99 KiB, which all of NVIDIA's have from sm_80 on, and into 64 KiB, which all of AMD's have.
constexpr Shape kShapes[] = {
    {kMma, Part::kForward, 32, 4, 2, 64, 1, 0, 0},                   //
    {kWarpgroup, Part::kForward, 64, 4, 1, 64, 0, 0, 0, 4, 1},       //
    {kMma, Part::kForward, 64, 4, 2, 64, 1, 0, 0},                   //
    {kMma, Part::kForward, 96, 4, 2, 64, 0, 0, 0},                   //
    {kWarpgroup, Part::kForward, 128, 8, 1, 128, 0, 0, 0, 0, 1},     //
    {kMma, Part::kForward, 128, 4, 2, 64, 0, 0, 0},                  //
    {kMma, Part::kForward, 128, 4, 2, 32, 0, 0, 0},                  //
    {kWarpgroup, Part::kForward, 192, 8, 1, 96, 0, 0, 0, 0, 1},      //
    {kMma, Part::kForward, 160, 4, 2, 32, 0, 0, 0},                  //
    {kMma, Part::kForward, 192, 4, 1, 32, 0, 0, 0},                  //
    {kWarpgroup, Part::kForward, 256, 8, 1, 64, 0, 0, 0, 0, 1},      //
    {kMma, Part::kForward, 256, 4, 1, 32, 0, 0, 0},                  //
    {kMma, Part::kByQuery, 32, 4, 2, 64, 1, 32, 32},                 //
    {kWarpgroup, Part::kByQuery, 64, 8, 1, 64, 0, 64, 64, 2},        //
    {kMma, Part::kByQuery, 64, 4, 2, 64, 1, 32, 64},                 //
    {kMma, Part::kByQuery, 96, 4, 2, 32, 0, 32, 96},                 //
    {kWarpgroup, Part::kByQuery, 128, 4, 1, 64, 0, 64, 128, 2},      //
    {kMma, Part::kByQuery, 128, 4, 2, 32, 0, 32, 128},               //
    {kMma, Part::kByQuery, 128, 4, 1, 32, 0, 32, 128},               //
    {kWarpgroup, Part::kByQuery, 192, 8, 1, 64, 0, 64, 192},         //
    {kMma, Part::kByQuery, 160, 4, 1, 32, 0, 32, 160},               //
    {kMma, Part::kByQuery, 192, 4, 1, 32, 0, 32, 192},               //
    {kMma, Part::kByQuery, 192, 4, 1, 16, 0, 16, 192},               //
    {kWarpgroup, Part::kByQuery, 256, 8, 1, 32, 0, 32, 256},         //
    {kMma, Part::kByQuery, 256, 4, 1, 32, 0, 32, 256},               //
    {kMma, Part::kByQuery, 256, 4, 1, 16, 0, 16, 256},               //
    {kMma, Part::kByKey, 32, 4, 2, 64, 0, 32, 32},                   //
    {kWarpgroup, Part::kByKey, 64, 4, 1, 64, 0, 64, 64, 2},          //
    {kMma, Part::kByKey, 64, 4, 2, 64, 0, 32, 64},                   //
    {kMma, Part::kByKey, 96, 4, 1, 64, 0, 32, 96},                   //
    {kWarpgroup, Part::kByKey, 128, 4, 1, 64, 0, 64, 128, 2},        //
    {kMma, Part::kByKey, 128, 8, 1, 64, 0, 32, 128},                 //
    {kMma, Part::kByKey, 128, 4, 1, 32, 0, 32, 128},                 //
    {kWarpgroup, Part::kByKey, 192, 8, 1, 64, 0, 64, 192, 0, 0, 1},  //
    {kMma, Part::kByKey, 160, 4, 1, 32, 0, 32, 160},                 //
    {kMma, Part::kByKey, 192, 4, 1, 32, 0, 32, 96},                  //
    {kMma, Part::kByKey, 192, 4, 1, 16, 0, 16, 96},                  //
    {kWarpgroup, Part::kByKey, 256, 8, 1, 64, 0, 64, 256, 0, 0, 1},  //
    {kMma, Part::kByKey, 256, 4, 1, 32, 0, 32, 128},                 //
    {kMma, Part::kByKey, 256, 2, 1, 16, 0, 16, 128},                 //
    {kWmma, Part::kForward, 32, 4, 2, 64, 1, 0, 0},                  //
    {kWmma, Part::kForward, 64, 4, 2, 32, 1, 0, 0},                  //
    {kWmma, Part::kForward, 96, 4, 1, 32, 0, 0, 0},                  //
    {kWmma, Part::kForward, 128, 4, 1, 32, 0, 0, 0},                 //
    {kWmma, Part::kForward, 192, 2, 1, 32, 0, 0, 0},                 //
    {kWmma, Part::kForward, 256, 2, 1, 16, 0, 0, 0},                 //
    {kWmma, Part::kByQuery, 32, 4, 2, 32, 1, 32, 32},                //
    {kWmma, Part::kByQuery, 64, 4, 1, 32, 1, 32, 64},                //
    {kWmma, Part::kByQuery, 96, 4, 1, 16, 0, 16, 96},                //
    {kWmma, Part::kByQuery, 128, 4, 1, 16, 0, 16, 128},              //
    {kWmma, Part::kByQuery, 192, 2, 1, 16, 0, 16, 192},              //
    {kWmma, Part::kByQuery, 256, 1, 1, 16, 0, 16, 256},              //
    {kWmma, Part::kByKey, 32, 4, 1, 32, 1, 32, 32},                  //
    {kWmma, Part::kByKey, 64, 4, 1, 32, 0, 32, 64},                  //
    {kWmma, Part::kByKey, 96, 4, 1, 16, 0, 16, 96},                  //
    {kWmma, Part::kByKey, 128, 4, 1, 16, 0, 16, 64},                 //
    {kWmma, Part::kByKey, 192, 2, 1, 16, 0, 16, 96},                 //
    {kWmma, Part::kByKey, 256, 1, 1, 16, 0, 16, 128},                //
};
constexpr int64_t kMostFeatures = 256;
constexpr int64_t kPadding = 256;  // a multiple of the rows and the tiles of all shapes of gradients

// Panels are filled 16 bytes at a time, for which operands must be `vector`.
bool takes_form(const DeviceTraits& traits, MatrixForm form, bool vector) {
  if (form == kWarpgroup && !vector) return false;
  return form == traits.matrix_form || (form == kMma && has_mma(traits.matrix_form));
}

const Shape* find_shape(const DeviceTraits& traits, Part part, int64_t features, bool vector) {
  for (const Shape& shape : kShapes) {
    if (takes_form(traits, shape.form, vector) && shape.part == part && shape.head >= features &&
        shape.local_bytes() <= traits.launched_local_memory) {
      return &shape;
    }
  }
  return nullptr;
}

int64_t features_of(const uhal_op& op) { return std::max(op.inputs[0]->shape[3], op.inputs[2]->shape[3]); }

// Whether rows of an operand can be moved 16 bytes at a time.
bool moves_in_vectors(const uhal_tensor& view) {
  constexpr int64_t kElements = 8;
  if (reinterpret_cast<uintptr_t>(view.data) % 16 != 0 || view.shape[3] % kElements != 0 || view.strides[3] != 1) {
    return false;
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (view.shape[axis] > 1 && view.strides[axis] % kElements != 0) return false;
  }
  return true;
}

class MatrixAttention {
 public:
  MatrixAttention(Queue& queue, const uhal_op& op)
      : queue_(queue),
        op_(op),
        attributes_(attention_attributes(op)),
        mask_(input_of(op, 3)),
        batches_(op.inputs[0]->shape[0]),
        heads_(op.inputs[0]->shape[1]),
        queries_(op.inputs[0]->shape[2]),
        keys_(op.inputs[1]->shape[2]),
        depth_(op.inputs[0]->shape[3]),
        width_(op.inputs[2]->shape[3]),
        padded_((queries_ + kPadding - 1) / kPadding * kPadding) {
    for (int i = 0; i < op.input_count + op.output_count; ++i) {
      const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
      if (view == nullptr) continue;
      wide_ |= !fits_32_bits(*view);
      if (view != mask_ && view->rank == kAttentionAxes) vector_ &= moves_in_vectors(*view);
    }
    wide_ |= !fits_32_bits(batches_ * heads_ * (padded_ + keys_ + kPadding) * (depth_ + width_ + 1));
  }

  uhal_status forward() const;
  uhal_status backward() const;

 private:
  // What the kernels' sums and offsets are, in the workspace.
  struct Statistics {
    const float* sums;
    const float* offsets;
  };

  // The operands of attention_matrix_gradient.
  struct Gradient {
    Part part;
    const uhal_tensor *own, *other, *own_value, *other_value, *result, *value_result;
  };

  KernelSpec spec(const char* entry, const Shape& shape) const {
    KernelSpec spec(sources::attention_matrix, entry);
    spec.define("UHAL_WIDE_INDEX", wide_).define("UHAL_MATRIX_FORM", static_cast<int>(shape.form));
    spec.dtype("X", op_.inputs[0]->dtype).define("HEAD", shape.head).define("WARPS", shape.warps);
    spec.define("BLOCKS", shape.blocks).define("GROUPS", shape.groups).define("TILE", shape.tile);
    spec.define("VECTOR", vector_);
    spec.define("HAS_MASK", mask_ != nullptr);
    spec.define("OWN_IN_REGISTERS", shape.own_in_registers);
    spec.define("AHEAD", shape.ahead).define("PAIRED", shape.paired);
    if (shape.part == Part::kForward) return spec;
    return spec.define("BY_KEY", shape.part == Part::kByKey).define("STEP", shape.step).define("SLICE", shape.slice);
  }

  static Grid grid(const Shape& shape, int64_t groups) {
    Grid grid;
    grid.groups[0] = groups;
    grid.group_size[0] = shape.warps * 32;
    grid.local_bytes = static_cast<int32_t>(shape.local_bytes());
    return grid;
  }

  // Of scores as powers of two.
  double log2_scale() const { return attributes_.scale * 1.4426950408889634; }

  uhal_status form_statistics(const Statistics& statistics) const;
  uhal_status form_gradient(const Gradient& gradient, const Statistics& statistics) const;

  Queue& queue_;
  const uhal_op& op_;
  uhal_attention_attributes attributes_;
  const uhal_tensor* mask_;
  int64_t batches_, heads_, queries_, keys_, depth_, width_;
  int64_t padded_;  // queries of a head in the workspace
  bool wide_ = false;
  bool vector_ = true;
};

uhal_status MatrixAttention::forward() const {
  const Shape& shape = *find_shape(queue_.traits(), Part::kForward, features_of(op_), vector_);
  const uhal_tensor* logsumexp = output_of(op_, 1);
  const int64_t tiles = (queries_ + shape.rows() - 1) / shape.rows();
  const int64_t tasks = batches_ * heads_ * tiles;
  if (tasks == 0) return UHAL_OK;
  const uhal_tensor* operands[] = {op_.inputs[0], op_.inputs[1], op_.inputs[2], mask_, op_.outputs[0], logsumexp};
  Arguments arguments;
  AttentionIndices indices;
  indices.add(heads_).add(tiles).add(1).add(queries_).add(keys_).add(depth_).add(width_);
  for (const uhal_tensor* operand : operands) {
    arguments.pointer(data_of(operand));
    indices.add(AttentionStrides::of(operand, operand == logsumexp ? kAttentionAxes - 2 : kAttentionAxes - 1));
  }
  indices.append_to(arguments, wide_);
  arguments.float32(static_cast<float>(log2_scale())).int32(attributes_.causal != 0).int32(dtype_of(mask_));
  arguments.int32(dtype_of(logsumexp)).int32(logsumexp != nullptr);
  return queue_.run(spec("attention_matrix_forward", shape), arguments, grid(shape, tasks));
}

uhal_status MatrixAttention::form_statistics(const Statistics& statistics) const {
  constexpr int32_t kGroup = 128;
  constexpr int64_t kRows = 16;  // of a group
  const uhal_tensor *y = op_.inputs[4], *logsumexp = op_.inputs[5], *dy = op_.inputs[6];
  const int64_t count = batches_ * heads_ * padded_;
  if (count == 0) return UHAL_OK;
  Arguments arguments;
  arguments.pointer(y->data).pointer(dy->data).pointer(logsumexp->data);
  arguments.pointer(statistics.sums).pointer(statistics.offsets);
  AttentionIndices indices;
  indices.add(heads_).add(queries_).add(padded_).add(width_).add(count);
  indices.add(AttentionStrides::of(y)).add(AttentionStrides::of(dy));
  indices.add(AttentionStrides::of(logsumexp, kAttentionAxes - 2));
  indices.append_to(arguments, wide_);
  arguments.int32(logsumexp->dtype);
  Grid grid;
  grid.groups[0] = (count + kRows - 1) / kRows;
  grid.group_size[0] = kGroup;
  // The shape is of no account here: that of dq, so that both come from one compilation.
  const Shape& shape = *find_shape(queue_.traits(), Part::kByQuery, features_of(op_), vector_);
  return queue_.run(spec("attention_matrix_statistics", shape), arguments, grid);
}

uhal_status MatrixAttention::form_gradient(const Gradient& gradient, const Statistics& statistics) const {
  const bool by_key = gradient.part == Part::kByKey;
  const Shape& shape = *find_shape(queue_.traits(), gradient.part, features_of(op_), vector_);
  const int64_t rows = gradient.own->shape[2];
  const int64_t tiles = (rows + shape.rows() - 1) / shape.rows();
  const int64_t slices = (features_of(op_) + shape.slice - 1) / shape.slice;
  const int64_t tasks = batches_ * heads_ * tiles * slices;
  if (tasks == 0) return UHAL_OK;
  AttentionStrides mask_strides = AttentionStrides::of(mask_);
  if (by_key) std::swap(mask_strides.axes[2], mask_strides.axes[3]);
  Arguments arguments;
  AttentionIndices indices;
  indices.add(heads_).add(tiles).add(slices).add(rows).add(gradient.other->shape[2]).add(padded_);
  indices.add(depth_).add(width_);
  for (const uhal_tensor* operand : {gradient.own, gradient.other, gradient.own_value, gradient.other_value}) {
    arguments.pointer(operand->data);
    indices.add(AttentionStrides::of(operand));
  }
  indices.add(mask_strides);
  arguments.pointer(data_of(mask_)).pointer(statistics.sums).pointer(statistics.offsets);
  for (const uhal_tensor* operand : {gradient.result, gradient.value_result}) {
    arguments.pointer(data_of(operand));
    indices.add(AttentionStrides::of(operand));
  }
  indices.append_to(arguments, wide_);
  arguments.float32(static_cast<float>(log2_scale())).float32(static_cast<float>(attributes_.scale));
  arguments.int32(attributes_.causal != 0).int32(dtype_of(mask_));
  return queue_.run(spec("attention_matrix_gradient", shape), arguments, grid(shape, tasks));
}

uhal_status MatrixAttention::backward() const {
  const int64_t count = std::max<int64_t>(1, batches_ * heads_ * padded_);
  void* block;
  uhal_status status = queue_.workspace(2 * sizeof(float) * static_cast<size_t>(count), &block);
  if (status != UHAL_OK) return status;
  const Statistics statistics = {static_cast<float*>(block), static_cast<float*>(block) + count};
  status = form_statistics(statistics);
  const uhal_tensor *q = op_.inputs[0], *k = op_.inputs[1], *v = op_.inputs[2], *dy = op_.inputs[6];
  const Gradient gradients[] = {
      {Part::kByQuery, q, k, dy, v, op_.outputs[0], nullptr},
      {Part::kByKey, k, q, v, dy, op_.outputs[1], op_.outputs[2]},
  };
  for (const Gradient& gradient : gradients) {
    if (status == UHAL_OK) status = form_gradient(gradient, statistics);
  }
  return status;
}

}  // namespace

bool takes_matrix_attention(const DeviceTraits& traits, const uhal_op& op) {
  if (traits.matrix_form == MatrixForm::kNone) return false;
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (dtype != UHAL_FLOAT16 && dtype != UHAL_BFLOAT16) return false;
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
    if (view == nullptr) continue;
    const bool is_mask = i == 3;
    const bool is_sum = view->rank == kAttentionAxes - 1;
    // Masks and sums have dtypes of their own, but for one that asks for double arithmetic.
    if (is_mask || is_sum ? view->dtype == UHAL_FLOAT64 : view->dtype != dtype) return false;
  }
  // Maxima are of scores before they are scaled.
  const bool has_mask = input_of(op, 3) != nullptr;
  if (!has_mask && !(attention_attributes(op).scale > 0)) return false;
  const int64_t features = features_of(op);
  if (features > kMostFeatures || op.inputs[0]->shape[3] == 0 || op.inputs[2]->shape[3] == 0) return false;
  if (op.kind == UHAL_OP_ATTENTION) return find_shape(traits, Part::kForward, features, false) != nullptr;
  return find_shape(traits, Part::kByQuery, features, false) != nullptr &&
         find_shape(traits, Part::kByKey, features, false) != nullptr;
}

uhal_status run_matrix_attention(Queue& queue, const uhal_op& op) {
  const MatrixAttention attention(queue, op);
  return op.kind == UHAL_OP_ATTENTION ? attention.forward() : attention.backward();
}

}  // namespace unihal::kernels
