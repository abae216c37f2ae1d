// Numbers stored in 8 and 4 bits.
#include <cmath>

#include "plugins/onnxruntime/kernels/four_bits.h"
#include "plugins/onnxruntime/kernels/quantized.h"

namespace unihal::onnxruntime {

Limits limits_of(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_INT8:
      return {-128, 127};
    case UHAL_UINT8:
      return {0, 255};
    case UHAL_INT16:
      return {-32768, 32767};
    case UHAL_UINT16:
      return {0, 65535};
    default:
      throw Refusal(std::string("quantized numbers of ") + uhal_dtype_name(dtype));
  }
}

View single(const Call& call, int input) {
  const View view = call.input(input);
  call.require(view.elements() == 1, "a scale or zero point is not one number");
  return view.reshaped(Shape());
}

namespace {

constexpr DtypeSet kDequantized = kBytes | only(UHAL_INT16) | only(UHAL_UINT16) | only(UHAL_INT32) |
                                  only(UHAL_FLOAT8_E4M3FN) | only(UHAL_FLOAT8_E5M2) | kWithoutDtype;

// A scale or zero point as it meets x: one number, one for each element of an axis, or one for each block of an axis.
struct Grid {
  Grid(const Call& call, const View& x, int64_t axis, int64_t block, const View& parameter) {
    if (parameter.elements() == 1) {
      whole = x;
      view = parameter.reshaped(Shape());
      return;
    }
    const int at = axis_of(call, axis, x.rank);
    if (block == 0) {
      call.require(parameter.rank == 1 && parameter.shape[0] == x.shape[at],
                   "a scale or zero point does not fit the axis");
      Shape shape(static_cast<size_t>(x.rank), 1);
      shape[static_cast<size_t>(at)] = x.shape[at];
      whole = x;
      view = parameter.reshaped(shape);
      return;
    }
    call.require(x.shape[at] % block == 0 && parameter.rank == x.rank && x.rank < UHAL_MAX_RANK &&
                     parameter.shape[at] == x.shape[at] / block,
                 "a scale or zero point does not fit the blocks");
    Shape blocks = shape_of(x), shape = shape_of(parameter);
    blocks[static_cast<size_t>(at)] = block;
    blocks.insert(blocks.begin() + at, x.shape[at] / block);
    shape.insert(shape.begin() + at + 1, 1);
    whole = x.reshaped(blocks);
    view = parameter.reshaped(shape);
  }
  View whole;  // x with its blocks as an axis
  View view;   // the parameter, to broadcast to it
};

class QuantizeLinear final : public Kernel {
 public:
  explicit QuantizeLinear(const Description& node)
      : axis_(node.integer("axis", 1)), block_(node.integer("block_size", 0)) {
    type_ = node.output(0).type;
    const uhal_dtype dtype = widened(type_);
    if (dtype == UHAL_DTYPE_INVALID) node.refuse(std::string("to ") + type_name(type_));
    if (is_float8(dtype)) {
      node.require(node.integer("saturate", 1) != 0, "float8 without saturation");
      limits_ = {-most_of(dtype), most_of(dtype)};
    } else {
      limits_ = type_ == kTypeInt4 ? Limits{-8, 7} : type_ == kTypeUint4 ? Limits{0, 15} : limits_of(dtype);
    }
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const WidenedOutput output(call, 0, shape_of(x), type_);
    const View& y = output.view;
    if (y.elements() == 0) return;
    const Grid scale(call, x, axis_, block_, call.input(1));
    const View to = y.reshaped(shape_of(scale.whole));
    if (is_float8(y.dtype)) {  // whose zero point is 0
      const View steps = call.scratch_like(to, UHAL_FLOAT32);
      call.map(uhal_map_divide, {&scale.whole, &scale.view}, {&steps});
      call.map(uhal_map_clip, {&steps}, {&steps}, {limits_.least, limits_.most});
      return call.cast(steps, to);
    }
    const View zero =
        call.has(2) ? Grid(call, x, axis_, block_, widened_input(call, 2)).view : call.constant(0, y.dtype);
    call.map(uhal_map_quantize_linear, {&scale.whole, &scale.view, &zero}, {&to}, {limits_.least, limits_.most});
    output.finish(call);
  }

