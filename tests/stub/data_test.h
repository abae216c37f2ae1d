// What the suites of the stub's data ops share: arrays in device memory with any strides and a copy on the host (in the
// stub's strict mode the host cannot touch device memory), conversions of their own
// (written for clarity, to check the stub's fast ones against), and launches.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "plugins/common/view.h"
#include "unihal/device.h"

namespace data_test {

using Shape = std::vector<int64_t>;

uhal_device* device();
uhal_stream* stream();

// One element as a double (exact for all dtypes but the largest 64-bit integers), and back, rounded to nearest even;
// integers and bool as op.h says for casts.
double decode(uhal_dtype dtype, const void* element);
void encode(uhal_dtype dtype, double value, void* element);

// The value as it is after rounding to a dtype.
double rounded(uhal_dtype dtype, double value);

// The distance of 1 and the next number; 0 for integers.
double epsilon(uhal_dtype dtype);

int64_t count(const Shape& shape);

// Calls body(coordinates) for each position in row-major order.
void for_each(const Shape& shape, const std::function<void(const Shape&)>& body);

// An array in device memory, and a copy of that memory on the host. Whichever was used last is the newer one and is
// copied to the other when that is asked for: the host's before a launch, the device's before the host looks.
class Array {
 public:
  // Row-major. Elements are zero.
  Array(uhal_dtype dtype, const Shape& shape);
  // Row-major with these elements.
  Array(uhal_dtype dtype, const Shape& shape, const std::vector<double>& values);
  // Axes in random order in memory, with gaps and reversed axes.
  static Array scattered(uhal_dtype dtype, const Shape& shape, std::mt19937& random);

  Array(Array&& other) noexcept;
  Array& operator=(Array&&) = delete;
  ~Array();

  const uhal_tensor* view() const { return &view_; }
  uhal_tensor& mutable_view() { return view_; }
  Shape shape() const { return Shape(view_.shape, view_.shape + view_.rank); }
  uhal_dtype dtype() const { return view_.dtype; }
  int64_t size() const { return count(shape()); }

  // The host's copy of an element. Coordinates broadcast: fewer axes are the last ones, and length 1 repeats. Valid
  // until the next launch with this array.
  void* address(const Shape& coordinates) const;

  // The host's copy of the element with all coordinates 0.
  template <class T>
  T* host() const {
    return static_cast<T*>(address(Shape(static_cast<size_t>(view_.rank), 0)));
  }

  // The device's memory becomes the newer copy, as it is before a launch that uses it.
  void use_on_device() const;

  double at(const Shape& coordinates) const { return decode(view_.dtype, address(coordinates)); }
  void set(const Shape& coordinates, double value) { encode(view_.dtype, value, address(coordinates)); }

  // All elements in row-major order.
  std::vector<double> values() const;
  void assign(const std::vector<double>& values);
  void fill_random(std::mt19937& random, double low, double high);

 private:
  Array() = default;
  void allocate(int64_t elements);

  uhal_tensor view_ = {};
  void* base_ = nullptr;
  mutable std::vector<char> host_;
  mutable bool host_is_newer_ = true;
};

// Launches on the default stream; waits and expects success.
void run(uhal_op_kind kind, const std::vector<const Array*>& inputs, const std::vector<const Array*>& outputs,
         const void* attributes = nullptr);
uhal_status launch(uhal_op_kind kind, const std::vector<const Array*>& inputs, const std::vector<const Array*>& outputs,
                   const void* attributes = nullptr);

// Expects |got - expected| <= tolerance * max(1, |expected|), NaN equal to NaN and infinities equal.
void expect_near(const std::vector<double>& expected, const std::vector<double>& got, double tolerance,
                 const std::string& what);

// An attribute struct with its size set and all else zero.
template <class Attributes>
Attributes attributes_of() {
  Attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  return attributes;
}

inline constexpr uhal_dtype kFloating[] = {UHAL_FLOAT32, UHAL_FLOAT64, UHAL_FLOAT16, UHAL_BFLOAT16};
inline constexpr uhal_dtype kReal[] = {UHAL_BOOL,     UHAL_INT8,    UHAL_INT16,  UHAL_INT32,  UHAL_INT64,
                                       UHAL_UINT8,    UHAL_UINT16,  UHAL_UINT32, UHAL_UINT64, UHAL_FLOAT16,
                                       UHAL_BFLOAT16, UHAL_FLOAT32, UHAL_FLOAT64};

}  // namespace data_test
