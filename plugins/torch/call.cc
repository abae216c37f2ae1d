#include "plugins/torch/call.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include <algorithm>
#include <string_view>

#include "unihal/fallback.h"

namespace unihal::pytorch {
namespace {

// Whether PyTorch's CPU says IndexError of a number outside that this op was given, and not RuntimeError. Two ops have
// ways of their own along some axes, which say the other.
bool is_index_error(const Call& call) {
  const std::string_view op = call.op();
  if (op == "index_select" || op == "index_add") {
    const int64_t rank = call.tensor(0).dim(), axis = call.integer(1);
    if (op == "index_select") return at::maybe_wrap_dim(axis, rank) != 1;
    return rank < 2 || (axis != 0 && axis != rank - 1);  // which an axis that counts from the end is not
  }
  constexpr std::string_view kOps[] = {"_index_put_impl_",       "index.Tensor", "index_copy",
                                       "index_fill_.int_Scalar", "index_reduce", "nll_loss2d_forward",
                                       "nll_loss_forward",       "put_",         "take"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

}  // namespace

Call::Call(const Registration& registration, const c10::IValue* arguments)
    : registration_(registration), arguments_(arguments), results_(registration.result_count) {
  const int outs = registration.variant == Variant::kOut ? registration.result_count : 0;
  if (registration.variant == Variant::kInPlace) results_[0] = arguments_[0].toTensor();
  for (int i = 0; i < outs; ++i) results_[i] = arguments_[registration.argument_count + i].toTensor();
}

c10::DimVector Call::integers(int index) const {
  const c10::IValue& value = arguments_[index];
  if (value.isNone()) return {};
  if (value.isInt()) return {value.toInt()};
  c10::DimVector result;
  for (const int64_t number : value.toIntVector()) result.push_back(number);
  return result;
}

std::vector<std::optional<at::Tensor>> Call::optional_tensors(int index) const {
  std::vector<std::optional<at::Tensor>> result;
  for (const c10::IValue& value : arguments_[index].toListRef()) {
    result.push_back(value.isNone() ? std::nullopt : std::optional<at::Tensor>(value.toTensor()));
  }
  return result;
}

const at::Tensor& Call::make_result(int index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  at::Tensor& result = results_[index];
  if (variant() == Variant::kFunctional || !result.defined()) {
    result = strides.empty() ? empty(sizes, dtype) : empty_strided(sizes, strides, dtype);
    return result;
  }
  if (variant() == Variant::kInPlace) {
    TORCH_CHECK(result.scalar_type() == dtype, "Bad in-place call: input tensor dtype ", result.scalar_type(),
                " and output tensor dtype ", dtype, " should match");
    TORCH_CHECK(result.sizes() == sizes, "Bad in-place call: input tensor size ", result.sizes(),
                " and output tensor size ", sizes, " should match");
    return result;
  }
  TORCH_CHECK(result.scalar_type() == dtype, "Expected out tensor to have dtype ", dtype, ", but got ",
              result.scalar_type(), " instead");
  TORCH_CHECK(result.device().type() == kDevice, "Expected out tensor to have device ", c10::Device(kDevice, device_),
              ", but got ", result.device(), " instead");
  if (at::native::resize_output(result, sizes) && !strides.empty()) result.as_strided_(sizes, strides);
  return result;
}

void Call::set_result(int index, const at::Tensor& tensor) {
  at::Tensor& result = results_[index];
  if (variant() == Variant::kFunctional || !result.defined()) {
    result = tensor;
  } else {
    given_.resize(results_.size());
    given_[index] = tensor;
  }
}

void Call::launch(uhal_op& op) {
  op.struct_size = sizeof op;
  op.label = registration_.kernel->op;
  const uhal_status status = uhal_launch(stream_, &op);
  if (C10_UNLIKELY(status != UHAL_OK)) {
    // What neither the device nor the host's kernels take is for PyTorch's CPU, as long as nothing was overwritten.
    if (!submitted_ && (status == UHAL_UNIMPLEMENTED || status == UHAL_INVALID_ARGUMENT) && uhal_strict() == 0) {
      throw Refusal(std::string(uhal_op_kind_name(op.kind)) + " does not take these operands");
    }
    raise(status);
  }
  if (variant() != Variant::kFunctional) submitted_ = true;
  if (counts_by_numbers(op.kind) && computes_at_once()) refuse_outside();
}

// A number outside that the launch before met is this op's error, of the class that PyTorch's CPU has.
void Call::refuse_outside() {
  std::string message;
  const uhal_status status = met_outside(stream_, &message);
  if (status == UHAL_OK) return;
  if (status != UHAL_OUT_OF_RANGE) raise(status);
  TORCH_CHECK_INDEX(!is_index_error(*this), message);
  TORCH_CHECK(false, message);
}

void Call::check_numbers(const View& numbers, int64_t length) {
  if (numbers.elements() == 0) return;
  const bool submitted = submitted_;
  View all = view_of(scratch({1}, at::kByte));
  all.shape[0] = length;
  all.strides[0] = 0;
  const View found = view_of(scratch({numbers.shape, static_cast<size_t>(numbers.rank)}, at::kByte));
  const uhal_index_attributes attributes = index_attributes(0);
  launch(UHAL_OP_GATHER, {&all, &numbers}, {&found}, &attributes);
  submitted_ = submitted;
}

void Call::launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes) {
  uhal_op op = {};
  op.kind = kind;
  op.input_count = static_cast<int32_t>(inputs.size());
  op.output_count = static_cast<int32_t>(outputs.size());
  op.inputs = inputs.begin();
  op.outputs = outputs.begin();
  op.attributes = attributes;
  launch(op);
}

void Call::map(uhal_map_function function, Operands inputs, Operands outputs,
               std::initializer_list<double> parameters) {
  const uhal_map_attributes attributes = map_attributes(function, parameters);
  launch(UHAL_OP_MAP, inputs, outputs, &attributes);
}

void Call::fill(const View& view, const at::Scalar& value) {
  if (value.isComplex()) {
    // Filled part by part.
    View parts = view;
    parts.dtype = view.dtype == UHAL_COMPLEX64 ? UHAL_FLOAT32 : UHAL_FLOAT64;
    for (int i = 0; i < view.rank; ++i) parts.strides[i] = 2 * view.strides[i];
    const c10::complex<double> number = value.toComplexDouble();
    require(view.dtype == UHAL_COMPLEX64 || view.dtype == UHAL_COMPLEX128, "a complex value for a real tensor");
    fill(parts, number.real());
    parts.data = static_cast<char*>(parts.data) + uhal_dtype_size(parts.dtype);
    return fill(parts, number.imag());
  }
  uhal_fill_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.value = value.toDouble();
  if (value.isFloatingPoint()) {
    attributes.integer_value = view.dtype == UHAL_BOOL           ? attributes.value != 0
                               : std::isfinite(attributes.value) ? static_cast<int64_t>(attributes.value)
                                                                 : std::numeric_limits<int64_t>::min();
  } else {
    attributes.integer_value = view.dtype == UHAL_BOOL ? static_cast<int64_t>(value.toBool())
                               : value.isUnsigned()    ? static_cast<int64_t>(value.toUInt64())
                                                       : value.toLong();
  }
  launch(UHAL_OP_FILL, {}, {&view}, &attributes);
}

View Call::constant(const at::Scalar& value, at::ScalarType dtype) {
  const bool submitted = submitted_;
  const View view = view_of(scratch({}, dtype));
  fill(view, value);
  submitted_ = submitted;
  return view;
}

at::Tensor Call::scratch(at::IntArrayRef sizes, at::ScalarType dtype) { return keep(empty(sizes, dtype)); }

const at::Tensor& Call::keep(at::Tensor tensor) {
  kept_.push_back(std::move(tensor));
  return kept_.back();
}

// The first tensor among the arguments that lies on the device, else the first.
const at::Tensor* Call::find_tensor() const {
  const at::Tensor* found = nullptr;
  for (int i = 0; i < registration_.argument_count; ++i) {
    const c10::IValue& value = arguments_[i];
    if (value.isTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.toTensor().device().type() == kDevice) return &element.toTensor();
      }
      continue;
    }
    if (!value.isTensor()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) continue;
    if (tensor.device().type() == kDevice) return &tensor;
    if (found == nullptr) found = &tensor;
  }
  return found;
}

