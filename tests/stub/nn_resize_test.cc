#include <cmath>

#include "tests/stub/nn_test.h"

namespace nn_test {
namespace {

struct Case {
  Shape x, y;
};

const Case kCases[] = {{{2, 3, 5}, {2, 3, 8}},
                       {{1, 3, 4, 6}, {1, 3, 8, 3}},
                       {{2, 40, 5, 5}, {2, 40, 7, 9}},
                       {{1, 2, 3, 4, 2}, {1, 2, 5, 2, 4}},
                       {{1, 2, 1, 4}, {1, 2, 1, 1}}};

double source_of(const uhal_resize_attributes& a, int64_t input, int64_t output, int64_t i) {
  if (a.align_corners != 0) return output > 1 ? static_cast<double>(i * (input - 1)) / (output - 1) : 0;
  const double step = static_cast<double>(input) / output;
  return a.half_pixel_centers != 0 ? (i + 0.5) * step - 0.5 : i * step;
}

double cubic(double x) {
  x = std::fabs(x);
  if (x <= 1) return 1.25 * x * x * x - 2.25 * x * x + 1;
  if (x < 2) return -0.75 * x * x * x + 3.75 * x * x - 6 * x + 3;
  return 0;
}

// Weight of pixel `index` for a source position; pixels beyond the edge are the edge's.
double weight(const uhal_resize_attributes& a, int64_t input, double source, int64_t index) {
  double sum = 0;
  const auto take = [&](double at, double share) {
    if (std::min(std::max(at, 0.0), input - 1.0) == static_cast<double>(index)) sum += share;
  };
  if (a.mode == UHAL_RESIZE_NEAREST) {
    const bool rounds = a.align_corners != 0 || a.half_pixel_centers != 0;
    take(std::floor(source + (rounds ? 0.5 : 0)), 1);
  } else if (a.mode == UHAL_RESIZE_LINEAR) {
    source = std::max(0.0, source);
    take(std::floor(source), 1 - (source - std::floor(source)));
    take(std::floor(source) + 1, source - std::floor(source));
  } else {
    for (int tap = -1; tap < 3; ++tap) take(std::floor(source) + tap, cubic(source - std::floor(source) - tap));
  }
  return sum;
}

TEST(Resize, EqualsTheReferenceAndItsGradient) {
  for (const Case& c : kCases) {
    for (uhal_resize_mode mode = UHAL_RESIZE_NEAREST; mode <= UHAL_RESIZE_CUBIC; ++mode) {
      for (const int centers : {0, 1, 2}) {  // none, half-pixel, aligned corners
        auto attributes = make_attributes<uhal_resize_attributes>();
        attributes.mode = mode;
        attributes.half_pixel_centers = centers == 1 ? 1 : 0;
        attributes.align_corners = centers == 2 ? 1 : 0;
        for (const uhal_dtype dtype : kFloating) {
          for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
            const Tensor x(c.x, dtype, layout), y(c.y, dtype, layout), dy(c.y, dtype, layout), dx(c.x, dtype, layout);
            run(UHAL_OP_RESIZE, {&x}, {&y}, &attributes);
            run(UHAL_OP_RESIZE_BACKWARD, {&dy}, {&dx}, &attributes);
            const Values x_values = x.values(), dy_values = dy.values();
            Values expected_y(count(c.y)), expected_dx(x_values.size());
            size_t to = 0;
            const Shape spatial(c.x.begin() + 2, c.x.end());
            Shape at(c.x.size());
            for_each(c.y, [&](const Shape& place) {
              at[0] = place[0];
              at[1] = place[1];
              for_each(spatial, [&](const Shape& pixel) {
                double share = 1;
                for (size_t i = 0; i < pixel.size() && share != 0; ++i) {
                  const double source = source_of(attributes, c.x[i + 2], c.y[i + 2], place[i + 2]);
                  share *= weight(attributes, c.x[i + 2], source, pixel[i]);
                  at[i + 2] = pixel[i];
                }
                if (share == 0) return;
                expected_y[to] += share * x_values[position(c.x, at)];
                expected_dx[position(c.x, at)] += share * dy_values[to];
              });
              ++to;
            });
            SCOPED_TRACE(testing::Message() << "case " << &c - kCases << ", mode " << mode << ", centers " << centers
                                            << ", " << uhal_dtype_name(dtype));
            expect_near(expected_y, y, 2);
            expect_near(expected_dx, dx, 2);
          }
        }
      }
    }
  }
}

TEST(Resize, AGivenScaleReplacesTheSizes) {
  const Tensor x({1, 1, 4}, {0, 1, 2, 3}, UHAL_FLOAT32), y({1, 1, 3}, UHAL_FLOAT32);
  auto attributes = make_attributes<uhal_resize_attributes>();
  attributes.mode = UHAL_RESIZE_LINEAR;
  attributes.scale[0] = 0.5;
  run(UHAL_OP_RESIZE, {&x}, {&y}, &attributes);
  EXPECT_EQ((Values{0, 0.5, 1}), y.values());
}

TEST(Resize, RefusesIntegers) {
  const Tensor x({1, 1, 2}, UHAL_INT32), y({1, 1, 4}, UHAL_INT32);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_RESIZE, {&x}, {&y}));
}

}  // namespace
}  // namespace nn_test
