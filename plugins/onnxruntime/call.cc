#include "plugins/onnxruntime/call.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "plugins/onnxruntime/provider.h"

namespace unihal::onnxruntime {
namespace {

// What an operand is, read from ONNX Runtime.
struct Operand {
  View view;
  int32_t type = kTypeUndefined;
};

}  // namespace

Call::Call(const Op& op, const Provider& provider, OrtKernelContext* context)
    : op_(op), provider_(provider), context_(context) {
  size_t inputs = 0, outputs = 0;
  check(ort.KernelContext_GetInputCount(context, &inputs));
  check(ort.KernelContext_GetOutputCount(context, &outputs));
  input_count_ = static_cast<int>(inputs);
  output_count_ = static_cast<int>(outputs);
  void* stream = nullptr;
  check(ort.KernelContext_GetGPUComputeStream(context, &stream));
  stream_ = stream != nullptr ? static_cast<uhal_stream*>(stream) : provider.stream();
  device_ = provider.device();
}

Call::~Call() {
  // The memory is the stream's again; that of a failed device is not worth an error here.
  for (void* pointer : scratch_) uhal_free(device_, stream_, pointer);
}

uhal_math_mode Call::math_mode() const { return provider_.math_mode(); }

void Call::fail(const std::string& message) const {
  throw Failure(kOrtInvalidArgument, std::string(op_.name) + " on " + provider_.label() + ": " + message);
}

// -- operands -------------------------------------------------------------------------------------------

const OrtValue* Call::value(int index) const {
  const OrtValue* found = nullptr;
  if (index < input_count_) check(ort.KernelContext_GetInput(context_, static_cast<size_t>(index), &found));
  return found;
}

bool Call::has(int index) const { return value(index) != nullptr; }

namespace {

[[noreturn]] void fail_in(const Op& op, const Provider& provider, const std::string& message) {
  throw Failure(kOrtInvalidArgument, std::string(op.name) + " on " + provider.label() + ": " + message);
}

}  // namespace

RawTensor raw_tensor(const OrtValue* value, const Op& op, const Provider& provider) {
  RawTensor result;
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(ort.GetTensorTypeAndShape(value, &info));
  size_t rank = 0;
  OrtStatus* status = ort.GetTensorElementType(info, &result.type);
  if (status == nullptr) status = ort.GetDimensionsCount(info, &rank);
  if (status == nullptr && rank <= UHAL_MAX_RANK) {
    result.shape.resize(rank);
    status = ort.GetDimensions(info, result.shape.data(), rank);
  }
  ort.ReleaseTensorTypeAndShapeInfo(info);
  check(status);
  if (rank > UHAL_MAX_RANK) fail_in(op, provider, "an operand has more than 10 axes");
  check(ort.GetTensorMutableData(const_cast<OrtValue*>(value), &result.data));
  return result;
}

View view_of(const OrtValue* value, const Op& op, const Provider& provider) {
  const auto fail = [&](const std::string& message) { fail_in(op, provider, message); };
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(ort.GetTensorTypeAndShape(value, &info));
  int32_t type = 0;
  size_t rank = 0;
  int64_t lengths[UHAL_MAX_RANK];
  OrtStatus* status = ort.GetTensorElementType(info, &type);
  if (status == nullptr) status = ort.GetDimensionsCount(info, &rank);
  if (status == nullptr && rank <= UHAL_MAX_RANK) status = ort.GetDimensions(info, lengths, rank);
  ort.ReleaseTensorTypeAndShapeInfo(info);
  check(status);
  if (rank > UHAL_MAX_RANK) fail("an operand has more than 10 axes");
  const uhal_dtype dtype = from_onnx(type);
  if (dtype == UHAL_DTYPE_INVALID) fail(std::string("an operand is ") + type_name(type));
  void* data = nullptr;
  check(ort.GetTensorMutableData(const_cast<OrtValue*>(value), &data));
  const View view(data, dtype, lengths, static_cast<int>(rank));
  require_memory(data, static_cast<size_t>(view.elements()));
  return view;
}

Packed::~Packed() {
  if (stream_ == nullptr) return;
  if (constants_ != nullptr) {
    uhal_stream_synchronize(stream_->handle);  // a run may not have ended
    constants_->withdraw(memory_.data);
  }
  uhal_free(stream_->device, stream_->handle, memory_.data);
}

View Packed::allocate(const Provider& provider, const Shape& shape, uhal_dtype dtype) {
  View view(nullptr, dtype, shape);
  const size_t bytes = static_cast<size_t>(view.elements()) * uhal_dtype_size(dtype);
  check(uhal_allocate(provider.device(), provider.stream(), UHAL_MEMORY_DEVICE, bytes, &view.data));
  stream_ = provider.shared_stream();
  memory_ = view;
  // An ability that a backend may lack: then kernels read the memory as it is.
  const void* table = nullptr;
  if (uhal_device_extension(provider.device(), UHAL_CONSTANTS_NAME, UHAL_CONSTANTS_VERSION, &table) == UHAL_OK &&
      bytes != 0 && static_cast<const uhal_constants*>(table)->declare(view.data, bytes) == UHAL_OK) {
    constants_ = static_cast<const uhal_constants*>(table);
  }
  return view;
}

View Call::input(int index) const {
  const OrtValue* const found = value(index);
  if (found == nullptr) fail("input " + std::to_string(index) + " is missing");
  return view_of(found, op_, provider_);
}

RawTensor Call::raw_input(int index) const {
  const OrtValue* const found = value(index);
  if (found == nullptr) fail("input " + std::to_string(index) + " is missing");
  return raw_tensor(found, op_, provider_);
}

RawTensor Call::raw_output(int index, const Shape& shape) {
  OrtValue* found = nullptr;
  if (index < output_count_) {
    check(ort.KernelContext_GetOutput(context_, static_cast<size_t>(index), shape.data(), shape.size(), &found));
  }
  if (found == nullptr) fail("output " + std::to_string(index) + " is missing");
  return raw_tensor(found, op_, provider_);
}

Shape Call::shape(int index) const { return shape_of(input(index)); }

Shape Call::integers(int index) const {
  const View view = input(index);
  Shape result(static_cast<size_t>(view.elements()));
  for (size_t i = 0; i < result.size(); ++i) {
    if (view.dtype == UHAL_INT64) {
      result[i] = static_cast<const int64_t*>(view.data)[i];
    } else if (view.dtype == UHAL_INT32) {
      result[i] = static_cast<const int32_t*>(view.data)[i];
    } else {
      fail("input " + std::to_string(index) + " is " + uhal_dtype_name(view.dtype) + ", expected int64 or int32");
    }
  }
  return result;
}

double Call::scalar(int index) const {
  const View view = input(index);
  if (view.elements() != 1) fail("input " + std::to_string(index) + " is not one number");
  switch (view.dtype) {
    case UHAL_FLOAT32:
      return *static_cast<const float*>(view.data);
    case UHAL_FLOAT64:
      return *static_cast<const double*>(view.data);
    case UHAL_INT64:
      return static_cast<double>(*static_cast<const int64_t*>(view.data));
    case UHAL_INT32:
      return *static_cast<const int32_t*>(view.data);
    case UHAL_INT16:
      return *static_cast<const int16_t*>(view.data);
    case UHAL_INT8:
      return *static_cast<const int8_t*>(view.data);
    case UHAL_UINT8:
      return *static_cast<const uint8_t*>(view.data);
    case UHAL_BOOL:
      return *static_cast<const uint8_t*>(view.data) != 0 ? 1 : 0;
    case UHAL_FLOAT16: {
      const uint16_t bits = *static_cast<const uint16_t*>(view.data);
      const int exponent = (bits >> 10) & 31;
      const double mantissa = bits & 1023;
      const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                               : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                                : std::ldexp(1024 + mantissa, exponent - 25);
      return (bits & 0x8000) != 0 ? -magnitude : magnitude;
    }
    case UHAL_BFLOAT16: {
      const uint32_t bits = uint32_t{*static_cast<const uint16_t*>(view.data)} << 16;
      float number;
      std::memcpy(&number, &bits, sizeof number);
      return number;
    }
    default:
      fail(std::string("a number of dtype ") + uhal_dtype_name(view.dtype) + " cannot be read on the host");
  }
}

View Call::output(int index, const int64_t* lengths, int rank) {
  OrtValue* found = nullptr;
  if (index < output_count_) {
    check(
        ort.KernelContext_GetOutput(context_, static_cast<size_t>(index), lengths, static_cast<size_t>(rank), &found));
  }
  if (found == nullptr) fail("output " + std::to_string(index) + " is missing");
  return view_of(found, op_, provider_);
}

bool Call::wants(int index, const Shape& shape, View* view) {
  OrtValue* found = nullptr;
  if (index >= output_count_) return false;
  check(ort.KernelContext_GetOutput(context_, static_cast<size_t>(index), shape.data(), shape.size(), &found));
  if (found == nullptr) return false;
  *view = view_of(found, op_, provider_);
  return true;
}

// -- work -------------------------------------------------------------------------------------------------

void Call::launch(uhal_op& op) const {
  op.struct_size = sizeof op;
  op.label = op_.name;
  check(uhal_launch(stream_, &op));
}

void Call::launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes) const {
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
               std::initializer_list<double> parameters) const {
  const uhal_map_attributes attributes = map_attributes(function, parameters);
  launch(UHAL_OP_MAP, inputs, outputs, &attributes);
}

