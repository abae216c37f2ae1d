#include "plugins/tensorflow/kernel.h"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <set>
#include <utility>

#include "plugins/common/at_once.h"
#include "plugins/tensorflow/fallback.h"
#include "plugins/tensorflow/host_copy.h"
#include "plugins/tensorflow/op_registry.h"
#include "plugins/tensorflow/protobuf.h"
#include "plugins/tensorflow/reduced_float.h"
#include "plugins/tensorflow/shim_functions.h"
#include "plugins/tensorflow/stream_executor.h"
#include "unihal/fallback.h"

namespace unihal::tensorflow {
namespace {

// Op names live as long as the process: they label profiler events.
const char* intern(std::string_view name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string, std::less<>>;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = names->find(name);
  if (found == names->end()) found = names->emplace(name).first;
  return found->c_str();
}

// The calling thread's TF_Status, never freed: making one per execution would cost more than a small op's launch.
TF_Status* thread_status() {
  thread_local TF_Status* status = TF_NewStatus();
  TF_SetStatus(status, TF_OK, "");
  return status;
}

// NodeDef and its attributes, by field number.
enum { kNodeDefOp = 2, kNodeDefAttribute = 5, kEntryName = 1 };

// Takes over an attribute that is a type or a list of types.
void read_type(std::string_view entry, Types* types) {
  std::string_view name, value;
  ProtobufReader fields(entry);
  while (fields.next()) (fields.number() == kEntryName ? name : value) = fields.bytes();
  std::vector<TF_DataType> list = parse_types(value);
  if (!list.empty()) types->emplace(name, std::move(list));
}

// TensorShape::MaxDimensions().
constexpr int kMaxTensorRank = 254;

Shape dims_of(const TF_Tensor* tensor) {
  Shape dims(static_cast<size_t>(TF_NumDims(tensor)));
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = TF_Dim(tensor, static_cast<int>(i));
  return dims;
}

int64_t product_of_sizes(const int64_t* begin, const int64_t* end) {
  int64_t elements = 1;
  while (begin != end) elements *= *begin++;
  return elements;
}

std::string too_many_axes(int rank) {
  return "an operand has rank " + std::to_string(rank) + ", more than " + std::to_string(UHAL_MAX_RANK);
}

// What the shim copies operands with that it hands to a CPU kernel.
void copy_and_wait(TF_OpKernelContext* context, void* destination, const void* source, size_t bytes, int to_host,
                   TF_Status* status) {
  const auto stream = reinterpret_cast<uhal_stream*>(TF_GetStream(context, status));
  if (TF_GetCode(status) != TF_OK) return;
  const auto direction = to_host != 0 ? UHAL_COPY_DEVICE_TO_HOST : UHAL_COPY_HOST_TO_DEVICE;
  uhal_status result = uhal_copy(stream, destination, source, bytes, direction);
  if (result == UHAL_OK) result = uhal_stream_synchronize(stream);
  if (result != UHAL_OK) TF_SetStatus(status, static_cast<TF_Code>(result), uhal_last_error()->message);
}

}  // namespace

// -- Construction --------------------------------------------------------------------------------------

Construction::Construction(TF_OpKernelConstruction* construction) : construction_(construction), op_("") {
  TF_Status* status = thread_status();
  TF_Buffer* node = TF_OpKernelConstruction_GetNodeDef(construction, status);
  if (node == nullptr) return;
  Types types;
  ProtobufReader reader(std::string_view(static_cast<const char*>(node->data), node->length));
  while (reader.next()) {
    if (reader.number() == kNodeDefOp) op_ = intern(reader.bytes());
    if (reader.number() == kNodeDefAttribute) read_type(reader.bytes(), &types);
  }
  main_type_ = unihal::tensorflow::main_type(types);
  TF_DeleteBuffer(node);
}

void Construction::fail_as(TF_Code code, std::string message) {
  if (code != TF_OK && failure_.code == TF_OK) failure_ = {code, std::move(message)};
}

bool Construction::has(const char* name) {
  return TF_OpKernelConstruction_HasAttr(construction_, name, thread_status());
}

int64_t Construction::integer(const char* name) {
  TF_Status* status = thread_status();
  int64_t value = 0;
  TF_OpKernelConstruction_GetAttrInt64(construction_, name, &value, status);
  check(status);
  return value;
}

bool Construction::boolean(const char* name) {
  TF_Status* status = thread_status();
  TF_Bool value = 0;
  TF_OpKernelConstruction_GetAttrBool(construction_, name, &value, status);
  check(status);
  return value != 0;
}

double Construction::real(const char* name) {
  TF_Status* status = thread_status();
  float value = 0;
  TF_OpKernelConstruction_GetAttrFloat(construction_, name, &value, status);
  check(status);
  return value;
}

int32_t Construction::list_size(const char* name, int32_t* bytes) {
  TF_Status* status = thread_status();
  int32_t length = 0;
  TF_OpKernelConstruction_GetAttrSize(construction_, name, &length, bytes, status);
  if (TF_GetCode(status) == TF_OK) return length;
  check(status);
  *bytes = 0;
  return 0;
}

std::string Construction::text(const char* name) {
  int32_t bytes = 0;
  list_size(name, &bytes);
  std::string value(static_cast<size_t>(std::max(bytes, 0)), '\0');
  TF_Status* status = thread_status();
  TF_OpKernelConstruction_GetAttrString(construction_, name, value.data(), value.size(), status);
  check(status);
  return value;
}

std::vector<TF_DataType> Construction::types(const char* name) {
  int32_t bytes = 0;
  std::vector<TF_DataType> values(static_cast<size_t>(std::max(list_size(name, &bytes), 0)));
  TF_Status* status = thread_status();
  TF_OpKernelConstruction_GetAttrTypeList(construction_, name, values.data(), static_cast<int>(values.size()), status);
  check(status);
  return values;
}

Shape Construction::integers(const char* name) {
  int32_t bytes = 0;
  Shape values(static_cast<size_t>(std::max(list_size(name, &bytes), 0)));
  TF_Status* status = thread_status();
  TF_OpKernelConstruction_GetAttrInt64List(construction_, name, values.data(), static_cast<int>(values.size()), status);
  check(status);
  return values;
}

std::vector<float> Construction::reals(const char* name) {
  int32_t bytes = 0;
  std::vector<float> values(static_cast<size_t>(std::max(list_size(name, &bytes), 0)));
  TF_Status* status = thread_status();
  TF_OpKernelConstruction_GetAttrFloatList(construction_, name, values.data(), static_cast<int>(values.size()), status);
  check(status);
  return values;
}

// The C interface tells a shape's rank only: its sizes are read from the node.
Shape Construction::shape(const char* name) {
  enum { kAttributeShape = 7, kShapeDimension = 2, kDimensionSize = 1 };
  Shape dims;
  TF_Buffer* node = TF_OpKernelConstruction_GetNodeDef(construction_, thread_status());
  if (node == nullptr) return dims;
  ProtobufReader fields(std::string_view(static_cast<const char*>(node->data), node->length));
  while (fields.next()) {
    if (fields.number() != kNodeDefAttribute) continue;
    std::string_view found, value;
    for (ProtobufReader entry(fields.bytes()); entry.next();) {
      (entry.number() == kEntryName ? found : value) = entry.bytes();
    }
    if (found != name) continue;
    for (ProtobufReader attribute(value); attribute.next();) {
      if (attribute.number() != kAttributeShape) continue;
      for (ProtobufReader list(attribute.bytes()); list.next();) {
        if (list.number() != kShapeDimension) continue;
        int64_t size = 0;  // what is not written is 0
        for (ProtobufReader dimension(list.bytes()); dimension.next();) {
          if (dimension.number() == kDimensionSize) size = static_cast<int64_t>(dimension.value());
        }
        dims.push_back(size);
      }
    }
  }
  TF_DeleteBuffer(node);
  return dims;
}

TF_DataType Construction::type(const char* name) {
  TF_Status* status = thread_status();
  TF_DataType value = TF_FLOAT;
  TF_OpKernelConstruction_GetAttrType(construction_, name, &value, status);
  check(status);
  return value;
}

// -- Context --------------------------------------------------------------------------------------------

Context::Context(TF_OpKernelContext* context, const char* op) : context_(context), op_(op), status_(thread_status()) {}

Context::~Context() {
  for (TF_Tensor* tensor : temporaries_) TF_DeleteTensor(tensor);
}

uhal_stream* Context::stream() {
  if (stream_ == nullptr && ok_) {
    // stream_executor.cc hands out uhal streams as TensorFlow's.
    stream_ = reinterpret_cast<uhal_stream*>(TF_GetStream(context_, status_));
    static thread_local uhal_stream* last = nullptr;
    if ((stream_ != nullptr || check()) && stream_ != last) set_compute_stream(last = stream_);
  }
  return stream_;
}

bool Context::check() {
  if (ok_ && TF_GetCode(status_) != TF_OK) {
    ok_ = false;
    TF_OpKernelContext_Failure(context_, status_);
  }
  return ok_;
}

void Context::fail(TF_Code code, const std::string& message) {
  if (!ok_) return;
  TF_SetStatus(status_, code, message.c_str());
  check();
}

void Context::refuse(const std::string& reason) {
  if (!ok_) return;
  ok_ = false;
  refusal_ = reason;
}

void Context::fail_refusal() {
  if (refusal_.empty()) return;
  ok_ = true;
  fail(TF_UNIMPLEMENTED, std::string(op_) + ": " + std::exchange(refusal_, ""));
}

// The CPU's kernel decides whether the call is wrong; a right one is a fallback like others.
void Context::compute_on_host(TF_DataType dtype) {
  const std::string reason = std::exchange(refusal_, "");
  ok_ = true;
  // An error leaves variables as they are.
  shim_functions()->compute_on_host(context_, uhal_strict() == 0, copy_and_wait, status_);
  if (TF_GetCode(status_) == TF_UNIMPLEMENTED && mismatch_) {
    fail_invalid(std::string(op_) + ": " + reason);
  } else if (TF_GetCode(status_) == TF_UNIMPLEMENTED) {
    const std::string theirs = TF_Message(status_);
    fail(TF_UNIMPLEMENTED, std::string(op_) + ": " + reason + "; and on the CPU: " + theirs);
  }
  if (!check()) return;
  if (dtype == 0 && output_count() > 0) dtype = TF_ExpectedOutputDataType(context_, 0);
  std::string message;
  if (!record_fallback(op_, {dtype, reason.c_str()}, &message)) fail(TF_UNIMPLEMENTED, message);
}

bool Context::check(uhal_status status) {
  if (status != UHAL_OK && ok_) {
    const uhal_error* error = uhal_last_error();
    std::string message = std::string(op_) + ": " + error->message;
    const std::string_view text = error->message;
    if (error->op[0] != '\0' && text.find(error->op) == std::string_view::npos)
      message += std::string("; op ") + error->op;
    if (error->device[0] != '\0' && text.find(error->device) == std::string_view::npos) {
      message += std::string("; device ") + error->device;
    }
    fail(static_cast<TF_Code>(status), message);
  }
  return ok_;
}

bool Context::computes_at_once() { return unihal::computes_at_once(stream()) && ok_; }

bool Context::met_outside(std::string* message) {
  if (!computes_at_once()) return false;
  const uhal_status status = unihal::met_outside(stream_, message);
  if (status == UHAL_OUT_OF_RANGE) return true;
  check(status);
  return false;
}

View Context::view(TF_Tensor* tensor) {
  unihal_operand operand = {TF_TensorData(tensor), 0, TF_TensorType(tensor), TF_NumDims(tensor), {}};
  for (int i = 0; i < std::min(operand.rank, UNIHAL_OPERAND_AXES); ++i) operand.dims[i] = TF_Dim(tensor, i);
  return view(operand, [tensor] { return dims_of(tensor); });
}

template <class DimsOf>
View Context::view(const unihal_operand& operand, DimsOf dims_of_all) {
  static_assert(UNIHAL_OPERAND_AXES == UHAL_MAX_RANK);
  const uhal_dtype dtype = from_tensorflow(operand.dtype);
  if (dtype == UHAL_DTYPE_INVALID) {
    refuse("an operand has TensorFlow's dtype number " + std::to_string(operand.dtype));
    return View();
  }
  if (!groups_.empty()) {
    Shape dims;
    if (merged(dims_of_all(), &dims)) return View(operand.data, dtype, dims);
    mismatch_ = true;
    refuse("operands of more than " + std::to_string(UHAL_MAX_RANK) + " axes must have one shape");
    return View();
  }
  if (operand.rank > UHAL_MAX_RANK) {
    deep_ = dims_of_all();
    refuse(too_many_axes(operand.rank));
    return View();
  }
  return View(operand.data, dtype, operand.dims, operand.rank);
}

TF_Tensor* Context::input_tensor(int index) {
  if (!ok_) return nullptr;
  TF_Tensor* tensor = nullptr;
  TF_GetInput(context_, index, &tensor, status_);
  return check() ? tensor : nullptr;
}

bool Context::describe_input(int index, unihal_operand* operand) {
  return ok_ && (shim_functions()->input(context_, index, operand, status_) != 0 || check());
}

View Context::input(int index) {
  unihal_operand operand;
  return describe_input(index, &operand) ? view(operand, [&] { return dims(index); }) : View();
}

Shape Context::dims(int index) {
  unihal_operand operand;
  if (!describe_input(index, &operand)) return {};
  if (operand.rank <= UNIHAL_OPERAND_AXES) return Shape(operand.dims, operand.dims + operand.rank);
  TF_Tensor* tensor = input_tensor(index);
  if (tensor == nullptr) return {};
  const Shape dims = dims_of(tensor);
  TF_DeleteTensor(tensor);
  return dims;
}

View Context::flat_input(int index) {
  unihal_operand operand;
  if (!describe_input(index, &operand)) return View();
  return View(operand.data, from_tensorflow(operand.dtype), &operand.elements, 1);
}

// TensorFlow's C functions end the process where they are given a shape that no tensor can have. Its C++ kernels ask
// first; so the sizes that the CPU refuses are these, taken from the left as it does.
bool Context::check_shape(uhal_dtype dtype, const int64_t* dims, int rank) {
  if (!ok_) return false;
  if (rank > kMaxTensorRank) {
    fail_invalid(std::string(op_) + ": a tensor of rank " + std::to_string(rank) + " exceeds TensorFlow's maximum, " +
                 std::to_string(kMaxTensorRank));
  }
  int64_t elements = 1;
  for (int i = 0; ok_ && i < rank; ++i) {
    if (dims[i] < 0) {
      fail_invalid(std::string(op_) + ": shape " + to_text(dims, rank) + " has a negative dimension");
    } else if (__builtin_mul_overflow(elements, dims[i], &elements)) {
      fail_invalid(std::string(op_) + ": shape " + to_text(dims, rank) + " has more elements than a tensor can have");
    }
  }
  int64_t bytes = 0;
  if (ok_ && __builtin_mul_overflow(elements, static_cast<int64_t>(uhal_dtype_size(dtype)), &bytes)) {
    fail(TF_RESOURCE_EXHAUSTED, std::string(op_) + ": shape " + to_text(dims, rank) + " and type " +
                                    uhal_dtype_name(dtype) + " take more bytes than there are addresses");
  }
  return ok_;
}

View Context::output(int index, uhal_dtype dtype, const int64_t* dims, int rank) {
  if (groups_.empty() && rank > UHAL_MAX_RANK && check_shape(dtype, dims, rank)) refuse(too_many_axes(rank));
  if (!groups_.empty()) return flat_output(index, dtype, expanded(dims, rank)).reshaped(dims, rank);
  if (!check_shape(dtype, dims, rank)) return View();
  unihal_operand operand;
  const bool made = shim_functions()->output(context_, index, dims, rank, &operand, status_) != 0 || check();
  return made ? view(operand, [&] { return Shape(dims, dims + rank); }) : View();
}

View Context::flat_output(int index, uhal_dtype dtype, const Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  if (!check_shape(dtype, shape.data(), rank)) return View();
  unihal_operand operand;
  const bool made = shim_functions()->output(context_, index, shape.data(), rank, &operand, status_) != 0 || check();
  return made ? View(operand.data, dtype, &operand.elements, 1) : View();
}

View Context::forwarded_output(int index, uhal_dtype dtype, const int64_t* dims, int rank, const int* candidates,
                               int count) {
  if (count == 0 || !groups_.empty()) return output(index, dtype, dims, rank);
  if (!check_shape(dtype, dims, rank)) return View();
  unihal_operand operand;
  const bool made =
      shim_functions()->forwarded_output(context_, candidates, count, index, dims, rank, &operand, status_) != 0 ||
      check();
  return made ? view(operand, [&] { return Shape(dims, dims + rank); }) : View();
}

View Context::temporary(uhal_dtype dtype, const int64_t* dims, int rank) {
  if (!check_shape(dtype, dims, rank)) return View();
  assert(rank <= UHAL_MAX_RANK);
  TF_AllocatorAttributes attributes = {TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE,
                                       static_cast<unsigned char>(in_host_memory_)};
  TF_Tensor* tensor = TF_AllocateTemp(context_, to_tensorflow(dtype), dims, rank, &attributes, status_);
  if (!check()) return View();
  temporaries_.push_back(tensor);
  return View(TF_TensorData(tensor), dtype, dims, rank);
}

void Context::share(int input, int output, TF_DataType dtype, const Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  if (!check_shape(UHAL_UINT8, shape.data(), rank)) return;
  TF_Tensor* from = input_tensor(input);
  if (from == nullptr) return;
  const int64_t empty = 0;
  TF_Tensor* to = TF_AllocateTensor(dtype, &empty, 1, 0);
  TF_TensorBitcastFrom(from, dtype, to, shape.data(), rank, status_);
  if (check()) TF_SetOutput(context_, output, to, status_);
  check();
  TF_DeleteTensor(to);
  TF_DeleteTensor(from);
}

Shape Context::host_integers(int index) {
  const View view = flat_input(index);
  Shape values;
  if (!ok_) return values;
  const int64_t count = view.elements();
  if (view.dtype == UHAL_INT32) {
    const auto* data = static_cast<const int32_t*>(view.data);
    values.assign(data, data + count);
  } else if (view.dtype == UHAL_INT64) {
    const auto* data = static_cast<const int64_t*>(view.data);
    values.assign(data, data + count);
  } else {
    fail_invalid(std::string(op_) + ": input " + std::to_string(index) + " must be int32 or int64, not " +
                 uhal_dtype_name(view.dtype));
  }
  return values;
}

Shape Context::host_vector(int index) {
  const Shape shape = dims(index);
  if (ok_ && shape.size() != 1) {
    fail_invalid(std::string(op_) + ": input " + std::to_string(index) + " must be a vector, not of shape " +
                 to_text(shape));
  }
  return host_integers(index);
}

bool Context::check_rank(int index, int max_rank) {
  const Shape shape = dims(index);
  if (ok_ && static_cast<int>(shape.size()) > max_rank) {
    fail_invalid(std::string(op_) + ": input " + std::to_string(index) + " must be a scalar, not of shape " +
                 to_text(shape));
  }
  return ok_;
}

int64_t Context::host_integer(int index, int max_rank) {
  check_rank(index, max_rank);
  const Shape values = host_integers(index);
  if (ok_ && values.size() != 1) {
    fail_invalid(std::string(op_) + ": input " + std::to_string(index) + " must have one element, not " +
                 std::to_string(values.size()));
  }
  return ok_ ? values[0] : 0;
}

double Context::host_real(int index, int max_rank) {
  check_rank(index, max_rank);
  const View view = flat_input(index);
  if (!ok_) return 0;
  if (view.elements() == 1 && view.dtype == UHAL_FLOAT32) return *static_cast<const float*>(view.data);
  if (view.elements() == 1 && view.dtype == UHAL_FLOAT64) return *static_cast<const double*>(view.data);
  if (view.elements() == 1 && contains(kReducedFloats, view.dtype)) {
    return reduced_float(*static_cast<const uint16_t*>(view.data), view.dtype == UHAL_FLOAT16);
  }
  fail_invalid(std::string(op_) + ": input " + std::to_string(index) + " must be one floating number");
  return 0;
}

bool Context::launch(const uhal_op& op) {
  uhal_stream* on = stream();
  return ok_ && check(uhal_launch(on, &op));
}

bool Context::launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes) {
  return with_op(kind, inputs, outputs, attributes, op_, [this](const uhal_op* op) { return launch(*op); });
}

