// Crops of images at boxes, boxes that others suppress, and patches of images.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// -- crops

uhal_iota_attributes counting(double start, double step) {
  uhal_iota_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.start = start;
  attributes.step = step;
  return attributes;
}

// The crops' places in the images, (boxes, rows, columns, 2) in pixels, across first.
class Crops {
 public:
  // `boxes` are (boxes, 4): y0, x0, y1, x1, where 0 and 1 are the centres of the first and the last pixel.
  Crops(Context& context, const View& boxes, const int64_t* lengths, const int64_t* sizes) : count_(boxes.shape[0]) {
    for (int axis = 0; axis < 2; ++axis) sizes_[axis] = sizes[axis];
    places = context.temporary(UHAL_FLOAT32, {count_, sizes[0], sizes[1], 2});
    for (int axis = 0; axis < 2 && context.ok(); ++axis) find_places(context, axis, boxes, lengths[axis]);
  }

  // Fills in the places. Coordinates outside [0, length - 1] go where nothing is read; `outside` (boxes, rows, columns)
  // tells which places have one, if wanted. With `nearest` the others become whole numbers, of two as near the one
  // farther from 0.
  void send_away(Context& context, const int64_t* lengths, bool nearest, View* outside) const {
    const View away = context.temporary(UHAL_FLOAT32, {1, 1});
    if (!context.ok() || places.elements() == 0) return;
    context.fill(away, -2, -2);
    View insides[2];
    for (int axis = 0; axis < 2; ++axis) {
      const View& at = coordinates_[axis];
      const View inside = context.temporary(UHAL_BOOL, {count_, sizes_[axis]}), clipped = context.temporary_like(at);
      if (!context.ok()) return;
      context.map(uhal_map_clip, {&at}, {&clipped}, {0, static_cast<double>(lengths[axis] - 1)});
      context.map(uhal_map_equal, {&at, &clipped}, {&inside});
      context.map(uhal_map_select, {&inside, &at, &away}, {&at});
      if (nearest) context.map(uhal_map_round_half_away, {&at}, {&at});
      insides[axis] = across_places(inside, axis, 0);
      context.copy(across_places(at, axis, 1), places.sliced(3, 1 - axis, 1));
    }
    if (outside != nullptr) {
      *outside = context.temporary(UHAL_BOOL, {count_, sizes_[0], sizes_[1]});
      if (!context.ok()) return;
      context.map(uhal_map_logical_and, {&insides[0], &insides[1]}, {outside});
      context.map(uhal_map_logical_not, {outside}, {outside});
    }
  }

  // dplaces -> dboxes (boxes, 4). Places exactly at a pixel have no gradient along that axis: TensorFlow's CPU takes
  // the pixel for both of the neighbours.
  void backward(Context& context, const int64_t* lengths, const View& dplaces, const View& dboxes) const {
    const View whole = context.temporary_like(places), between = context.temporary(UHAL_BOOL, shape_of(places));
    if (!context.ok()) return;
    context.map(uhal_map_floor, {&places}, {&whole});
    context.map(uhal_map_not_equal, {&places, &whole}, {&between});
    context.map(uhal_map_multiply, {&dplaces, &between}, {&dplaces});
    for (int axis = 0; axis < 2; ++axis) {
      const View sums =
          context.temporary(UHAL_FLOAT32, {count_, axis == 0 ? sizes_[0] : 1, axis == 0 ? 1 : sizes_[1], 1});
      if (!context.ok()) return;
      const View gradient = dplaces.sliced(3, 1 - axis, 1);
      const uhal_reduce_attributes sum = reduce_attributes(UHAL_REDUCE_SUM);
      context.launch(UHAL_OP_REDUCE, {&gradient}, {&sums}, &sum);
      const View rows = sums.reshaped({count_, sizes_[axis]}),
                 columns = slopes(context, axis, lengths[axis]).transposed();
      if (!context.ok()) return;
      const View to = dboxes.sliced(1, axis, 2, 2);
      uhal_matmul_attributes product = matmul_attributes(UHAL_MATH_STRICT);
      context.launch(UHAL_OP_MATMUL, {&rows, &columns}, {&to}, &product);
    }
  }

