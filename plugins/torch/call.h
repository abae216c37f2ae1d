// One call of an op by PyTorch's dispatcher, as kernels see it.
//
// Kernels take their arguments from an array, by their number in the schema of the op's functional form. So one kernel
// serves an op's three variants (`add.Tensor`, `add_.Tensor`, `add.out`), and what it gives goes where the variant
// wants it: to a new tensor, to `self`, or to what the caller passed as out=.
#pragma once

#include <list>

#include "plugins/common/at_once.h"
#include "plugins/torch/tensors.h"

namespace unihal::pytorch {

class Call;

// A row of an adapter's table.
struct Kernel {
  const char* op;   // "add.Tensor": the functional form
  DtypeSet dtypes;  // of the first tensor; others are left to the CPU
  void (*run)(Call& call);
  const void* data = nullptr;  // a row of a table of the kernel's own
};

// Registers rows with all variants of their ops. Rows whose op this version of PyTorch has not are passed over.
void register_kernels(const Kernel* kernels, size_t count);
template <size_t kCount>
void register_kernels(const Kernel (&kernels)[kCount]) {
  register_kernels(kernels, kCount);
}

// As JSON: [{"op": "add.Tensor", "dtypes": ["float32", ...]}, ...].
std::string coverage();

enum class Variant { kFunctional, kInPlace, kOut };

// What is the same in all calls of one registered variant.
struct Registration {
  const Kernel* kernel;
  Variant variant;
  int argument_count;  // of the functional form
  int result_count;
};

class Call {
 public:
  // `arguments`: those of the functional form, then out= ones. They have to live as long as the call.
  Call(const Registration& registration, const c10::IValue* arguments);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const char* op() const { return registration_.kernel->op; }
  template <class T>
  const T& data() const {
    return *static_cast<const T*>(registration_.kernel->data);
  }
  Variant variant() const { return registration_.variant; }
  uhal_stream* stream() const { return stream_; }
  c10::DeviceIndex device() const { return device_; }

  // -- arguments ----------------------------------------------------------------------------------------
  const c10::IValue& argument(int index) const { return arguments_[index]; }
  // None, or a tensor that is not defined.
  bool is_none(int index) const {
    return arguments_[index].isNone() || (arguments_[index].isTensor() && !arguments_[index].toTensor().defined());
  }
  const at::Tensor& tensor(int index) const { return arguments_[index].toTensor(); }
  // Undefined for None.
  at::Tensor optional_tensor(int index) const { return is_none(index) ? at::Tensor() : tensor(index); }
  at::Scalar scalar(int index) const { return arguments_[index].toScalar(); }
  int64_t integer(int index) const { return arguments_[index].toInt(); }
  int64_t integer_or(int index, int64_t none) const { return is_none(index) ? none : integer(index); }
  double real(int index) const { return arguments_[index].toScalar().toDouble(); }
  double real_or(int index, double none) const { return is_none(index) ? none : real(index); }
  bool boolean(int index) const { return arguments_[index].toBool(); }
  c10::DimVector integers(int index) const;  // empty for None
  std::vector<at::Tensor> tensors(int index) const { return arguments_[index].toTensorVector(); }
  std::vector<std::optional<at::Tensor>> optional_tensors(int index) const;
  std::optional<at::ScalarType> dtype(int index) const { return arguments_[index].toOptional<at::ScalarType>(); }
  std::optional<at::Generator> generator(int index) const { return arguments_[index].toOptional<at::Generator>(); }

  // -- results ------------------------------------------------------------------------------------------
  // What the variant gives for result `index` so far: undefined before it is made by a functional call.
  const at::Tensor& result(int index = 0) const { return results_[index]; }
  // Makes (or checks and resizes, of in-place and out= variants) result `index`, and gives it.
  const at::Tensor& make_result(int index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);
  const at::Tensor& make_result(int index, at::IntArrayRef sizes, at::ScalarType dtype) {
    return make_result(index, sizes, {}, dtype);
  }
  const at::Tensor& make_result_like(const at::Tensor& tensor) {
    return make_result(
        0, tensor.sizes(),
        tensor.suggest_memory_format() == at::MemoryFormat::Contiguous ? at::IntArrayRef() : tensor.strides(),
        tensor.scalar_type());
  }
  // A result that another op makes, or none. When the call ends it is copied to where the variant wants it.
  void set_result(int index, const at::Tensor& tensor);
  // All results of a functional op, where some are no tensors.
  void set_values(std::vector<c10::IValue> values) { values_ = std::move(values); }

  // -- work ---------------------------------------------------------------------------------------------
  void launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes = nullptr);
  void launch(uhal_op& op);
  void map(uhal_map_function function, Operands inputs, Operands outputs,
           std::initializer_list<double> parameters = {});
  void copy(const View& from, const View& to) { launch(UHAL_OP_COPY, {&from}, {&to}); }
  void cast(const View& from, const View& to) { launch(UHAL_OP_CAST, {&from}, {&to}); }
  void fill(const View& view, const at::Scalar& value);
  // One element with a value, which lives as long as the call.
  View constant(const at::Scalar& value, at::ScalarType dtype);
  // Scratch memory that lives as long as the call.
  at::Tensor scratch(at::IntArrayRef sizes, at::ScalarType dtype);
  // Keeps a tensor that work of this call uses as long as the call.
  const at::Tensor& keep(at::Tensor tensor);

