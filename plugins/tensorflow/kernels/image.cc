// Resizing of images, and blocks of pixels to channels and back.
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

uhal_resize_attributes resize_attributes(Construction& construction, uhal_resize_mode mode) {
  uhal_resize_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = mode;
  attributes.align_corners = construction.boolean("align_corners");
  attributes.half_pixel_centers = construction.boolean("half_pixel_centers");
  return attributes;
}

void check_corners(Construction& construction, const uhal_resize_attributes& attributes) {
  if (attributes.align_corners && attributes.half_pixel_centers) {
    construction.fail(TF_INVALID_ARGUMENT, "If half_pixel_centers is True, align_corners must be False.");
  }
}

// (images, size): bilinear interpolation gives float32 whatever the images are, nearest keeps their dtype.
template <uhal_resize_mode kMode>
class Resize : public Kernel {
 public:
  explicit Resize(Construction& construction)
      : Kernel(construction), attributes_(resize_attributes(construction, kMode)) {
    check_corners(construction, attributes_);
  }
  void compute(Context& context) const override {
    const View images = context.input(0);
    const Shape size = context.host_vector(1);
    if (!context.ok()) return;
    const bool images_fit = images.rank == 4 && images.shape[1] > 0 && images.shape[2] > 0 && images.shape[3] > 0;
    if (!images_fit || size.size() != 2 || size[0] <= 0 || size[1] <= 0) {
      return context.fail_invalid(std::string(op()) + ": expected images of rank 4 and two positive sizes, got " +
                                  to_text(images) + " and " + to_text(size.data(), static_cast<int>(size.size())));
    }
    const bool keeps = size[0] == images.shape[1] && size[1] == images.shape[2];
    if (kMode == UHAL_RESIZE_LINEAR && keeps) return keep(context, images);
    const bool floating = contains(kFloats, images.dtype);
    const View source = kMode == UHAL_RESIZE_NEAREST && floating ? images : context.as(UHAL_FLOAT32, images);
    const View output = context.output(0, kMode == UHAL_RESIZE_NEAREST ? images.dtype : UHAL_FLOAT32,
                                       {images.shape[0], size[0], size[1], images.shape[3]});
    if (!context.ok() || output.elements() == 0) return;
    const bool direct = output.dtype == source.dtype;
    const View target = direct ? output : context.temporary(source.dtype, output.shape, output.rank);
    const View x = source.channels_first();
    const View y = target.channels_first();
    context.launch(UHAL_OP_RESIZE, {&x}, {&y}, &attributes_);
    if (!direct) context.cast(target, output);
  }

 private:
  // Every pixel keeps its place, and those beside it, though they be no numbers, have no part in it.
  static void keep(Context& context, const View& images) {
    const View output = context.output(0, UHAL_FLOAT32, images.shape, images.rank);
    if (context.ok() && output.elements() > 0) context.cast(images, output);
  }

  uhal_resize_attributes attributes_;
};

