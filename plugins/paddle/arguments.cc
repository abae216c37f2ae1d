#include "plugins/paddle/arguments.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <typeinfo>

#include "plugins/common/at_once.h"
#include "plugins/paddle/error.h"
#include "plugins/paddle/graph_capture.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_types.h"
#include "plugins/paddle/scratch.h"
#include "unihal/graph_capture.h"

namespace unihal::paddle {
namespace {

// Enough for Paddle's Scalar (48 bytes in 3.3) and IntArray (40) objects.
constexpr size_t kPaddleObjectBytes = 256;

// Their bytes fit into 64 bits, whatever the dtype.
constexpr int64_t kMaxElements = int64_t{1} << 58;

// phi::DDim: room for nine lengths, and how many of them there are.
struct Lengths {
  int64_t lengths[9];
  int32_t rank;
};
static_assert(UHAL_MAX_RANK >= std::size(Lengths().lengths), "there is room for all of them");

// phi::DenseTensor::dims() const, which gives a reference into the tensor.
constexpr const char* kLengthsSymbol = "_ZNK3phi11DenseTensor4dimsEv";

// Where a phi::DenseTensor has its Lengths, once that is known.
constexpr ptrdiff_t kUnknown = -1, kOtherwise = -2;
std::atomic<ptrdiff_t> offset_of_lengths{kUnknown};

// Finds out where, with the first tensor that has a rank. nullptr as long as it is not known, and where what is there
// is not what Paddle's C functions say.
[[gnu::cold]] const Lengths* look_for_lengths(const Tensor& tensor) {
  const int rank = tensor.rank();
  if (offset_of_lengths.load(std::memory_order_relaxed) == kOtherwise || rank == 0) return nullptr;
  void* const library = find_paddle_library(kLengthsSymbol);
  const Lengths* found = nullptr;
  ptrdiff_t offset = kOtherwise;
  if (library != nullptr) {
    found = reinterpret_cast<const Lengths* (*)(const void*)>(dlsym(library, kLengthsSymbol))(tensor.handle);
    offset = reinterpret_cast<const char*>(found) - static_cast<const char*>(tensor.handle);
  }
  bool as_expected = offset >= 0 && found->rank == rank;
  for (int i = 0; as_expected && i < rank; ++i) as_expected = found->lengths[i] == tensor.dim(i);
  offset_of_lengths.store(as_expected ? offset : kOtherwise, std::memory_order_relaxed);
  return as_expected ? found : nullptr;
}

// What PD_TensorGetNumDims and PD_TensorGetDim say, which take a call for each number. Paddle gives some kernels no
// tensor where a gradient is missing, and says of none that its rank is 0.
const Lengths* lengths_of(const Tensor& tensor) {
  const ptrdiff_t offset = offset_of_lengths.load(std::memory_order_relaxed);
  if (offset < 0 || !tensor) return look_for_lengths(tensor);
  return reinterpret_cast<const Lengths*>(static_cast<const char*>(tensor.handle) + offset);
}

[[noreturn, gnu::cold]] void refuse_rank(int rank) {
  raise(UHAL_INVALID_ARGUMENT, "(unihal) a tensor of rank " + std::to_string(rank) + " was given; at most " +
                                   std::to_string(UHAL_MAX_RANK) + " is supported");
}

// The dense shape of a tensor on the stack.
struct DenseShape {
  int64_t dims[UHAL_MAX_RANK];
  int rank;

