// Images warped by projective maps.
#include <cmath>

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

// What TensorFlow's CPU makes of a number for an image of bytes: the lowest one of its integer part.
int64_t byte_of(double value) { return std::fabs(value) < 2147483648.0 ? static_cast<int64_t>(value) & 255 : 0; }

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
    const double fill = images.dtype == UHAL_UINT8 ? static_cast<double>(byte_of(given[0])) : given[0];
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
      context.fill(output, fill, byte_of(fill));
      return;
    }
    const View places = find_places(context, transforms, size, images.shape + 1);
    if (!context.ok()) return;
    const bool fills = attributes_.padding == UHAL_GRID_SAMPLE_ZEROS && fill != 0;
    // What is outside is added before anything is rounded.
    const bool direct = contains(fills ? kWideFloats : kFloats, images.dtype);
    const View x = contains(kFloats, images.dtype) ? images : context.as(UHAL_FLOAT32, images);
    const View y = direct ? output : context.temporary(UHAL_FLOAT32, output.shape, output.rank);
    if (!context.ok()) return;
    int64_t grid_dims[] = {images.shape[0], size[0], size[1], 2};
    View grid(places.data, UHAL_FLOAT32, grid_dims, 4);
    if (places.shape[0] != images.shape[0]) grid.strides[0] = 0;
    const View from = x.channels_first(), to = y.channels_first();
    context.launch(UHAL_OP_GRID_SAMPLE, {&from, &grid}, {&to}, &attributes_);
    if (fills) add_outside(context, places, images, fill, y);
    if (!direct) context.cast(y, output);
  }

 private:
  // (transforms, rows, columns, 2), in the order of TensorFlow's CPU, whose roundings choose the nearest pixels.
  View find_places(Context& context, const View& transforms, const Shape& size, const int64_t* lengths) const {
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
      if (attributes_.padding == UHAL_GRID_SAMPLE_REFLECTION) reflect(context, places, lengths);
      context.map(uhal_map_round_half_away, {&places}, {&places});
    }
    return places;
  }

  // Mirrors places at the edges of images, [dcba|abcd|dcba]. TensorFlow's CPU rounds them where they come to lie: of
  // two pixels as near it takes the one farther from 0.
  static void reflect(Context& context, const View& places, const int64_t* lengths) {
    const View numbers = context.temporary(UHAL_FLOAT32, {1, 1, 1, 2});
    const Shape dims = {places.shape[0], places.shape[1], places.shape[2], 1};
    const View below = context.temporary(UHAL_BOOL, dims), mirrored = context.temporary(UHAL_FLOAT32, dims);
    if (!context.ok()) return;
    const View zero = numbers.sliced(3, 0, 1), period = numbers.sliced(3, 1, 1);
    context.zero(zero);
    for (int axis = 0; axis < 2; ++axis) {
      const View at = places.sliced(3, axis, 1);
      const auto length = static_cast<double>(lengths[1 - axis]);
      context.fill(period, 2 * length, 0);
      context.map(uhal_map_less, {&at, &zero}, {&below});
      context.map(uhal_map_absolute, {&at}, {&at});
      context.map(uhal_map_truncate_mod, {&at, &period}, {&at});
      context.map(uhal_map_subtract, {&at, &below}, {&at});  // -1 mirrors 0
      context.map(uhal_map_scale, {&at}, {&mirrored}, {-1, 2 * length - 1});
      context.map(uhal_map_minimum, {&at, &mirrored}, {&at});
      context.map(uhal_map_clip, {&at}, {&at}, {0, length - 1});
    }
  }

  // Adds to y, where sampling has taken zeros for what is outside, as much of the value there as places have of it.
  // What lies inside keeps every digit, whatever the value is.
  void add_outside(Context& context, const View& places, const View& images, double fill, const View& y) const {
    const View value = context.temporary(images.dtype, {1, 1, 1, 1}), one = context.temporary(UHAL_FLOAT32, {1});
    const View beyond = context.temporary_like(places), near = context.temporary(UHAL_BOOL, shape_of(places));
    const View part = context.temporary(UHAL_FLOAT32, {places.shape[0], places.shape[1], places.shape[2], 1});
    if (!context.ok()) return;
    context.fill(value, fill, byte_of(fill));
    context.fill(one, 1, 0);
    // How far beyond the last pixels along each axis, at most 1: that is the weight of the pixels outside there.
    clip_places(context, places, images.shape + 1, false, beyond);
    context.map(uhal_map_subtract, {&places, &beyond}, {&beyond});
    context.map(uhal_map_absolute, {&beyond}, {&beyond});
    context.map(uhal_map_less, {&beyond, &one}, {&near});
    context.map(uhal_map_select, {&near, &beyond, &one}, {&beyond});  // 1 for NaN, too
    const View across = beyond.sliced(3, 0, 1), down = beyond.sliced(3, 1, 1);
    context.map(uhal_map_scale, {&across}, {&part}, {-1, 1});
    context.map(uhal_map_multiply_add, {&part, &down, &across}, {&part});
    context.map(uhal_map_multiply, {&part, &value}, {&part});
    if (contains(kFloats, images.dtype) && !(std::fabs(fill) <= limits_of(images.dtype).highest)) {
      forget_inside(context, places, images.shape + 1, part);
    }
    context.map(uhal_map_add, {&y, &part}, {&y});
  }

  // Of a value that is not finite 0 times as much is no number: 0 in its stead, but, as on TensorFlow's CPU, for the
  // places that read a pixel outside, though it have no weight. (What is infinite there is so here; the CPU has NaN
  // where one of four pixels has no weight.)
  void forget_inside(Context& context, const View& places, const int64_t* lengths, const View& part) const {
    const View inside = context.temporary_like(places), zero = context.temporary(UHAL_FLOAT32, {1});
    const View outside = context.temporary(UHAL_BOOL, shape_of(places));
    if (!context.ok()) return;
    context.zero(zero);
    clip_places(context, places, lengths, attributes_.mode == UHAL_GRID_SAMPLE_LINEAR, inside);
    context.map(uhal_map_not_equal, {&places, &inside}, {&outside});
    const View across = outside.sliced(3, 0, 1), down = outside.sliced(3, 1, 1);
    context.map(uhal_map_logical_or, {&across, &down}, {&across});
    context.map(uhal_map_select, {&across, &part, &zero}, {&part});
  }

  // The nearest places in images, or, with `before`, before their last pixels: others than the places, if not these.
  static void clip_places(Context& context, const View& places, const int64_t* lengths, bool before, const View& to) {
    for (int axis = 0; axis < 2; ++axis) {
      const View at = places.sliced(3, axis, 1), clipped = to.sliced(3, axis, 1);
      const auto last = static_cast<float>(lengths[1 - axis] - 1);
      const float end = !before ? last : last > 0 ? std::nextafter(last, 0.0F) : -1;
      context.map(uhal_map_clip, {&at}, {&clipped}, {0, end});
    }
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
