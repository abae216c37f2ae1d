// Images at another size, and at given places.
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>

#include <algorithm>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// Where PyTorch's CPU takes no notice of a scale: along axes that keep their size, or are doubled, or if no axis
// changes.
enum class Unscaled { kNowhere, kKept, kKeptOrDoubled, kAllKept };

// How one op resizes.
struct Resize {
  uhal_resize_mode mode;
  bool half_pixel_centers;
  bool may_align_corners;  // it has the argument align_corners before the scales
  Unscaled forward, backward;
};

constexpr Resize kNearest = {UHAL_RESIZE_NEAREST, false, false, Unscaled::kNowhere, Unscaled::kKeptOrDoubled};
constexpr Resize kNearestOfImages = {UHAL_RESIZE_NEAREST, false, false, Unscaled::kKeptOrDoubled,
                                     Unscaled::kKeptOrDoubled};
constexpr Resize kNearestExact = {UHAL_RESIZE_NEAREST, true, false, Unscaled::kNowhere, Unscaled::kNowhere};
constexpr Resize kLinear = {UHAL_RESIZE_LINEAR, true, true, Unscaled::kKept, Unscaled::kKept};
constexpr Resize kCubic = {UHAL_RESIZE_CUBIC, true, true, Unscaled::kNowhere, Unscaled::kAllKept};

bool is_unscaled(Unscaled where, int64_t from, int64_t to, bool all_kept) {
  switch (where) {
    case Unscaled::kKept:
      return from == to;
    case Unscaled::kKeptOrDoubled:
      return from == to || 2 * from == to;
    case Unscaled::kAllKept:
      return all_kept;
    default:
      return false;
  }
}

// Of an image `x` that becomes `y`. `next` is the argument after the sizes. The scales are output pixels per input
// pixel, ours the reverse.
uhal_resize_attributes attributes_of(const Call& call, const Resize& resize, Unscaled where, int next, const View& x,
                                     const View& y) {
  uhal_resize_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = resize.mode;
  attributes.align_corners = resize.may_align_corners && call.boolean(next++);
  attributes.half_pixel_centers = resize.half_pixel_centers && !attributes.align_corners;
  const bool all_kept = std::equal(x.shape + 2, x.shape + x.rank, y.shape + 2);
  for (int i = 0; i < x.rank - 2 && !attributes.align_corners; ++i) {
    const double scale = call.real_or(next + i, 0);
    if (scale > 0 && !is_unscaled(where, x.shape[2 + i], y.shape[2 + i], all_kept)) attributes.scale[i] = 1 / scale;
  }
  return attributes;
}

// Whether every pixel keeps its place: then those beside it have no part in it, though they be no numbers.
bool is_copy(const uhal_resize_attributes& attributes, const View& x, const View& y) {
  return attributes.mode == UHAL_RESIZE_LINEAR && std::equal(x.shape, x.shape + x.rank, y.shape) &&
         std::all_of(attributes.scale, attributes.scale + x.rank - 2, [](double step) { return step == 0; });
}

// (self, output_size, [align_corners], scales...)
template <class Meta>
void resize(Call& call) {
  Structured<Meta>(call).infer();
  if (call.result().numel() == 0) return;
  const View x = view_of(call.tensor(0)), y = view_of(call.result());
  const auto& how = call.data<Resize>();
  const uhal_resize_attributes attributes = attributes_of(call, how, how.forward, 2, x, y);
  if (is_copy(attributes, x, y)) return call.copy(x, y);
  call.launch(UHAL_OP_RESIZE, {&x}, {&y}, &attributes);
}

// (grad_output, output_size, input_size, [align_corners], scales...)
template <class Meta>
void resize_backward(Call& call) {
  Structured<Meta>(call).infer();
  if (call.result().numel() == 0) return;
  const View dy = view_of(call.tensor(0)), dx = view_of(call.result());
  const auto& how = call.data<Resize>();
  const uhal_resize_attributes attributes = attributes_of(call, how, how.backward, 3, dx, dy);
  if (is_copy(attributes, dx, dy)) return call.copy(dy, dx);
  call.launch(UHAL_OP_RESIZE_BACKWARD, {&dy}, {&dx}, &attributes);
}

uhal_grid_sample_attributes grid_attributes(const Call& call, int first) {
  constexpr uhal_grid_sample_mode kModes[] = {UHAL_GRID_SAMPLE_LINEAR, UHAL_GRID_SAMPLE_NEAREST,
                                              UHAL_GRID_SAMPLE_CUBIC};
  constexpr uhal_grid_sample_padding kPaddings[] = {UHAL_GRID_SAMPLE_ZEROS, UHAL_GRID_SAMPLE_BORDER,
                                                    UHAL_GRID_SAMPLE_REFLECTION};
  const int64_t mode = call.integer(first);
  const int64_t padding = call.integer(first + 1);
  TORCH_CHECK(mode >= 0 && mode < 3, "grid_sampler(): interpolation_mode is 0, 1 or 2, not ", mode);
  TORCH_CHECK(padding >= 0 && padding < 3, "grid_sampler(): padding_mode is 0, 1 or 2, not ", padding);
  uhal_grid_sample_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = kModes[mode];
  attributes.padding = kPaddings[padding];
  attributes.align_corners = call.boolean(first + 2);
  return attributes;
}

