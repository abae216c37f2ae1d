#include <cmath>
#include <limits>

#include "tests/stub/nn_test.h"

namespace nn_test {
namespace {

struct Case {
  Shape x, y;
  std::vector<int64_t> window, stride, before, after;
  bool adaptive;
};

const Case kCases[] = {
    {{2, 3, 9}, {2, 3, 4}, {3}, {2}, {0}, {0}, false},
    {{2, 3, 8, 9}, {2, 3, 4, 4}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, false},
    {{2, 70, 7, 7}, {2, 70, 4, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},  // more channels than lanes
    {{1, 2, 6, 5}, {1, 2, 6, 4}, {2, 3}, {1, 1}, {0, 1}, {1, 0}, false},    // asymmetric padding
    {{1, 2, 6, 6}, {1, 2, 3, 3}, {3, 3}, {2, 2}, {0, 0}, {0, 0}, false},    // ceil mode: windows reach beyond
    {{1, 3, 4, 5, 6}, {1, 3, 2, 3, 3}, {2, 2, 2}, {2, 2, 2}, {0, 1, 0}, {0, 0, 0}, false},
    {{2, 3, 7, 5}, {2, 3, 3, 4}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true},  // adaptive
};

uhal_pool_attributes attributes_of(const Case& c, uhal_pool_mode mode) {
  auto attributes = make_attributes<uhal_pool_attributes>();
  attributes.mode = mode;
  attributes.adaptive = c.adaptive ? 1 : 0;
  for (size_t i = 0; i < c.window.size(); ++i) {
    attributes.window[i] = c.window[i];
    attributes.stride[i] = c.stride[i];
    attributes.pad_before[i] = c.before[i];
    attributes.pad_after[i] = c.after[i];
  }
  return attributes;
}

// Row-major positions in x, and within their image, of the pixels under the window at a place.
struct Pixel {
  size_t in_tensor;
  double in_image;
};

std::vector<Pixel> pixels_under(const Case& c, const Shape& place) {
  Shape begin, size;
  for (size_t i = 0; i < c.window.size(); ++i) {
    const int64_t input = c.x[i + 2], output = c.y[i + 2], at = place[i + 2];
    int64_t first = at * c.stride[i] - c.before[i], last = first + c.window[i];
    if (c.adaptive) {
      first = at * input / output;
      last = ((at + 1) * input + output - 1) / output;
    }
    first = std::max<int64_t>(first, 0);
    begin.push_back(first);
    size.push_back(std::max<int64_t>(0, std::min(last, input) - first));
  }
  std::vector<Pixel> pixels;
  for_each(size, [&](const Shape& inside) {
    Shape at = {place[0], place[1]};
    for (size_t i = 0; i < inside.size(); ++i) at.push_back(begin[i] + inside[i]);
    const Shape image(c.x.begin() + 2, c.x.end()), own(at.begin() + 2, at.end());
    pixels.push_back({static_cast<size_t>(position(c.x, at)), static_cast<double>(position(image, own))});
  });
  return pixels;
}

double divisor(const Case& c, uhal_pool_mode mode, size_t pixels) {
  if (mode == UHAL_POOL_AVERAGE_EXCLUDE_PADDING || c.adaptive) return static_cast<double>(pixels);
  return static_cast<double>(count(c.window));
}

TEST(Pool, MaximumAndItsGradientEqualTheReference) {
  for (const Case& c : kCases) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast, Layout::kGaps}) {
      for (const uhal_dtype dtype : kFloating) {
        const auto attributes = attributes_of(c, UHAL_POOL_MAXIMUM);
        // Few different values, so that many windows have several maxima: the first counts.
        Values values(count(c.x));
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 5) - 6;
        const Tensor x(c.x, values, dtype, layout), dy(c.y, dtype, layout), y(c.y, dtype, layout);
        const Tensor dx(c.x, dtype, layout), indices(c.y, UHAL_INT32);
        run(UHAL_OP_POOL, {&x}, {&y, &indices}, &attributes);
        run(UHAL_OP_POOL_BACKWARD, {&dy, &x, &y}, {&dx}, &attributes);
        const Values dy_values = dy.values();
        Values expected_y, expected_indices, expected_dx(values.size());
        size_t i = 0;
        for_each(c.y, [&](const Shape& place) {
          const std::vector<Pixel> pixels = pixels_under(c, place);
          Pixel best = pixels.front();
          for (const Pixel& pixel : pixels) {
            if (values[pixel.in_tensor] > values[best.in_tensor]) best = pixel;
          }
          expected_y.push_back(values[best.in_tensor]);
          expected_indices.push_back(best.in_image);
          expected_dx[best.in_tensor] += dy_values[i++];
        });
        SCOPED_TRACE(testing::Message() << "case " << &c - kCases << " " << uhal_dtype_name(dtype));
        EXPECT_EQ(expected_y, y.values());
        EXPECT_EQ(expected_indices, indices.values());
        expect_near(expected_dx, dx);
      }
    }
  }
}

