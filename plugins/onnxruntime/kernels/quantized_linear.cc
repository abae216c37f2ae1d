// com.microsoft: ops whose operands are quantized, each with its scale and zero point, as ONNX Runtime's quantizer
// writes them. What is not a product is computed in float32 between a dequantization and a quantization.
#include "plugins/onnxruntime/kernels/quantized.h"

namespace unihal::onnxruntime {

View dequantized(Call& call, const View& x, int scale_input, int zero_input) {
  const View result = call.scratch_like(x, UHAL_FLOAT32);
  if (x.elements() == 0) return result;
  const View scale = single(call, scale_input);
  const View zero = call.has(zero_input) ? single(call, zero_input) : call.constant(0, x.dtype);
  call.map(uhal_map_dequantize_linear, {&x, &scale, &zero}, {&result});
  return result;
}

void quantize(Call& call, const View& x, int scale_input, int zero_input, const View& y) {
  if (y.elements() == 0) return;
  const Limits limits = limits_of(y.dtype);
  const View scale = single(call, scale_input);
  const View zero = call.has(zero_input) ? single(call, zero_input) : call.constant(0, y.dtype);
  call.map(uhal_map_quantize_linear, {&x, &scale, &zero}, {&y}, {limits.least, limits.most});
}

View scaled(Call& call, const View& sums, const View& scale_a, const View& scale_b) {
  const View result = call.scratch_like(sums, UHAL_FLOAT32);
  call.map(uhal_map_multiply, {&sums, &scale_a}, {&result});
  call.map(uhal_map_multiply, {&result, &scale_b}, {&result});
  return result;
}

View of_columns(Call& call, int input) {
  const View view = call.input(input);
  return view.elements() == 1 ? view.reshaped(Shape()) : view;
}

namespace {

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
class QLinearBinary final : public Kernel {
 public:
  QLinearBinary(const Description&, const void* data) : function_(*static_cast<const uhal_map_function*>(data)) {}
  void run(Call& call) const override {
    const View a = call.input(0), b = call.input(3);
    const View y = call.output(0, broadcast(call, shape_of(a), shape_of(b)));
    const View left = dequantized(call, a, 1, 2), right = dequantized(call, b, 4, 5);
    const View result = call.scratch_like(y, UHAL_FLOAT32);
    if (y.elements() == 0) return;
    call.map(function_, {&left, &right}, {&result});
    quantize(call, result, 6, 7, y);
  }

 private:
  const uhal_map_function function_;
};

constexpr uhal_map_function kQLinearAdd = uhal_map_add;
constexpr uhal_map_function kQLinearMul = uhal_map_multiply;

// x, x_scale, x_zero, y_scale, y_zero.
class QLinearUnary final : public Kernel {
 public:
  QLinearUnary(const Description& node, const void* data)
      : function_(*static_cast<const uhal_map_function*>(data)), alpha_(node.real("alpha", 0.01)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    const View wide = dequantized(call, x, 1, 2);
    if (function_ == uhal_map_leaky_relu) {
      call.map(function_, {&wide}, {&wide}, {alpha_});
    } else {
      call.map(function_, {&wide}, {&wide});
    }
    quantize(call, wide, 3, 4, y);
  }

 private:
  const uhal_map_function function_;
  const double alpha_;
};

constexpr uhal_map_function kQLinearSigmoid = uhal_map_sigmoid;
constexpr uhal_map_function kQLinearLeakyRelu = uhal_map_leaky_relu;

// condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero.
class QLinearWhere final : public Kernel {
 public:
  explicit QLinearWhere(const Description& node) {
    for (const int input : {3, 6, 8}) node.require(node.has_input(input), "a zero point that is missing");
  }
  void run(Call& call) const override {
    const View condition = call.input(0), x = call.input(1), y = call.input(4);
    const Shape shape = broadcast(call, broadcast(call, shape_of(condition), shape_of(x)), shape_of(y));
    const View z = call.output(0, shape);
    if (z.elements() == 0) return;
    const View left = dequantized(call, x, 2, 3), right = dequantized(call, y, 5, 6);
    const View chosen = call.scratch(shape, UHAL_FLOAT32);
    call.map(uhal_map_select, {&condition, &left, &right}, {&chosen});
    quantize(call, chosen, 7, 8, z);
  }
};

class QLinearSoftmax final : public Kernel {
 public:
  explicit QLinearSoftmax(const Description& node)
      : axis_(node.integer("axis", -1)), opset_(node.integer("opset", 13)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    View wide = dequantized(call, x, 1, 2);
    int axis = axis_of(call, axis_, x.rank);
    if (opset_ < 13) {  // over all axes from `axis` on
      int64_t rows = 1;
      for (int i = 0; i < axis; ++i) rows *= x.shape[i];
      wide = wide.reshaped({rows, x.elements() / rows});
      axis = 1;
    }
    const uhal_softmax_attributes attributes = softmax_attributes(axis, false);
    call.launch(UHAL_OP_SOFTMAX, {&wide}, {&wide}, &attributes);
    quantize(call, wide.reshaped(shape_of(x)), 3, 4, y);
  }