  View places;

 private:
  // A view (boxes, rows or columns) as (boxes, rows, columns), with axes of length 1 behind.
  View across_places(const View& view, int axis, int more) const {
    Shape shape = {count_, axis == 0 ? sizes_[0] : 1, axis == 0 ? 1 : sizes_[1]};
    if (more != 0) shape.push_back(1);
    return view.reshaped(shape);
  }

  // In the order of TensorFlow's CPU, whose roundings decide whether a place at an edge is inside.
  void find_places(Context& context, int axis, const View& boxes, int64_t length) {
    const int64_t size = sizes_[axis];
    const auto reach = static_cast<double>(length - 1);
    const View low = boxes.sliced(1, axis, 1), high = boxes.sliced(1, axis + 2, 1);
    const View start = context.temporary(UHAL_FLOAT32, {count_, 1}),
               step = context.temporary(UHAL_FLOAT32, {count_, 1});
    const View line = context.temporary(UHAL_FLOAT32, {size});
    const View along = coordinates_[axis] = context.temporary(UHAL_FLOAT32, {count_, size});
    const View intervals = context.temporary(UHAL_FLOAT32, {1});
    if (!context.ok() || along.elements() == 0) return;
    if (size > 1) {
      const auto up = counting(0, 1);
      context.launch(UHAL_OP_IOTA, {}, {&line}, &up);
      context.fill(intervals, static_cast<double>(size - 1), 0);
      context.map(uhal_map_subtract, {&high, &low}, {&step});
      context.map(uhal_map_scale, {&step}, {&step}, {reach, 0});
      context.map(uhal_map_divide, {&step, &intervals}, {&step});
      context.map(uhal_map_scale, {&low}, {&start}, {reach, 0});
      context.map(uhal_map_multiply, {&line, &step}, {&along});
      context.map(uhal_map_add, {&start, &along}, {&along});
    } else {
      context.map(uhal_map_add, {&low, &high}, {&along});
      context.map(uhal_map_scale, {&along}, {&along}, {0.5, 0});
      context.map(uhal_map_scale, {&along}, {&along}, {reach, 0});
    }
  }

  // The places' derivatives by a box's two corners along an axis, (2, rows or columns).
  View slopes(Context& context, int axis, int64_t length) const {
    const int64_t size = sizes_[axis];
    const View both = context.temporary(UHAL_FLOAT32, {2, size});
    if (!context.ok() || size == 0) return both;
    const auto reach = static_cast<double>(length - 1);
    if (size == 1) {
      context.fill(both, reach / 2, 0);
      return both;
    }
    const double step = reach / static_cast<double>(size - 1);
    const auto down = counting(reach, -step), up = counting(0, step);
    const View first = both.sliced(0, 0, 1).reshaped({size}), second = both.sliced(0, 1, 1).reshaped({size});
    context.launch(UHAL_OP_IOTA, {}, {&first}, &down);
    context.launch(UHAL_OP_IOTA, {}, {&second}, &up);
    return both;
  }

  View coordinates_[2];  // (boxes, rows) and (boxes, columns)
  int64_t count_, sizes_[2];
};

uhal_grid_sample_attributes sampling(bool nearest) {
  uhal_grid_sample_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = nearest ? UHAL_GRID_SAMPLE_NEAREST : UHAL_GRID_SAMPLE_LINEAR;
  attributes.padding = UHAL_GRID_SAMPLE_ZEROS;
  attributes.in_pixels = 1;
  return attributes;
}

// What the three kernels have in common: the boxes and the images that these are of.
class CropKernel : public Kernel {
 public:
  explicit CropKernel(Construction& construction) : Kernel(construction) {
    const std::string method = construction.text("method");
    nearest_ = method == "nearest";
    if (!nearest_ && method != "bilinear") {
      construction.fail(TF_INVALID_ARGUMENT, "method must be 'bilinear' or 'nearest', not " + method);
    }
  }

