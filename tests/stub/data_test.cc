#include "tests/stub/data_test.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "unihal/memory.h"

namespace data_test {
namespace {

void require(uhal_status status) {
  if (status == UHAL_OK) return;
  ADD_FAILURE() << uhal_last_error()->message;
  std::abort();  // nothing works without a device
}

struct Device {
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  Device() {
    require(uhal_select_backend("stub"));
    require(uhal_device_get("rdna", 0, &device));
    require(uhal_device_default_stream(device, &stream));
  }
};

const Device& opened() {
  static const Device instance;
  return instance;
}

// A binary format by its fraction bits and exponents.
struct Format {
  int fraction_bits;
  int smallest_exponent;  // of normal numbers
  int largest_exponent;
};
constexpr Format kHalf = {10, -14, 15};
constexpr Format kBrain = {7, -126, 127};

double round_to(Format format, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.smallest_exponent);
  const double step = std::ldexp(1.0, exponent - format.fraction_bits);
  const double result = std::nearbyint(value / step) * step;
  const double largest = std::ldexp(2.0 - std::ldexp(1.0, -format.fraction_bits), format.largest_exponent);
  return std::abs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

double decode_bits(Format format, uint16_t bits) {
  const int exponent_bits = 15 - format.fraction_bits;
  const int exponent = (bits >> format.fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  double magnitude;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, format.smallest_exponent - format.fraction_bits);
  } else {
    magnitude = std::ldexp(fraction + (1 << format.fraction_bits),
                           exponent - 1 + format.smallest_exponent - format.fraction_bits);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

uint16_t encode_bits(Format format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int exponent_bits = 15 - format.fraction_bits;
  const int special = ((1 << exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | special | 1 << (format.fraction_bits - 1));
  const double magnitude = std::abs(round_to(format, value));
  if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | special);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), format.smallest_exponent);
  const int fraction = static_cast<int>(std::ldexp(magnitude, format.fraction_bits - exponent));
  const bool subnormal = fraction < 1 << format.fraction_bits;
  const int stored = subnormal ? 0 : exponent - format.smallest_exponent + 1;
  return static_cast<uint16_t>(sign | stored << format.fraction_bits | (fraction & ((1 << format.fraction_bits) - 1)));
}

template <class T>
double read(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return static_cast<double>(value);
}

template <class T>
void write(double value, void* element) {
  const T stored = static_cast<T>(value);
  std::memcpy(element, &stored, sizeof stored);
}

// Narrow integers wrap.
template <class T>
void write_integer(double value, void* element) {
  const T stored = static_cast<T>(static_cast<int64_t>(value));
  std::memcpy(element, &stored, sizeof stored);
}

uint16_t read_bits(const void* element) {
  uint16_t bits;
  std::memcpy(&bits, element, sizeof bits);
  return bits;
}

}  // namespace

uhal_device* device() { return opened().device; }
uhal_stream* stream() { return opened().stream; }

double decode(uhal_dtype dtype, const void* element) {
  switch (dtype) {
    case UHAL_BOOL:
      return read<uint8_t>(element);
    case UHAL_INT8:
      return read<int8_t>(element);
    case UHAL_INT16:
      return read<int16_t>(element);
    case UHAL_INT32:
      return read<int32_t>(element);
    case UHAL_INT64:
      return read<int64_t>(element);
    case UHAL_UINT8:
      return read<uint8_t>(element);
    case UHAL_UINT16:
      return read<uint16_t>(element);
    case UHAL_UINT32:
      return read<uint32_t>(element);
    case UHAL_UINT64:
      return read<uint64_t>(element);
    case UHAL_FLOAT16:
      return decode_bits(kHalf, read_bits(element));
    case UHAL_BFLOAT16:
      return decode_bits(kBrain, read_bits(element));
    case UHAL_FLOAT32:
    case UHAL_COMPLEX64:
      return read<float>(element);
    default:
      return read<double>(element);
  }
}

void encode(uhal_dtype dtype, double value, void* element) {
  switch (dtype) {
    case UHAL_BOOL:
      return write<uint8_t>(value != 0, element);
    case UHAL_INT8:
      return write_integer<int8_t>(value, element);
    case UHAL_INT16:
      return write_integer<int16_t>(value, element);
    case UHAL_INT32:
      return write_integer<int32_t>(value, element);
    case UHAL_INT64:
      return write_integer<int64_t>(value, element);
    case UHAL_UINT8:
      return write_integer<uint8_t>(value, element);
    case UHAL_UINT16:
      return write_integer<uint16_t>(value, element);
    case UHAL_UINT32:
      return write_integer<uint32_t>(value, element);
    case UHAL_UINT64:
      return value < 0 ? write_integer<uint64_t>(value, element) : write<uint64_t>(value, element);
    case UHAL_FLOAT16:
      return write<uint16_t>(encode_bits(kHalf, value), element);
    case UHAL_BFLOAT16:
      return write<uint16_t>(encode_bits(kBrain, value), element);
    case UHAL_FLOAT32:
    case UHAL_COMPLEX64:
      return write<float>(value, element);
    default:
      return write<double>(value, element);
  }
}

double rounded(uhal_dtype dtype, double value) {
  char element[16] = {};
  encode(dtype, value, element);
  return decode(dtype, element);
}

double epsilon(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT16:
      return std::ldexp(1.0, -kHalf.fraction_bits);
    case UHAL_BFLOAT16:
      return std::ldexp(1.0, -kBrain.fraction_bits);
    case UHAL_FLOAT32:
      return std::numeric_limits<float>::epsilon();
    case UHAL_FLOAT64:
      return std::numeric_limits<double>::epsilon();
    default:
      return 0;
  }
}

