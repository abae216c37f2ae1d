#include "plugins/torch/call.h"

#include <ATen/native/Resize.h>

#include <map>
#include <unordered_map>

#include "plugins/torch/fallback.h"
#include "unihal/fallback.h"

namespace unihal::pytorch {

Call::Call(const Registration& registration, torch::jit::Stack& stack)
    : registration_(registration), stack_(stack), results_(registration.result_count) {
  const int outs = registration.variant == Variant::kOut ? registration.result_count : 0;
  arguments_ = stack.data() + stack.size() - registration.argument_count - outs;
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

void Call::finish() {
  for (size_t i = 0; i < given_.size(); ++i) {
    if (!given_[i].defined() || given_[i].is_same(results_[i])) continue;
    if (variant() == Variant::kOut) at::native::resize_output(results_[i], given_[i].sizes());
    results_[i].copy_(given_[i]);
  }
  const int outs = registration_.variant == Variant::kOut ? registration_.result_count : 0;
  torch::jit::drop(stack_, registration_.argument_count + outs);
  if (!values_.empty()) {
    for (c10::IValue& value : values_) stack_.push_back(std::move(value));
    return;
  }
  for (at::Tensor& result : results_) stack_.emplace_back(std::move(result));
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

// -- registration -----------------------------------------------------------------------------------------

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const Registration& registration) : registration_(registration) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    std::string reason;
    try {
      Call call(registration_, *stack);
      const at::Tensor* const first = find_tensor(call, registration_.argument_count);
      const c10::DeviceIndex before = current_device();
      call.device_ = before;
      if (first != nullptr && first->device().type() == kDevice) call.device_ = first->device().index();
      const c10::OptionalDeviceGuard guard(
          call.device_ != before ? std::optional<c10::Device>(c10::Device(kDevice, call.device_)) : std::nullopt);
      call.stream_ = current_stream(call.device_);
      if (first != nullptr && !contains(registration_.kernel->dtypes, from_pytorch(first->scalar_type()))) {
        throw Refusal(std::string("no kernel for dtype ") + c10::toString(first->scalar_type()));
      }
      registration_.kernel->run(call);
      call.finish();
      return;
    } catch (Refusal& refusal) {
      reason = std::move(refusal.reason);
    }
    run_on_cpu(op, stack, reason);
  }

 private:
  // The first tensor among the arguments that lies on the device, else the first.
  static const at::Tensor* find_tensor(const Call& call, int count) {
    const at::Tensor* found = nullptr;
    for (int i = 0; i < count; ++i) {
      const c10::IValue& value = call.argument(i);
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

  const Registration registration_;
};

namespace {

std::map<std::string, DtypeSet>& covered() {
  static auto* instance = new std::map<std::string, DtypeSet>;
  return *instance;
}

// The overloads of each op of ATen, by the name without the overload's.
const std::unordered_map<std::string, std::vector<std::string>>& overloads() {
  static const auto* all = [] {
    auto* found = new std::unordered_map<std::string, std::vector<std::string>>;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.rfind("aten::", 0) == 0) (*found)[name.name].push_back(name.overload_name);
    }
    return found;
  }();
  return *all;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Whether `other` takes what `schema` takes, and then `extra` arguments.
bool takes_the_same(const c10::FunctionSchema& schema, const c10::FunctionSchema& other, size_t extra) {
  const auto& ours = schema.arguments();
  const auto& theirs = other.arguments();
  if (theirs.size() != ours.size() + extra) return false;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (*ours[i].type() != *theirs[i].type() || ours[i].name() != theirs[i].name()) return false;
  }
  return true;
}

class Registrar {
 public:
  void add(const Kernel& kernel) {
    const std::string text = std::string("aten::") + kernel.op;
    const size_t dot = text.find('.');
    const std::string name = text.substr(0, dot);
    const std::string overload = dot == std::string::npos ? "" : text.substr(dot + 1);
    const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
    if (!found.has_value()) return;
    const c10::FunctionSchema& schema = found->schema();
    const int arguments = static_cast<int>(schema.arguments().size());
    const int results = static_cast<int>(schema.returns().size());
    const bool writes_self = arguments > 0 && is_written(schema.arguments()[0]) && results == 1;
    covered()[kernel.op] |= kernel.dtypes;
    add(name, overload, {&kernel, writes_self ? Variant::kInPlace : Variant::kFunctional, arguments, results});
    if (writes_self) return;
    for (const std::string& other : overloads_of(name + "_")) {
      const auto candidate = c10::Dispatcher::singleton().findSchema({name + "_", other});
      const c10::FunctionSchema& variant = candidate->schema();
      if (results == 1 && takes_the_same(schema, variant, 0) && is_written(variant.arguments()[0])) {
        add(name + "_", other, {&kernel, Variant::kInPlace, arguments, results});
      }
    }
    for (const std::string& other : overloads_of(name)) {
      const auto candidate = c10::Dispatcher::singleton().findSchema({name, other});
      const c10::FunctionSchema& variant = candidate->schema();
      if (results > 0 && takes_the_same(schema, variant, static_cast<size_t>(results)) &&
          variant.arguments().back().is_out()) {
        add(name, other, {&kernel, Variant::kOut, arguments, results});
      }
    }
  }

 private:
  static const std::vector<std::string>& overloads_of(const std::string& name) {
    static const std::vector<std::string> none;
    const auto found = overloads().find(name);
    return found != overloads().end() ? found->second : none;
  }

  void add(const std::string& name, const std::string& overload, const Registration& registration) {
    const std::string full = overload.empty() ? name : name + "." + overload;
    library_.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(registration)));
  }

  torch::Library library_{torch::Library::IMPL, "aten", c10::make_optional(c10::DispatchKey::PrivateUse1), __FILE__,
                          __LINE__};
};

}  // namespace

void register_kernels(const Kernel* kernels, size_t count) {
  static auto* registrar = new Registrar;  // never destroyed, or it would take the kernels with it
  for (size_t i = 0; i < count; ++i) registrar->add(kernels[i]);
}

std::string coverage() {
  std::string text = "[";
  for (const auto& [op, dtypes] : covered()) {
    text += (text.size() > 1 ? ",\n" : "") + std::string("{\"op\": \"") + op + "\", \"dtypes\": [";
    const char* separator = "";
    for (uhal_dtype dtype = 1; dtype < UHAL_DTYPE_COUNT; ++dtype) {
      if (!contains(dtypes, dtype)) continue;
      text += std::string(separator) + "\"" + uhal_dtype_name(dtype) + "\"";
      separator = ", ";
    }
    text += "]}";
  }
  return text + "]";
}

}  // namespace unihal::pytorch