 protected:
  // Whether boxes are (boxes, 4) with a number of an image each, all of them below `images`. Reads the numbers back.
  bool check_boxes(Context& context, const View& boxes, const View& numbers, int64_t images) const {
    if (!context.ok()) return false;
    if (boxes.rank != 2 || boxes.shape[1] != 4 || numbers.rank != 1 || numbers.shape[0] != boxes.shape[0]) {
      context.fail_invalid(std::string(op()) + ": expected boxes of shape [boxes,4] and box_ind of as many, got " +
                           to_text(boxes) + " and " + to_text(numbers));
      return false;
    }
    std::vector<int32_t> read(static_cast<size_t>(numbers.elements()));
    if (read.empty()) return true;
    uhal_stream* stream = context.stream();
    if (!context.ok()) return false;
    if (!context.check(
            uhal_copy(stream, read.data(), numbers.data, read.size() * sizeof read[0], UHAL_COPY_DEVICE_TO_HOST)) ||
        !context.check(uhal_stream_synchronize(stream))) {
      return false;
    }
    for (const int32_t number : read) {
      if (number >= 0 && number < images) continue;
      context.fail(TF_OUT_OF_RANGE, std::string(op()) + ": box_index has values outside [0, batch_size)");
      return false;
    }
    return true;
  }

  // Whether boxes are finite, as far as that is known without waiting; fails the context if not.
  static bool check_finite(Context& context, const View& boxes) {
    if (!context.computes_at_once()) return context.ok();
    const auto* const first = static_cast<const float*>(boxes.data);
    if (!std::all_of(first, first + boxes.elements(), [](float at) { return std::isfinite(at); })) {
      context.fail_invalid("Boxes contains at least one element that is not finite");
    }
    return context.ok();
  }

  // The view in a dtype, through a copy if it has another.
  static View as(Context& context, uhal_dtype dtype, const View& view) {
    if (!context.ok() || view.dtype == dtype) return view;
    const View converted = context.temporary(dtype, view.shape, view.rank);
    if (view.elements() > 0) context.cast(view, converted);
    return converted;
  }

  bool nearest_ = false;
};

// (images, boxes, box_ind, crop_size) -> float32
class CropAndResize : public CropKernel {
 public:
  explicit CropAndResize(Construction& construction)
      : CropKernel(construction), outside_(construction.real("extrapolation_value")) {}
  void compute(Context& context) const override {
    const View images = context.input(0), boxes = context.input(1), numbers = context.input(2);
    const Shape size = context.host_vector(3);
    if (!context.ok()) return;
    const bool fits = images.rank == 4 && images.shape[1] > 0 && images.shape[2] > 0 && size.size() == 2;
    if (!fits || size[0] <= 0 || size[1] <= 0) {
      return context.fail_invalid(std::string(op()) +
                                  ": expected images of rank 4 with pixels and two positive sizes, got " +
                                  to_text(images) + " and " + to_text(size));
    }
    if (!check_boxes(context, boxes, numbers, images.shape[0]) || !check_finite(context, boxes)) return;
    const View output = context.output(0, UHAL_FLOAT32, {boxes.shape[0], size[0], size[1], images.shape[3]});
    if (!context.ok() || output.elements() == 0) return;
    const View x = as(
        context, contains(kFloats, images.dtype) && images.dtype != UHAL_FLOAT64 ? images.dtype : UHAL_FLOAT32, images);
    const Crops crops(context, boxes, images.shape + 1, size.data());
    View outside;
    crops.send_away(context, images.shape + 1, nearest_, outside_ != 0 ? &outside : nullptr);
    if (!context.ok()) return;
    const View from = x.channels_first(), to = output.channels_first();
    const auto attributes = sampling(nearest_);
    context.launch(UHAL_OP_GRID_SAMPLE, {&from, &crops.places, &numbers}, {&to}, &attributes);
    if (outside_ == 0) return;
    const View value = context.temporary(UHAL_FLOAT32, {1, 1, 1, 1});
    if (!context.ok()) return;
    context.fill(value, outside_, 0);
    const View where = outside.unsqueezed(3);
    context.map(uhal_map_select, {&where, &value, &output}, {&output});
  }