bool Context::map(uhal_map_function function, Operands inputs, Operands outputs,
                  std::initializer_list<double> parameters) {
  const uhal_map_attributes attributes = map_attributes(function, parameters);
  return launch(UHAL_OP_MAP, inputs, outputs, &attributes);
}

bool Context::upload(std::vector<char> bytes, const View& view) {
  uhal_stream* on = stream();
  if (!ok_ || bytes.empty()) return ok_;
  assert(bytes.size() == static_cast<size_t>(view.elements()) * uhal_dtype_size(view.dtype));
  auto* kept = new std::vector<char>(std::move(bytes));
  const uhal_status copied = uhal_copy(on, view.data, kept->data(), kept->size(), UHAL_COPY_HOST_TO_DEVICE);
  const bool said = check(copied);
  const auto forget = [](void* argument) { delete static_cast<std::vector<char>*>(argument); };
  if (copied != UHAL_OK || uhal_stream_host_callback(on, forget, kept) != UHAL_OK) {
    static_cast<void>(uhal_stream_synchronize(on));
    delete kept;
  }
  return said;
}

bool Context::copy(const View& from, const View& to) {
  if (!in_host_memory_ || !ok_) return launch(UHAL_OP_COPY, {&from}, {&to});
  copy_int32_on_host(from, to);
  return true;
}