int64_t count(const Shape& shape) {
  int64_t result = 1;
  for (const int64_t length : shape) result *= length;
  return result;
}

void for_each(const Shape& shape, const std::function<void(const Shape&)>& body) {
  if (count(shape) == 0) return;
  Shape coordinates(shape.size(), 0);
  while (true) {
    body(coordinates);
    int axis = static_cast<int>(shape.size()) - 1;
    while (axis >= 0 && ++coordinates[static_cast<size_t>(axis)] == shape[static_cast<size_t>(axis)]) {
      coordinates[static_cast<size_t>(axis--)] = 0;
    }
    if (axis < 0) return;
  }
}

Array::Array(uhal_dtype dtype, const Shape& shape) {
  view_ = unihal::View(nullptr, dtype, shape);
  allocate(count(shape));
}

Array::Array(uhal_dtype dtype, const Shape& shape, const std::vector<double>& values) : Array(dtype, shape) {
  assign(values);
}

Array Array::scattered(uhal_dtype dtype, const Shape& shape, std::mt19937& random) {
  Array result;
  result.view_ = unihal::View(nullptr, dtype, shape);
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  int64_t stride = 1;
  int64_t first = 0;  // of the element with all coordinates 0
  for (const size_t axis : order) {
    const int64_t length = std::max<int64_t>(1, shape[axis]);
    const int64_t step = stride * static_cast<int64_t>(1 + random() % 2);
    const bool backward = random() % 3 == 0;
    result.view_.strides[axis] = backward ? -step : step;
    if (backward) first += step * (length - 1);
    stride = step * length;
  }
  result.allocate(stride);
  if (result.view_.data != nullptr) {
    result.view_.data = static_cast<char*>(result.base_) + first * static_cast<int64_t>(uhal_dtype_size(dtype));
  }
  return result;
}

Array::Array(Array&& other) noexcept
    : view_(other.view_), base_(other.base_), host_(std::move(other.host_)), host_is_newer_(other.host_is_newer_) {
  other.base_ = nullptr;
}

Array::~Array() {
  if (base_ != nullptr) uhal_free(device(), stream(), base_);
}

void Array::allocate(int64_t elements) {
  const size_t bytes = static_cast<size_t>(elements) * uhal_dtype_size(view_.dtype);
  require(uhal_allocate(device(), stream(), UHAL_MEMORY_DEVICE, bytes, &base_));
  view_.data = base_;
  host_.resize(bytes);
}

void Array::use_on_device() const {
  if (!host_is_newer_) return;
  host_is_newer_ = false;
  require(uhal_copy(stream(), base_, host_.data(), host_.size(), UHAL_COPY_HOST_TO_DEVICE));
  require(uhal_stream_synchronize(stream()));
}

void* Array::address(const Shape& coordinates) const {
  if (!host_is_newer_) {
    require(uhal_copy(stream(), host_.data(), base_, host_.size(), UHAL_COPY_DEVICE_TO_HOST));
    require(uhal_stream_synchronize(stream()));
    host_is_newer_ = true;
  }
  const int skipped = static_cast<int>(coordinates.size()) - view_.rank;
  int64_t offset = 0;
  for (int i = 0; i < view_.rank; ++i) {
    if (view_.shape[i] != 1) offset += coordinates[static_cast<size_t>(i + skipped)] * view_.strides[i];
  }
  const int64_t first = static_cast<char*>(view_.data) - static_cast<char*>(base_);
  return host_.data() + first + offset * static_cast<int64_t>(uhal_dtype_size(view_.dtype));
}

std::vector<double> Array::values() const {
  std::vector<double> result;
  for_each(shape(), [&](const Shape& at_) { result.push_back(at(at_)); });
  return result;
}

void Array::assign(const std::vector<double>& values) {
  size_t next = 0;
  for_each(shape(), [&](const Shape& coordinates) { set(coordinates, values[next++]); });
}

void Array::fill_random(std::mt19937& random, double low, double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  for_each(shape(), [&](const Shape& coordinates) { set(coordinates, uniform(random)); });
}

uhal_status launch(uhal_op_kind kind, const std::vector<const Array*>& inputs, const std::vector<const Array*>& outputs,
                   const void* attributes) {
  std::vector<const uhal_tensor*> views[2];
  for (const Array* array : inputs) array->use_on_device(), views[0].push_back(array->view());
  for (const Array* array : outputs) array->use_on_device(), views[1].push_back(array->view());
  uhal_op op = attributes_of<uhal_op>();
  op.kind = kind;
  op.input_count = static_cast<int32_t>(inputs.size());
  op.output_count = static_cast<int32_t>(outputs.size());
  op.inputs = views[0].data();
  op.outputs = views[1].data();
  op.attributes = attributes;
  return uhal_launch(stream(), &op);
}

void run(uhal_op_kind kind, const std::vector<const Array*>& inputs, const std::vector<const Array*>& outputs,
         const void* attributes) {
  ASSERT_EQ(UHAL_OK, launch(kind, inputs, outputs, attributes)) << uhal_last_error()->message;
  ASSERT_EQ(UHAL_OK, uhal_stream_synchronize(stream())) << uhal_last_error()->message;
}

void expect_near(const std::vector<double>& expected, const std::vector<double>& got, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(expected.size(), got.size()) << what;
  int reported = 0;
  for (size_t i = 0; i < expected.size() && reported < 5; ++i) {
    const double wanted = expected[i];
    const bool both_nan = std::isnan(wanted) && std::isnan(got[i]);
    const bool near = std::abs(got[i] - wanted) <= tolerance * std::max(1.0, std::abs(wanted));
    if (both_nan || got[i] == wanted || (std::isfinite(wanted) && near)) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << got[i] << ", expected " << wanted;
    ++reported;
  }
}

}  // namespace data_test