  explicit DenseShape(const Tensor& tensor) {
    if (const Lengths* const known = lengths_of(tensor)) {
      rank = known->rank;
      std::copy(std::begin(known->lengths), std::end(known->lengths), dims);  // all: a few moves, and no loop
    } else {
      rank = tensor.rank();
      check_rank();
      for (int i = 0; i < rank; ++i) dims[i] = tensor.dim(i);
    }
  }
  DenseShape(const int64_t* given, int count) : rank(count) {
    check_rank();
    std::copy(given, given + count, dims);
  }
  void check_rank() const {
    if (rank > UHAL_MAX_RANK) refuse_rank(rank);
  }
};

[[noreturn, gnu::cold]] void refuse_sizes(const DenseShape& shape, const char* kernel) {
  std::string text;
  for (int i = 0; i < shape.rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape.dims[i]);
  raise(UHAL_FAILED_PRECONDITION, std::string("(unihal) ") + kernel + ": an output would have the shape (" + text +
                                      "), which is negative or too large");
}

// Refuses a shape that no tensor can have.
void check_sizes(const DenseShape& shape, const char* kernel) {
  int64_t elements = 1;
  bool valid = true;
  for (int i = 0; i < shape.rank; ++i) {
    valid = valid && shape.dims[i] >= 0 && !__builtin_mul_overflow(elements, shape.dims[i], &elements);
  }
  if (valid && elements <= kMaxElements) return;
  refuse_sizes(shape, kernel);
}

// How many of an op's outputs must not lie over an input.
int outputs_apart(const uhal_op& op) {
  switch (op.kind) {
    case UHAL_OP_MAP:
    case UHAL_OP_MAP_CHAIN:
    case UHAL_OP_TRIANGULAR:
    case UHAL_OP_SOFTMAX:
    case UHAL_OP_CROSS_ENTROPY_BACKWARD:
      return 0;
    case UHAL_OP_BATCH_NORM:
      return 1;  // running statistics are updated in place
    default:
      return op.output_count;
  }
}

// Whether all outputs are empty. Paddle's kernels return early then, whatever the shapes of the inputs.
bool writes_nothing(const uhal_op& op) {
  for (int k = 0; k < op.output_count; ++k) {
    if (op.outputs[k] != nullptr && static_cast<const View*>(op.outputs[k])->elements() != 0) return false;
  }
  return true;
}

// Whether two operands that begin at one address are read and written element by element alike.
bool same_elements(const uhal_tensor& a, const uhal_tensor& b) {
  return a.dtype == b.dtype && a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape) &&
         std::equal(a.strides, a.strides + a.rank, b.strides);
}

// The first output that lies over an input and must not, or -1. An op that works in place does so only where both have
// the same elements: a comparison in place writes bools over floats.
int output_over_input(const uhal_op& op) {
  for (int k = 0; k < op.output_count; ++k) {
    const uhal_tensor* output = op.outputs[k];
    if (output == nullptr || output->data == nullptr) continue;
    for (int i = 0; i < op.input_count; ++i) {
      const uhal_tensor* input = op.inputs[i];
      if (input == nullptr || input->data != output->data) continue;
      if (k < outputs_apart(op) || !same_elements(*input, *output)) return k;
    }
  }
  return -1;
}

// What PD_TensorGetDataPointer says, which compares the shape with the memory first and multiplies it out several times
// for that. phi::Allocation has the pointer after its table of virtual functions: that is tried with the first tensor.
void* memory_of(const void* tensor, size_t bytes) {
  enum { kUnknown, kAsExpected, kOther };
  static std::atomic<int> layout{kUnknown};
  const int known = layout.load(std::memory_order_relaxed);
  const auto* const allocation = static_cast<char* const*>(phi.PD_TensorGetHolder(tensor, IgnoredStatus()));
  if (known == kOther || allocation == nullptr || phi.tensor_memory_size(tensor) < bytes) {
    return phi.PD_TensorGetDataPointer(tensor, IgnoredStatus());  // or it says what is wrong
  }
  void* const found = allocation[1] + phi.PD_TensorGetOffset(tensor, IgnoredStatus());
  if (known == kAsExpected) return found;
  void* const theirs = phi.PD_TensorGetDataPointer(tensor, IgnoredStatus());
  layout.store(found == theirs ? kAsExpected : kOther, std::memory_order_relaxed);
  return theirs;
}

}  // namespace

View Tensor::view() const {
  View view = shape_only();
  const int64_t elements = view.elements();
  if (elements != 0) view.data = memory_of(handle, static_cast<size_t>(elements) * uhal_dtype_size(view.dtype));
  return view;
}

View Tensor::shape_only() const {
  const DenseShape shape(*this);
  return View(nullptr, uhal(), shape.dims, shape.rank);
}

