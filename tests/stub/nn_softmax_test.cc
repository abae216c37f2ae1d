#include <cmath>
#include <limits>

#include "tests/stub/nn_test.h"

namespace nn_test {
namespace {

// Calls body(positions of the elements of one row) for each row along an axis.
void for_each_row(const Shape& shape, size_t axis, const std::function<void(const std::vector<size_t>&)>& body) {
  Shape rest = shape;
  rest[axis] = 1;
  for_each(rest, [&](const Shape& at) {
    std::vector<size_t> row;
    Shape own = at;
    for (own[axis] = 0; own[axis] < shape[axis]; ++own[axis]) row.push_back(position(shape, own));
    body(row);
  });
}

Values softmax(const Shape& shape, size_t axis, const Values& x, bool logarithm) {
  Values y(x.size());
  for_each_row(shape, axis, [&](const std::vector<size_t>& row) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const size_t i : row) largest = std::max(largest, x[i]);
    for (const size_t i : row) sum += std::exp(x[i] - largest);
    for (const size_t i : row) {
      y[i] = logarithm ? x[i] - largest - std::log(sum) : std::exp(x[i] - largest) / sum;
    }
  });
  return y;
}

const Shape kShapes[] = {{5}, {3, 7}, {2, 3, 4}, {4, 1500}, {2, 70, 3, 3}};

TEST(Softmax, EqualsTheReferenceAndItsGradient) {
  for (const Shape& shape : kShapes) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      for (const Layout layout : {Layout::kRowMajor, Layout::kReversed, Layout::kGaps}) {
        for (const int logarithm : {0, 1}) {
          auto attributes = make_attributes<uhal_softmax_attributes>();
          attributes.axis = axis + 1 == shape.size() ? -1 : static_cast<int>(axis);
          attributes.logarithm = logarithm;
          for (const uhal_dtype dtype : kFloating) {
            const Tensor x(shape, dtype, layout), y(shape, dtype, layout);
            run(UHAL_OP_SOFTMAX, {&x}, {&y}, &attributes);
            expect_near(softmax(shape, axis, x.values(), logarithm != 0), y, 2);
          }
          const Tensor x(shape), y(shape, UHAL_FLOAT64, layout), dy(shape), dx(shape, UHAL_FLOAT64, layout);
          run(UHAL_OP_SOFTMAX, {&x}, {&y}, &attributes);
          run(UHAL_OP_SOFTMAX_BACKWARD, {&y, &dy}, {&dx}, &attributes);
          Values x_values = x.values();
          const Values dy_values = dy.values();
          expect_gradient(dx.values(), x_values,
                          [&] { return dot(dy_values, softmax(shape, axis, x_values, logarithm != 0)); });
          const Tensor narrow_y(shape, y.values(), UHAL_FLOAT32), narrow_dy(shape, dy_values, UHAL_FLOAT32);
          const Tensor narrow_dx(shape, UHAL_FLOAT32);
          run(UHAL_OP_SOFTMAX_BACKWARD, {&narrow_y, &narrow_dy}, {&narrow_dx}, &attributes);
          expect_near(dx.values(), narrow_dx, 4);
        }
      }
    }
  }
}

TEST(Softmax, InPlaceLargeValuesAndNaN) {
  const Tensor x({2, 3}, {1000, 1001, 1002, -1000, -1000, -1000}, UHAL_FLOAT32);
  const Values expected = softmax({2, 3}, 1, x.values(), false);
  run(UHAL_OP_SOFTMAX, {&x}, {&x});
  expect_near(expected, x);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor masked({1, 3}, {-infinity, 2, -infinity}, UHAL_FLOAT32), y({1, 3}, UHAL_FLOAT32);
  run(UHAL_OP_SOFTMAX, {&masked}, {&y});
  EXPECT_EQ((Values{0, 1, 0}), y.values());
  const Tensor poisoned({1, 3}, {1, std::nan(""), 2}, UHAL_FLOAT32);
  run(UHAL_OP_SOFTMAX, {&poisoned}, {&y});
  for (const double value : y.values()) EXPECT_TRUE(std::isnan(value));
}

TEST(Softmax, RefusesIntegers) {
  const Tensor x({3}, UHAL_INT32), y({3}, UHAL_INT32);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_SOFTMAX, {&x}, {&y}));
}

struct CrossEntropyResult {
  Values loss, probabilities, gradient;
};

