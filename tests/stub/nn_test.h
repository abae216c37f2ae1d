// What the suites of the stub's neural-network kernels share: tensors on the device, launches, and comparison with
// references in float64.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "unihal/op.h"

namespace nn_test {

using Shape = std::vector<int64_t>;
using Values = std::vector<double>;

// How a tensor lies in memory. Axes are always named in the logical order.
enum class Layout {
  kRowMajor,
  kChannelsLast,  // N, spatial..., C
  kFilterLast,    // spatial..., I, O
  kReversed,      // column-major
  kGaps,          // row-major, every second element
};

// A tensor in device memory. Values go in and out in row-major order of the logical axes, as float64.
class Tensor {
 public:
  Tensor(const Shape& shape, const Values& values, uhal_dtype dtype = UHAL_FLOAT64, Layout layout = Layout::kRowMajor);
  // Of reproducible numbers in [-1, 1], as they are after rounding to the dtype.
  explicit Tensor(const Shape& shape, uhal_dtype dtype = UHAL_FLOAT64, Layout layout = Layout::kRowMajor);
  Tensor(Tensor&& other) noexcept : view_(other.view_), base_(other.base_) { other.base_ = nullptr; }
  Tensor& operator=(Tensor&&) = delete;
  ~Tensor();

  Values values() const;
  const uhal_tensor* view() const { return &view_; }
  Shape shape() const { return Shape(view_.shape, view_.shape + view_.rank); }

 private:
  void allocate(const Shape& shape, uhal_dtype dtype, Layout layout);
  void store(const Values& values);

  uhal_tensor view_ = {};
  void* base_ = nullptr;
};

int64_t count(const Shape& shape);

// Launches on the default stream and waits. Absent operands are nullptr.
uhal_status launch(uhal_op_kind kind, const std::vector<const Tensor*>& inputs,
                   const std::vector<const Tensor*>& outputs, const void* attributes = nullptr);

// Launches and expects success.
void run(uhal_op_kind kind, const std::vector<const Tensor*>& inputs, const std::vector<const Tensor*>& outputs,
         const void* attributes = nullptr);

// Expects values equal up to rounding: a few units of the dtype, relative to the larger of 1 and the expected value,
// times `scale` (for long sums).
void expect_near(const Values& expected, const Values& got, uhal_dtype dtype, double scale = 1);
void expect_near(const Values& expected, const Tensor& got, double scale = 1);

// Expects `gradient` to be the derivative of loss() with respect to `parameters`, which loss() reads, by central
// differences at some of them.
void expect_gradient(const Values& gradient, Values& parameters, const std::function<double()>& loss);

double dot(const Values& a, const Values& b);

// Calls body(coordinates) for each element of a shape in row-major order.
void for_each(const Shape& shape, const std::function<void(const Shape&)>& body);

// Row-major position of coordinates.
int64_t position(const Shape& shape, const Shape& coordinates);

// The stub's own dtypes for floating ops.
inline constexpr uhal_dtype kFloating[] = {UHAL_FLOAT32, UHAL_FLOAT64, UHAL_FLOAT16, UHAL_BFLOAT16};

// An attribute struct with its size set.
template <typename Attributes>
Attributes make_attributes() {
  Attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  return attributes;
}

}  // namespace nn_test