 private:
  const int64_t axis_, block_;
  int32_t type_ = kTypeUndefined;
  Limits limits_{};
};

class DequantizeLinear final : public Kernel {
 public:
  explicit DequantizeLinear(const Description& node)
      : axis_(node.integer("axis", 1)), block_(node.integer("block_size", 0)) {
    if (widened(node.input(0).type) == UHAL_DTYPE_INVALID)
      node.refuse(std::string("no kernel for dtype ") + type_name(node.input(0).type));
  }
  void run(Call& call) const override {
    const View x = widened_input(call, 0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    const Grid scale(call, x, axis_, block_, call.input(1));
    const View to = y.reshaped(shape_of(scale.whole));
    if (is_float8(x.dtype)) {
      const View wide = call.as(scale.whole, UHAL_FLOAT32);
      return call.map(uhal_map_multiply, {&wide, &scale.view}, {&to});
    }
    const View zero =
        call.has(2) ? Grid(call, x, axis_, block_, widened_input(call, 2)).view : call.constant(0, x.dtype);
    call.map(uhal_map_dequantize_linear, {&scale.whole, &scale.view, &zero}, {&to});
  }

 private:
  const int64_t axis_, block_;
};

}  // namespace

void quantize_by_range(Call& call, const View& x, const View& y, const View& scale, const View& zero) {
  call.require(x.elements() != 0, "the operand has no elements, so no range");
  const View flat = x.reshaped({x.elements()});
  const View least = call.scratch(Shape{1}, x.dtype), most = call.scratch(Shape{1}, x.dtype);
  uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_MINIMUM);
  call.launch(UHAL_OP_REDUCE, {&flat}, {&least}, &attributes);
  attributes.reduction = UHAL_REDUCE_MAXIMUM;
  call.launch(UHAL_OP_REDUCE, {&flat}, {&most}, &attributes);
  call.map(uhal_map_clip, {&least}, {&least}, {-INFINITY, 0});  // the range has 0 in it
  call.map(uhal_map_clip, {&most}, {&most}, {0, INFINITY});
  const View step = scale.reshaped({1});
  call.map(uhal_map_subtract, {&most, &least}, {&step});
  const View count = call.constant(255, x.dtype);
  call.map(uhal_map_divide, {&step, &count}, {&step});
  // The zero point is where 0 comes to lie: -least in steps.
  const View negative = call.scratch(Shape{1}, x.dtype);
  call.map(uhal_map_negative, {&least}, {&negative});
  const View none = call.constant(0, UHAL_UINT8);
  const View point = zero.reshaped({1});
  call.map(uhal_map_quantize_linear, {&negative, &step, &none}, {&point}, {0, 255});
  call.map(uhal_map_quantize_linear, {&x, &scale, &zero}, {&y}, {0, 255});
}

View centred(Call& call, const View& x, int zero_input, bool column) {
  const View result = call.scratch_like(x, UHAL_INT32);
  if (!call.has(zero_input)) {
    call.cast(x, result);
    return result;
  }
  View zero = call.input(zero_input);
  if (zero.elements() == 1) zero = zero.reshaped(Shape());
  if (zero.rank == 1 && column) zero = zero.unsqueezed(1);
  call.map(uhal_map_subtract, {&x, &zero}, {&result});
  return result;
}

Shape matrix_shape(const Call& call, const View& a, const View& b) {
  call.require(a.rank >= 2 && b.rank >= 2 && a.shape[a.rank - 1] == b.shape[b.rank - 2], "the matrices do not fit");
  Shape shape = broadcast(call, Shape(a.shape, a.shape + a.rank - 2), Shape(b.shape, b.shape + b.rank - 2));
  shape.push_back(a.shape[a.rank - 2]);
  shape.push_back(b.shape[b.rank - 1]);
  return shape;
}