View Tensor::strided_view() const {
  View view = layout();
  view.data = data();
  return view;
}

View Tensor::layout() const {
  const DenseShape shape(*this);
  View view(nullptr, uhal(), shape.dims, shape.rank);
  if (phi.PD_TensorGetNumStrides(handle, IgnoredStatus()) == view.rank) {
    for (int i = 0; i < view.rank; ++i) view.strides[i] = phi.PD_TensorGetStride(handle, i, IgnoredStatus());
  }
  return view;
}

bool is_dense_tensor(const void* tensor) {
  // Any class with virtual functions tells its type.
  struct Polymorphic {
    virtual ~Polymorphic() = default;
  };
  return tensor != nullptr &&
         std::strcmp(typeid(*static_cast<const Polymorphic*>(tensor)).name(), "N3phi11DenseTensorE") == 0;
}

bool MixedInputList::all_dense() const {
  for (size_t i = 0; i < size(); ++i) {
    if (!is_dense_tensor(handle(i))) return false;
  }
  return true;
}

int32_t Scalar::dtype() const {
  // phi::ScalarBase begins with a bool, whether it came from a tensor, and the dtype.
  return static_cast<const int32_t*>(handle)[1];
}

double Scalar::imaginary() const {
  if (dtype() != kPhiComplex64 && dtype() != kPhiComplex128) return 0;
  // Then comes the number, aligned as the widest complex one. Paddle's C functions give its real part only.
  constexpr size_t kNumberOffset = 16;
  double parts[2] = {};
  const char* const at = static_cast<const char*>(handle) + kNumberOffset;
  if (dtype() == kPhiComplex128) {
    std::memcpy(parts, at, sizeof parts);
  } else {
    float narrow[2];
    std::memcpy(narrow, at, sizeof narrow);
    std::copy_n(narrow, 2, parts);
  }
  const double real = number();
  if (parts[0] != real && !(std::isnan(parts[0]) && std::isnan(real))) {
    raise(UHAL_UNIMPLEMENTED, "(unihal) this Paddle keeps complex numbers among a kernel's attributes in another way");
  }
  return parts[1];
}

View Context::allocate(Output out, uhal_dtype dtype) const {
  const DenseShape shape(out);
  check_sizes(shape, kernel_);
  if (dtype == UHAL_DTYPE_INVALID) {
    raise(UHAL_UNIMPLEMENTED, std::string("(unihal) ") + kernel_ + ": an output of this dtype is not supported");
  }
  void* data = phi.PD_DeviceContextAllocateTensor(handle_, out.handle, 0, to_paddle(dtype), IgnoredStatus());
  View view(data, dtype, shape.dims, shape.rank);
  if (data == nullptr && view.elements() != 0) {
    raise(UHAL_RESOURCE_EXHAUSTED, std::string("(unihal) ") + kernel_ + ": Paddle gave no memory for an output");
  }
  return view;
}

View Context::allocate(Output out, uhal_dtype dtype, const int64_t* dims, int rank) const {
  check_sizes(DenseShape(dims, rank), kernel_);
  phi.PD_TensorSetDims(out.handle, rank, dims, IgnoredStatus());
  return allocate(out, dtype);
}

void Context::run(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes) const {
  check(with_op(kind, inputs, outputs, attributes, kernel_, [this](const uhal_op* op) { return submit(*op); }));
}

uhal_status Context::submit(const uhal_op& op) const {
  if (writes_nothing(op)) return UHAL_OK;
  uhal_stream* queue = stream()->handle;
  const int apart = output_over_input(op);
  if (apart < 0) {
    const uhal_status status = uhal_launch(queue, &op);
    if (status == UHAL_OK && counts_by_numbers(op.kind) && computes_at_once(queue)) refuse_outside(queue);
    return status;
  }

  const uhal_tensor* outputs[UHAL_MAP_MAX_INPUTS];
  std::copy(op.outputs, op.outputs + op.output_count, outputs);
  const uhal_tensor* target = outputs[apart];
  const Scratch scratch(*this, target->dtype, target->shape, target->rank);
  outputs[apart] = &scratch;
  uhal_op redirected = op;
  redirected.outputs = outputs;
  const uhal_status status = submit(redirected);
  return status == UHAL_OK ? launch(queue, UHAL_OP_COPY, {&scratch}, {target}, nullptr, kernel_) : status;
}