 private:
  const int64_t axis_, opset_;
};

// The mean over all pixels of a channel.
class QLinearGlobalAveragePool final : public Kernel {
 public:
  explicit QLinearGlobalAveragePool(const Description& node) : channels_last_(node.integer("channels_last", 0) != 0) {}
  void run(Call& call) const override {
    View x = call.input(0);
    call.require(x.rank >= 3, "the operand has no spatial axes");
    if (channels_last_) x = x.channels_first();
    Shape shape = shape_of(x);
    for (size_t i = 2; i < shape.size(); ++i) shape[i] = 1;
    const View y = output_images(call, 0, shape, channels_last_);
    if (y.elements() == 0) return;
    const View wide = dequantized(call, x, 1, 2), mean = call.scratch(shape, UHAL_FLOAT32);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_MEAN);
    call.launch(UHAL_OP_REDUCE, {&wide}, {&mean}, &attributes);
    quantize(call, mean, 3, 4, y);
  }

 private:
  const bool channels_last_;
};

// y_scale, y_zero, then x, scale and zero of each part.
class QLinearConcat final : public Kernel {
 public:
  explicit QLinearConcat(const Description& node) : axis_(node.integer("axis", 0)) {
    node.require(node.input_count() >= 5 && node.input_count() % 3 == 2, "parts without a scale and a zero point");
    node.require(node.input_count() < Call::kMostInputs, "more than 20 parts");
  }
  void run(Call& call) const override {
    const View first = call.input(2);
    const int axis = axis_of(call, axis_, first.rank);
    Shape shape = shape_of(first);
    shape[static_cast<size_t>(axis)] = 0;
    for (int i = 2; i < call.input_count(); i += 3) {
      const View part = call.input(i);
      call.require(part.rank == first.rank, "the parts have not one number of axes");
      shape[static_cast<size_t>(axis)] += part.shape[axis];
    }
    const View y = call.output(0, shape);
    int64_t at = 0;
    for (int i = 2; i < call.input_count(); i += 3) {
      const View part = call.input(i);
      const View to = y.sliced(axis, at, part.shape[axis]);
      at += part.shape[axis];
      for (int j = 0; j < y.rank; ++j) call.require(part.shape[j] == to.shape[j], "the parts do not fit");
      quantize(call, dequantized(call, part, i + 1, i + 2), 0, 1, to);
    }
  }

 private:
  const int64_t axis_;
};

// -- products -----------------------------------------------------------------------------------------------

// a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero: alpha * op(a) @ op(b) + c, where c is in steps of
// alpha * a_scale * b_scale; floats where y_scale is missing.
class QGemm final : public Kernel {
 public:
  explicit QGemm(const Description& node)
      : alpha_(node.real("alpha", 1)),
        transpose_a_(node.integer("transA", 0) != 0),
        transpose_b_(node.integer("transB", 0) != 0) {}
  void run(Call& call) const override {
    View a = centred(call, call.input(0), 2, false), b = centred(call, call.input(3), 5, transpose_b_);
    call.require(a.rank == 2 && b.rank == 2, "an operand is no matrix");
    if (transpose_a_) a = a.transposed();
    if (transpose_b_) b = b.transposed();
    call.require(a.shape[1] == b.shape[0], "the matrices do not fit");
    const View y = call.output(0, {a.shape[0], b.shape[1]});
    if (y.elements() == 0) return;
    const View sums = call.scratch_like(y, UHAL_INT32);
    call.launch(UHAL_OP_MATMUL, {&a, &b}, {&sums});
    if (call.has(6)) {
      const View c = call.input(6);
      call.map(uhal_map_add, {&sums, &c}, {&sums});
    }
    const View result = scaled(call, sums, single(call, 1), of_columns(call, 4));
    if (alpha_ != 1) call.map(uhal_map_scale, {&result}, {&result}, {alpha_, 0});
    if (!call.has(7)) return call.copy(result, y);
    quantize(call, result, 7, 8, y);
  }

