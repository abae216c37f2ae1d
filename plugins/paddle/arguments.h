// The typed arguments of our Paddle kernels, and how each is taken from Paddle.
//
// A kernel is an ordinary function such as
//   void matmul(Context context, Input x, Input y, bool transpose_x, bool transpose_y, Output out)
// whose parameters stand in the order of Paddle's own kernel of that name. Paddle calls it in two ways: eager
// mode through the C++ signature of its own kernel (`Raw` below: references and pointers arrive as pointers,
// numbers by value), and graph execution through a context object from which each argument is read by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugins/common/view.h"
#include "plugins/paddle/phi_api.h"
#include "plugins/paddle/stream.h"

namespace unihal::paddle {

// Paddle's functions report failures by throwing; the status they also set says nothing more.
struct IgnoredStatus {
  int status = 0;
  operator int*() { return &status; }
};

// One of Paddle's dense tensors. Inputs are contiguous (Paddle sees to it), except for `contiguous` and
// `strided_copy`.
struct Tensor {
  void* handle = nullptr;

  explicit operator bool() const { return handle != nullptr; }
  Dtype dtype() const { return static_cast<Dtype>(phi.PD_TensorGetPDDataType(handle, IgnoredStatus())); }
  uhal_dtype uhal() const { return to_uhal(dtype()); }
  int rank() const { return static_cast<int>(phi.PD_TensorGetNumDims(handle, IgnoredStatus())); }
  int64_t dim(int axis) const { return phi.PD_TensorGetDim(handle, static_cast<size_t>(axis), IgnoredStatus()); }
  int64_t elements() const { return phi.PD_TensorGetElementCount(handle, IgnoredStatus()); }
  void* data() const { return elements() == 0 ? nullptr : phi.PD_TensorGetDataPointer(handle, IgnoredStatus()); }
  View view() const;          // dense
  View shape_only() const;    // for an operand of the forward that has given up its memory
  View strided_view() const;  // with the strides that Paddle keeps
  View layout() const;        // strided_view() without data; of a tensor that gave up its memory too
  bool is_allocated() const { return phi.PD_TensorIsInitialized(handle, IgnoredStatus()); }
};

struct Input : Tensor {};
struct OptionalInput : Tensor {};
struct Output : Tensor {};  // false where the caller does not want this output

// Whether a phi::TensorBase is a dense tensor.
bool is_dense_tensor(const void* tensor);

// A list of tensors. In graph execution Paddle hands over the array, which is then ours to delete.
class TensorList {
 public:
  TensorList(List list, bool owned) : list_(list), owned_(owned) {}
  TensorList(TensorList&& other) noexcept : list_(other.list_), owned_(other.owned_) { other.owned_ = false; }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;
  ~TensorList() {
    if (owned_) phi.PD_DeletePointerList(list_);
  }
  size_t size() const { return list_.size; }

 protected:
  void* handle(size_t i) const { return static_cast<void**>(list_.data)[i]; }

