// Images warped by projective maps.
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// A vector 0, 1, 2... along one axis of three.
View count_along(Context& context, int axis, int64_t length) {
  int64_t dims[3] = {1, 1, 1};
  dims[axis] = length;
  const View line = context.temporary(UHAL_FLOAT32, dims, 3);
  if (!context.ok()) return line;
  uhal_iota_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.step = 1;
  const View flat = line.reshaped({length});
  context.launch(UHAL_OP_IOTA, {}, {&flat}, &attributes);
  return line;
}

// (images, transforms, output_shape, [fill_value]). A transform is a0 to a7: pixel (x, y) of the result is what lies at
// ((a0 x + a1 y + a2) / k, (a3 x + a4 y + a5) / k) with k = a6 x + a7 y + 1.
template <int kVersion>
class ProjectiveTransform : public Kernel {
 public:
  explicit ProjectiveTransform(Construction& construction) : Kernel(construction) {
    attributes_.struct_size = sizeof attributes_;
    attributes_.in_pixels = 1;
    const std::string mode = construction.text("interpolation"), fill = construction.text("fill_mode");
    if (mode != "NEAREST" && mode != "BILINEAR") {
      construction.fail(TF_INVALID_ARGUMENT, "Invalid interpolation " + mode + ". Supported types: NEAREST, BILINEAR");
    }
    attributes_.mode = mode == "NEAREST" ? UHAL_GRID_SAMPLE_NEAREST : UHAL_GRID_SAMPLE_LINEAR;
    if (fill == "REFLECT") {
      attributes_.padding = UHAL_GRID_SAMPLE_REFLECTION;
    } else if (fill == "NEAREST") {
      attributes_.padding = UHAL_GRID_SAMPLE_BORDER;
    } else if (fill == "WRAP") {
      construction.refuse("images that wrap around are not sampled by kernels");
    } else if (fill != "CONSTANT") {
      construction.fail(TF_INVALID_ARGUMENT,
                        "Invalid mode " + fill + ". Supported types: REFLECT, WRAP, CONSTANT, NEAREST");
    }
  }
  void compute(Context& context) const override {
    const View images = context.input(0), transforms = context.input(1);
    const Shape size = context.host_vector(2);
    const std::vector<double> given = kVersion >= 3 ? read_scalars(context, 3, 1) : std::vector<double>{0};
    if (!context.ok()) return;
    const double fill = given[0];
    const bool fits = images.rank == 4 && transforms.rank == 2 && transforms.shape[1] == 8 && size.size() == 2 &&
                      (transforms.shape[0] == images.shape[0] || transforms.shape[0] == 1);
    if (!fits || size[0] <= 0 || size[1] <= 0) {
      return context.fail_invalid(
          std::string(op()) +
          ": expected images of rank 4, transforms of shape [images,8] or [1,8] and two positive sizes, got " +
          to_text(images) + ", " + to_text(transforms) + " and " + to_text(size));
    }
    const View output = context.output(0, images.dtype, {images.shape[0], size[0], size[1], images.shape[3]});
    if (!context.ok() || output.elements() == 0) return;
    if (images.elements() == 0) {
      context.fill(output, fill, static_cast<int64_t>(fill));
      return;
    }
    const View places = find_places(context, transforms, size);
    if (!context.ok()) return;
    const bool constant = attributes_.padding == UHAL_GRID_SAMPLE_ZEROS && fill != 0;
    const bool narrow = images.dtype == UHAL_FLOAT16 || images.dtype == UHAL_BFLOAT16;
    const bool direct = (narrow || images.dtype == UHAL_FLOAT32) && !constant;
    View x = images, y = output;
    if (!direct) {
      x = context.temporary(UHAL_FLOAT32, images.shape, images.rank);
      y = context.temporary(UHAL_FLOAT32, output.shape, output.rank);
      if (!context.ok()) return;
      context.cast(images, x);
    }
    // Outside counts as 0: what is sampled is the distance from the value there.
    if (constant) context.map(uhal_map_scale, {&x}, {&x}, {1, -fill});
    int64_t grid_dims[] = {images.shape[0], size[0], size[1], 2};
    View grid(places.data, UHAL_FLOAT32, grid_dims, 4);
    if (places.shape[0] != images.shape[0]) grid.strides[0] = 0;
    const View from = x.channels_first(), to = y.channels_first();
    context.launch(UHAL_OP_GRID_SAMPLE, {&from, &grid}, {&to}, &attributes_);
    if (constant) context.map(uhal_map_scale, {&y}, {&y}, {1, fill});
    if (!direct) context.cast(y, output);
  }

 private:
  // (transforms, rows, columns, 2), in the order of TensorFlow's CPU, whose roundings choose the nearest pixels.
  View find_places(Context& context, const View& transforms, const Shape& size) const {
    const int64_t count = transforms.shape[0];
    const View places = context.temporary(UHAL_FLOAT32, {count, size[0], size[1], 2});
    const View whole = context.temporary(UHAL_FLOAT32, {count, size[0], size[1]}),
               scale = context.temporary_like(whole);
    const View across = context.temporary(UHAL_FLOAT32, {count, 1, size[1]});
    const View down = context.temporary(UHAL_FLOAT32, {count, size[0], 1});
    const View x = count_along(context, 2, size[1]), y = count_along(context, 1, size[0]);
    if (!context.ok()) return places;
    const auto number = [&](int i) {
      View view = transforms.sliced(1, i, 1).unsqueezed(2);
      return view;
    };
    const auto combine = [&](int first, const View& to) {
      const View a = number(first), b = number(first + 1);
      context.map(uhal_map_multiply, {&a, &x}, {&across});
      context.map(uhal_map_multiply, {&b, &y}, {&down});
      context.map(uhal_map_add, {&across, &down}, {&to});
    };
    combine(6, scale);
    context.map(uhal_map_scale, {&scale}, {&scale}, {1, 1});
    for (int axis = 0; axis < 2; ++axis) {
      View to = places.sliced(3, axis, 1);
      to.rank = 3;
      const View offset = number(3 * axis + 2);
      combine(3 * axis, whole);
      context.map(uhal_map_add, {&whole, &offset}, {&whole});
      context.map(uhal_map_divide, {&whole, &scale}, {&to});
    }
    if (attributes_.mode == UHAL_GRID_SAMPLE_NEAREST) {
      context.map(uhal_map_round_half_away, {&places}, {&places});
    }
    return places;
  }

  uhal_grid_sample_attributes attributes_ = {};
};

// Integers of 32 bits and more would lose digits in float32.
constexpr DtypeSet kWarped = kFloats | only(UHAL_UINT8);

}  // namespace

void register_warp(Registrar& registrar) {
  registrar.add<ProjectiveTransform<2>>("ImageProjectiveTransformV2", {{"dtype", kWarped}}, {"output_shape"});
  registrar.add<ProjectiveTransform<3>>("ImageProjectiveTransformV3", {{"dtype", kWarped}}, {"output_shape"});
}

}  // namespace unihal::tensorflow
