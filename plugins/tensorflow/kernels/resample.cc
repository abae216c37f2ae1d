// Resizes of images by kernels: bicubic, area, and ScaleAndTranslate (which antialiasing is).
#include "plugins/tensorflow/kernels/resample_table.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// y = x (N, H, W, C) by a table for rows and one for columns; both float32.
void resample(Context& context, const View& x, const ResampleTable& rows, const ResampleTable& columns, const View& y) {
  std::vector<char> bytes;
  rows.append(bytes);
  columns.append(bytes);
  const View operands = context.temporary(UHAL_UINT8, {static_cast<int64_t>(bytes.size())});
  if (!context.upload(std::move(bytes), operands)) return;
  // The axis first that leaves less for the other.
  const bool rows_first = y.shape[1] * x.shape[2] <= x.shape[1] * y.shape[2];
  const View between = rows_first ? context.temporary(UHAL_FLOAT32, {y.shape[0], y.shape[1], x.shape[2], y.shape[3]})
                                  : context.temporary(UHAL_FLOAT32, {y.shape[0], x.shape[1], y.shape[2], y.shape[3]});
  if (!context.ok()) return;
  const int64_t bytes_of_rows = rows.outputs() * (1 + rows.taps()) * 4;
  const auto along = [&](int axis, const View& from, const View& to) {
    const ResampleTable& table = axis == 1 ? rows : columns;
    char* const data = static_cast<char*>(operands.data) + (axis == 1 ? 0 : bytes_of_rows);
    const View first(data, UHAL_INT32, {table.outputs()});
    const View weights(data + table.outputs() * 4, UHAL_FLOAT32, {table.outputs(), table.taps()});
    const uhal_axis_attributes attributes = axis_attributes(axis, false);
    context.launch(UHAL_OP_RESAMPLE, {&from, &first, &weights}, {&to}, &attributes);
  };
  along(rows_first ? 1 : 2, x, between);
  along(rows_first ? 2 : 1, between, y);
}

// The tables of a kind of resize, for images of these sizes and results of those.
struct Tables {
  ResampleTable rows, columns;
};

class Bicubic {
 public:
  static constexpr bool kNeedsPixels = true;  // the gradient, of images and results
  explicit Bicubic(Construction& construction)
      : align_corners_(construction.boolean("align_corners")),
        half_pixel_centers_(construction.boolean("half_pixel_centers")) {
    if (align_corners_ && half_pixel_centers_) {
      construction.fail(TF_INVALID_ARGUMENT, "If half_pixel_centers is True, align_corners must be False.");
    }
  }
  Tables tables(Context&, const View& images, const Shape& size) const {
    return {bicubic_table(images.shape[1], size[0], align_corners_, half_pixel_centers_),
            bicubic_table(images.shape[2], size[1], align_corners_, half_pixel_centers_)};
  }

 private:
  bool align_corners_, half_pixel_centers_;
};

class Area {
 public:
  explicit Area(Construction& construction) : align_corners_(construction.boolean("align_corners")) {}
  Tables tables(Context&, const View& images, const Shape& size) const {
    return {area_table(images.shape[1], size[0], align_corners_), area_table(images.shape[2], size[1], align_corners_)};
  }

 private:
  bool align_corners_;
};

// Inputs 2 and 3 of the node are the scale and the translation, of rows and columns.
class ScaledAndTranslated {
 public:
  static constexpr bool kNeedsPixels = false;
  explicit ScaledAndTranslated(Construction& construction)
      : kernel_(construction.text("kernel_type")), antialias_(construction.boolean("antialias")) {
    if (!is_sampling_kernel(kernel_)) construction.fail(TF_INVALID_ARGUMENT, "Unrecognized kernel type: " + kernel_);
  }
  Tables tables(Context& context, const View& images, const Shape& size) const {
    Tables result = {ResampleTable(images.shape[1]), ResampleTable(images.shape[2])};
    const View scale = context.flat_input(2), translation = context.flat_input(3);
    if (!context.ok()) return result;
    if (context.dims(2) != Shape{2} || context.dims(3) != Shape{2}) {
      context.fail_invalid("ScaleAndTranslate: scale and translation must be two numbers each, got shapes " +
                           to_text(context.dims(2)) + " and " + to_text(context.dims(3)));
      return result;
    }
    const auto* scales = static_cast<const float*>(scale.data);
    const auto* translations = static_cast<const float*>(translation.data);
    if (!(scales[0] > 0 && scales[1] > 0)) {
      context.fail_invalid("ScaleAndTranslate: Scale must be greater than zero.");
      return result;
    }
    for (int i = 0; i < 2; ++i) {
      (i == 0 ? result.rows : result.columns) = scale_and_translate_table(
          kernel_, images.shape[1 + i], size[static_cast<size_t>(i)], scales[i], translations[i], antialias_);
    }
    return result;
  }

