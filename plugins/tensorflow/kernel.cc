#include "plugins/tensorflow/kernel.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "plugins/tensorflow/host_copy.h"
#include "plugins/tensorflow/protobuf.h"

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

// NodeDef: name = 1, op = 2.
constexpr int kNodeDefOp = 2;

}  // namespace

// -- Construction --------------------------------------------------------------------------------------

Construction::Construction(TF_OpKernelConstruction* construction) : construction_(construction), op_("") {
  TF_Status* status = thread_status();
  TF_Buffer* node = TF_OpKernelConstruction_GetNodeDef(construction, status);
  if (node == nullptr) return;
  ProtobufReader reader(std::string_view(static_cast<const char*>(node->data), node->length));
  while (reader.next()) {
    if (reader.number() == kNodeDefOp) op_ = intern(reader.bytes());
  }
  TF_DeleteBuffer(node);
}

void Construction::fail(TF_Code code, const std::string& message) {
  TF_Status* status = thread_status();
  TF_SetStatus(status, code, (std::string(op_) + ": " + message).c_str());
  TF_OpKernelConstruction_Failure(construction_, status);
}

bool Construction::has(const char* name) {
  return TF_OpKernelConstruction_HasAttr(construction_, name, thread_status());
}

int64_t Construction::integer(const char* name) {
  TF_Status* status = thread_status();
  int64_t value = 0;
  TF_OpKernelConstruction_GetAttrInt64(construction_, name, &value, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction_, status);
  return value;
}

bool Construction::boolean(const char* name) {
  TF_Status* status = thread_status();
  TF_Bool value = 0;
  TF_OpKernelConstruction_GetAttrBool(construction_, name, &value, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction_, status);
  return value != 0;
}

double Construction::real(const char* name) {
  TF_Status* status = thread_status();
  float value = 0;
  TF_OpKernelConstruction_GetAttrFloat(construction_, name, &value, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction_, status);
  return value;
}

int32_t Construction::list_size(const char* name, int32_t* bytes) {
  TF_Status* status = thread_status();
  int32_t length = 0;
  TF_OpKernelConstruction_GetAttrSize(construction_, name, &length, bytes, status);
  if (TF_GetCode(status) == TF_OK) return length;
  TF_OpKernelConstruction_Failure(construction_, status);
  *bytes = 0;
  return 0;
}

std::string Construction::text(const char* name) {
  int32_t bytes = 0;
  list_size(name, &bytes);
  std::string value(static_cast<size_t>(std::max(bytes, 0)), '\0');
  TF_Status* status = thread_status();
  TF_OpKernelConstruction_GetAttrString(construction_, name, value.data(), value.size(), status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction_, status);
  return value;
}

Shape Construction::integers(const char* name) {
  int32_t bytes = 0;
  Shape values(static_cast<size_t>(std::max(list_size(name, &bytes), 0)));
  TF_Status* status = thread_status();
  TF_OpKernelConstruction_GetAttrInt64List(construction_, name, values.data(), static_cast<int>(values.size()), status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction_, status);
  return values;
}

uhal_dtype Construction::dtype(const char* name) {
  TF_Status* status = thread_status();
  TF_DataType value = TF_FLOAT;
  TF_OpKernelConstruction_GetAttrType(construction_, name, &value, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction_, status);
  return from_tensorflow(value);
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
    check();
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

// The views outlive their TF_Tensor: TensorFlow's context holds the buffer until the op is done. Releasing the
// handle at once is what lets an input's memory be forwarded to an output.
View Context::view_and_release(TF_Tensor* tensor) {
  const View result = view(tensor);
  TF_DeleteTensor(tensor);
  return result;
}

View Context::view(TF_Tensor* tensor) {
  const uhal_dtype dtype = from_tensorflow(TF_TensorType(tensor));
  const int rank = TF_NumDims(tensor);
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < rank && i < UHAL_MAX_RANK; ++i) dims[i] = TF_Dim(tensor, i);
  View result;
  if (dtype == UHAL_DTYPE_INVALID || rank > UHAL_MAX_RANK) {
    fail(TF_UNIMPLEMENTED, std::string(op_) + ": a tensor has dtype number " + std::to_string(TF_TensorType(tensor)) +
                               " and rank " + std::to_string(rank) + "; unihal takes its own dtypes up to rank " +
                               std::to_string(UHAL_MAX_RANK) + "; run this op on /CPU:0");
  } else {
    result = View(TF_TensorData(tensor), dtype, dims, rank);
  }
  return result;
}