namespace {

// To uint8 with a scale and a zero point that x's range gives.
class DynamicQuantizeLinear final : public Kernel {
 public:
  explicit DynamicQuantizeLinear(const Description&) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    const View scale = call.output(1, Shape());
    quantize_by_range(call, x, y, scale, call.output(2, Shape()));
  }
};

class MatMulInteger final : public Kernel {
 public:
  explicit MatMulInteger(const Description&) {}
  void run(Call& call) const override {
    const View a = call.input(0);
    const View b = call.input(1);
    const View y = call.output(0, matrix_shape(call, a, b));
    if (y.elements() == 0) return;
    const View left = centred(call, a, 2, true);
    const View right = centred(call, b, 3, false);
    call.launch(UHAL_OP_MATMUL, {&left, &right}, {&y});
  }
};

// Sums of int32 to a quantized result: round(sum * scale_a * scale_b / scale_y) + zero_y.
void requantize(Call& call, const View& sums, const View& scale_a, const View& scale_b, int scale_input, int zero_input,
                const View& y) {
  const View scaled = call.scratch_like(sums, UHAL_FLOAT32);
  call.map(uhal_map_multiply, {&sums, &scale_a}, {&scaled});
  call.map(uhal_map_multiply, {&scaled, &scale_b}, {&scaled});
  const Limits limits = limits_of(y.dtype);
  const View scale = call.input(scale_input).reshaped(Shape());
  const View zero = call.input(zero_input).reshaped(Shape());
  call.map(uhal_map_quantize_linear, {&scaled, &scale, &zero}, {&y}, {limits.least, limits.most});
}

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
class QLinearMatMul final : public Kernel {
 public:
  explicit QLinearMatMul(const Description& node) { limits_of(node.output_dtype(0)); }
  void run(Call& call) const override {
    const View a = call.input(0);
    const View b = call.input(3);
    const View y = call.output(0, matrix_shape(call, a, b));
    if (y.elements() == 0) return;
    call.require(call.input(6).elements() == 1 && call.input(7).elements() == 1,
                 "the result's scale is not one number");
    const View left = centred(call, a, 2, true);
    const View right = centred(call, b, 5, false);
    const View sums = call.scratch_like(y, UHAL_INT32);
    call.launch(UHAL_OP_MATMUL, {&left, &right}, {&sums});
    View scale_a = call.input(1);
    if (scale_a.elements() == 1) scale_a = scale_a.reshaped(Shape());
    if (scale_a.rank == 1) scale_a = scale_a.unsqueezed(1);
    const View scale_b = call.input(4);
    requantize(call, sums, scale_a, scale_b.elements() == 1 ? scale_b.reshaped(Shape()) : scale_b, 6, 7, y);
  }
};

// A convolution of integers, exactly: in float32 as long as its sums are whole numbers there, else in float64.
class IntegerConvolution {
 public:
  explicit IntegerConvolution(const Description& node) : window_(node), groups_(node.integer("group", 1)) {}