 private:
  double outside_;
};

// (gradients, boxes, box_ind, image_size) -> T
class CropAndResizeGradImage : public CropKernel {
 public:
  explicit CropAndResizeGradImage(Construction& construction)
      : CropKernel(construction), dtype_(construction.dtype("T")) {}
  void compute(Context& context) const override {
    const View gradients = context.input(0), boxes = context.input(1), numbers = context.input(2);
    const Shape size = context.host_vector(3);
    if (!context.ok()) return;
    const bool fits = gradients.rank == 4 && gradients.shape[1] > 0 && gradients.shape[2] > 0 && size.size() == 4 &&
                      size[1] > 0 && size[2] > 0 && size[3] == gradients.shape[3];
    if (!fits || gradients.shape[0] != boxes.shape[0]) {
      return context.fail_invalid(std::string(op()) + ": gradients " + to_text(gradients) + " do not fit images " +
                                  to_text(size) + " and boxes " + to_text(boxes));
    }
    if (!context.check_shape(dtype_, size) || !check_boxes(context, boxes, numbers, size[0])) return;
    const View output = context.output(0, dtype_, size);
    if (!context.ok() || output.elements() == 0) return;
    const Crops crops(context, boxes, size.data() + 1, gradients.shape + 1);
    crops.send_away(context, size.data() + 1, nearest_, nullptr);
    if (!context.ok()) return;
    const View from = gradients.channels_first(), to = output.channels_first();
    const auto attributes = sampling(nearest_);
    context.launch(UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, {&from, &crops.places, &numbers}, {&to}, &attributes);
  }

 private:
  uhal_dtype dtype_;
};

// (gradients, images, boxes, box_ind) -> float32
class CropAndResizeGradBoxes : public CropKernel {
 public:
  explicit CropAndResizeGradBoxes(Construction& construction) : CropKernel(construction) {
    if (nearest_) construction.fail(TF_INVALID_ARGUMENT, "method must be 'bilinear'");
  }
  void compute(Context& context) const override {
    const View gradients = context.input(0), images = context.input(1), boxes = context.input(2);
    const View numbers = context.input(3);
    if (!context.ok()) return;
    const bool fits = gradients.rank == 4 && gradients.shape[1] > 0 && gradients.shape[2] > 0 && images.rank == 4 &&
                      images.shape[1] > 0 && images.shape[2] > 0 && images.shape[3] == gradients.shape[3];
    if (!fits || boxes.rank != 2 || gradients.shape[0] != boxes.shape[0]) {
      return context.fail_invalid(std::string(op()) + ": gradients " + to_text(gradients) + " do not fit images " +
                                  to_text(images) + " and boxes " + to_text(boxes));
    }
    if (!check_boxes(context, boxes, numbers, images.shape[0])) return;
    const View output = context.output_like(0, boxes);
    if (!context.ok() || output.elements() == 0) return;
    const View x = as(context, UHAL_FLOAT32, images);
    const Crops crops(context, boxes, images.shape + 1, gradients.shape + 1);
    crops.send_away(context, images.shape + 1, nearest_, nullptr);
    const View dplaces = context.temporary_like(crops.places);
    if (!context.ok()) return;
    const View dy = gradients.channels_first(), from = x.channels_first();
    const auto attributes = sampling(nearest_);
    context.launch(UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, {&dy, &from, &crops.places, &numbers}, {&dplaces}, &attributes);
    crops.backward(context, images.shape + 1, dplaces, output);
  }
};

// -- suppression

