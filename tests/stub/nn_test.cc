#include "tests/stub/nn_test.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "unihal/memory.h"

namespace nn_test {
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

const Device& device() {
  static const Device instance;
  return instance;
}

// Axes from the outermost to the innermost.
std::vector<int> axes_of(Layout layout, int rank) {
  std::vector<int> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (layout == Layout::kChannelsLast && rank > 2) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  if (layout == Layout::kFilterLast && rank > 2) {
    std::rotate(axes.begin(), axes.begin() + 2, axes.end());
    std::swap(axes[rank - 2], axes[rank - 1]);
  }
  if (layout == Layout::kReversed) std::reverse(axes.begin(), axes.end());
  return axes;
}

uhal_op copy_op(uhal_op_kind kind, const uhal_tensor* const* from, const uhal_tensor* const* to) {
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.input_count = op.output_count = 1;
  op.inputs = from;
  op.outputs = to;
  return op;
}

double tolerance(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT64:
      return 1e-11;
    case UHAL_FLOAT32:
      return 1e-5;
    case UHAL_FLOAT16:
      return 2e-3;  // four units in the last place
    case UHAL_BFLOAT16:
      return 1.6e-2;
    default:
      return 0;  // integers are exact
  }
}

}  // namespace

int64_t count(const Shape& shape) {
  int64_t result = 1;
  for (const int64_t length : shape) result *= length;
  return result;
}

void Tensor::allocate(const Shape& shape, uhal_dtype dtype, Layout layout) {
  view_.struct_size = sizeof view_;
  view_.dtype = dtype;
  view_.rank = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), view_.shape);
  int64_t stride = layout == Layout::kGaps ? 2 : 1;
  const std::vector<int> axes = axes_of(layout, view_.rank);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    view_.strides[*axis] = stride;
    stride *= std::max<int64_t>(1, shape[static_cast<size_t>(*axis)]);
  }
  require(uhal_allocate(device().device, device().stream, UHAL_MEMORY_DEVICE,
                        static_cast<size_t>(stride) * uhal_dtype_size(dtype), &base_));
  view_.data = base_;
}

Tensor::Tensor(const Shape& shape, const Values& values, uhal_dtype dtype, Layout layout) {
  allocate(shape, dtype, layout);
  store(values);
}

Tensor::Tensor(const Shape& shape, uhal_dtype dtype, Layout layout) {
  static std::mt19937 generator(20261121);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Values values(static_cast<size_t>(nn_test::count(shape)));
  for (double& value : values) value = uniform(generator);
  allocate(shape, dtype, layout);
  store(values);
}

Tensor::~Tensor() {
  if (base_ != nullptr) uhal_free(device().device, device().stream, base_);
}

void Tensor::store(const Values& values) {
  if (values.empty()) return;
  const Shape own = shape();
  if (view_.dtype == UHAL_FLOAT64 && view_.rank == 1 && view_.strides[0] == 1) {
    require(uhal_copy(device().stream, base_, values.data(), values.size() * sizeof(double), UHAL_COPY_HOST_TO_DEVICE));
    require(uhal_stream_synchronize(device().stream));  // the values may be gone after this call
    return;
  }
  Tensor wide({static_cast<int64_t>(values.size())}, values);
  uhal_tensor from = view_;
  from.dtype = UHAL_FLOAT64;
  from.data = wide.base_;
  int64_t stride = 1;
  for (int i = view_.rank - 1; i >= 0; --i) {
    from.strides[i] = stride;
    stride *= own[static_cast<size_t>(i)];
  }
  const uhal_tensor* inputs[] = {&from};
  const uhal_tensor* outputs[] = {&view_};
  const uhal_op op = copy_op(UHAL_OP_CAST, inputs, outputs);
  require(uhal_launch(device().stream, &op));
  require(uhal_stream_synchronize(device().stream));
}