 private:
  const double alpha_;
  const bool transpose_a_, transpose_b_;
};

void add_bias(Call& call, int input, const View& y) {
  if (!call.has(input)) return;
  const View bias = call.input(input);
  call.map(uhal_map_add, {&y, &bias}, {&y});
}

// a, b, a_scale, b_scale, a_zero, b_zero, bias: floats.
class MatMulIntegerToFloat final : public Kernel {
 public:
  explicit MatMulIntegerToFloat(const Description& node) {
    node.require(node.output_dtype(0) == UHAL_FLOAT32, "a result of other than float32");
  }
  void run(Call& call) const override {
    const View left = call.input(0), right = call.input(1);
    const View y = call.output(0, matrix_shape(call, left, right));
    if (y.elements() == 0) return;
    const View a = centred(call, left, 4, false), b = centred(call, right, 5, false);
    const View sums = call.scratch_like(y, UHAL_INT32);
    call.launch(UHAL_OP_MATMUL, {&a, &b}, {&sums});
    call.copy(scaled(call, sums, of_columns(call, 2), of_columns(call, 3)), y);
    add_bias(call, 6, y);
  }
};

// a of floats, b, b_scale, b_zero, bias: a is quantized by its own range.
class DynamicQuantizeMatMul final : public Kernel {
 public:
  explicit DynamicQuantizeMatMul(const Description&) {}
  void run(Call& call) const override {
    const View x = call.input(0), right = call.input(1);
    const View y = call.output(0, matrix_shape(call, x, right));
    if (y.elements() == 0) return;
    const View a = call.scratch_like(x, UHAL_UINT8);
    const View scale = call.scratch(Shape(), UHAL_FLOAT32), zero = call.scratch(Shape(), UHAL_UINT8);
    quantize_by_range(call, x, a, scale, zero);
    const View left = call.scratch_like(a, UHAL_INT32);
    call.map(uhal_map_subtract, {&a, &zero}, {&left});
    const View b = centred(call, right, 3, false);
    const View sums = call.scratch_like(y, UHAL_INT32);
    call.launch(UHAL_OP_MATMUL, {&left, &b}, {&sums});
    call.copy(scaled(call, sums, scale, of_columns(call, 2)), y);
    add_bias(call, 4, y);
  }
};

// Rows of a table in 4 or 8 bits, in blocks along its last axis: data, indices, scales, zero_points -> floats. Of 4
// bits the lower half of a byte comes first.
class GatherBlockQuantized final : public Kernel {
 public:
  explicit GatherBlockQuantized(const Description& node)
      : axis_(node.integer("gather_axis", 0)),
        blocked_(node.integer("quantize_axis", 1)),
        block_(node.integer("block_size", 128)),
        bits_(node.integer("bits", 4)) {
    node.require(bits_ == 4 || bits_ == 8, "numbers of other than 4 or 8 bits");
    node.require(block_ >= 16 && (block_ & (block_ - 1)) == 0, "blocks that are no power of two from 16");
  }
  void run(Call& call) const override {
    const View data = call.input(0), indices = call.input(1), scales = call.input(2);
    const int axis = axis_of(call, axis_, data.rank), last = data.rank - 1;
    call.require(axis_of(call, blocked_, data.rank) == last && axis != last,
                 "blocks do not lie along the last axis, or it is the one that is gathered along");
    const int64_t per_byte = 8 / bits_, width = data.shape[last] * per_byte, blocks = (width + block_ - 1) / block_;
    call.require(scales.rank == data.rank && scales.shape[last] == blocks, "the scales do not fit the blocks");
    const View bytes = gathered(call, data, indices, axis), own = gathered(call, scales, indices, axis);
    Shape shape = shape_of(bytes);
    shape.back() = width;
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const int64_t rows = y.elements() / width;
    const View numbers = unpacked(call, bytes.reshaped({rows, data.shape[last]}));
    View zeros;
    if (call.has(3)) {
      const View points = gathered(call, call.input(3), indices, axis);
      zeros = unpacked(call, points.reshaped({rows, points.shape[points.rank - 1]}));
      call.require(zeros.shape[1] >= blocks, "the zero points do not fit the blocks");
      zeros = zeros.sliced(1, 0, blocks);
    } else {
      zeros = call.constant(bits_ == 4 ? 8 : 128, UHAL_UINT8);
    }
    const View steps = own.reshaped({rows, blocks}), to = y.reshaped({rows, width});
    // Whole blocks, and what is left of the last.
    const int64_t whole = width / block_;
    const auto dequantize = [&](int64_t first, int64_t count, int64_t length) {
      if (count == 0 || length == 0) return;
      const auto in_blocks = [&](const View& view) {
        View result = view.sliced(1, first * block_, count * length).unsqueezed(2);
        result.shape[1] = count;
        result.strides[1] = length * view.strides[1];
        result.shape[2] = length;
        result.strides[2] = view.strides[1];
        return result;
      };
      const View from = in_blocks(numbers), into = in_blocks(to);
      const View scale = steps.sliced(1, first, count).unsqueezed(2);
      const View zero = zeros.rank == 0 ? zeros : zeros.sliced(1, first, count).unsqueezed(2);
      call.map(uhal_map_dequantize_linear, {&from, &scale, &zero}, {&into});
    };
    dequantize(0, whole, block_);
    dequantize(whole, blocks - whole, width - whole * block_);
  }