TEST(Pool, AveragesAndTheirGradientsEqualTheReference) {
  for (const Case& c : kCases) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast, Layout::kGaps}) {
      for (const uhal_pool_mode mode : {UHAL_POOL_AVERAGE_INCLUDE_PADDING, UHAL_POOL_AVERAGE_EXCLUDE_PADDING}) {
        for (const uhal_dtype dtype : kFloating) {
          const auto attributes = attributes_of(c, mode);
          const Tensor x(c.x, dtype, layout), y(c.y, dtype, layout), dy(c.y, dtype, layout), dx(c.x, dtype, layout);
          run(UHAL_OP_POOL, {&x}, {&y}, &attributes);
          run(UHAL_OP_POOL_BACKWARD, {&dy}, {&dx}, &attributes);
          const Values x_values = x.values(), dy_values = dy.values();
          Values expected_y, expected_dx(x_values.size());
          for_each(c.y, [&](const Shape& place) {
            const std::vector<Pixel> pixels = pixels_under(c, place);
            const double n = divisor(c, mode, pixels.size());
            double sum = 0;
            for (const Pixel& pixel : pixels) {
              sum += x_values[pixel.in_tensor];
              expected_dx[pixel.in_tensor] += dy_values[expected_y.size()] / n;
            }
            expected_y.push_back(sum / n);
          });
          SCOPED_TRACE(testing::Message() << "case " << &c - kCases << " " << uhal_dtype_name(dtype));
          expect_near(expected_y, y);
          expect_near(expected_dx, dx, 2);
        }
      }
    }
  }
}

TEST(Pool, NaNWinsAndInfinityIsAValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x({1, 1, 6}, {1, nan, 3, -infinity, -infinity, -infinity}, UHAL_FLOAT32), y({1, 1, 2}, UHAL_FLOAT32);
  const Tensor indices({1, 1, 2}, UHAL_INT64);
  auto attributes = make_attributes<uhal_pool_attributes>();
  attributes.window[0] = attributes.stride[0] = 3;
  run(UHAL_OP_POOL, {&x}, {&y, &indices}, &attributes);
  EXPECT_TRUE(std::isnan(y.values()[0]));
  EXPECT_EQ(-infinity, y.values()[1]);
  EXPECT_EQ((Values{1, 3}), indices.values());
}

TEST(Pool, MaximumOfIntegersIsExactAndAveragesAreRefused) {
  const Tensor x({1, 1, 4}, {-5, -7, 100, 101}, UHAL_INT8), y({1, 1, 2}, UHAL_INT8);
  auto attributes = make_attributes<uhal_pool_attributes>();
  attributes.window[0] = attributes.stride[0] = 2;
  run(UHAL_OP_POOL, {&x}, {&y}, &attributes);
  EXPECT_EQ((Values{-5, 101}), y.values());
  attributes.mode = UHAL_POOL_AVERAGE_INCLUDE_PADDING;
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_POOL, {&x}, {&y}, &attributes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cast the operand first", uhal_last_error()->message);
}

TEST(Pool, EmptyBatches) {
  const Tensor x({0, 2, 4}, UHAL_FLOAT32), y({0, 2, 2}, UHAL_FLOAT32);
  auto attributes = make_attributes<uhal_pool_attributes>();
  attributes.window[0] = attributes.stride[0] = 2;
  run(UHAL_OP_POOL, {&x}, {&y}, &attributes);
}

}  // namespace
}  // namespace nn_test
