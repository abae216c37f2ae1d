// Convolutions in other forms: images of columns, and the causal convolution of state-space models.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// x (N, C * pixels of a block, blocks), image_shape, block_shape (host) -> (N, C, image): each block's pixels added to
// where they lie.
class Col2Im final : public Kernel {
 public:
  explicit Col2Im(const Description& node)
      : dilations_(node.integers("dilations").value_or(Shape())),
        pads_(node.integers("pads").value_or(Shape())),
        strides_(node.integers("strides").value_or(Shape())) {}

  void run(Call& call) const override {
    const View x = call.input(0);
    const Shape image = call.integers(1), block = call.integers(2);
    const size_t axes = image.size();
    call.require(x.rank == 3 && axes >= 1 && block.size() == axes && 2 + 2 * axes <= UHAL_MAX_RANK,
                 "x has not 3 axes, or the image and the block not as many as each other");
    const auto fits = [&](const Shape& list, size_t count) { return list.empty() || list.size() == count; };
    call.require(fits(dilations_, axes) && fits(strides_, axes) && fits(pads_, 2 * axes),
                 "an attribute has not an entry for each axis");
    const int64_t pixels = elements_of(block);
    call.require(pixels > 0 && x.shape[1] % pixels == 0, "the channels are no whole blocks");
    Shape split = {x.shape[0], x.shape[1] / pixels}, whole = split, result = split;
    split.insert(split.end(), block.begin(), block.end());
    int64_t blocks = 1;
    for (size_t i = 0; i < axes; ++i) {
      const int64_t padded = image[i] + pad(i) + pad(axes + i), extent = (block[i] - 1) * dilation(i) + 1;
      call.require(padded >= extent && stride(i) > 0, "the block is larger than the padded image");
      split.push_back((padded - extent) / stride(i) + 1);
      blocks *= split.back();
      whole.push_back(padded);
      result.push_back(image[i]);
    }
    call.require(blocks == x.shape[2], "there are not as many columns as blocks");
    const View y = call.output(0, result);
    if (y.elements() == 0) return;
    const View columns = x.reshaped(split), sum = call.scratch(whole, x.dtype);
    call.fill(sum, 0);
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      View from = columns, to = sum;
      int64_t rest = pixel;
      for (size_t i = axes; i-- > 0;) {
        const int64_t place = rest % block[i];
        rest /= block[i];
        from = from.sliced(static_cast<int>(2 + i), place, 1);
        to = to.sliced(static_cast<int>(2 + i), place * dilation(i), split[2 + axes + i], stride(i));
      }
      // Without the block's axes, which have one pixel each.
      for (size_t i = 0; i < axes; ++i) {
        from.shape[2 + i] = from.shape[2 + axes + i];
        from.strides[2 + i] = from.strides[2 + axes + i];
      }
      from.rank = static_cast<int32_t>(2 + axes);
      call.map(uhal_map_add, {&to, &from}, {&to});
    }
    View inside = sum;
    for (size_t i = 0; i < axes; ++i) inside = inside.sliced(static_cast<int>(2 + i), pad(i), image[i]);
    call.launch(UHAL_OP_COPY, {&inside}, {&y});
  }

 private:
  int64_t dilation(size_t axis) const { return dilations_.empty() ? 1 : dilations_[axis]; }
  int64_t stride(size_t axis) const { return strides_.empty() ? 1 : strides_[axis]; }
  int64_t pad(size_t place) const { return pads_.empty() ? 0 : pads_[place]; }

  const Shape dilations_, pads_, strides_;
};

// x (N, C, height, width), w (O, C / group, kh, kw), offset (N, offset groups * kh * kw * 2, oh, ow), bias, mask (N,
// offset groups * kh * kw, oh, ow): a convolution whose window has each pixel at a place of its own, between those of
// x.
class DeformConv final : public Kernel {
 public:
  explicit DeformConv(const Description& node)
      : window_(node), groups_(node.integer("group", 1)), offset_groups_(node.integer("offset_group", 1)) {
    const auto& shape = node.input(0).shape;
    node.require(!shape || shape->size() == 4, "other than 2 spatial axes");
    node.require(groups_ > 0 && offset_groups_ > 0, "groups that are not positive");
  }