 private:
  static View gathered(Call& call, const View& x, const View& indices, int axis) {
    Shape shape(x.shape, x.shape + axis);
    shape.insert(shape.end(), indices.shape, indices.shape + indices.rank);
    shape.insert(shape.end(), x.shape + axis + 1, x.shape + x.rank);
    call.require(shape.size() <= UHAL_MAX_RANK, "the result has more than 10 axes");
    const View result = call.scratch(shape, x.dtype);
    uhal_index_attributes attributes = index_attributes(axis);
    attributes.negative_wraps = 1;
    if (result.elements() != 0) call.launch(UHAL_OP_GATHER, {&x, &indices}, {&result}, &attributes);
    return result;
  }

  View unpacked(Call& call, const View& bytes) const {
    if (bits_ == 8) return bytes;
    const View result = call.scratch(Shape{bytes.shape[0], 2 * bytes.shape[1]}, UHAL_UINT8);
    const View low = result.sliced(1, 0, bytes.shape[1], 2), high = result.sliced(1, 1, bytes.shape[1], 2);
    const View mask = call.constant(15, UHAL_UINT8), shift = call.constant(4, UHAL_UINT8);
    call.map(uhal_map_bitwise_and, {&bytes, &mask}, {&low});
    call.map(uhal_map_shift_right, {&bytes, &shift}, {&high});
    return result;
  }

  const int64_t axis_, blocked_, block_, bits_;
};

#define QUANTIZED(op, types, type, form, by) \
  {.name = op,                               \
   .first = 1,                               \
   .last = 1,                                \
   .dtypes = types,                          \
   .make = make<type>,                       \
   .data = form,                             \
   .domain = kMicrosoft,                     \
   .typed_by = by}

const Op kQuantizedLinearOps[] = {
    QUANTIZED("QLinearAdd", kBytes, QLinearBinary, &kQLinearAdd, 0),
    QUANTIZED("QLinearMul", kBytes, QLinearBinary, &kQLinearMul, 0),
    QUANTIZED("QLinearSigmoid", kBytes, QLinearUnary, &kQLinearSigmoid, 0),
    QUANTIZED("QLinearLeakyRelu", kBytes, QLinearUnary, &kQLinearLeakyRelu, 0),
    QUANTIZED("QLinearSoftmax", kBytes, QLinearSoftmax, nullptr, 0),
    QUANTIZED("QLinearGlobalAveragePool", kBytes, QLinearGlobalAveragePool, nullptr, 0),
    QUANTIZED("QLinearConcat", kBytes, QLinearConcat, nullptr, 2),
    QUANTIZED("QLinearWhere", kBool, QLinearWhere, nullptr, 0),
    QUANTIZED("GatherBlockQuantized", only(UHAL_UINT8), GatherBlockQuantized, nullptr, 0),
    QUANTIZED("QGemm", kBytes, QGemm, nullptr, 0),
    QUANTIZED("MatMulIntegerToFloat", kBytes, MatMulIntegerToFloat, nullptr, 0),
    QUANTIZED("DynamicQuantizeMatMul", only(UHAL_FLOAT32), DynamicQuantizeMatMul, nullptr, 0),
};

#undef QUANTIZED

}  // namespace

Table quantized_linear_ops() { return table(kQuantizedLinearOps); }

}  // namespace unihal::onnxruntime
