// A convolution and its gradients, element by element.
#pragma once

#include "tests/doubles/libraries_on_host/element.h"

namespace on_host {

constexpr int kMostAxes = 5;

// Of 4 or 5 axes.
struct Tensor {
  int type = kFloat;
  int axes = 0;
  int lengths[kMostAxes] = {};
  int strides[kMostAxes] = {};
};

struct Convolution {
  int spatial = 0;
  int padding[3] = {};
  int stride[3] = {};
  int dilation[3] = {};
  int groups = 1;
};

enum class Pass { kForward, kData, kFilter };

// Calls body(x place, w place, y place) for each product of the convolution.
template <class Body>
void for_each_product(const Convolution& c, const Tensor& x, const Tensor& w, const Tensor& y, const Body& body) {
  const int outputs_of_group = w.lengths[0] / c.groups;
  const auto length = [&](const Tensor& tensor, int axis) { return axis < c.spatial ? tensor.lengths[2 + axis] : 1; };
  int64_t place[3];
  for (int n = 0; n < x.lengths[0]; ++n) {
    for (int k = 0; k < w.lengths[0]; ++k) {
      for (int channel = 0; channel < w.lengths[1]; ++channel) {
        const int x_channel = k / outputs_of_group * w.lengths[1] + channel;
        for (int o0 = 0; o0 < length(y, 0); ++o0)
          for (int o1 = 0; o1 < length(y, 1); ++o1)
            for (int o2 = 0; o2 < length(y, 2); ++o2)
              for (int t0 = 0; t0 < length(w, 0); ++t0)
                for (int t1 = 0; t1 < length(w, 1); ++t1)
                  for (int t2 = 0; t2 < length(w, 2); ++t2) {
                    const int at[] = {o0, o1, o2};
                    const int tap[] = {t0, t1, t2};
                    place[0] = int64_t{n} * x.strides[0] + int64_t{x_channel} * x.strides[1];
                    place[1] = int64_t{k} * w.strides[0] + int64_t{channel} * w.strides[1];
                    place[2] = int64_t{n} * y.strides[0] + int64_t{k} * y.strides[1];
                    bool inside = true;
                    for (int i = 0; i < c.spatial; ++i) {
                      const int pixel = at[i] * c.stride[i] - c.padding[i] + tap[i] * c.dilation[i];
                      inside &= pixel >= 0 && pixel < x.lengths[2 + i];
                      place[0] += int64_t{pixel} * x.strides[2 + i];
                      place[1] += int64_t{tap[i]} * w.strides[2 + i];
                      place[2] += int64_t{at[i]} * y.strides[2 + i];
                    }
                    if (inside) body(place[0], place[1], place[2]);
                  }
      }
    }
  }
}

// Whether the shapes fit each other.
inline bool agree(const Convolution& c, const Tensor& x, const Tensor& w, const Tensor& y) {
  if (x.axes != 2 + c.spatial || w.axes != x.axes || y.axes != x.axes) return false;
  bool fits = x.lengths[0] == y.lengths[0] && y.lengths[1] == w.lengths[0] && x.lengths[1] == w.lengths[1] * c.groups &&
              w.lengths[0] % c.groups == 0 && x.type == w.type && w.type == y.type;
  for (int i = 0; i < c.spatial; ++i) {
    const int reach = (w.lengths[2 + i] - 1) * c.dilation[i] + 1;
    fits &= y.lengths[2 + i] == (x.lengths[2 + i] + 2 * c.padding[i] - reach) / c.stride[i] + 1;
  }
  return fits;
}

// Writes the operand that the pass is about; nothing of it is read.
inline void convolve(Pass pass, const Convolution& c, const Tensor& x_tensor, void* x, const Tensor& w_tensor, void* w,
                     const Tensor& y_tensor, void* y) {
  const Tensor& tensor = pass == Pass::kForward ? y_tensor : pass == Pass::kData ? x_tensor : w_tensor;
  void* const result = pass == Pass::kForward ? y : pass == Pass::kData ? x : w;
  // Sums in double, so that 16-bit results are rounded once: as many as there are elements, which lie without gaps.
  int64_t count = 1;
  for (int i = 0; i < tensor.axes; ++i) count *= tensor.lengths[i];
  double* const sums = new double[static_cast<size_t>(count)]();
  for_each_product(c, x_tensor, w_tensor, y_tensor, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
    const double x_value = pass == Pass::kData ? 1 : read(x, x_at, x_tensor.type);
    const double w_value = pass == Pass::kFilter ? 1 : read(w, w_at, w_tensor.type);
    const double y_value = pass == Pass::kForward ? 1 : read(y, y_at, y_tensor.type);
    sums[pass == Pass::kForward ? y_at : pass == Pass::kData ? x_at : w_at] += x_value * w_value * y_value;
  });
  for (int64_t i = 0; i < count; ++i) write(result, i, tensor.type, sums[i]);
  delete[] sums;
}

}  // namespace on_host