  // Sums of (x - x_zero) * (w - w_zero), floating.
  View run(Call& call, int w_input, int x_zero, int w_zero) const {
    const View x = call.input(0);
    const View w = call.input(w_input);
    call.require(x.rank >= 3 && x.rank == w.rank, "x and w are not of one number of axes");
    const int axes = x.rank - 2;
    window_.check(call, axes);
    call.require(groups_ > 0 && x.shape[1] == w.shape[1] * groups_ && w.shape[0] % groups_ == 0,
                 "the channels of x, w and the groups do not go together");
    uhal_convolution_attributes attributes = convolution_attributes(UHAL_MATH_STRICT);
    attributes.groups = groups_;
    Shape shape = {x.shape[0], w.shape[0]};
    for (int i = 0; i < axes; ++i) {
      const int64_t size = w.shape[2 + i];
      window_.padding(i, axes, x.shape[2 + i], size, &attributes.pad_before[i], &attributes.pad_after[i]);
      attributes.stride[i] = window_.stride(i);
      attributes.dilation[i] = window_.dilation(i);
      const int64_t room = x.shape[2 + i] + attributes.pad_before[i] + attributes.pad_after[i] -
                           ((size - 1) * attributes.dilation[i] + 1);
      call.require(room >= 0, "the filter is larger than the padded image");
      shape.push_back(room / attributes.stride[i] + 1);
    }
    const int64_t terms = w.elements() / std::max<int64_t>(1, w.shape[0]);
    const uhal_dtype dtype = terms * 255 * 255 < int64_t{1} << 24 ? UHAL_FLOAT32 : UHAL_FLOAT64;
    const View left = shifted(call, x, x_zero, dtype, false), right = shifted(call, w, w_zero, dtype, true);
    const View sums = call.scratch(shape, dtype);
    if (sums.elements() != 0) call.launch(UHAL_OP_CONVOLUTION, {&left, &right}, {&sums}, &attributes);
    return sums;
  }

 private:
  static View shifted(Call& call, const View& x, int zero_input, uhal_dtype dtype, bool by_filter) {
    if (!call.has(zero_input)) return call.as(x, dtype);
    const View result = call.scratch_like(x, dtype);
    View zero = call.input(zero_input);
    if (zero.elements() == 1) {
      zero = zero.reshaped(Shape());
    } else {
      call.require(by_filter && zero.elements() == x.shape[0], "a zero point is not one number");
      Shape column(static_cast<size_t>(x.rank), 1);
      column[0] = zero.elements();
      zero = zero.reshaped(column);
    }
    call.map(uhal_map_subtract, {&x, &zero}, {&result});
    return result;
  }

  const Window window_;
  const int64_t groups_;
};

class ConvInteger final : public Kernel {
 public:
  explicit ConvInteger(const Description& node) : convolution_(node) {}
  void run(Call& call) const override {
    const View sums = convolution_.run(call, 1, 2, 3);
    call.cast(sums, call.output_like(0, sums));
  }

 private:
  const IntegerConvolution convolution_;
};

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias.
class QLinearConv final : public Kernel {
 public:
  explicit QLinearConv(const Description& node) : convolution_(node) { limits_of(node.output_dtype(0)); }
  void run(Call& call) const override {
    const View sums = convolution_.run(call, 3, 2, 5);
    const View y = call.output_like(0, sums);
    if (y.elements() == 0) return;
    Shape column(static_cast<size_t>(sums.rank - 1), 1);
    column[0] = sums.shape[1];
    if (call.has(8)) {
      const View bias = call.input(8).reshaped(column);
      call.map(uhal_map_add, {&sums, &bias}, {&sums});
    }
    const View scale = call.input(4);
    requantize(call, sums, call.input(1).reshaped(Shape()),
               scale.elements() == 1 ? scale.reshaped(Shape()) : scale.reshaped(column), 6, 7, y);
  }

 private:
  const IntegerConvolution convolution_;
};