  void run(Call& call) const override {
    const View x = call.input(0), w = call.input(1), offset = call.input(2);
    call.require(x.rank == 4 && w.rank == 4 && offset.rank == 4, "x, w and the offset have not 4 axes each");
    window_.check(call, 2);
    call.require(x.shape[1] == w.shape[1] * groups_ && w.shape[0] % groups_ == 0 && x.shape[1] % offset_groups_ == 0,
                 "the channels of x, w and the groups do not go together");
    const int64_t images = x.shape[0], channels = x.shape[1], pixels = w.shape[2] * w.shape[3];
    int64_t out[2], before[2];
    for (int i = 0; i < 2; ++i) {
      int64_t after = 0;
      window_.padding(i, 2, x.shape[2 + i], w.shape[2 + i], &before[i], &after);
      const int64_t room = x.shape[2 + i] + before[i] + after - ((w.shape[2 + i] - 1) * window_.dilation(i) + 1);
      call.require(room >= 0, "the filter is larger than the padded image");
      out[i] = room / window_.stride(i) + 1;
    }
    call.require(shape_of(offset) == Shape{images, offset_groups_ * pixels * 2, out[0], out[1]},
                 "there is not an offset for each pixel of each window");
    const View y = call.output(0, {images, w.shape[0], out[0], out[1]});
    if (y.elements() == 0) return;
    const View columns = call.scratch(Shape{images, channels, pixels, out[0], out[1]}, x.dtype);
    const View places = offset.reshaped({images, offset_groups_, pixels, 2, out[0], out[1]});
    const int64_t own = channels / offset_groups_;
    for (int64_t group = 0; group < offset_groups_; ++group) {
      const uhal_dtype wide = x.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32;
      const View grid = call.scratch(Shape{images, pixels, out[0], out[1], 2}, wide);
      for (int i = 0; i < 2; ++i) {
        const View moved = axis_dropped(axis_dropped(places.sliced(1, group, 1).sliced(3, i, 1), 3), 1);
        place(call, i, before[i], w, moved, axis_dropped(grid.sliced(4, 1 - i, 1), 4));
      }
      uhal_grid_sample_attributes sample = {};
      sample.struct_size = sizeof sample;
      sample.mode = UHAL_GRID_SAMPLE_LINEAR;
      sample.padding = UHAL_GRID_SAMPLE_ZEROS;
      sample.in_pixels = 1;
      const View from = x.sliced(1, group * own, own), rows = grid.reshaped({images, pixels * out[0], out[1], 2});
      const View sampled = call.scratch(Shape{images, own, pixels * out[0], out[1]}, x.dtype);
      call.launch(UHAL_OP_GRID_SAMPLE, {&from, &rows}, {&sampled}, &sample);
      const View windows = sampled.reshaped({images, own, pixels, out[0], out[1]}),
                 to = columns.sliced(1, group * own, own);
      if (call.has(4)) {
        const View mask = call.input(4).reshaped({images, offset_groups_, pixels, out[0], out[1]}).sliced(1, group, 1);
        call.map(uhal_map_multiply, {&windows, &mask}, {&to});
      } else {
        call.launch(UHAL_OP_COPY, {&windows}, {&to});
      }
    }
    multiply(call, w, columns.reshaped({images, channels * pixels, out[0] * out[1]}),
             y.reshaped({images, w.shape[0], out[0] * out[1]}));
  }

 private:
  static View axis_dropped(View view, int axis) {
    for (int i = axis; i + 1 < view.rank; ++i) {
      view.shape[i] = view.shape[i + 1];
      view.strides[i] = view.strides[i + 1];
    }
    --view.rank;
    return view;
  }

  // Along an axis: where the windows' pixels lie, moved by offsets (N, pixels, oh, ow).
  void place(Call& call, int axis, int64_t before, const View& w, const View& moved, const View& grid) const {
    const int64_t pixels = w.shape[2] * w.shape[3], count = moved.shape[2 + axis];
    std::vector<float> still;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const int64_t in_window = axis == 0 ? pixel / w.shape[3] : pixel % w.shape[3];
      for (int64_t i = 0; i < count; ++i) {
        still.push_back(static_cast<float>(i * window_.stride(axis) - before + in_window * window_.dilation(axis)));
      }
    }
    const Shape shape = axis == 0 ? Shape{pixels, count, 1} : Shape{pixels, 1, count};
    const View begin = call.upload(still.data(), shape, UHAL_FLOAT32);
    call.map(uhal_map_add, {&moved, &begin}, {&grid});
  }

  // y (N, O, places) = w of each group @ its columns + bias.
  void multiply(Call& call, const View& w, const View& columns, const View& y) const {
    const int64_t outputs = w.shape[0] / groups_, terms = columns.shape[1] / groups_;
    const View filters = w.reshaped({w.shape[0], terms});
    const View bias = call.has(3) ? call.input(3).reshaped({w.shape[0], 1}) : View();
    const uhal_matmul_attributes attributes = matmul_attributes(call.math_mode());
    for (int64_t group = 0; group < groups_; ++group) {
      const View a = filters.sliced(0, group * outputs, outputs), b = columns.sliced(1, group * terms, terms);
      const View to = y.sliced(1, group * outputs, outputs);
      const View added = call.has(3) ? bias.sliced(0, group * outputs, outputs) : View();
      call.launch(UHAL_OP_MATMUL, {&a, &b, call.has(3) ? &added : nullptr}, {&to}, &attributes);
    }
  }

  const Window window_;
  const int64_t groups_, offset_groups_;
};