View Context::input(int index) {
  if (!ok_) return View();
  TF_Tensor* tensor = nullptr;
  TF_GetInput(context_, index, &tensor, status_);
  return check() ? view_and_release(tensor) : View();
}

View Context::output(int index, uhal_dtype dtype, const int64_t* dims, int rank) {
  if (!ok_) return View();
  size_t bytes = uhal_dtype_size(dtype);
  for (int i = 0; i < rank; ++i) bytes *= static_cast<size_t>(dims[i]);
  TF_Tensor* tensor = TF_AllocateOutput(context_, index, to_tensorflow(dtype), dims, rank, bytes, status_);
  return check() ? view_and_release(tensor) : View();
}

View Context::forwarded_output(int index, uhal_dtype dtype, const int64_t* dims, int rank, const int* candidates,
                               int count) {
  if (count == 0) return output(index, dtype, dims, rank);
  if (!ok_) return View();
  int forwarded = -1;
  TF_Tensor* tensor =
      TF_ForwardInputOrAllocateOutput(context_, candidates, count, index, dims, rank, &forwarded, status_);
  return check() ? view_and_release(tensor) : View();
}

View Context::temporary(uhal_dtype dtype, const int64_t* dims, int rank) {
  if (!ok_) return View();
  TF_AllocatorAttributes attributes = {TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE, 0};
  TF_Tensor* tensor = TF_AllocateTemp(context_, to_tensorflow(dtype), dims, rank, &attributes, status_);
  if (!check()) return View();
  temporaries_.push_back(tensor);
  return View(TF_TensorData(tensor), dtype, dims, rank);
}

void Context::share(int input, int output, uhal_dtype dtype, const int64_t* dims, int rank) {
  if (!ok_) return;
  TF_Tensor* from = nullptr;
  TF_GetInput(context_, input, &from, status_);
  if (!check()) return;
  const int64_t empty = 0;
  TF_Tensor* to = TF_AllocateTensor(to_tensorflow(dtype), &empty, 1, 0);
  TF_TensorBitcastFrom(from, to_tensorflow(dtype), to, dims, rank, status_);
  if (check()) TF_SetOutput(context_, output, to, status_);
  check();
  TF_DeleteTensor(to);
  TF_DeleteTensor(from);
}

Shape Context::host_integers(int index) {
  const View view = input(index);
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

int64_t Context::host_integer(int index) {
  const Shape values = host_integers(index);
  if (ok_ && values.size() != 1) {
    fail_invalid(std::string(op_) + ": input " + std::to_string(index) + " must have one element, not " +
                 std::to_string(values.size()));
  }
  return ok_ ? values[0] : 0;
}

double Context::host_real(int index) {
  const View view = input(index);
  if (!ok_) return 0;
  if (view.elements() == 1 && view.dtype == UHAL_FLOAT32) return *static_cast<const float*>(view.data);
  if (view.elements() == 1 && view.dtype == UHAL_FLOAT64) return *static_cast<const double*>(view.data);
  fail_invalid(std::string(op_) + ": input " + std::to_string(index) + " must be one float32 or float64");
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

bool Context::copy(const View& from, const View& to) {
  if (!in_host_memory_ || !ok_) return launch(UHAL_OP_COPY, {&from}, {&to});
  copy_int32_on_host(from, to);
  return true;
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

bool broadcast_shape(const View& a, const View& b, Shape* shape) {
  const int rank = std::max(a.rank, b.rank);
  shape->resize(static_cast<size_t>(rank));
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank ? a.shape[a.rank - i] : 1;
    const int64_t y = i <= b.rank ? b.shape[b.rank - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    (*shape)[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return true;
}

int checked_axis(Context& context, int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  context.fail_invalid("axis " + std::to_string(axis) + " is out of range; expected " + std::to_string(-rank) + " to " +
                       std::to_string(rank - 1));
  return 0;
}

// -- TensorFlow's entries -------------------------------------------------------------------------------------

void compute_kernel(void* kernel, TF_OpKernelContext* handle) {
  const auto* self = static_cast<const Kernel*>(kernel);
  Context context(handle, self->op());
  try {
    self->compute(context);
  } catch (const std::exception& error) {
    context.fail(TF_INTERNAL, std::string(self->op()) + ": " + error.what());
  }
}

void delete_kernel(void* kernel) { delete static_cast<Kernel*>(kernel); }

}  // namespace unihal::tensorflow