// com.microsoft: a @ dequantize(b), b of (n, blocks, bytes of a block).
class MatMulNBits final : public Kernel {
 public:
  explicit MatMulNBits(const Description& node)
      : rows_(node.integer("K", 0)),
        columns_(node.integer("N", 0)),
        bits_(node.integer("bits", 4)),
        block_(node.integer("block_size", 0)) {
    node.require(bits_ == 4 || bits_ == 8, "weights of other than 4 or 8 bits");
    node.require(block_ >= 16 && (block_ & (block_ - 1)) == 0, "blocks that are no power of two from 16");
    node.require(!node.has_input(4), "permuted rows (g_idx)");
    node.require(node.input_dtype(0) != UHAL_FLOAT64, "dtype float64");
  }
  void run(Call& call) const override {
    const View a = call.input(0);
    const View packed = call.input(1);
    call.require(a.rank >= 1 && a.shape[a.rank - 1] == rows_, "a has not K columns");
    Shape shape = shape_of(a);
    shape.back() = columns_;
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const int64_t blocks = (rows_ + block_ - 1) / block_;
    const int64_t per_row = bits_ == 4 ? (rows_ + 1) / 2 : rows_;
    const int64_t stored = blocks * block_ * bits_ / 8;
    call.require(packed.elements() == columns_ * stored, "b is not (N, blocks, bytes of a block)");
    View b(packed.data, UHAL_UINT8, {per_row, columns_});
    b.strides[0] = 1;
    b.strides[1] = stored;
    const View scales = call.as(call.input(2).reshaped({columns_, blocks}), a.dtype).transposed();
    const View flat = a.reshaped({a.elements() / rows_, rows_});
    const View to = y.reshaped({flat.shape[0], columns_});
    uhal_matmul_quantized_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.bits = static_cast<int32_t>(bits_);
    attributes.block_size = block_;
    attributes.zero_point = bits_ == 4 ? 8 : 128;
    View zeros, bias;
    if (call.has(3)) {
      const View given = call.input(3);
      const int64_t packed_blocks = given.dtype == UHAL_UINT8 && bits_ == 4 ? (blocks + 1) / 2 : blocks;
      zeros = given.reshaped({columns_, packed_blocks}).transposed();
    }
    if (call.has(5)) bias = call.input(5);
    call.launch(UHAL_OP_MATMUL_QUANTIZED,
                {&flat, &b, &scales, zeros.dtype != UHAL_DTYPE_INVALID ? &zeros : nullptr,
                 bias.dtype != UHAL_DTYPE_INVALID ? &bias : nullptr},
                {&to}, &attributes);
  }

 private:
  const int64_t rows_, columns_, bits_, block_;
};

const Op kQuantizeOps[] = {
    {.name = "QuantizeLinear",
     .first = 10,
     .last = kNewestOpset,
     .dtypes = kFloats | only(UHAL_INT32),
     .make = make<QuantizeLinear>},
    {.name = "DequantizeLinear",
     .first = 10,
     .last = kNewestOpset,
     .dtypes = kDequantized,
     .make = make<DequantizeLinear>},
    {.name = "QuantizeLinear",
     .first = 1,
     .last = 1,
     .dtypes = kFloats | only(UHAL_INT32),
     .make = make<QuantizeLinear>,
     .domain = kMicrosoft},
    {.name = "DequantizeLinear",
     .first = 1,
     .last = 1,
     .dtypes = kDequantized,
     .make = make<DequantizeLinear>,
     .domain = kMicrosoft},
    {.name = "DynamicQuantizeLinear",
     .first = 11,
     .last = kNewestOpset,
     .dtypes = only(UHAL_FLOAT32),
     .make = make<DynamicQuantizeLinear>},
    {.name = "MatMulInteger", .first = 10, .last = kNewestOpset, .dtypes = kBytes, .make = make<MatMulInteger>},
    {.name = "QLinearMatMul", .first = 10, .last = kNewestOpset, .dtypes = kBytes, .make = make<QLinearMatMul>},
    {.name = "ConvInteger", .first = 10, .last = kNewestOpset, .dtypes = kBytes, .make = make<ConvInteger>},
    {.name = "QLinearConv", .first = 10, .last = kNewestOpset, .dtypes = kBytes, .make = make<QLinearConv>},
    {.name = "MatMulNBits", .first = 1, .last = 1, .dtypes = kFloats, .make = make<MatMulNBits>, .domain = kMicrosoft},
};

}  // namespace

Table quantize_ops() { return table(kQuantizeOps); }

}  // namespace unihal::onnxruntime
