// Sampling of images at given places.
#include <cstring>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

int32_t number_of_choice(const Context& context, const char* what, Text given,
                         std::initializer_list<const char*> known) {
  int32_t number = 0;
  for (const char* name : known) {
    if (std::strcmp(given.value, name) == 0) return number;
    ++number;
  }
  unsupported(context, std::string(what) + " \"" + given.value + "\"");
}

// Paddle lets gradients through at the ends of an axis.
uhal_grid_sample_attributes grid_sample_attributes_of(const Context& context, Text mode, Text padding,
                                                      bool align_corners) {
  uhal_grid_sample_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = number_of_choice(context, "mode", mode, {"nearest", "bilinear"});
  attributes.padding = number_of_choice(context, "padding mode", padding, {"zeros", "border", "reflection"});
  attributes.align_corners = align_corners;
  attributes.edge_gradient = 1;
  return attributes;
}

void grid_sample(Context context, Input x, Input grid, Text mode, Text padding, bool align_corners, Output y) {
  const View in = x.view(), places = grid.view();
  require_same_dtype(context, in, places);
  const View out = context.allocate(y, in.dtype);
  const auto attributes = grid_sample_attributes_of(context, mode, padding, align_corners);
  context.run(UHAL_OP_GRID_SAMPLE, {&in, &places}, {&out}, &attributes);
}

void grid_sample_grad(Context context, Input x, Input grid, Input dy, Text mode, Text padding, bool align_corners,
                      Output dx, Output dgrid) {
  const View in = x.view(), places = grid.view(), gradient = dy.view();
  require_same_dtype(context, in, places);
  const auto attributes = grid_sample_attributes_of(context, mode, padding, align_corners);
  if (dx) {
    const View out = context.allocate(dx, in.dtype);
    context.run(UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, {&gradient, &places}, {&out}, &attributes);
  }
  if (dgrid) {
    const View out = context.allocate(dgrid, places.dtype);
    context.run(UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, {&gradient, &in, &places}, {&out}, &attributes);
  }
}

}  // namespace

KernelTable sampling_kernels() {
  return {
      UNIHAL_KERNEL("grid_sample", kFloats, grid_sample),
      UNIHAL_KERNEL("grid_sample_grad", kFloats, grid_sample_grad),
  };
}

}  // namespace unihal::paddle