// (boxes, scores, max_output_size, iou_threshold, [score_threshold, [soft_nms_sigma]])
// -> indices, [scores], [how many are valid]. Scores that overlaps lower (a sigma) are left to the CPU.
template <int kVersion>
class NonMaxSuppression : public Kernel {
 public:
  explicit NonMaxSuppression(Construction& construction)
      : Kernel(construction), pads_(kVersion >= 4 && construction.boolean("pad_to_max_output_size")) {}
  void compute(Context& context) const override {
    const View boxes = context.input(0), scores = context.input(1);
    const int64_t most = context.host_integer(2, 0);
    const std::vector<double> limits = read_scalars(context, 3, kVersion >= 5 ? 3 : kVersion >= 3 ? 2 : 1);
    if (!context.ok()) return;
    const double overlap = limits[0];
    const double least = kVersion >= 3 ? limits[1] : -static_cast<double>(FLT_MAX);
    const double deviation = kVersion >= 5 ? limits[2] : 0;
    if (deviation != 0) return context.refuse("soft suppression");
    if (most < 0)
      return context.fail_invalid(std::string(op()) + ": max_output_size must be non-negative, got " +
                                  std::to_string(most));
    if (!(overlap >= 0 && overlap <= 1)) {
      return context.fail_invalid(std::string(op()) + ": iou_threshold must be in [0, 1]");
    }
    if (boxes.rank != 2 || boxes.shape[1] != 4 || scores.rank != 1 || scores.shape[0] != boxes.shape[0]) {
      return context.fail_invalid(std::string(op()) + ": expected boxes of shape [boxes,4] and a score for each, got " +
                                  to_text(boxes) + " and " + to_text(scores));
    }
    const int64_t count = boxes.shape[0];
    int64_t kept = 0;
    View chosen, scores_of_chosen;  // the numbers of kept boxes, the best first
    if (count > 0 && most > 0) {
      const View sorted = context.temporary_like(scores), order = context.temporary(UHAL_INT32, {count});
      const View in_order = context.temporary_like(boxes), keep = context.temporary(UHAL_BOOL, {count});
      if (!context.ok()) return;
      // Scores that are too low, or none at all (NaN), come last, and suppress none before them.
      const View limit = context.temporary(scores.dtype, {1}), lowest = context.temporary(scores.dtype, {1});
      const View counts = context.temporary(UHAL_BOOL, {count}), allowed = context.temporary(UHAL_BOOL, {count});
      const View usable = context.temporary_like(scores);
      if (!context.ok()) return;
      context.fill(limit, least, 0);
      context.fill(lowest, -HUGE_VAL, 0);
      context.map(uhal_map_greater, {&scores, &limit}, {&counts});
      context.map(uhal_map_select, {&counts, &scores, &lowest}, {&usable});
      const uhal_axis_attributes descending = axis_attributes(0, true);
      context.launch(UHAL_OP_SORT, {&usable}, {&sorted, &order}, &descending);
      const uhal_index_attributes rows = index_attributes(0);
      context.launch(UHAL_OP_GATHER, {&boxes, &order}, {&in_order}, &rows);
      context.launch(UHAL_OP_GATHER, {&counts, &order}, {&allowed}, &rows);
      const View found = context.temporary(UHAL_INT64, {1}), places = context.temporary(UHAL_INT32, {count, 1});
      uhal_stream* stream = context.stream();
      if (!context.ok()) return;
      // Of many boxes the first few give as many as are wanted, mostly; where they do not, more are looked at.
      const uhal_non_max_suppression_attributes suppression = {sizeof suppression, overlap, 1, 0, 0, 0};
      for (int64_t looked = 0; looked < count && kept < most;) {
        looked = std::min(count, std::max<int64_t>(kFirst, kMore * std::max(looked, std::min(most, count))));
        const View some = in_order.sliced(0, 0, looked), stays = keep.sliced(0, 0, looked);
        const View may = allowed.sliced(0, 0, looked), where = places.sliced(0, 0, looked);
        context.launch(UHAL_OP_NON_MAX_SUPPRESSION, {&some}, {&stays}, &suppression);
        context.map(uhal_map_logical_and, {&stays, &may}, {&stays});
        context.launch(UHAL_OP_NONZERO, {&stays}, {&found, &where});
        if (!context.ok() ||
            !context.check(uhal_copy(stream, &kept, found.data, sizeof kept, UHAL_COPY_DEVICE_TO_HOST)) ||
            !context.check(uhal_stream_synchronize(stream))) {
          return;
        }
      }
      kept = std::min(kept, most);
      chosen = context.temporary(UHAL_INT32, {kept});
      if (!context.ok()) return;
      const View first = places.sliced(0, 0, kept).reshaped({kept});
      if (kept > 0) context.launch(UHAL_OP_GATHER, {&order, &first}, {&chosen}, &rows);
      if (kVersion >= 5) {
        scores_of_chosen = context.temporary(scores.dtype, {kept});
        if (kept > 0) context.launch(UHAL_OP_GATHER, {&scores, &chosen}, {&scores_of_chosen}, &rows);
      }
    }
    give(context, 0, UHAL_INT32, chosen, kept, most);
    if (kVersion >= 5) give(context, 1, scores.dtype, scores_of_chosen, kept, most);
    if (kVersion >= 4) {
      const View valid = context.output(kVersion >= 5 ? 2 : 1, UHAL_INT32, Shape{});
      if (context.ok()) context.fill(valid, static_cast<double>(kept), kept);
    }
  }