// input (B, C, length), weight (C, 1, k), bias, past_state (B, C, k - 1) -> output, present_state: each channel by
// itself, each position from those before it.
class CausalConvolution final : public Kernel {
 public:
  explicit CausalConvolution(const Description& node) : dilation_(node.integer("dilation", 1)) {
    const std::string activation = node.text("activation", "none");
    node.require(activation == "none" || activation == "silu" || activation == "swish", "another activation");
    activates_ = activation != "none";
    node.require(node.integer("ndim", 1) == 1, "more than one spatial axis");
    node.require(node.integer("channels_last", 0) == 0, "channels last");
    for (const char* name :
         {"state_window", "state_length", "state_update_capacity", "input_channels", "input_channel_offset"}) {
      node.require(node.integer(name, 0) == 0, "states of another form");
    }
    node.require(node.integer("state_channels_last", -1) <= 0, "states of another form");
    node.require(!node.has_output(2), "states of another form");
    node.require(dilation_ >= 1, "a dilation that is not positive");
  }
  void run(Call& call) const override {
    const View x = call.input(0), w = call.input(1);
    call.require(x.rank == 3 && w.rank == 3 && w.shape[0] == x.shape[1] && w.shape[1] == 1,
                 "the input and the weight are not (batch, channels, length) and (channels, 1, k)");
    const int64_t kept = (w.shape[2] - 1) * dilation_, length = x.shape[2];
    const View whole = call.scratch(Shape{x.shape[0], x.shape[1], kept + length}, x.dtype);
    const View before = whole.sliced(2, 0, kept), fresh = whole.sliced(2, kept, length);
    if (call.has(3)) {
      const View past = call.input(3);
      call.require(past.rank == 3 && past.shape[2] == kept, "the past is not (batch, channels, k - 1)");
      if (past.elements() != 0) call.launch(UHAL_OP_COPY, {&past}, {&before});
    } else {
      call.fill(before, 0);
    }
    if (x.elements() != 0) call.launch(UHAL_OP_COPY, {&x}, {&fresh});
    const View y = call.output_like(0, x);
    View present;
    if (call.wants(1, {x.shape[0], x.shape[1], kept}, &present) && present.elements() != 0) {
      const View last = whole.sliced(2, length, kept);
      call.launch(UHAL_OP_COPY, {&last}, {&present});
    }
    if (y.elements() == 0) return;
    uhal_convolution_attributes attributes = convolution_attributes(call.math_mode());
    attributes.groups = x.shape[1];
    attributes.dilation[0] = dilation_;
    if (call.has(2)) {
      const View bias = call.input(2);
      call.launch(UHAL_OP_CONVOLUTION, {&whole, &w, &bias}, {&y}, &attributes);
    } else {
      call.launch(UHAL_OP_CONVOLUTION, {&whole, &w}, {&y}, &attributes);
    }
    if (activates_) call.map(uhal_map_silu, {&y}, {&y});
  }

 private:
  const int64_t dilation_;
  bool activates_ = false;
};

const Op kColumnOps[] = {
    {.name = "Col2Im",
     .first = 18,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<Col2Im>,
     .host_inputs = host({1, 2})},
    {.name = "DeformConv", .first = 19, .last = kNewestOpset, .dtypes = kFloats, .make = make<DeformConv>},
    {.name = "CausalConvWithState",
     .first = 27,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<CausalConvolution>},
    {.name = "CausalConvWithState",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<CausalConvolution>,
     .domain = kMicrosoft},
};

}  // namespace

Table column_ops() { return table(kColumnOps); }

}  // namespace unihal::onnxruntime