 private:
  List list_;
  bool owned_;
};
struct InputList : TensorList {
  using TensorList::TensorList;
  Input operator[](size_t i) const { return Input{{handle(i)}}; }
};
// Empty where it is absent, or a graph gives a list without tensors.
struct OptionalInputList : InputList {
  using InputList::InputList;
  // Paddle's optional is a bool and, behind it, the std::vector in storage that GCC aligns as anything may be.
  static OptionalInputList of(const void* optional) {
    if (!*static_cast<const bool*>(optional)) return OptionalInputList(List{}, false);
    return OptionalInputList(phi.PD_TensorVectorToList(static_cast<const char*>(optional) + alignof(std::max_align_t)),
                             false);
  }
  bool is_present() const { return size() > 0 && (*this)[0]; }
};
// A list whose members may be of other tensor types than dense ones; the kernel has to ask.
struct MixedInputList : TensorList {
  using TensorList::TensorList;
  bool all_dense() const;
  Input operator[](size_t i) const { return Input{{handle(i)}}; }
};
struct OutputList : TensorList {
  using TensorList::TensorList;
  Output operator[](size_t i) const { return Output{{handle(i)}}; }
};

struct Text {
  const char* value;
};

// A number that may be given as a tensor at run time; then it owns a copy of Paddle's Scalar object.
struct Scalar {
  const void* handle;
  int32_t dtype() const;                                                 // as phi::DataType counts them
  double number() const { return phi.PD_ScalarGetFloat64Data(handle); }  // the real part of a complex one
  double imaginary() const;                                              // 0 of others
  int64_t integer() const { return phi.PD_ScalarGetInt64Data(handle); }
};

// A list of numbers. Paddle hands over an array of pointers to them, which is then ours to delete.
class Scalars {
 public:
  explicit Scalars(List list) : list_(list) {}
  Scalars(Scalars&& other) noexcept : list_(other.list_) { other.list_ = {}; }
  Scalars(const Scalars&) = delete;
  Scalars& operator=(const Scalars&) = delete;
  ~Scalars() {
    if (list_.data != nullptr) phi.PD_DeletePointerList(list_);
  }
  size_t size() const { return list_.size; }
  Scalar operator[](size_t i) const { return Scalar{static_cast<const void* const*>(list_.data)[i]}; }

 private:
  List list_;
};

// A list of texts. The array of pointers to them is ours to delete, as above.
class Texts {
 public:
  explicit Texts(List list) : list_(list) {}
  Texts(Texts&& other) noexcept : list_(other.list_) { other.list_ = {}; }
  Texts(const Texts&) = delete;
  Texts& operator=(const Texts&) = delete;
  ~Texts() {
    if (list_.data != nullptr) phi.PD_DeletePointerList(list_);
  }
  size_t size() const { return list_.size; }
  Text operator[](size_t i) const { return Text{static_cast<const char* const*>(list_.data)[i]}; }

 private:
  List list_;
};

// A borrowed array of numbers.
template <class T>
struct Span {
  const T* data;
  size_t count;
  explicit Span(List list) : data(static_cast<const T*>(list.data)), count(list.size) {}
  const T* begin() const { return data; }
  const T* end() const { return data + count; }
  int size() const { return static_cast<int>(count); }
  const T& operator[](size_t i) const { return data[i]; }
};

// An IntArray: numbers known when the graph is built, or the contents of one tensor or several.
class Integers {
 public:
  explicit Integers(List borrowed) : data_(static_cast<const int64_t*>(borrowed.data)), size_(borrowed.size) {}
  explicit Integers(std::vector<int64_t> owned) : owned_(std::move(owned)), size_(owned_.size()) {}
  const int64_t* data() const { return owned_.empty() ? data_ : owned_.data(); }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int size() const { return static_cast<int>(size_); }
  int64_t operator[](size_t i) const { return data()[i]; }

 private:
  std::vector<int64_t> owned_;
  const int64_t* data_ = nullptr;
  size_t size_;
};

// Attributes that graph execution may give as tensors.
Scalar scalar_attribute(void* kernel_context, size_t index);
Integers integers_attribute(void* kernel_context, size_t index);

// A dtype as eager mode passes it (phi::DataType) and from graph execution; kUnsupported for what Paddle's C functions
// have no number for.
Dtype dtype_of_number(int32_t number);
Dtype dtype_attribute(void* kernel_context, size_t index);

// Where a kernel runs.
class Context {
 public:
  Context(const void* handle, const char* kernel) : handle_(handle), kernel_(kernel) {}

  const char* kernel() const { return kernel_; }
  const void* handle() const { return handle_; }
  Stream* stream() const {
    if (stream_ == nullptr) {
      stream_ = static_cast<Stream*>(phi.PD_DeviceContextGetStream(handle_, IgnoredStatus()));
    }
    return stream_;
  }
  uint64_t random_seed() const {
    refuse_in_graph(
        "a graph would repeat its random numbers in each replay; give it a seed, or leave it out of the capture");
    return phi.PD_DeviceContextGetRandom(handle_, IgnoredStatus());
  }

