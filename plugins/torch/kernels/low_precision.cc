// Ops that PyTorch has not, in the namespace `unihal`: products with weights of 8 and 4 bits, those weights as numbers,
// and norms with an activation. python/unihal_torch/low_precision.py has the same on every other device, and gradients.
#include <c10/core/DeviceGuard.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// What the ops below share: the device of their operands as the current one, its stream, and scratch memory that lives
// until they return. The allocator gives memory back in stream order, so that work may still be queued then.
class Work {
 public:
  Work(const char* op, const at::Tensor& first)
      : op_(op), guard_(first.device()), stream_(current_stream(first.device().index())) {}

  void launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes) {
    check(unihal::launch(stream_, kind, inputs, outputs, attributes, op_));
  }
  void map(uhal_map_function function, Operands inputs, Operands outputs) {
    const uhal_map_attributes attributes = map_attributes(function);
    launch(UHAL_OP_MAP, inputs, outputs, &attributes);
  }
  at::Tensor scratch(at::IntArrayRef sizes, at::ScalarType dtype) {
    kept_.push_back(empty(sizes, dtype));
    return kept_.back();
  }
  View constant(int64_t value, at::ScalarType dtype) {
    const View view = view_of(scratch({}, dtype));
    uhal_fill_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.value = static_cast<double>(value);
    attributes.integer_value = value;
    launch(UHAL_OP_FILL, {}, {&view}, &attributes);
    return view;
  }
  // An optional operand in the given dtype; null where there is none.
  const uhal_tensor* wide(const OptionalTensor& tensor, at::ScalarType dtype, View& view) {
    if (!tensor.has_value() || !tensor->defined()) return nullptr;
    kept_.push_back(tensor->to(dtype));
    view = view_of(kept_.back());
    return &view;
  }

 private:
  const char* const op_;
  const c10::DeviceGuard guard_;
  uhal_stream* const stream_;
  std::list<at::Tensor> kept_;
};

int32_t activation_number(c10::string_view name) {
  constexpr struct {
    const char* name;
    uhal_activation activation;
  } kActivations[] = {
      {"none", UHAL_ACTIVATION_NONE},       {"relu", UHAL_ACTIVATION_RELU},
      {"gelu", UHAL_ACTIVATION_GELU_ERF},   {"gelu_tanh", UHAL_ACTIVATION_GELU_TANH},
      {"sigmoid", UHAL_ACTIVATION_SIGMOID}, {"tanh", UHAL_ACTIVATION_TANH},
      {"silu", UHAL_ACTIVATION_SILU},       {"relu6", UHAL_ACTIVATION_RELU6},
  };
  for (const auto& known : kActivations) {
    if (name == known.name) return known.activation;
  }
  TORCH_CHECK_VALUE(false, "activation '", name,
                    "': expected none, relu, relu6, gelu, gelu_tanh, sigmoid, tanh or silu");
}

// Weights that lie channel by channel.
struct Weights {
  Weights(const at::Tensor& weight, const at::Tensor& scales, const OptionalTensor& zero_points, int64_t columns,
          int64_t bits, int64_t block_size)
      : weight(weight), scales(scales), bits(bits), block(block_size) {
    TORCH_CHECK_VALUE(bits == 8 || bits == 4, "bits: expected 8 or 4, not ", bits);
    TORCH_CHECK_VALUE(block == 0 || (block >= 16 && (block & (block - 1)) == 0),
                      "block_size: expected 0 or a power of two from 16, not ", block);
    TORCH_CHECK(weight.dim() == 2, "weight: expected (channels, columns), not ", weight.sizes());
    TORCH_CHECK_TYPE(weight.scalar_type() == at::kByte || (bits == 8 && weight.scalar_type() == at::kChar),
                     "weight: expected uint8", bits == 8 ? " or int8" : "", ", not ", weight.scalar_type());
    const int64_t stored = bits == 8 ? columns : (columns + 1) / 2;
    TORCH_CHECK(weight.size(1) == stored, "weight: ", columns, " columns of ", bits, " bits take ", stored,
                " bytes, not ", weight.size(1));
    blocks = block == 0 ? 1 : (columns + block - 1) / block;
    TORCH_CHECK(scales.dim() == 2 && scales.size(0) == weight.size(0) && scales.size(1) == blocks, "scales: expected (",
                weight.size(0), ", ", blocks, "), not ", scales.sizes());
    TORCH_CHECK_TYPE(scales.is_floating_point(), "scales: expected a floating dtype, not ", scales.scalar_type());
    TORCH_CHECK(scales.device() == weight.device(), "scales: on ", scales.device(), ", the weights on ",
                weight.device());
    if (!zero_points.has_value()) return;
    zeros = *zero_points;
    const bool packed = !zeros.is_floating_point();
    TORCH_CHECK_TYPE(!packed || zeros.scalar_type() == weight.scalar_type(), "zero_points: expected ",
                     weight.scalar_type(), " or a floating dtype, not ", zeros.scalar_type());
    const int64_t width = packed && bits == 4 ? (blocks + 1) / 2 : blocks;
    TORCH_CHECK(zeros.dim() == 2 && zeros.size(0) == weight.size(0) && zeros.size(1) == width,
                "zero_points: expected (", weight.size(0), ", ", width, "), not ", zeros.sizes());
    TORCH_CHECK(zeros.device() == weight.device(), "zero_points: on ", zeros.device(), ", the weights on ",
                weight.device());
  }

