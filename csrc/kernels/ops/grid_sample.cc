// UHAL_OP_GRID_SAMPLE and its gradients. That of the images is a scatter: what places add to pixels is put in the order
// of the pixels first, so that each sum has one order and needs no atomic operations.
#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/op_names.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/stable_order.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Channels of a work-item where those of a place are far from each other; they share the work of finding it.
constexpr int64_t kLeastShare = 8;
constexpr int64_t kManyItems = int64_t{1} << 17;
constexpr int kMostMembers = 37;  // of the struct Plan of grid_sample.cl

uhal_grid_sample_attributes grid_sample_attributes(const uhal_op& op) {
  return attributes_or(op, uhal_grid_sample_attributes{sizeof(uhal_grid_sample_attributes), UHAL_GRID_SAMPLE_LINEAR,
                                                       UHAL_GRID_SAMPLE_ZEROS, 0, 0, 0, 0});
}

// An op of any of the kinds.
struct GridSampleProblem {
  uhal_grid_sample_attributes attributes;
  const uhal_tensor* x;  // or dx
  const uhal_tensor* grid;
  const uhal_tensor* images;  // nullptr: grids and images have the same numbers
  const uhal_tensor* y;       // or dy
  const uhal_tensor* dgrid;   // the grid where there is none
  int axes;
  int64_t places = 1;  // of all images
  int64_t pixels = 1;  // of one image of x
  int64_t taps = 1;    // of a place

  explicit GridSampleProblem(const uhal_op& op) : attributes(grid_sample_attributes(op)) {
    const bool forward = op.kind == UHAL_OP_GRID_SAMPLE, of_data = op.kind == UHAL_OP_GRID_SAMPLE_BACKWARD_DATA;
    x = forward ? op.inputs[0] : of_data ? op.outputs[0] : op.inputs[1];
    grid = forward || of_data ? op.inputs[1] : op.inputs[2];
    images = input_of(op, forward || of_data ? 2 : 3);
    y = forward ? op.outputs[0] : op.inputs[0];
    dgrid = forward || of_data ? grid : op.outputs[0];
    axes = x->rank - 2;
    places = y->shape[0];
    for (int a = 0; a < axes; ++a) {
      places *= y->shape[2 + a];
      pixels *= x->shape[2 + a];
      taps *= attributes.mode == UHAL_GRID_SAMPLE_LINEAR ? 2 : attributes.mode == UHAL_GRID_SAMPLE_CUBIC ? 4 : 1;
    }
  }

  int64_t channels() const { return x->shape[1]; }
  int64_t updates() const { return places * taps; }
  bool is_wide(int64_t count) const {
    return !fits_32_bits(*x) || !fits_32_bits(*grid) || !fits_32_bits(*y) || !fits_32_bits(*dgrid) ||
           !fits_32_bits(count) || !fits_32_bits(updates()) || (images != nullptr && !fits_32_bits(*images));
  }

  void append(Arguments& arguments, int64_t count, int64_t share, bool wide) const {
    int64_t members[kMostMembers] = {count,
                                     share,
                                     places,
                                     channels(),
                                     pixels,
                                     attributes.padding,
                                     attributes.align_corners,
                                     attributes.edge_gradient,
                                     attributes.in_pixels,
                                     x->shape[0],
                                     images != nullptr ? images->strides[0] : 0};
    int64_t* next = std::copy_n(x->shape + 2, axes, members + 11);
    next = std::copy_n(y->shape + 2, axes, next);
    for (const uhal_tensor* view : {x, y, grid, dgrid}) next = std::copy_n(view->strides, 2 + axes, next);
    append_indices(arguments, members, static_cast<int>(next - members), wide);
  }
};

KernelSpec spec_of(const uhal_op& op, const GridSampleProblem& problem, const char* entry, const char* part,
                   bool wide) {
  KernelSpec spec(sources::grid_sample, entry);
  spec.compute(floating_compute(op)).define(part, 1).define("UHAL_WIDE_INDEX", wide).define("AXES", problem.axes);
  spec.define("MODE", problem.attributes.mode).define("WITH_IMAGES", problem.images != nullptr);
  return spec.dtype("X", problem.x->dtype).dtype("GRID", problem.grid->dtype).dtype("Y", problem.y->dtype);
}

Grid grid_of(const Queue& queue, int64_t count) {
  return linear_grid(count, std::min(256, queue.traits().max_group_size));
}

int64_t shares_of(int64_t channels, int64_t share) { return (channels + share - 1) / share; }

uhal_status run_forward(Queue& queue, const uhal_op& op, const GridSampleProblem& problem) {
  const int64_t channels = problem.channels();
  const int64_t wanted = std::max(kLeastShare, channels * problem.places / kManyItems);
  const int64_t share = problem.y->strides[1] == 1 ? 1 : std::min(wanted, channels);
  const int64_t count = problem.places * shares_of(channels, share);
  const bool wide = problem.is_wide(count);
  Arguments arguments;
  arguments.pointer(problem.x->data).pointer(problem.grid->data).pointer(data_of(problem.images));
  arguments.pointer(problem.y->data);
  problem.append(arguments, count, share, wide);
  return queue.run(spec_of(op, problem, "grid_sample", "OF_FORWARD", wide), arguments, grid_of(queue, count));
}