std::optional<std::string> Call::run() {
  try {
    const at::Tensor* const first = find_tensor();
    const c10::DeviceIndex before = current_device();
    device_ = before;
    if (first != nullptr && first->device().type() == kDevice) device_ = first->device().index();
    const c10::OptionalDeviceGuard guard(device_ != before ? std::optional<c10::Device>(c10::Device(kDevice, device_))
                                                           : std::nullopt);
    stream_ = current_stream(device_);
    if (first != nullptr && !contains(registration_.kernel->dtypes, from_pytorch(first->scalar_type()))) {
      throw Refusal(std::string("no kernel for dtype ") + c10::toString(first->scalar_type()));
    }
    registration_.kernel->run(*this);
    finish();
    return std::nullopt;
  } catch (Refusal& refusal) {
    return std::move(refusal.reason);
  }
}

void Call::finish() {
  for (size_t i = 0; i < given_.size(); ++i) {
    if (!given_[i].defined() || given_[i].is_same(results_[i])) continue;
    if (variant() == Variant::kOut) at::native::resize_output(results_[i], given_[i].sizes());
    results_[i].copy_(given_[i]);
  }
}

at::Tensor Call::take_result() {
  if (!values_.empty()) return std::move(values_.front()).toTensor();
  return std::move(results_.front());
}

void Call::push_results(torch::jit::Stack& stack) {
  if (!values_.empty()) {
    for (c10::IValue& value : values_) stack.push_back(std::move(value));
    return;
  }
  for (at::Tensor& result : results_) stack.emplace_back(std::move(result));
}

View view_of(const at::TensorIteratorBase& iterator, int operand) {
  const at::ScalarType theirs = iterator.dtype(operand);
  View view;
  view.dtype = from_pytorch(theirs);
  if (view.dtype == UHAL_DTYPE_INVALID) throw Refusal(std::string("dtype ") + c10::toString(theirs));
  const int rank = iterator.ndim();
  if (rank > UHAL_MAX_RANK) throw Refusal("more axes than unihal's views have");
  view.data = iterator.data_ptr(operand);
  view.rank = rank;
  // The iterator's first axis is the innermost one, and its strides count bytes.
  const int64_t bytes = static_cast<int64_t>(c10::elementSize(theirs));
  const at::IntArrayRef shape = iterator.shape();
  const at::IntArrayRef strides = iterator.strides(operand);
  for (int i = 0; i < rank; ++i) {
    view.shape[rank - 1 - i] = shape[i];
    view.strides[rank - 1 - i] = strides[i] / bytes;
  }
  return view;
}

}  // namespace unihal::pytorch