 private:
  std::string kernel_;
  bool antialias_;
};

// (images, size, ...) -> float32, whatever the images are.
template <class Kind>
class Resample : public Kernel {
 public:
  explicit Resample(Construction& construction) : Kernel(construction), kind_(construction) {}
  void compute(Context& context) const override {
    const View images = context.input(0);
    const Shape size = context.host_vector(1);
    if (!context.ok()) return;
    const bool images_fit = images.rank == 4 && images.shape[1] > 0 && images.shape[2] > 0 && images.shape[3] > 0;
    if (!images_fit || size.size() != 2 || size[0] <= 0 || size[1] <= 0) {
      return context.fail_invalid(std::string(op()) + ": expected images of rank 4 and two positive sizes, got " +
                                  to_text(images) + " and " + to_text(size));
    }
    const Shape shape = {images.shape[0], size[0], size[1], images.shape[3]};
    // Before tables are made for sizes that no tensor has.
    if (!context.check_shape(UHAL_FLOAT32, shape)) return;
    const Tables tables = kind_.tables(context, images, size);
    const View output = context.output(0, UHAL_FLOAT32, shape);
    if (!context.ok() || output.elements() == 0) return;
    const View x = context.as(UHAL_FLOAT32, images);
    resample(context, x, tables.rows, tables.columns, output);
  }

 private:
  Kind kind_;
};

// (gradients, original images, ...): by the transposed tables.
template <class Kind>
class ResampleGrad : public Kernel {
 public:
  explicit ResampleGrad(Construction& construction) : Kernel(construction), kind_(construction) {}
  void compute(Context& context) const override {
    const View gradients = context.input(0), images = context.input(1);
    if (!context.ok()) return;
    bool fits = gradients.rank == 4 && images.rank == 4;
    for (int i = 1; i < 3 && fits && Kind::kNeedsPixels; ++i) fits = images.shape[i] > 0 && gradients.shape[i] > 0;
    if (!fits) {
      return context.fail_invalid(std::string(op()) + ": expected gradients and images of rank 4 with pixels, got " +
                                  to_text(gradients) + " and " + to_text(images));
    }
    // Batch and channels are those of the gradients, as TensorFlow's CPU has it.
    Shape shape = shape_of(gradients);
    shape[1] = images.shape[1];
    shape[2] = images.shape[2];
    const Tables tables = kind_.tables(context, images, {gradients.shape[1], gradients.shape[2]});
    const View output = context.output(0, images.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const bool direct = output.dtype == UHAL_FLOAT32;
    const View target = direct ? output : context.temporary(UHAL_FLOAT32, output.shape, output.rank);
    resample(context, gradients, tables.rows.transposed(), tables.columns.transposed(), target);
    if (!direct) context.cast(target, output);
  }

 private:
  Kind kind_;
};

constexpr DtypeSet kImages = kNumbers & ~(only(UHAL_UINT32) | only(UHAL_UINT64));
}  // namespace

void register_resample(Registrar& registrar) {
  registrar.add<Resample<Bicubic>>("ResizeBicubic", {{"T", kImages}}, {"size"});
  registrar.add<ResampleGrad<Bicubic>>("ResizeBicubicGrad", {{"T", kWideFloats}});
  registrar.add<Resample<Area>>("ResizeArea", {{"T", kImages}}, {"size"});
  registrar.add<Resample<ScaledAndTranslated>>("ScaleAndTranslate", {{"T", kImages}}, {"size", "scale", "translation"});
  registrar.add<ResampleGrad<ScaledAndTranslated>>("ScaleAndTranslateGrad", {{"T", only(UHAL_FLOAT32)}},
                                                   {"scale", "translation"});
}

}  // namespace unihal::tensorflow