// PyTorch's checks of grid_sampler, for what calls the inner op itself.
template <int kSpatial>
void check_grid(const at::Tensor& input, const at::Tensor& grid, int64_t mode) {
  TORCH_CHECK(input.dim() == kSpatial + 2 && grid.dim() == kSpatial + 2,
              "grid_sampler(): expected input and grid to have ", kSpatial + 2,
              " dimensions, but got input with sizes ", input.sizes(), " and grid with sizes ", grid.sizes());
  TORCH_CHECK(input.size(0) == grid.size(0), "grid_sampler(): expected grid and input to have same batch size, but ",
              "got input with sizes ", input.sizes(), " and grid with sizes ", grid.sizes());
  TORCH_CHECK(grid.size(-1) == kSpatial, "grid_sampler(): expected grid to have size ", kSpatial,
              " in last dimension, but got grid with sizes ", grid.sizes());
  TORCH_CHECK(input.scalar_type() == grid.scalar_type(), "grid_sampler(): expected input and grid to have the same ",
              "dtype, but input has ", input.scalar_type(), " and grid has ", grid.scalar_type());
  for (int i = 0; i < kSpatial; ++i) {
    TORCH_CHECK(input.size(2 + i) > 0, "grid_sampler(): expected input to have non-empty spatial dimensions, but ",
                "input has sizes ", input.sizes());
  }
  TORCH_CHECK(kSpatial == 2 || mode != 2, "grid_sampler(): bicubic interpolation only supports 4D input");
}

// (input, grid, interpolation_mode, padding_mode, align_corners)
template <int kSpatial>
void grid_sample(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor& grid = call.tensor(1);
  check_grid<kSpatial>(input, grid, call.integer(2));
  c10::DimVector sizes = {input.size(0), input.size(1)};
  for (int i = 0; i < kSpatial; ++i) sizes.push_back(grid.size(1 + i));
  const at::Tensor& result = call.make_result(0, sizes, input.scalar_type());
  if (result.numel() == 0) return;
  const uhal_grid_sample_attributes attributes = grid_attributes(call, 2);
  const View x = view_of(input);
  const View places = view_of(grid);
  const View y = view_of(result);
  call.launch(UHAL_OP_GRID_SAMPLE, {&x, &places}, {&y}, &attributes);
}

// (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)
template <int kSpatial>
void grid_sample_backward(Call& call) {
  const at::Tensor& input = call.tensor(1);
  const at::Tensor& grid = call.tensor(2);
  check_grid<kSpatial>(input, grid, call.integer(3));
  const uhal_grid_sample_attributes attributes = grid_attributes(call, 3);
  const c10::List<bool> wanted = call.argument(6).toBoolList();
  const View dy = view_of(call.tensor(0));
  const View x = view_of(input);
  const View places = view_of(grid);
  if (wanted.get(0)) {
    const View dx = view_of(call.make_result(0, input.sizes(), input.scalar_type()));
    if (dx.elements() != 0 && dy.elements() != 0) {
      call.launch(UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, {&dy, &places}, {&dx}, &attributes);
    } else if (dx.elements() != 0) {
      call.fill(dx, 0);
    }
  }
  const View dgrid = view_of(call.make_result(1, grid.sizes(), grid.scalar_type()));
  if (dgrid.elements() == 0) return;
  if (!wanted.get(1) || dy.elements() == 0) return call.fill(dgrid, 0);
  call.launch(UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, {&dy, &x, &places}, {&dgrid}, &attributes);
}

#define RESIZE(op, how)                                                                   \
  {#op, kFloats, resize<at::meta::structured_##op>, &how}, {                              \
    #op "_backward", kFloats, resize_backward<at::meta::structured_##op##_backward>, &how \
  }

constexpr Kernel kResampleKernels[] = {
    RESIZE(upsample_nearest1d, kNearest),
    RESIZE(upsample_nearest2d, kNearestOfImages),
    RESIZE(upsample_nearest3d, kNearest),
    RESIZE(_upsample_nearest_exact1d, kNearestExact),
    RESIZE(_upsample_nearest_exact2d, kNearestExact),
    RESIZE(_upsample_nearest_exact3d, kNearestExact),
    RESIZE(upsample_linear1d, kLinear),
    RESIZE(upsample_bilinear2d, kLinear),
    RESIZE(upsample_trilinear3d, kLinear),
    RESIZE(upsample_bicubic2d, kCubic),
    {"grid_sampler_2d", kFloats, grid_sample<2>},
    {"grid_sampler_2d_backward", kFloats, grid_sample_backward<2>},
    {"grid_sampler_3d", kFloats, grid_sample<3>},
    {"grid_sampler_3d_backward", kFloats, grid_sample_backward<3>},
};

}  // namespace

void register_resample() { register_kernels(kResampleKernels); }

}  // namespace unihal::pytorch
