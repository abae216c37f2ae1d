#include <cmath>

#include "tests/stub/nn_test.h"

namespace nn_test {
namespace {

struct Case {
  Shape x, w;
  std::vector<int64_t> stride, dilation, before, after;
  int64_t groups;
};

uhal_convolution_attributes attributes_of(const Case& c) {
  auto attributes = make_attributes<uhal_convolution_attributes>();
  for (size_t i = 0; i < c.stride.size(); ++i) {
    attributes.stride[i] = c.stride[i];
    attributes.dilation[i] = c.dilation[i];
    attributes.pad_before[i] = c.before[i];
    attributes.pad_after[i] = c.after[i];
  }
  attributes.groups = c.groups;
  return attributes;
}

Shape output_shape(const Case& c) {
  Shape shape = {c.x[0], c.w[0]};
  for (size_t i = 0; i < c.stride.size(); ++i) {
    shape.push_back((c.x[i + 2] + c.before[i] + c.after[i] - c.dilation[i] * (c.w[i + 2] - 1) - 1) / c.stride[i] + 1);
  }
  return shape;
}

// y[n, o, place] += x[n, i, pixel] * w[o, i, tap]: calls visit(position in y, in x, in w) for every product.
void for_each_product(const Case& c, const std::function<void(size_t, size_t, size_t)>& visit) {
  const Shape y_shape = output_shape(c);
  const int64_t filters = c.w[0] / c.groups;
  const Shape taps(c.w.begin() + 1, c.w.end());
  Shape pixel(c.x.size()), weight(c.w.size());  // not one of each for every product, which AddressSanitizer notes
  for_each(y_shape, [&](const Shape& at) {
    for_each(taps, [&](const Shape& tap) {
      pixel[0] = at[0];
      pixel[1] = at[1] / filters * c.w[1] + tap[0];
      weight[0] = at[1];
      weight[1] = tap[0];
      for (size_t i = 0; i < c.stride.size(); ++i) {
        pixel[i + 2] = at[i + 2] * c.stride[i] - c.before[i] + tap[i + 1] * c.dilation[i];
        if (pixel[i + 2] < 0 || pixel[i + 2] >= c.x[i + 2]) return;
        weight[i + 2] = tap[i + 1];
      }
      visit(position(y_shape, at), position(c.x, pixel), position(c.w, weight));
    });
  });
}

const Case kCases[] = {
    {{2, 3, 9}, {4, 3, 3}, {1}, {1}, {1}, {1}, 1},                                      // 1-D
    {{2, 3, 8, 9}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                    // the usual
    {{2, 4, 9, 8}, {6, 4, 3, 2}, {2, 3}, {1, 1}, {1, 0}, {0, 1}, 1},                    // strides, asymmetric padding
    {{1, 6, 10, 10}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 6},                  // depthwise
    {{2, 4, 10, 9}, {6, 2, 3, 3}, {1, 2}, {2, 2}, {2, 1}, {2, 3}, 2},                   // groups, dilation
    {{2, 16, 6, 6}, {24, 16, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1},                 // 1 x 1
    {{1, 1, 8, 8}, {16, 1, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1},                   // one channel
    {{1, 3, 50, 50}, {2, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1},                  // large image, few channels
    {{1, 16, 46, 46}, {2, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                // large image
    {{2, 2, 4, 5, 6}, {4, 2, 2, 3, 3}, {1, 2, 1}, {1, 1, 2}, {1, 1, 2}, {0, 1, 2}, 1},  // 3-D
    {{1, 2, 3, 3}, {3, 2, 3, 3}, {1, 1}, {1, 1}, {4, 0}, {4, 0}, 1},                    // windows in padding only
    {{2, 8, 1, 2}, {6, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                    // taps on padding alone
    {{2, 4, 2, 3}, {4, 2, 3, 5}, {1, 2}, {3, 2}, {3, 4}, {3, 4}, 2},                    // the same, dilation, groups
    {{16, 64, 1, 1}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                // the same of one pixel
    // What AVX-512 copies into blocks of 16 channels:
    {{4, 16, 200}, {32, 16, 5}, {2}, {1}, {2}, {2}, 1},                                    // 1-D, a stride
    {{2, 24, 10, 10}, {20, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                  // blocks that are not full
    {{1, 32, 12, 12}, {32, 16, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 2},                  // groups, dilation
    {{1, 16, 6, 6, 6}, {16, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1},  // 3-D
};

class Convolution : public testing::TestWithParam<std::tuple<size_t, bool>> {
 protected:
  const Case& own_case() const { return kCases[std::get<0>(GetParam())]; }
  Layout image_layout() const { return std::get<1>(GetParam()) ? Layout::kChannelsLast : Layout::kRowMajor; }
  Layout filter_layout() const { return std::get<1>(GetParam()) ? Layout::kFilterLast : Layout::kRowMajor; }
  // Longest sum of one result.
  static double length(const Case& c) { return std::sqrt(static_cast<double>(count(c.w)) + count(c.x)); }
};

INSTANTIATE_TEST_SUITE_P(All, Convolution,
                         testing::Combine(testing::Range(size_t{0}, std::size(kCases)), testing::Bool()));

TEST_P(Convolution, ForwardEqualsTheReference) {
  const Case& c = own_case();
  for (const uhal_dtype dtype : kFloating) {
    for (const bool biased : {false, true}) {
      const Tensor x(c.x, dtype, image_layout()), w(c.w, dtype, filter_layout()), bias({c.w[0]}, dtype);
      const Tensor y(output_shape(c), dtype, image_layout());
      auto attributes = attributes_of(c);
      attributes.activation = biased ? UHAL_ACTIVATION_RELU : UHAL_ACTIVATION_NONE;
      run(UHAL_OP_CONVOLUTION, {&x, &w, biased ? &bias : nullptr}, {&y}, &attributes);
      const Values x_values = x.values(), w_values = w.values(), b = bias.values();
      Values expected(count(y.shape()));
      if (biased) {
        size_t i = 0;
        for_each(y.shape(), [&](const Shape& at) { expected[i++] = b[at[1]]; });
      }
      for_each_product(c,
                       [&](size_t to, size_t pixel, size_t tap) { expected[to] += x_values[pixel] * w_values[tap]; });
      if (biased) {
        for (double& value : expected) value = std::max(0.0, value);
      }
      expect_near(expected, y, dtype == UHAL_FLOAT32 ? length(c) : 4);
    }
  }
}

TEST_P(Convolution, GradientsEqualTheReference) {
  const Case& c = own_case();
  const auto attributes = attributes_of(c);
  for (const uhal_dtype dtype : kFloating) {
    const Tensor x(c.x, dtype, image_layout()), w(c.w, dtype, filter_layout());
    const Tensor dy(output_shape(c), dtype, image_layout());
    const Tensor dx(c.x, dtype, image_layout()), dw(c.w, dtype, filter_layout()), dbias({c.w[0]}, dtype);
    run(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&dy, &w}, {&dx}, &attributes);
    run(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&x, &dy}, {&dw, &dbias}, &attributes);
    const Values x_values = x.values(), w_values = w.values(), dy_values = dy.values();
    Values expected_dx(x_values.size()), expected_dw(w_values.size()), expected_dbias(c.w[0]);
    for_each_product(c, [&](size_t from, size_t pixel, size_t tap) {
      expected_dx[pixel] += dy_values[from] * w_values[tap];
      expected_dw[tap] += dy_values[from] * x_values[pixel];
    });
    size_t i = 0;
    for_each(dy.shape(), [&](const Shape& at) { expected_dbias[at[1]] += dy_values[i++]; });
    SCOPED_TRACE(uhal_dtype_name(dtype));
    const double scale = dtype == UHAL_FLOAT32 ? length(c) : 4;
    expect_near(expected_dx, dx, scale);
    expect_near(expected_dw, dw, scale);
    expect_near(expected_dbias, dbias, scale);
  }
}

TEST(ConvolutionEdge, MixedLayoutsAndGapsAreCopied) {
  const Case& c = kCases[1];
  const auto attributes = attributes_of(c);
  const Tensor x(c.x, UHAL_FLOAT32, Layout::kGaps), w(c.w, UHAL_FLOAT32, Layout::kReversed);
  const Tensor y(output_shape(c), UHAL_FLOAT32, Layout::kChannelsLast);
  const Tensor gaps(output_shape(c), UHAL_FLOAT32, Layout::kGaps);
  run(UHAL_OP_CONVOLUTION, {&x, &w}, {&y}, &attributes);
  run(UHAL_OP_CONVOLUTION, {&x, &w}, {&gaps}, &attributes);
  const Values x_values = x.values(), w_values = w.values();
  Values expected(count(y.shape()));
  for_each_product(c, [&](size_t to, size_t pixel, size_t tap) { expected[to] += x_values[pixel] * w_values[tap]; });
  expect_near(expected, y, 10);
  expect_near(expected, gaps, 10);
}

TEST(ConvolutionEdge, EmptyBatchesGiveZeroGradients) {
  Case c = kCases[1];
  c.x[0] = 0;
  const auto attributes = attributes_of(c);
  const Tensor x(c.x, UHAL_FLOAT32), w(c.w, UHAL_FLOAT32), y(output_shape(c), UHAL_FLOAT32);
  const Tensor dw(c.w, UHAL_FLOAT32), dbias({c.w[0]}, UHAL_FLOAT32);
  run(UHAL_OP_CONVOLUTION, {&x, &w}, {&y}, &attributes);
  run(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&x, &y}, {&dw, &dbias}, &attributes);
  EXPECT_EQ(Values(count(c.w), 0.0), dw.values());
  EXPECT_EQ(Values(c.w[0], 0.0), dbias.values());
}

TEST(ConvolutionEdge, NoChannelsLeaveTheBias) {
  const Tensor x({1, 0, 3, 3}, UHAL_FLOAT32), w({2, 0, 3, 3}, UHAL_FLOAT32), bias({2}, {3, 4}, UHAL_FLOAT32);
  const Tensor y({1, 2, 1, 1}, UHAL_FLOAT32);
  run(UHAL_OP_CONVOLUTION, {&x, &w, &bias}, {&y});
  EXPECT_EQ((Values{3, 4}), y.values());
}

TEST(ConvolutionEdge, RefusesIntegers) {
  const Tensor x({1, 1, 3, 3}, UHAL_INT32), w({1, 1, 3, 3}, UHAL_INT32), y({1, 1, 1, 1}, UHAL_INT32);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_CONVOLUTION, {&x, &w}, {&y}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "convolution takes floating point", uhal_last_error()->message);
}

}  // namespace
}  // namespace nn_test