 private:
  // Boxes that are looked at first, at least; and how many times as many the next time.
  static constexpr int64_t kFirst = 256, kMore = 4;

  // An output of the kept boxes, filled up with zeros if that is wanted.
  void give(Context& context, int number, uhal_dtype dtype, const View& chosen, int64_t kept, int64_t most) const {
    const View output = context.output(number, dtype, {pads_ ? most : kept});
    if (!context.ok()) return;
    if (output.elements() > kept) context.zero(output.sliced(0, kept, output.elements() - kept));
    if (kept > 0) context.copy(chosen, output.sliced(0, 0, kept));
  }

  bool pads_;
};

// -- patches

// (images) -> what windows hold, along the last axis: pixels, channels innermost.
template <int kAxes>
class ExtractPatches : public Kernel {
 public:
  explicit ExtractPatches(Construction& construction)
      : Kernel(construction),
        size_(construction.integers("ksizes")),
        stride_(construction.integers("strides")),
        rate_(kAxes == 2 ? construction.integers("rates") : Shape(kAxes + 2, 1)) {
    const std::string padding = construction.text("padding");
    same_ = padding == "SAME";
    if (!same_ && padding != "VALID") construction.fail(TF_INVALID_ARGUMENT, "Invalid padding: " + padding);
    for (Shape* list : {&size_, &stride_, &rate_}) {
      if (list->size() > kAxes + 2) list->resize(kAxes + 2);  // as TensorFlow's CPU, which does not look at the rest
      if (list->size() != kAxes + 2) {
        construction.fail(TF_INVALID_ARGUMENT,
                          "sizes, strides and rates must have " + std::to_string(kAxes + 2) + " numbers each");
      } else if (list->front() != 1 || list->back() != 1) {
        construction.fail(TF_UNIMPLEMENTED, "Only support sizes, strides and rates of 1 along batch and channels.");
      } else if (*std::min_element(list->begin(), list->end()) < 1) {
        construction.fail(TF_OUT_OF_RANGE, "sizes, strides and rates must be positive");
      }
    }
  }
  void compute(Context& context) const override {
    const View images = context.input(0);
    if (!context.ok()) return;
    if (images.rank != kAxes + 2) {
      return context.fail_invalid(std::string(op()) + ": input must be " + std::to_string(kAxes + 2) + "-dimensional" +
                                  to_text(images));
    }
    Shape shape = shape_of(images), padded = shape;
    int64_t before[kAxes], elements = 1;
    for (size_t i = 0; i < kAxes; ++i) {
      const int64_t length = images.shape[1 + i], stride = stride_[1 + i];
      const int64_t reach = (size_[1 + i] - 1) * rate_[1 + i] + 1;
      const int64_t out = same_ ? (length + stride - 1) / stride : (length - reach + stride) / stride;
      if (out < 0) {
        return context.fail_invalid(std::string(op()) + ": windows of " + std::to_string(reach) +
                                    " pixels do not fit " + to_text(images));
      }
      const int64_t missing = same_ ? std::max<int64_t>(0, (out - 1) * stride + reach - length) : 0;
      before[i] = missing / 2;
      padded[1 + i] = std::max(length + missing, out > 0 ? (out - 1) * stride + reach : 0);
      shape[1 + i] = out;
      elements *= size_[1 + i];
    }
    shape.back() *= elements;
    const View output = context.output(0, images.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    View source = images;
    if (padded != shape_of(images)) {
      source = context.temporary(images.dtype, padded);
      if (!context.ok()) return;
      context.zero(source);
      View inside = source;
      for (int i = 0; i < kAxes; ++i) inside = inside.sliced(1 + i, before[i], images.shape[1 + i]);
      context.copy(images, inside);
    }
    // Both as (N, windows..., elements of a window..., C).
    View windows = source;
    Shape dims = {images.shape[0]};
    windows.rank = 2 + 2 * kAxes;
    for (int i = 0; i < kAxes; ++i) {
      windows.shape[1 + i] = shape[static_cast<size_t>(1 + i)];
      windows.strides[1 + i] = source.strides[1 + i] * stride_[static_cast<size_t>(1 + i)];
      windows.shape[1 + kAxes + i] = size_[static_cast<size_t>(1 + i)];
      windows.strides[1 + kAxes + i] = source.strides[1 + i] * rate_[static_cast<size_t>(1 + i)];
    }
    windows.shape[1 + 2 * kAxes] = images.shape[1 + kAxes];
    windows.strides[1 + 2 * kAxes] = 1;
    for (int i = 1; i < windows.rank; ++i) dims.push_back(windows.shape[i]);
    context.copy(windows, output.reshaped(dims));
  }

 private:
  Shape size_, stride_, rate_;
  bool same_ = false;
};

constexpr DtypeSet kCropped = (kNumbers & ~(only(UHAL_UINT32) | only(UHAL_UINT64) | only(UHAL_BFLOAT16)));
constexpr DtypeSet kCropGradients = only(UHAL_FLOAT16) | only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
constexpr DtypeSet kSingle = only(UHAL_FLOAT32);

}  // namespace