  // Whether launches have computed when they return, as the fast stub's: what they read may be looked at then.
  bool computes_at_once() const { return unihal::computes_at_once(stream_); }
  // Makes a number that is not one of 0 to `length` - 1 an index out of range, as launches that use it do.
  void check_numbers(const View& numbers, int64_t length);

  [[noreturn]] void refuse(const std::string& reason) const { throw Refusal(reason); }
  void require(bool fits, const char* reason) const {
    if (C10_UNLIKELY(!fits)) throw Refusal(reason);
  }

  // -- the call itself ----------------------------------------------------------------------------------
  // Runs the kernel on the device of its tensors. A reason where it refuses: then nothing was written, and the op is
  // for the CPU.
  std::optional<std::string> run();
  // What was given, once: the only result, a tensor; or all results, onto the stack.
  at::Tensor take_result();
  void push_results(torch::jit::Stack& stack);

 private:
  const at::Tensor* find_tensor() const;
  C10_NOINLINE void refuse_outside();
  void finish();

  const Registration& registration_;
  const c10::IValue* const arguments_;
  uhal_stream* stream_ = nullptr;
  c10::DeviceIndex device_ = 0;
  bool submitted_ = false;
  c10::SmallVector<at::Tensor, 3> results_;
  c10::SmallVector<at::Tensor, 3> given_;  // for results that lie elsewhere
  std::vector<c10::IValue> values_;
  std::list<at::Tensor> kept_;  // unlike a vector it keeps places, and unlike a deque it begins with no memory
};

// An argument of a call, as functions of PyTorch's C++ take it.
template <class Type>
struct Argument {
  Argument(const Call& call, int index) : value(call.argument(index).to<Type>()) {}
  Type value;
};
template <>
struct Argument<at::Tensor> {
  Argument(const Call& call, int index) : value(call.tensor(index)) {}
  const at::Tensor& value;
};
template <>
struct Argument<c10::string_view> {
  Argument(const Call& call, int index) : value(call.argument(index).toStringView()) {}
  c10::string_view value;
};
template <>
struct Argument<at::IntArrayRef> {
  Argument(const Call& call, int index) : numbers(call.integers(index)), value(numbers) {}
  c10::DimVector numbers;
  at::IntArrayRef value;
};
template <>
struct Argument<at::OptionalIntArrayRef> {
  Argument(const Call& call, int index) : numbers(call.integers(index)) {
    if (!call.is_none(index)) value = at::IntArrayRef(numbers);
  }
  c10::DimVector numbers;
  at::OptionalIntArrayRef value;
};
template <>
struct Argument<at::OptionalTensorRef> {
  Argument(const Call& call, int index) {
    if (!call.is_none(index)) value = at::OptionalTensorRef(call.tensor(index));
  }
  at::OptionalTensorRef value;
};
template <>
struct Argument<at::OptionalScalarRef> {
  Argument(const Call& call, int index) {
    if (call.is_none(index)) return;
    number = call.scalar(index);
    value = at::OptionalScalarRef(number);
  }
  at::Scalar number;
  at::OptionalScalarRef value;
};
template <>
struct Argument<at::ITensorListRef> {
  Argument(const Call& call, int index) : tensors(call.tensors(index)), value(tensors) {}
  std::vector<at::Tensor> tensors;
  at::ITensorListRef value;
};

// The meta function of a structured op: it checks arguments as the CPU does and says what the results are.
// `Structured<at::meta::structured_mm>(call).infer();` makes the results. Names are of axes, and of PyTorch
// before 2.13.
template <class Meta, class SetOutput = decltype(&at::impl::MetaBase::set_output_raw_strided)>
class Structured;
template <class Meta, class... Names>
class Structured<Meta,
                 void (at::impl::MetaBase::*)(int64_t, at::IntArrayRef, at::IntArrayRef, at::TensorOptions, Names...)>
    final : public Meta {
 public:
  explicit Structured(Call& call) : call_(call) {}
  const at::Tensor& maybe_get_output(int64_t index) override { return call_.result(static_cast<int>(index)); }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                              Names... names) override {
    const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
    const std::optional<at::MemoryFormat> format = options.memory_format_opt();
    if (strides.empty() && format.has_value() && *format != at::MemoryFormat::Contiguous) {
      // An iterator over operands of one dense layout names that, and then counts on it.
      const auto dense = *format == at::MemoryFormat::ChannelsLast ? c10::get_channels_last_strides_2d(sizes)
                                                                   : c10::get_channels_last_strides_3d(sizes);
      call_.make_result(static_cast<int>(index), sizes, dense, dtype);
    } else {
      call_.make_result(static_cast<int>(index), sizes, strides, dtype);
    }
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(index, sizes, strides, options, names...);
    }
  }
  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                          Names... names) override {
    set_output_raw_strided(index, sizes, strides, options, names...);
  }

  // Calls the meta function with the call's first arguments.
  auto infer() { return infer(&Meta::meta); }

 private:
  template <class Result, class... Arguments>
  Result infer(Result (Meta::*function)(Arguments...)) {
    return infer(function, std::index_sequence_for<Arguments...>());
  }
  template <class Result, class... Arguments, size_t... kIndices>
  Result infer(Result (Meta::*function)(Arguments...), std::index_sequence<kIndices...>) {
    return (this->*function)(Argument<std::decay_t<Arguments>>(call_, static_cast<int>(kIndices)).value...);
  }

  Call& call_;
};

// The operand of an iterator as a view: axes are the iterator's, which are merged where that is possible.
View view_of(const at::TensorIteratorBase& iterator, int operand);

}  // namespace unihal::pytorch