View Context::as(uhal_dtype dtype, const View& view) {
  if (!ok_ || view.dtype == dtype) return view;
  const View copy = temporary(dtype, view.shape, view.rank);
  if (view.elements() > 0) cast(view, copy);
  return copy;
}

bool Context::fill(const View& view, double value, int64_t integer_value) {
  if (in_host_memory_ && ok_) {
    auto element = static_cast<int32_t>(integer_value);
    const int64_t one = 1;
    copy_int32_on_host(View(&element, UHAL_INT32, &one, 1), view);
    return true;
  }
  uhal_fill_attributes attributes = {sizeof attributes, value, integer_value};
  return launch(UHAL_OP_FILL, {}, {&view}, &attributes);
}

void MovementKernel::compute(Context& context) const {
  if (in_host_memory_) context.use_host_memory();
  move(context);
}

// -- shapes -----------------------------------------------------------------------------------------------

std::string to_text(const int64_t* dims, int rank) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i) text += (i > 0 ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

bool broadcast_shape(const Shape& a, const Shape& b, Shape* shape) {
  const size_t rank = std::max(a.size(), b.size());
  shape->resize(rank);
  for (size_t i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    (*shape)[rank - i] = x == 1 ? y : x;
  }
  return true;
}

int checked_axis(Context& context, int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  context.fail_invalid("axis " + std::to_string(axis) + " is out of range; expected " + std::to_string(-rank) + " to " +
                       std::to_string(rank - 1));
  return 0;
}

// -- merged axes ------------------------------------------------------------------------------------------

namespace {

// An operand's length along axis `i` of the joint shape, whose axes are counted from the right.
int64_t length_in(const Shape& operand, size_t joint_rank, size_t i) {
  const size_t missing = joint_rank - operand.size();
  return i < missing ? 1 : operand[i - missing];
}

}  // namespace

bool Context::merge_axes(Merging merging) {
  if (merging == Merging::kNone || deep_.empty() || !groups_.empty()) return false;
  std::vector<Shape> operands = {deep_};
  ok_ = true;
  if (merging == Merging::kBroadcast) {
    for (int i = 0; i < input_count(); ++i) operands.push_back(dims(i));
  }
  ok_ = false;
  Shape whole;
  for (const Shape& operand : operands) {
    Shape joint;
    if (!broadcast_shape(whole, operand, &joint)) return false;
    whole = joint;
  }
  // An axis joins the one before it where every operand broadcasts along both or along neither.
  std::vector<int> groups;
  for (size_t i = 0; i < whole.size(); ++i) {
    bool joins = i > 0;
    for (const Shape& operand : operands) {
      const auto spreads = [&](size_t axis) { return length_in(operand, whole.size(), axis) != whole[axis]; };
      joins = joins && spreads(i) == spreads(i - 1);
    }
    if (!joins) groups.push_back(static_cast<int>(i));
  }
  if (groups.size() > UHAL_MAX_RANK) return false;
  whole_ = whole;
  same_shape_ = merging == Merging::kSameShape;
  groups_ = groups;
  refusal_.clear();
  ok_ = true;
  return true;
}

bool Context::merged(const Shape& dims, Shape* result) const {
  if (dims.empty()) return true;
  if (same_shape_ && dims != whole_) return false;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const size_t begin = static_cast<size_t>(groups_[g]);
    const size_t end = g + 1 < groups_.size() ? static_cast<size_t>(groups_[g + 1]) : whole_.size();
    bool same = true;
    bool ones = true;
    for (size_t i = begin; i < end; ++i) {
      const int64_t length = length_in(dims, whole_.size(), i);
      same = same && length == whole_[i];
      ones = ones && length == 1;
    }
    if (!same && !ones) return false;
    result->push_back(same ? product_of_sizes(&whole_[begin], &whole_[begin] + (end - begin)) : 1);
  }
  return true;
}