void register_detection(Registrar& registrar) {
  registrar.add<CropAndResize>("CropAndResize", {{"T", kCropped}}, {"crop_size"});
  registrar.add<CropAndResizeGradImage>("CropAndResizeGradImage", {{"T", kCropGradients}}, {"image_size"});
  registrar.add<CropAndResizeGradBoxes>("CropAndResizeGradBoxes", {{"T", kCropped}});
  registrar.add<NonMaxSuppression<2>>("NonMaxSuppressionV2", {{"T", kSingle}, {"T_threshold", kSingle}},
                                      {"max_output_size"});
  registrar.add<NonMaxSuppression<3>>("NonMaxSuppressionV3", {{"T", kSingle}, {"T_threshold", kSingle}},
                                      {"max_output_size"});
  registrar.add<NonMaxSuppression<4>>("NonMaxSuppressionV4", {{"T", kSingle}, {"T_threshold", kSingle}},
                                      {"max_output_size"});
  registrar.add<NonMaxSuppression<5>>("NonMaxSuppressionV5", {{"T", kSingle}}, {"max_output_size"});
  registrar.add<ExtractPatches<2>>("ExtractImagePatches", {{"T", kNumbers | kComplex}});
  registrar.add<ExtractPatches<3>>("ExtractVolumePatches", {{"T", kNumbers}});
}

}  // namespace unihal::tensorflow