uhal_status run_backward_grid(Queue& queue, const uhal_op& op, const GridSampleProblem& problem) {
  const bool wide = problem.is_wide(problem.places);
  KernelSpec spec = spec_of(op, problem, "grid_sample_backward_grid", "OF_BACKWARD_GRID", wide);
  spec.dtype("DGRID", problem.dgrid->dtype);
  Arguments arguments;
  arguments.pointer(problem.y->data).pointer(problem.x->data).pointer(problem.grid->data);
  arguments.pointer(data_of(problem.images)).pointer(problem.dgrid->data);
  problem.append(arguments, problem.places, problem.channels(), wide);
  return queue.run(spec, arguments, grid_of(queue, problem.places));
}

uhal_status run_backward_data(Queue& queue, const uhal_op& op, const GridSampleProblem& problem) {
  const int64_t updates = problem.updates(), pixels = problem.x->shape[0] * problem.pixels;
  if (updates == 0) return fill_view(queue, 0, 0, *problem.x);
  const auto outside = static_cast<uint32_t>(pixels);
  const StableOrder sort(queue.traits(), updates, outside);
  const auto aligned = [](int64_t bytes) { return (static_cast<size_t>(bytes) + 255) / 256 * 256; };
  const size_t key_bytes = aligned(updates * 4), first_bytes = aligned(pixels * 4);
  const size_t weight_bytes = aligned(updates * compute_bytes(floating_compute(op)));
  void* workspace;
  uhal_status status = queue.workspace(key_bytes + first_bytes + weight_bytes + sort.bytes(), &workspace);
  if (status != UHAL_OK) return status;
  char* const keys = static_cast<char*>(workspace);
  char* const firsts = keys + key_bytes;
  char* const weights = firsts + first_bytes;

  const int64_t share = problem.x->strides[1] == 1 ? 1 : std::min(kLeastShare, problem.channels());
  const int64_t count = pixels * shares_of(problem.channels(), share);
  const bool wide = problem.is_wide(count);
  const auto spec = [&](const char* entry) {
    KernelSpec spec = spec_of(op, problem, entry, "OF_BACKWARD_DATA", wide);
    return spec.define("CHANNELS", share);
  };
  Arguments listed;
  listed.pointer(problem.grid->data).pointer(data_of(problem.images)).pointer(keys).pointer(weights);
  problem.append(listed, problem.places, share, wide);
  listed.value_of(outside);
  status = queue.run(spec("list_taps"), listed, grid_of(queue, problem.places));
  if (status != UHAL_OK) return status;

  const void* sorted_keys;
  const void* order;
  status = sort.run(queue, keys, weights + weight_bytes, &sorted_keys, &order);
  if (status != UHAL_OK) return status;

  constexpr uint32_t kNone = UINT32_MAX;
  status = queue.fill(firsts, &kNone, sizeof kNone, static_cast<size_t>(pixels) * sizeof kNone);
  if (status != UHAL_OK) return status;
  Arguments found;
  found.pointer(sorted_keys).pointer(firsts);
  append_index(found, updates, wide);
  found.value_of(outside);
  status = queue.run(spec("find_first"), found, grid_of(queue, updates));
  if (status != UHAL_OK) return status;

  Arguments added;
  added.pointer(problem.y->data).pointer(sorted_keys).pointer(order).pointer(weights).pointer(firsts);
  added.pointer(problem.x->data);
  problem.append(added, count, share, wide);
  append_index(added, updates, wide);
  added.value_of(outside);
  return queue.run(spec("add_taps"), added, grid_of(queue, count));
}

}  // namespace

const char* refuse_grid_sample(const DeviceTraits&, const uhal_op& op) {
  const GridSampleProblem problem(op);
  for (const uhal_tensor* view : {problem.x, problem.grid, problem.y, problem.dgrid}) {
    if (!is_floating(view->dtype)) return "sampling takes floating point only: cast the operands first";
  }
  if (op.kind != UHAL_OP_GRID_SAMPLE_BACKWARD_DATA ||
      (problem.updates() < kMostOrdered && problem.x->shape[0] * problem.pixels < kMostOrdered)) {
    return nullptr;
  }
  return refusal(
      "%s: more than 2^30 pixels, or pixels that they are sampled from, cannot be put in order; sample in parts",
      op_kind_name(op.kind));
}

uhal_status run_grid_sample(Queue& queue, const uhal_op& op) {
  const GridSampleProblem problem(op);
  const uhal_tensor& output = *op.outputs[0];
  if (std::find(output.shape, output.shape + output.rank, 0) != output.shape + output.rank) return UHAL_OK;
  switch (op.kind) {
    case UHAL_OP_GRID_SAMPLE:
      return run_forward(queue, op, problem);
    case UHAL_OP_GRID_SAMPLE_BACKWARD_DATA:
      return run_backward_data(queue, op, problem);
    default:
      return run_backward_grid(queue, op, problem);
  }
}

}  // namespace unihal::kernels
