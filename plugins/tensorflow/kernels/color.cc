// Colours of pixels: hue, saturation and value, and what adjusts them and the contrast.
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// Steps on all pixels at once; each has a number a pixel, and what is in between is in float32 or float64.
class Colors {
 public:
  Colors(Context& context, const View& images)
      : context_(context),
        pixels_(images.elements() / 3),
        dtype_(images.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32) {}

  // Channel 0, 1 or 2 of images.
  View channel(const View& images, int number) const { return images.reshaped({pixels_, 3}).sliced(1, number, 1); }
  View numbers() { return context_.temporary(dtype_, {pixels_, 1}); }
  View answers() { return context_.temporary(UHAL_BOOL, {pixels_, 1}); }
  View constant(double value) {
    const View view = context_.temporary(dtype_, {1, 1});
    if (context_.ok()) context_.fill(view, value, 0);
    return view;
  }
  View map(uhal_map_function function, Operands inputs, std::initializer_list<double> parameters = {}) {
    const View result = numbers();
    if (context_.ok()) context_.map(function, inputs, {&result}, parameters);
    return result;
  }
  View ask(uhal_map_function function, const View& a, const View& b) {
    const View result = answers();
    if (context_.ok()) context_.map(function, {&a, &b}, {&result});
    return result;
  }
  View choose(const View& answer, const View& yes, const View& no) {
    return map(uhal_map_select, {&answer, &yes, &no});
  }
  void put(const View& from, const View& to) {
    if (context_.ok()) context_.cast(from, to);
  }

  // The pixels' colours between `low` and `low + range`, at a hue of [0, 1], as channels of `to`.
  void color(const View& hue, const View& low, const View& range, const View& to) {
    const double middles[] = {3, 2, 4};
    for (int i = 0; i < 3; ++i) {
      View at = map(uhal_map_scale, {&hue}, {6, -middles[i]});
      at = map(uhal_map_absolute, {&at});
      at = i == 0 ? map(uhal_map_scale, {&at}, {1, -1}) : map(uhal_map_scale, {&at}, {-1, 2});
      at = map(uhal_map_clip, {&at}, {0, 1});
      const View out = channel(to, i);
      if (context_.ok()) context_.map(uhal_map_multiply_add, {&range, &at, &low}, {&out});
    }
  }

 private:
  Context& context_;
  int64_t pixels_;
  uhal_dtype dtype_;
};

// What red, green and blue say.
struct Hue {
  View high, low, range, hue;

  Hue(Colors& colors, const View& images) {
    const View r = colors.channel(images, 0), g = colors.channel(images, 1), b = colors.channel(images, 2);
    high = colors.map(uhal_map_maximum, {&r, &g});
    high = colors.map(uhal_map_maximum, {&high, &b});
    low = colors.map(uhal_map_minimum, {&r, &g});
    low = colors.map(uhal_map_minimum, {&low, &b});
    range = colors.map(uhal_map_subtract, {&high, &low});
    // The distance from the channel that is highest, red before green before blue.
    const View red = colors.ask(uhal_map_equal, r, high), green = colors.ask(uhal_map_equal, g, high);
    const View of_red = colors.map(uhal_map_subtract, {&g, &b}), of_green = colors.map(uhal_map_subtract, {&b, &r});
    const View of_blue = colors.map(uhal_map_subtract, {&r, &g});
    const View zero = colors.constant(0), third = colors.constant(1.0 / 3), thirds = colors.constant(2.0 / 3);
    View distance = colors.choose(green, of_green, of_blue), start = colors.choose(green, third, thirds);
    distance = colors.choose(red, of_red, distance);
    start = colors.choose(red, zero, start);
    distance = colors.map(uhal_map_divide, {&distance, &range});
    distance = colors.map(uhal_map_scale, {&distance}, {1.0 / 6, 0});
    hue = colors.map(uhal_map_add, {&distance, &start});
    hue = colors.choose(colors.ask(uhal_map_greater, range, zero), hue, zero);
    const View below = colors.ask(uhal_map_less, hue, zero);
    hue = colors.map(uhal_map_add, {&hue, &below});
  }

  View saturation(Colors& colors) const {
    const View zero = colors.constant(0), part = colors.map(uhal_map_divide, {&range, &high});
    return colors.choose(colors.ask(uhal_map_greater, high, zero), part, zero);
  }
};

// Images whose last axis is red, green and blue, or hue, saturation and value; `fewest` axes.
class ColorKernel : public Kernel {
 public:
  ColorKernel(Construction& construction, int fewest) : Kernel(construction), fewest_(fewest) {}

 protected:
  // Checks them, and allocates the output; false if there is nothing to do.
  bool begin(Context& context, View& images, View& output) const {
    const Shape shape = context.dims(0);
    if (!context.ok()) return false;
    if (static_cast<int>(shape.size()) < fewest_ || shape.back() != 3) {
      // The class of error that TensorFlow's CPU has.
      const bool adjusts = fewest_ > 1 || shape.empty();
      context.fail(adjusts ? TF_INVALID_ARGUMENT : TF_FAILED_PRECONDITION,
                   std::string(op()) + ": input must have 3 channels along the last of " + std::to_string(fewest_) +
                       " axes or more, got shape " + to_text(shape));
      return false;
    }
    images = context.flat_input(0);
    output = context.flat_output(0, images.dtype, shape);
    return context.ok() && output.elements() > 0;
  }
  // Input 1, one number, as an operand that broadcasts.
  View factor(Context& context) const {
    const Shape shape = context.dims(1);
    if (context.ok() && !shape.empty()) {
      context.fail_invalid(std::string(op()) + ": input 1 must be scalar: " + to_text(shape));
    }
    const View view = context.flat_input(1);
    return context.ok() ? view.reshaped({1, 1}) : view;
  }