void Call::copy(const View& from, const View& to) const {
  if (from.data == to.data || to.elements() == 0) return;
  launch(UHAL_OP_COPY, {&from}, {&to});
}

void Call::cast(const View& from, const View& to) const {
  if (to.elements() != 0) launch(UHAL_OP_CAST, {&from}, {&to});
}

void Call::fill(const View& view, double value) const {
  uhal_fill_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.value = value;
  attributes.integer_value = view.dtype == UHAL_BOOL                             ? value != 0
                             : std::isfinite(value) && std::fabs(value) < 9.2e18 ? static_cast<int64_t>(value)
                                                                                 : std::numeric_limits<int64_t>::min();
  if (view.elements() != 0) launch(UHAL_OP_FILL, {}, {&view}, &attributes);
}

void Call::fill_integer(const View& view, int64_t value) const {
  uhal_fill_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.value = static_cast<double>(value);
  attributes.integer_value = view.dtype == UHAL_BOOL ? value != 0 : value;
  if (view.elements() != 0) launch(UHAL_OP_FILL, {}, {&view}, &attributes);
}

View Call::scratch(const int64_t* lengths, int rank, uhal_dtype dtype) {
  View view(nullptr, dtype, lengths, rank);
  const size_t bytes = static_cast<size_t>(view.elements()) * uhal_dtype_size(dtype);
  if (bytes == 0) return view;
  scratch_.reserve(scratch_.size() + 1);
  check(uhal_allocate(device_, stream_, UHAL_MEMORY_DEVICE, bytes, &view.data));
  scratch_.push_back(view.data);
  return view;
}

View Call::constant(double value, uhal_dtype dtype) {
  const View view = scratch(nullptr, 0, dtype);
  fill(view, value);
  return view;
}

View Call::upload(const void* data, const Shape& shape, uhal_dtype dtype) {
  const View view = scratch(shape, dtype);
  const size_t bytes = static_cast<size_t>(view.elements()) * uhal_dtype_size(dtype);
  if (bytes != 0) copy_from_host(stream_, view.data, data, bytes);
  return view;
}

View Call::as(const View& view, uhal_dtype dtype) {
  if (view.dtype == dtype) return view;
  const View result = scratch_like(view, dtype);
  cast(view, result);
  return result;
}

// -- shapes -----------------------------------------------------------------------------------------------

Shape shape_of(const View& view) { return Shape(view.shape, view.shape + view.rank); }

int64_t elements_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  return count;
}

int axis_of(const Call& call, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    call.fail("axis " + std::to_string(axis) + " of a tensor with " + std::to_string(rank) + " axes");
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast(const Call& call, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      call.fail("lengths " + std::to_string(from_a) + " and " + std::to_string(from_b) + " do not broadcast");
    }
    result[result.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return result;
}

}  // namespace unihal::onnxruntime