// Bilinear: (gradients, original images); nearest: (gradients, original size).
template <uhal_resize_mode kMode>
class ResizeGrad : public Kernel {
 public:
  explicit ResizeGrad(Construction& construction)
      : Kernel(construction), attributes_(resize_attributes(construction, kMode)) {
    check_corners(construction, attributes_);
  }
  void compute(Context& context) const override {
    const View gradient = context.input(0);
    if (!context.ok()) return;
    if (gradient.rank != 4) {
      return context.fail_invalid(std::string(op()) + ": expected gradients of rank 4, got " + to_text(gradient));
    }
    Shape shape = shape_of(gradient);
    uhal_dtype dtype = gradient.dtype;
    if (kMode == UHAL_RESIZE_NEAREST) {
      const Shape size = context.host_vector(1);
      if (!context.ok() || size.size() != 2 || size[0] <= 0 || size[1] <= 0)
        return context.fail_invalid(std::string(op()) + ": size must be two positive sizes, got " + to_text(size));
      shape[1] = size[0];
      shape[2] = size[1];
    } else {
      const View original = context.input(1);
      if (!context.ok()) return;
      const bool fits =
          original.rank == 4 && original.shape[1] > 0 && original.shape[2] > 0 && shape[1] > 0 && shape[2] > 0;
      if (!fits) {
        return context.fail_invalid(std::string(op()) + ": expected images of rank 4 with pixels, got " +
                                    to_text(original) + " and gradients " + to_text(gradient));
      }
      shape[1] = original.shape[1];
      shape[2] = original.shape[2];
      dtype = original.dtype;
    }
    const View output = context.output(0, dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const bool direct = dtype == gradient.dtype;
    const View target = direct ? output : context.temporary(gradient.dtype, output.shape, output.rank);
    const View dy = gradient.channels_first();
    const View dx = target.channels_first();
    context.launch(UHAL_OP_RESIZE_BACKWARD, {&dy}, {&dx}, &attributes_);
    if (!direct) context.cast(target, output);
  }

 private:
  uhal_resize_attributes attributes_;
};

// Blocks of pixels become channels (SpaceToDepth), or the other way round; NHWC.
template <bool kToDepth>
class SpaceDepth : public Kernel {
 public:
  explicit SpaceDepth(Construction& construction) : Kernel(construction), block_(construction.integer("block_size")) {
    if (construction.text("data_format") != "NHWC") {
      construction.refuse("only data_format NHWC is supported");
    }
    if (block_ < 2) {
      construction.fail(TF_INVALID_ARGUMENT, "block_size must be 2 or more, got " + std::to_string(block_));
    }
  }
  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    const int64_t b = block_;
    if (b > INT32_MAX) return context.fail_invalid(std::string(op()) + ": block_size " + std::to_string(b));
    const bool fits = input.rank == 4 &&
                      (kToDepth ? input.shape[1] % b == 0 && input.shape[2] % b == 0 : input.shape[3] % (b * b) == 0);
    if (!fits) {
      return context.fail_invalid(std::string(op()) + ": shape " + to_text(input) + " is not divisible by block_size " +
                                  std::to_string(b));
    }
    // Both sides as (N, H, W, row in block, column in block, C), H and W being the coarse ones.
    const int64_t n = input.shape[0];
    const int64_t h = kToDepth ? input.shape[1] / b : input.shape[1];
    const int64_t w = kToDepth ? input.shape[2] / b : input.shape[2];
    const int64_t c = kToDepth ? input.shape[3] : input.shape[3] / (b * b);
    const View output = kToDepth ? context.output(0, input.dtype, {n, h, w, b * b * c})
                                 : context.output(0, input.dtype, {n, h * b, w * b, c});
    if (!context.ok() || output.elements() == 0) return;
    const View& fine = kToDepth ? input : output;
    const View& deep = kToDepth ? output : input;
    const View blocks = fine.reshaped({n, h, b, w, b, c}).permuted({0, 1, 3, 2, 4, 5});
    const View channels = deep.reshaped({n, h, w, b, b, c});
    context.copy(kToDepth ? blocks : channels, kToDepth ? channels : blocks);
  }

 private:
  int64_t block_;
};

}  // namespace

void register_image(Registrar& registrar) {
  registrar.add<Resize<UHAL_RESIZE_LINEAR>>("ResizeBilinear", {{"T", kFloats | only(UHAL_UINT8)}}, {"size"});
  registrar.add<ResizeGrad<UHAL_RESIZE_LINEAR>>("ResizeBilinearGrad", {{"T", kFloats}});
  registrar.add<Resize<UHAL_RESIZE_NEAREST>>("ResizeNearestNeighbor", {{"T", kFloats | only(UHAL_UINT8)}}, {"size"});
  registrar.add<ResizeGrad<UHAL_RESIZE_NEAREST>>("ResizeNearestNeighborGrad", {{"T", kFloats}}, {"size"});
  registrar.add<SpaceDepth<true>>("SpaceToDepth", {{"T", kAll}});
  registrar.add<SpaceDepth<false>>("DepthToSpace", {{"T", kAll}});
}

}  // namespace unihal::tensorflow