Context::RandomSequence Context::random_sequence() const {
  const uhal_tensor* turn = nullptr;
  check(replay_number(stream(), &turn));
  return {phi.PD_DeviceContextGetRandom(handle_, IgnoredStatus()), turn};
}

bool Context::has_computed() const {
  int32_t capturing = 0;
  return computes_at_once(stream()->handle) && uhal_graph_capture_query(stream()->handle, &capturing) == UHAL_OK &&
         capturing == 0;
}

void Context::refuse_in_graph(const char* reason) const {
  int32_t capturing = 0;
  check(uhal_graph_capture_query(stream()->handle, &capturing));
  if (capturing != 0) raise(UHAL_FAILED_PRECONDITION, std::string("(unihal) ") + kernel_ + ": " + reason);
}

// A number outside that the launch before met is this kernel's error, of the class that Paddle's CPU has.
void Context::refuse_outside(uhal_stream* queue) const {
  std::string message;
  const uhal_status status = met_outside(queue, &message);
  if (status != UHAL_OUT_OF_RANGE) return check(status);
  raise(outside_error(kernel_), std::string("(unihal) ") + kernel_ + ": " + message);
}

void Context::fail(uhal_status status) const { raise_last_error(status, kernel_); }

Scratch::Scratch(const Context& context, uhal_dtype type, const int64_t* dims, int dims_count)
    : View(nullptr, type, dims, dims_count), stream_(context.stream()) {
  const size_t bytes = static_cast<size_t>(elements()) * uhal_dtype_size(type);
  context.check(uhal_allocate(stream_->device, stream_->handle, UHAL_MEMORY_DEVICE, bytes, &data));
}

// The C accessor throws when the attribute is a tensor; then Paddle's own constructor reads that tensor.
Scalar scalar_attribute(void* kernel_context, size_t index) {
  try {
    return Scalar{phi.PD_KernelContextScalarAttrAt(kernel_context, index)};
  } catch (const std::exception&) {
    // A kernel has few such attributes, and uses them before it returns.
    constexpr int kSlots = 8;
    static thread_local struct {
      alignas(16) unsigned char bytes[kPaddleObjectBytes];
    } objects[kSlots];
    static thread_local int next = 0;
    void* object = objects[next++ % kSlots].bytes;
    phi.make_scalar(object, *phi.tensor_attribute(kernel_context, index));
    return Scalar{object};
  }
}

Dtype dtype_of_number(int32_t number) {
  try {
    return static_cast<Dtype>(phi.PD_DatatTypeAttr(&number));
  } catch (const std::exception&) {  // float8 and its like
    return kUnsupported;
  }
}

Dtype dtype_attribute(void* kernel_context, size_t index) {
  try {
    return static_cast<Dtype>(phi.PD_KernelContextDataTypeAttrAt(kernel_context, index));
  } catch (const std::exception&) {
    return kUnsupported;
  }
}

Integers integers_attribute(void* kernel_context, size_t index) {
  try {
    return Integers(phi.PD_IntArrayGetDataPointer(phi.PD_KernelContextIntArrayAttrAt(kernel_context, index)));
  } catch (const std::exception&) {
  }
  alignas(16) unsigned char object[kPaddleObjectBytes] = {};
  const void* tensor = nullptr;
  try {
    tensor = *phi.tensor_attribute(kernel_context, index);
  } catch (const std::exception&) {
  }
  if (tensor != nullptr) {
    phi.make_int_array(object, tensor);
  } else {
    phi.make_int_array_from_list(object, phi.tensor_list_attribute(kernel_context, index));
  }
  const List list = phi.PD_IntArrayGetDataPointer(object);
  auto* numbers = static_cast<int64_t*>(list.data);
  std::vector<int64_t> copy(numbers, numbers + list.size);
  ::operator delete(list.data);  // the std::vector inside the IntArray
  return Integers(std::move(copy));
}

}  // namespace unihal::paddle