// `labels` are class numbers (length 1 along the axis) or distributions.
CrossEntropyResult cross_entropy(const Shape& shape, size_t axis, const Values& logits, const Values& labels,
                                 bool sparse, const Values& weights, double ignored) {
  CrossEntropyResult result;
  result.probabilities = softmax(shape, axis, logits, false);
  result.gradient = result.probabilities;
  const Values logarithms = softmax(shape, axis, logits, true);
  size_t number = 0;
  for_each_row(shape, axis, [&](const std::vector<size_t>& row) {
    double loss = 0;
    for (size_t c = 0; c < row.size(); ++c) {
      const double label = sparse ? (labels[number] == static_cast<double>(c) ? 1.0 : 0.0) : labels[row[c]];
      loss -= label * (weights.empty() ? 1 : weights[c]) * logarithms[row[c]];
      result.gradient[row[c]] -= label;
    }
    if (sparse && labels[number] == ignored) {
      loss = 0;
      for (const size_t i : row) result.gradient[i] = 0;
    }
    result.loss.push_back(loss);
    ++number;
  });
  return result;
}

TEST(CrossEntropy, SparseLabels) {
  for (const Shape& shape : kShapes) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      for (const uhal_dtype dtype : kFloating) {
        for (const uhal_dtype label_dtype : {UHAL_INT32, UHAL_INT64}) {
          Shape rest = shape;
          rest[axis] = 1;
          Values label_values(count(rest));
          for (size_t i = 0; i < label_values.size(); ++i) {
            label_values[i] = i % 3 == 2 ? -100 : static_cast<double>(i * 5 % shape[axis]);
          }
          const Tensor logits(shape, dtype, Layout::kReversed), labels(rest, label_values, label_dtype);
          const Tensor weights({shape[axis]}, UHAL_FLOAT32);
          const Tensor loss(rest, dtype), probabilities(shape, dtype), gradient(shape, dtype, Layout::kGaps);
          auto attributes = make_attributes<uhal_cross_entropy_attributes>();
          attributes.axis = static_cast<int>(axis);
          attributes.has_ignore = 1;
          attributes.ignore_index = -100;
          run(UHAL_OP_CROSS_ENTROPY, {&logits, &labels}, {&loss, &probabilities, &gradient}, &attributes);
          CrossEntropyResult expected = cross_entropy(shape, axis, logits.values(), label_values, true, {}, -100);
          expect_near(expected.loss, loss, 2);
          expect_near(expected.probabilities, probabilities, 2);
          expect_near(expected.gradient, gradient, 2);

          run(UHAL_OP_CROSS_ENTROPY, {&logits, &labels, &weights}, {&loss}, &attributes);
          expected = cross_entropy(shape, axis, logits.values(), label_values, true, weights.values(), -100);
          expect_near(expected.loss, loss, 2);

          const Tensor dloss(rest, dtype), dlogits(shape, dtype);
          run(UHAL_OP_CROSS_ENTROPY_BACKWARD, {&probabilities, &labels, &dloss}, {&dlogits}, &attributes);
          const Values dloss_values = dloss.values();
          size_t number = 0;
          for_each_row(shape, axis, [&](const std::vector<size_t>& row) {
            for (const size_t i : row) expected.gradient[i] *= dloss_values[number];
            ++number;
          });
          expect_near(expected.gradient, dlogits, 2);
        }
      }
    }
  }
}

TEST(CrossEntropy, SoftLabels) {
  for (const Shape& shape : kShapes) {
    const size_t axis = shape.size() - 1;
    Shape rest = shape;
    rest[axis] = 1;
    for (const uhal_dtype dtype : kFloating) {
      const Tensor logits(shape, dtype), labels(shape, dtype), weights({shape[axis]}, UHAL_FLOAT32);
      const Tensor loss(rest, dtype), gradient(shape, dtype);
      run(UHAL_OP_CROSS_ENTROPY, {&logits, &labels, &weights}, {&loss, nullptr, &gradient});
      const CrossEntropyResult expected =
          cross_entropy(shape, axis, logits.values(), labels.values(), false, weights.values(), 0);
      expect_near(expected.loss, loss, dtype == UHAL_FLOAT32 ? std::sqrt(shape[axis]) : 2);
      expect_near(expected.gradient, gradient, 2);
    }
  }
}

TEST(CrossEntropy, AWrongLabelIsAnErrorOfTheStream) {
  const Tensor logits({2, 3}, UHAL_FLOAT32), labels({2, 1}, {1, 3}, UHAL_INT64), loss({2, 1}, UHAL_FLOAT32);
  EXPECT_EQ(UHAL_OUT_OF_RANGE, launch(UHAL_OP_CROSS_ENTROPY, {&logits, &labels}, {&loss}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "label 3 is out of range for 3 classes", uhal_last_error()->message);
  EXPECT_EQ(0, loss.values()[1]);
  EXPECT_GT(loss.values()[0], 0);
}

}  // namespace
}  // namespace nn_test