Values Tensor::values() const {
  Values result(static_cast<size_t>(nn_test::count(shape())));
  if (result.empty()) return result;
  Tensor wide({static_cast<int64_t>(result.size())}, Values(result.size()));
  uhal_tensor to = view_;
  to.dtype = UHAL_FLOAT64;
  to.data = wide.base_;
  int64_t stride = 1;
  for (int i = view_.rank - 1; i >= 0; --i) {
    to.strides[i] = stride;
    stride *= view_.shape[i];
  }
  const uhal_tensor* inputs[] = {&view_};
  const uhal_tensor* outputs[] = {&to};
  const uhal_op op = copy_op(UHAL_OP_CAST, inputs, outputs);
  require(uhal_launch(device().stream, &op));
  require(
      uhal_copy(device().stream, result.data(), wide.base_, result.size() * sizeof(double), UHAL_COPY_DEVICE_TO_HOST));
  require(uhal_stream_synchronize(device().stream));
  return result;
}

uhal_status launch(uhal_op_kind kind, const std::vector<const Tensor*>& inputs,
                   const std::vector<const Tensor*>& outputs, const void* attributes) {
  std::vector<const uhal_tensor*> input_views;
  std::vector<const uhal_tensor*> output_views;
  for (const Tensor* tensor : inputs) input_views.push_back(tensor != nullptr ? tensor->view() : nullptr);
  for (const Tensor* tensor : outputs) output_views.push_back(tensor != nullptr ? tensor->view() : nullptr);
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.input_count = static_cast<int32_t>(input_views.size());
  op.output_count = static_cast<int32_t>(output_views.size());
  op.inputs = input_views.data();
  op.outputs = output_views.data();
  op.attributes = attributes;
  const uhal_status status = uhal_launch(device().stream, &op);
  return status != UHAL_OK ? status : uhal_stream_synchronize(device().stream);
}

void run(uhal_op_kind kind, const std::vector<const Tensor*>& inputs, const std::vector<const Tensor*>& outputs,
         const void* attributes) {
  ASSERT_EQ(UHAL_OK, launch(kind, inputs, outputs, attributes)) << uhal_last_error()->message;
}

void expect_near(const Values& expected, const Values& got, uhal_dtype dtype, double scale) {
  ASSERT_EQ(expected.size(), got.size());
  int shown = 0;
  for (size_t i = 0; i < expected.size() && shown < 5; ++i) {
    if (expected[i] == got[i] || (std::isnan(expected[i]) && std::isnan(got[i]))) continue;
    const double allowed = tolerance(dtype) * scale * std::max(1.0, std::fabs(expected[i]));
    if (std::fabs(expected[i] - got[i]) <= allowed) continue;
    ADD_FAILURE() << "element " << i << " is " << got[i] << ", expected " << expected[i] << " in "
                  << uhal_dtype_name(dtype);
    ++shown;
  }
}

void expect_near(const Values& expected, const Tensor& got, double scale) {
  expect_near(expected, got.values(), got.view()->dtype, scale);
}

void expect_gradient(const Values& gradient, Values& parameters, const std::function<double()>& loss) {
  ASSERT_EQ(gradient.size(), parameters.size());
  constexpr double kStep = 1e-5;
  constexpr size_t kSamples = 40;
  const size_t step = std::max<size_t>(1, parameters.size() / kSamples);
  for (size_t i = 0; i < parameters.size(); i += step) {
    const double own = parameters[i];
    parameters[i] = own + kStep;
    const double above = loss();
    parameters[i] = own - kStep;
    const double below = loss();
    parameters[i] = own;
    const double expected = (above - below) / (2 * kStep);
    // The error of central differences: the third derivative times the step squared, and rounding over the step.
    EXPECT_NEAR(expected, gradient[i], 1e-6 * std::max(1.0, std::fabs(expected))) << "derivative " << i;
  }
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void for_each(const Shape& shape, const std::function<void(const Shape&)>& body) {
  const int64_t total = count(shape);
  Shape coordinates(shape.size());
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0;) {
      coordinates[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    body(coordinates);
  }
}

int64_t position(const Shape& shape, const Shape& coordinates) {
  int64_t result = 0;
  for (size_t i = 0; i < shape.size(); ++i) result = result * shape[i] + coordinates[i];
  return result;
}

}  // namespace nn_test