 private:
  int fewest_;
};

class RgbToHsv : public ColorKernel {
 public:
  explicit RgbToHsv(Construction& construction) : ColorKernel(construction, 1) {}
  void compute(Context& context) const override {
    View images, output;
    if (!begin(context, images, output)) return;
    Colors colors(context, images);
    const Hue hue(colors, images);
    colors.put(hue.hue, colors.channel(output, 0));
    colors.put(hue.saturation(colors), colors.channel(output, 1));
    colors.put(hue.high, colors.channel(output, 2));
  }
};

// From the saturation s and the value v: the lowest channel v - v s, and the range v s.
void color_of(Colors& colors, const View& hue, const View& saturation, const View& value, const View& output) {
  const View range = colors.map(uhal_map_multiply, {&value, &saturation});
  const View low = colors.map(uhal_map_subtract, {&value, &range});
  colors.color(hue, low, range, output);
}

class HsvToRgb : public ColorKernel {
 public:
  explicit HsvToRgb(Construction& construction) : ColorKernel(construction, 1) {}
  void compute(Context& context) const override {
    View images, output;
    if (!begin(context, images, output)) return;
    Colors colors(context, images);
    color_of(colors, colors.channel(images, 0), colors.channel(images, 1), colors.channel(images, 2), output);
  }
};

// (images, delta): the hue, turned.
class AdjustHue : public ColorKernel {
 public:
  explicit AdjustHue(Construction& construction) : ColorKernel(construction, 3) {}
  void compute(Context& context) const override {
    View images, output;
    const View delta = factor(context);
    if (!context.ok() || !begin(context, images, output)) return;
    Colors colors(context, images);
    const Hue hue(colors, images);
    View turned = colors.map(uhal_map_add, {&hue.hue, &delta});
    const View whole = colors.map(uhal_map_floor, {&turned});
    turned = colors.map(uhal_map_subtract, {&turned, &whole});
    colors.color(turned, hue.low, hue.range, output);
  }
};

// (images, scale): the saturation, multiplied, up to 1.
class AdjustSaturation : public ColorKernel {
 public:
  explicit AdjustSaturation(Construction& construction) : ColorKernel(construction, 3) {}
  void compute(Context& context) const override {
    View images, output;
    const View scale = factor(context);
    if (!context.ok() || !begin(context, images, output)) return;
    Colors colors(context, images);
    const Hue hue(colors, images);
    View saturation = hue.saturation(colors);
    saturation = colors.map(uhal_map_multiply, {&saturation, &scale});
    saturation = colors.map(uhal_map_clip, {&saturation}, {0, 1});
    color_of(colors, hue.hue, saturation, hue.high, output);
  }
};

// (images, contrast factor, [least, largest number]): the distance from each channel's mean over an image, multiplied.
// The first version takes images of any dtype, gives float32, and cuts it to the range.
template <bool kFirstVersion>
class AdjustContrast : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const Shape shape = context.dims(0), of_factor = context.dims(1);
    if (!context.ok()) return;
    if (shape.size() < 3 || !of_factor.empty()) {
      return context.fail_invalid(std::string(op()) + ": input must be at least 3-D and contrast_factor scalar, got " +
                                  to_text(shape) + " and " + to_text(of_factor));
    }
    const View images = context.flat_input(0), factor = context.flat_input(1);
    const View least = kFirstVersion ? limit(context, 2) : View(), most = kFirstVersion ? limit(context, 3) : View();
    if (!context.ok()) return;
    const View output = context.flat_output(0, kFirstVersion ? UHAL_FLOAT32 : images.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const int64_t channels = shape.back(), pixels = shape[shape.size() - 2] * shape[shape.size() - 3];
    const int64_t count = images.elements() / (channels * pixels);
    const View x = images.reshaped({count, pixels, channels}), y = output.reshaped({count, pixels, channels});
    const View mean = context.temporary(UHAL_FLOAT32, {count, 1, channels}),
               apart = context.temporary(UHAL_FLOAT32, shape_of(x));
    if (!context.ok()) return;
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_MEAN);
    const View times = factor.reshaped({1, 1, 1});
    context.launch(UHAL_OP_REDUCE, {&x}, {&mean}, &attributes);
    context.map(uhal_map_subtract, {&x, &mean}, {&apart});
    context.map(uhal_map_multiply_add, {&apart, &times, &mean}, {&y});
    if (!kFirstVersion) return;
    context.map(uhal_map_maximum, {&y, &least}, {&y});
    context.map(uhal_map_minimum, {&y, &most}, {&y});
  }

 private:
  View limit(Context& context, int index) const {
    const Shape shape = context.dims(index);
    if (context.ok() && !shape.empty()) {
      context.fail_invalid(std::string(op()) + ": min_value and max_value must be scalar: " + to_text(shape));
    }
    const View view = context.flat_input(index);
    return context.ok() ? view.reshaped({1, 1, 1}) : view;
  }
};

}  // namespace

void register_color(Registrar& registrar) {
  registrar.add<RgbToHsv>("RGBToHSV", {{"T", kFloats}});
  registrar.add<HsvToRgb>("HSVToRGB", {{"T", kFloats}});
  registrar.add<AdjustHue>("AdjustHue", {{"T", only(UHAL_FLOAT32)}});
  registrar.add<AdjustSaturation>("AdjustSaturation", {{"T", only(UHAL_FLOAT32)}});
  registrar.add<AdjustContrast<false>>("AdjustContrastv2", {{"T", only(UHAL_FLOAT32)}});
  constexpr DtypeSet kImages = kSignedIntegers | only(UHAL_UINT8) | only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
  registrar.add<AdjustContrast<true>>("AdjustContrast", {{"T", kImages}});
}

}  // namespace unihal::tensorflow