  const at::Tensor &weight, &scales;
  at::Tensor zeros;  // may be undefined
  const int64_t bits, block;
  int64_t blocks = 1;
};

// activation(x @ w^T + bias), w[j, i] = (q[j, i] - zero[j, g]) * scales[j, g] with g = i / block_size.
at::Tensor matmul_quantized(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scales,
                            const OptionalTensor& zero_points, const OptionalTensor& bias, int64_t bits,
                            int64_t block_size, double zero_point, c10::string_view activation) {
  TORCH_CHECK(x.dim() >= 1, "x: expected (..., columns), not a number");
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16,
                   "x: expected float32, float16 or bfloat16, not ", x.scalar_type());
  const int64_t columns = x.size(-1), channels = weight.size(0);
  const Weights stored(weight, scales, zero_points, columns, bits, block_size);
  TORCH_CHECK(x.device() == weight.device(), "x: on ", x.device(), ", the weights on ", weight.device());
  TORCH_CHECK(!bias.has_value() || (bias->dim() == 1 && bias->size(0) == channels), "bias: expected (", channels, ")");
  uhal_matmul_quantized_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.bits = static_cast<int32_t>(bits);
  attributes.activation = activation_number(activation);
  attributes.block_size = block_size;
  attributes.zero_point = zero_point;

  Work work("unihal::matmul_quantized", x);
  c10::DimVector sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = channels;
  const at::Tensor result = empty(sizes, x.scalar_type());
  if (result.numel() == 0) return result;
  TORCH_CHECK(columns > 0, "x: there are no columns");
  const at::Tensor rows = x.reshape({-1, columns});
  const View a = view_of(rows), b = view_of(weight).transposed(), s = view_of(scales).transposed(),
             d = view_of(result).reshaped({rows.size(0), channels});
  View z, c;
  if (stored.zeros.defined()) z = view_of(stored.zeros).transposed();
  const uhal_tensor* const addend = work.wide(bias, x.scalar_type(), c);
  work.launch(UHAL_OP_MATMUL_QUANTIZED, {&a, &b, &s, stored.zeros.defined() ? &z : nullptr, addend}, {&d}, &attributes);
  return result;
}

// Two numbers a byte of the last axis -> a byte each; `count` of them.
View unpacked(Work& work, const View& packed, int64_t count) {
  const View low_bits = work.constant(15, at::kByte), shift = work.constant(4, at::kByte);
  const View result = view_of(work.scratch({packed.shape[0], count}, at::kByte));
  const View low = result.sliced(1, 0, (count + 1) / 2, 2);
  work.map(uhal_map_bitwise_and, {&packed, &low_bits}, {&low});
  if (count < 2) return result;
  const View high = result.sliced(1, 1, count / 2, 2), from = packed.sliced(1, 0, count / 2);
  work.map(uhal_map_shift_right, {&from, &shift}, {&high});
  return result;
}