  // A key from the device's generator, and with it the operand `turn` of random ops, by which each replay of a graph
  // draws other numbers; nullptr outside a capture.
  struct RandomSequence {
    uint64_t key;
    const uhal_tensor* turn;
  };
  RandomSequence random_sequence() const;

  // Whether what was run has been computed, in memory of the host's, as on the fast stub: results may be looked at.
  bool has_computed() const;

  // Raises UHAL_FAILED_PRECONDITION with `reason` if the stream is being captured into a graph.
  void refuse_in_graph(const char* reason) const;

  // Gives an output its memory, for the shape that it has, and returns a dense view of it. Paddle infers shapes from
  // attributes without a look at their signs and sizes: negative and overflowing ones are refused here.
  View allocate(Output out, uhal_dtype dtype) const;
  View allocate(Output out) const { return allocate(out, out.uhal()); }
  // Sets the shape first; for outputs whose shape only the kernel knows.
  View allocate(Output out, uhal_dtype dtype, const int64_t* dims, int rank) const;

  // Submits an op under the kernel's name; a refusal becomes a Python exception. Paddle may give an output
  // the memory of an input; an op that cannot work in place then writes to scratch memory first.
  void run(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes = nullptr) const;
  void map(int function, Operands inputs, Operands outputs, std::initializer_list<double> parameters = {}) const {
    const uhal_map_attributes attributes = map_attributes(function, parameters);
    run(UHAL_OP_MAP, inputs, outputs, &attributes);
  }
  void check(uhal_status status) const {
    if (status != UHAL_OK) fail(status);
  }

 private:
  [[noreturn]] __attribute__((cold)) void fail(uhal_status status) const;
  uhal_status submit(const uhal_op& op) const;
  void refuse_outside(uhal_stream* queue) const;