Shape Context::expanded(const int64_t* dims, int rank) const {
  if (rank == 0) return {};
  assert(rank == static_cast<int>(groups_.size()));
  Shape result = whole_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto begin = result.begin() + groups_[g];
    const auto end = g + 1 < groups_.size() ? result.begin() + groups_[g + 1] : result.end();
    if (dims[g] == 1) std::fill(begin, end, 1);
  }
  return result;
}

// -- TensorFlow's entries -------------------------------------------------------------------------------------

void compute_kernel(void* kernel, TF_OpKernelContext* handle) {
  const auto* self = static_cast<const Kernel*>(kernel);
  Context context(handle, self->op());
  try {
    if (self->failure().code != TF_OK) context.fail(self->failure().code, self->failure().message);
    if (!self->refusal().empty()) context.refuse(self->refusal());
    if (context.ok()) self->compute(context);
    if (!context.refusal_.empty() && context.merge_axes(self->merging())) self->compute(context);
    if (!context.refusal_.empty()) context.compute_on_host(self->main_type());
  } catch (const std::exception& error) {
    context.fail(TF_INTERNAL, std::string(self->op()) + ": " + error.what());
  }
}

void delete_kernel(void* kernel) { delete static_cast<Kernel*>(kernel); }

}  // namespace unihal::tensorflow