// The weights of `matmul_quantized` as numbers: (channels, columns).
at::Tensor dequantize_weight(const at::Tensor& weight, const at::Tensor& scales, const OptionalTensor& zero_points,
                             int64_t columns, int64_t bits, int64_t block_size, double zero_point,
                             at::ScalarType dtype) {
  TORCH_CHECK_TYPE(c10::isFloatingType(dtype), "dtype: expected a floating one, not ", dtype);
  TORCH_CHECK_VALUE(columns >= 0, "columns: expected none or more, not ", columns);
  const Weights stored(weight, scales, zero_points, columns, bits, block_size);
  Work work("unihal::dequantize_weight", weight);
  const int64_t channels = weight.size(0);
  const at::Tensor result = empty({channels, columns}, dtype);
  if (result.numel() == 0) return result;
  View q = view_of(weight), zero;
  const View s = view_of(scales), to = view_of(result);
  if (bits == 4) q = unpacked(work, q, columns);
  const bool has_zeros = stored.zeros.defined();
  if (has_zeros) {
    zero = view_of(stored.zeros);
    if (bits == 4 && zero.dtype == UHAL_UINT8) zero = unpacked(work, zero, stored.blocks);
  } else {
    const View number = work.constant(static_cast<int64_t>(zero_point), at::kFloat);
    zero = number;
  }
  // Whole blocks, as an axis of their own, and then the shorter last one.
  const int64_t block = block_size == 0 ? columns : block_size;
  const int64_t whole = columns / block;
  const auto part = [&](int64_t first, int64_t count, int64_t length) {
    const auto cut = [&](const View& view) {
      View blocks = view.sliced(1, first * block, count * length);
      const int64_t step = blocks.strides[1];
      blocks.rank = 3;
      blocks.shape[1] = count;
      blocks.strides[1] = length * step;
      blocks.shape[2] = length;
      blocks.strides[2] = step;
      return blocks;
    };
    const View from = cut(q), into = cut(to), scale = s.sliced(1, first, count).unsqueezed(2);
    const View point = has_zeros ? zero.sliced(1, first, count).unsqueezed(2) : zero;
    work.map(uhal_map_dequantize_linear, {&from, &scale, &point}, {&into});
  };
  if (whole > 0) part(0, whole, block);
  if (columns % block != 0) part(whole, 1, columns % block);
  return result;
}

// activation(group_norm(x)).
at::Tensor group_norm_activation(const at::Tensor& x, int64_t groups, const OptionalTensor& weight,
                                 const OptionalTensor& bias, double epsilon, c10::string_view activation) {
  TORCH_CHECK(x.dim() >= 2, "x: expected (batch, channels, ...), not ", x.sizes());
  TORCH_CHECK_TYPE(x.is_floating_point(), "x: expected a floating dtype, not ", x.scalar_type());
  const int64_t channels = x.size(1);
  TORCH_CHECK_VALUE(groups > 0 && channels % groups == 0, "groups: ", channels, " channels are no multiple of ",
                    groups);
  for (const OptionalTensor& parameter : {weight, bias}) {
    TORCH_CHECK(!parameter.has_value() || (parameter->dim() == 1 && parameter->size(0) == channels),
                "weight and bias: expected (", channels, ")");
  }
  uhal_norm_attributes attributes = norm_attributes(epsilon);
  attributes.groups = groups;
  attributes.activation = activation_number(activation);
  Work work("unihal::group_norm_activation", x);
  const at::Tensor result = empty(x.sizes(), x.scalar_type(), x.suggest_memory_format());
  if (x.numel() == 0) return result;
  const at::ScalarType dtype = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  View scale, shift;
  const uhal_tensor* const s = work.wide(weight, dtype, scale);
  const uhal_tensor* const b = work.wide(bias, dtype, shift);
  const View from = view_of(x), y = view_of(result);
  const View mean = view_of(work.scratch({x.size(0), groups}, dtype));
  const View variance = view_of(work.scratch({x.size(0), groups}, dtype));
  work.launch(UHAL_OP_GROUP_NORM, {&from, s, b}, {&y, &mean, &variance}, &attributes);
  return result;
}

// x / sqrt(mean of x^2 + epsilon) * weight, along the last axis.
at::Tensor rms_norm(const at::Tensor& x, const OptionalTensor& weight, double epsilon) {
  TORCH_CHECK(x.dim() >= 1, "x: expected (..., channels), not a number");
  TORCH_CHECK_TYPE(x.is_floating_point(), "x: expected a floating dtype, not ", x.scalar_type());
  TORCH_CHECK(!weight.has_value() || (weight->dim() == 1 && weight->size(0) == x.size(-1)), "weight: expected (",
              x.size(-1), ")");
  const uhal_norm_attributes attributes = norm_attributes(epsilon);
  Work work("unihal::rms_norm", x);
  const at::Tensor result = empty(x.sizes(), x.scalar_type());
  if (x.numel() == 0) return result;
  View scale;
  const uhal_tensor* const s = work.wide(weight, x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat, scale);
  const View from = view_of(x), y = view_of(result);
  work.launch(UHAL_OP_RMS_NORM, {&from, s}, {&y}, &attributes);
  return result;
}

}  // namespace

// The schemas are python/unihal_torch/low_precision.py's: a process that does not import it has not these ops.
void register_low_precision() {
  static auto* library = new torch::Library(torch::Library::IMPL, "unihal", c10::DispatchKey::PrivateUse1, __FILE__,
                                            __LINE__);  // never destroyed, or it would take the kernels with it
  library->impl("matmul_quantized", matmul_quantized);
  library->impl("dequantize_weight", dequantize_weight);
  library->impl("group_norm_activation", group_norm_activation);
  library->impl("rms_norm", rms_norm);
}

}  // namespace unihal::pytorch