  const void* handle_;
  const char* kernel_;
  mutable Stream* stream_ = nullptr;  // asked for once
};

// How one parameter type travels.
//   role: context, input, attribute or output; code: how signatures spell it; type: PD_KernelArgumentType
enum class Role { kContext, kInput, kAttribute, kOutput };

template <class T>
struct Argument;

#define UNIHAL_ARGUMENT(T, ROLE, TYPE, CODE, RAW, FROM_RAW, FROM_CONTEXT)   \
  template <>                                                               \
  struct Argument<T> {                                                      \
    static constexpr Role role = Role::ROLE;                                \
    static constexpr ArgumentType type = TYPE;                              \
    static constexpr const char* code = CODE;                               \
    using Raw = RAW;                                                        \
    static T from_raw(Raw raw) { return FROM_RAW; }                         \
    static T from_context(void* context, size_t i) { return FROM_CONTEXT; } \
  }

UNIHAL_ARGUMENT(Input, kInput, kArgumentTensor, "tensor", void*, (Input{{raw}}),
                (Input{{phi.PD_KernelContextInputAt(context, i)}}));
UNIHAL_ARGUMENT(OptionalInput, kInput, kArgumentOptionalTensor, "optional", void*,
                (OptionalInput{{phi.PD_OptionalTensorGetPointer(raw)}}),
                (OptionalInput{{phi.PD_KernelContextInputAt(context, i)}}));
UNIHAL_ARGUMENT(InputList, kInput, kArgumentListTensor, "list", void*, InputList(phi.PD_TensorVectorToList(raw), false),
                InputList(phi.PD_KernelContextMultiInputAt(context, i), true));
UNIHAL_ARGUMENT(OptionalInputList, kInput, kArgumentOptionalListTensor, "optional list", void*,
                OptionalInputList::of(raw), OptionalInputList(phi.PD_KernelContextMultiInputAt(context, i), true));
UNIHAL_ARGUMENT(MixedInputList, kInput, kArgumentListTensor, "mixed list", void*,
                MixedInputList(phi.PD_TensorVectorToList(raw), false),
                MixedInputList(phi.PD_KernelContextMultiInputAt(context, i), true));
UNIHAL_ARGUMENT(bool, kAttribute, kArgumentBool, "bool", bool, raw, phi.PD_KernelContextBoolAttrAt(context, i));
UNIHAL_ARGUMENT(int, kAttribute, kArgumentInt32, "int", int, raw, phi.PD_KernelContextInt32AttrAt(context, i));
UNIHAL_ARGUMENT(int64_t, kAttribute, kArgumentInt64, "int64_t", int64_t, raw,
                phi.PD_KernelContextInt64AttrAt(context, i));
UNIHAL_ARGUMENT(float, kAttribute, kArgumentFloat32, "float", float, raw, phi.PD_KernelContextFloatAttrAt(context, i));
UNIHAL_ARGUMENT(double, kAttribute, kArgumentFloat64, "double", double, raw,
                phi.PD_KernelContextDoubleAttrAt(context, i));
UNIHAL_ARGUMENT(Text, kAttribute, kArgumentString, "string", void*, Text{phi.PD_StringAttr(raw)},
                Text{phi.PD_KernelContextStringAttrAt(context, i)});
UNIHAL_ARGUMENT(Scalar, kAttribute, kArgumentScalar, "Scalar", void*, Scalar{raw}, scalar_attribute(context, i));
UNIHAL_ARGUMENT(Integers, kAttribute, kArgumentIntArray, "IntArray", void*,
                Integers(phi.PD_IntArrayGetDataPointer(raw)), integers_attribute(context, i));
UNIHAL_ARGUMENT(Scalars, kAttribute, kArgumentListScalar, "vector<Scalar>", void*, Scalars(phi.PD_ListScalarAttr(raw)),
                Scalars(phi.PD_KernelContextListScalarAttrAt(context, i)));
UNIHAL_ARGUMENT(Texts, kAttribute, kArgumentListString, "vector<string>", void*, Texts(phi.PD_ListStringAttr(raw)),
                Texts(phi.PD_KernelContextListStringAttrAt(context, i)));
// Eager mode passes phi::DataType by value, which counts dtypes differently.
UNIHAL_ARGUMENT(Dtype, kAttribute, kArgumentDtype, "DataType", int, dtype_of_number(raw), dtype_attribute(context, i));
UNIHAL_ARGUMENT(Span<int>, kAttribute, kArgumentListInt32, "vector<int>", void*, Span<int>(phi.PD_ListInt32Attr(raw)),
                Span<int>(phi.PD_KernelContextListInt32AttrAt(context, i)));
UNIHAL_ARGUMENT(Span<int64_t>, kAttribute, kArgumentListInt64, "vector<int64_t>", void*,
                Span<int64_t>(phi.PD_ListInt64Attr(raw)),
                Span<int64_t>(phi.PD_KernelContextListInt64AttrAt(context, i)));
UNIHAL_ARGUMENT(Span<float>, kAttribute, kArgumentListFloat32, "vector<float>", void*,
                Span<float>(phi.PD_ListFloatAttr(raw)), Span<float>(phi.PD_KernelContextListFloatAttrAt(context, i)));
UNIHAL_ARGUMENT(Span<double>, kAttribute, kArgumentListFloat64, "vector<double>", void*,
                Span<double>(phi.PD_ListDoubleAttr(raw)),
                Span<double>(phi.PD_KernelContextListDoubleAttrAt(context, i)));
UNIHAL_ARGUMENT(Output, kOutput, kArgumentTensor, "tensor", void*, (Output{{raw}}),
                (Output{{phi.PD_KernelContextOutputAt(context, i)}}));
UNIHAL_ARGUMENT(OutputList, kOutput, kArgumentListTensor, "list", void*,
                OutputList(phi.PD_TensorVectorToList(raw), false),
                OutputList(phi.PD_KernelContextMultiOutputAt(context, i), true));

}  // namespace unihal::paddle
