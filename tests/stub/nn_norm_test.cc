#include <cmath>

#include "tests/stub/nn_test.h"

namespace nn_test {
namespace {

// Normalization over groups of elements: element i of x belongs to group[i] and is scaled by parameter[i].
struct Reference {
  std::vector<int64_t> group, parameter;
  int64_t groups = 0, parameters = 0;
  double epsilon = 1e-5;
  bool centered = true;

  struct Moments {
    Values mean, variance;
  };

  Moments moments(const Values& x) const {
    Values n(groups), mean(groups), variance(groups);
    for (size_t i = 0; i < x.size(); ++i) {
      n[group[i]] += 1;
      mean[group[i]] += centered ? x[i] : 0;
    }
    for (int64_t g = 0; g < groups; ++g) mean[g] /= n[g];
    for (size_t i = 0; i < x.size(); ++i) variance[group[i]] += std::pow(x[i] - mean[group[i]], 2) / n[group[i]];
    return {mean, variance};
  }

  Values normalized(const Values& x, const Moments& m, const Values& scale, const Values& bias) const {
    Values y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - m.mean[group[i]]) / std::sqrt(m.variance[group[i]] + epsilon) * scale[parameter[i]] +
             bias[parameter[i]];
    }
    return y;
  }

  Values operator()(const Values& x, const Values& scale, const Values& bias) const {
    return normalized(x, moments(x), scale, bias);
  }
};

Reference batch_reference(const Shape& shape) {
  Reference reference;
  reference.groups = reference.parameters = shape[1];
  for_each(shape, [&](const Shape& at) {
    reference.group.push_back(at[1]);
    reference.parameter.push_back(at[1]);
  });
  return reference;
}

Reference group_reference(const Shape& shape, int64_t groups) {
  Reference reference;
  reference.groups = shape[0] * groups;
  reference.parameters = shape[1];
  for_each(shape, [&](const Shape& at) {
    reference.group.push_back(at[0] * groups + at[1] / (shape[1] / groups));
    reference.parameter.push_back(at[1]);
  });
  return reference;
}

Reference layer_reference(const Shape& shape, int axis, bool centered) {
  Reference reference;
  reference.centered = centered;
  const Shape outer(shape.begin(), shape.begin() + axis), inner(shape.begin() + axis, shape.end());
  reference.groups = count(outer);
  reference.parameters = count(inner);
  for (int64_t i = 0; i < count(shape); ++i) {
    reference.group.push_back(i / count(inner));
    reference.parameter.push_back(i % count(inner));
  }
  return reference;
}

const Shape kImages[] = {{3, 5}, {2, 4, 7}, {2, 6, 5, 3}, {1, 2, 3, 4, 5}, {4, 64, 9, 9}, {2, 1, 6, 6}};

// Statistics are float32 beside all but float64.
uhal_dtype statistics_of(uhal_dtype dtype) { return dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32; }

TEST(BatchNorm, TrainingEqualsTheReference) {
  for (const Shape& shape : kImages) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast, Layout::kGaps}) {
      for (const uhal_dtype dtype : kFloating) {
        const uhal_dtype own = statistics_of(dtype);
        const Shape channels = {shape[1]};
        const Tensor x(shape, dtype, layout), scale(channels, own), bias(channels, own);
        const Tensor y(shape, dtype, layout), mean(channels, own), variance(channels, own);
        const Tensor running_mean(channels, own), running_variance(channels, own);
        const Values old_mean = running_mean.values(), old_variance = running_variance.values();
        for (const int unbiased : {0, 1}) {
          auto attributes = make_attributes<uhal_norm_attributes>();
          attributes.epsilon = 1e-5;
          attributes.momentum = 0.8;
          attributes.unbiased_running = unbiased;
          attributes.activation = UHAL_ACTIVATION_RELU;
          const Tensor new_mean(channels, own), new_variance(channels, own);
          run(UHAL_OP_BATCH_NORM, {&x, &scale, &bias, &running_mean, &running_variance},
              {&y, &mean, &variance, &new_mean, &new_variance}, &attributes);
          const Reference reference = batch_reference(shape);
          const Reference::Moments moments = reference.moments(x.values());
          Values expected = reference(x.values(), scale.values(), bias.values());
          for (double& value : expected) value = std::max(0.0, value);
          SCOPED_TRACE(testing::Message() << "rank " << shape.size() << " " << uhal_dtype_name(dtype));
          expect_near(expected, y, 4);
          expect_near(moments.mean, mean);
          expect_near(moments.variance, variance);
          const double points = static_cast<double>(count(shape) / shape[1]);
          Values expected_mean, expected_variance;
          for (int64_t c = 0; c < shape[1]; ++c) {
            expected_mean.push_back(0.8 * old_mean[c] + 0.2 * moments.mean[c]);
            const double factor = unbiased != 0 ? points / (points - 1) : 1;
            expected_variance.push_back(0.8 * old_variance[c] + 0.2 * moments.variance[c] * factor);
          }
          expect_near(expected_mean, new_mean);
          expect_near(expected_variance, new_variance);
        }
      }
    }
  }
}

TEST(BatchNorm, RunningStatisticsMayBeUpdatedInPlace) {
  const Tensor x({2, 1, 2}, {1, 2, 3, 6}, UHAL_FLOAT32), y({2, 1, 2}, UHAL_FLOAT32), mean({1}, UHAL_FLOAT32);
  const Tensor variance({1}, UHAL_FLOAT32), running_mean({1}, {10}, UHAL_FLOAT32);
  const Tensor running_variance({1}, {20}, UHAL_FLOAT32);
  run(UHAL_OP_BATCH_NORM, {&x, nullptr, nullptr, &running_mean, &running_variance},
      {&y, &mean, &variance, &running_mean, &running_variance});
  expect_near({3}, mean);
  expect_near({3.5}, variance);
  expect_near({0.9 * 10 + 0.1 * 3}, running_mean);
  expect_near({0.9 * 20 + 0.1 * 3.5}, running_variance);
}

TEST(BatchNorm, KeepsItsDigitsWhereTheMeanIsLarge) {
  Values values;
  for (int i = 0; i < 1000; ++i) values.push_back(4096 + (i % 2 == 0 ? 1 : -1));
  const Tensor x({1000, 1}, values, UHAL_FLOAT32), y({1000, 1}, UHAL_FLOAT32), mean({1}, UHAL_FLOAT32);
  const Tensor variance({1}, UHAL_FLOAT32);
  run(UHAL_OP_BATCH_NORM, {&x}, {&y, &mean, &variance});
  expect_near({1}, variance);
  expect_near({4096}, mean);
}

TEST(BatchNorm, InferenceUsesTheRunningStatistics) {
  for (const Shape& shape : kImages) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      const Shape channels = {shape[1]};
      const Tensor x(shape, UHAL_FLOAT32, layout), y(shape, UHAL_FLOAT32, layout), scale(channels, UHAL_FLOAT32);
      const Tensor bias(channels, UHAL_FLOAT32), mean(channels, UHAL_FLOAT32);
      const Tensor variance(channels, Values(shape[1], 2.5), UHAL_FLOAT32);
      auto attributes = make_attributes<uhal_norm_attributes>();
      attributes.epsilon = 1e-5;
      attributes.inference = 1;
      run(UHAL_OP_BATCH_NORM, {&x, &scale, &bias, &mean, &variance}, {&y}, &attributes);
      expect_near(batch_reference(shape).normalized(x.values(), {mean.values(), variance.values()}, scale.values(),
                                                    bias.values()),
                  y);
    }
  }
}

// Checks [x, dy, scale, statistics...] -> [dx, dscale, dbias] of a kind in float64 against differences of a reference,
// and in the other dtypes against float64.
void expect_norm_gradients(uhal_op_kind kind, const Shape& shape, const Reference& reference,
                           const Shape& parameter_shape, const Shape& statistic_shape,
                           const uhal_norm_attributes& attributes, Layout layout) {
  const Tensor x(shape, UHAL_BFLOAT16), dy(shape, UHAL_BFLOAT16), scale(parameter_shape, UHAL_BFLOAT16);
  Values x_values = x.values(), scale_values = scale.values(), bias_values(scale_values.size(), 0.5);
  const Values dy_values = dy.values();
  const Reference::Moments moments = reference.moments(x_values);
  Values expected[3];
  for (const uhal_dtype dtype : {UHAL_FLOAT64, UHAL_FLOAT32, UHAL_FLOAT16, UHAL_BFLOAT16}) {
    SCOPED_TRACE(testing::Message() << "rank " << shape.size() << " " << uhal_dtype_name(dtype));
    const uhal_dtype own = statistics_of(dtype);
    const Tensor own_x(shape, x_values, dtype, layout), own_dy(shape, dy_values, dtype, layout);
    const Tensor own_scale(parameter_shape, scale_values, own);
    const Tensor mean(statistic_shape, moments.mean, own), variance(statistic_shape, moments.variance, own);
    Values inverse;
    for (const double v : moments.variance) inverse.push_back(1 / std::sqrt(v + reference.epsilon));
    const Tensor inverse_rms(statistic_shape, inverse, own);
    const Tensor dx(shape, dtype, layout), dscale(parameter_shape, own), dbias(parameter_shape, own);
    if (reference.centered) {
      run(kind, {&own_x, &own_dy, &own_scale, &mean, &variance}, {&dx, &dscale, &dbias}, &attributes);
    } else {
      run(kind, {&own_x, &own_dy, &own_scale, &inverse_rms}, {&dx, &dscale}, &attributes);
    }
    if (dtype == UHAL_FLOAT64) {
      const auto loss = [&] { return dot(dy_values, reference(x_values, scale_values, bias_values)); };
      expect_gradient(dx.values(), x_values, loss);
      expect_gradient(dscale.values(), scale_values, loss);
      if (reference.centered) expect_gradient(dbias.values(), bias_values, loss);
      expected[0] = dx.values();
      expected[1] = dscale.values();
      expected[2] = dbias.values();
    } else {
      expect_near(expected[0], dx, 8);
      expect_near(expected[1], dscale, 8);
      if (reference.centered) expect_near(expected[2], dbias, 8);
    }
  }
}

TEST(BatchNorm, Gradients) {
  for (const Shape& shape : kImages) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast, Layout::kGaps}) {
      auto attributes = make_attributes<uhal_norm_attributes>();
      attributes.epsilon = 1e-5;
      expect_norm_gradients(UHAL_OP_BATCH_NORM_BACKWARD, shape, batch_reference(shape), {shape[1]}, {shape[1]},
                            attributes, layout);
    }
  }
}

TEST(BatchNorm, InferenceGradientTreatsStatisticsAsConstants) {
  const Shape shape = {2, 2, 2};
  const Tensor x(shape, {1, 2, 3, 4, 5, 6, 7, 8}, UHAL_FLOAT32), dy(shape, {1, 1, 1, 1, 1, 1, 1, 2}, UHAL_FLOAT32);
  const Tensor scale({2}, {2, 3}, UHAL_FLOAT32), mean({2}, {1, 2}, UHAL_FLOAT32), variance({2}, {4, 9}, UHAL_FLOAT32);
  const Tensor dx(shape, UHAL_FLOAT32), dscale({2}, UHAL_FLOAT32), dbias({2}, UHAL_FLOAT32);
  auto attributes = make_attributes<uhal_norm_attributes>();
  attributes.inference = 1;
  run(UHAL_OP_BATCH_NORM_BACKWARD, {&x, &dy, &scale, &mean, &variance}, {&dx, &dscale, &dbias}, &attributes);
  expect_near({1, 1, 1, 1, 1, 1, 1, 2}, dx);
  expect_near({(0 + 1 + 4 + 5) / 2.0, (1 + 2 + 5 + 2 * 6) / 3.0}, dscale);
  expect_near({4, 5}, dbias);
}

TEST(GroupNorm, EqualsTheReferenceAndItsGradients) {
  for (const Shape& shape : kImages) {
    for (const int64_t groups : {int64_t{1}, shape[1], shape[1] % 2 == 0 ? shape[1] / 2 : 1}) {
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
        auto attributes = make_attributes<uhal_norm_attributes>();
        attributes.epsilon = 1e-5;
        attributes.groups = groups;
        const Reference reference = group_reference(shape, groups);
        const Shape statistics = {shape[0], groups};
        // One element per group leaves nothing to normalize: the gradient would be rounding alone.
        if (count(shape) > shape[0] * groups) {
          expect_norm_gradients(UHAL_OP_GROUP_NORM_BACKWARD, shape, reference, {shape[1]}, statistics, attributes,
                                layout);
        }
        for (const uhal_dtype dtype : kFloating) {
          const uhal_dtype own = statistics_of(dtype);
          const Tensor x(shape, dtype, layout), scale({shape[1]}, own), bias({shape[1]}, own);
          const Tensor y(shape, dtype, layout), mean(statistics, own), variance(statistics, own);
          run(UHAL_OP_GROUP_NORM, {&x, &scale, &bias}, {&y, &mean, &variance}, &attributes);
          expect_near(reference(x.values(), scale.values(), bias.values()), y, 4);
          expect_near(reference.moments(x.values()).mean, mean);
          expect_near(reference.moments(x.values()).variance, variance);
        }
      }
    }
  }
}

TEST(LayerNorm, EqualsTheReferenceAndItsGradients) {
  for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{2, 3, 4}, Shape{40, 130}, Shape{2, 3, 1, 5}}) {
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      for (const Layout layout : {Layout::kRowMajor, Layout::kReversed, Layout::kGaps}) {
        auto attributes = make_attributes<uhal_norm_attributes>();
        attributes.epsilon = 1e-5;
        attributes.axis = axis == static_cast<int>(shape.size()) - 1 ? -1 : axis;
        const Reference reference = layer_reference(shape, axis, true);
        const Shape own_shape(shape.begin() + axis, shape.end());
        Shape rest = shape;
        for (size_t i = static_cast<size_t>(axis); i < rest.size(); ++i) rest[i] = 1;
        expect_norm_gradients(UHAL_OP_LAYER_NORM_BACKWARD, shape, reference, own_shape, rest, attributes, layout);
        for (const uhal_dtype dtype : kFloating) {
          const uhal_dtype own = statistics_of(dtype);
          const Tensor x(shape, dtype, layout), scale(own_shape, own), bias(own_shape, own);
          const Tensor y(shape, dtype, layout), mean(rest, own), variance(rest, own);
          run(UHAL_OP_LAYER_NORM, {&x, &scale, &bias}, {&y, &mean, &variance}, &attributes);
          expect_near(reference(x.values(), scale.values(), bias.values()), y, 4);
          expect_near(reference.moments(x.values()).mean, mean);
          expect_near(reference.moments(x.values()).variance, variance);
        }
      }
    }
  }
}

TEST(RmsNorm, EqualsTheReferenceAndItsGradients) {
  const Shape shape = {6, 33}, rest = {6, 1};
  const Reference reference = layer_reference(shape, 1, false);
  auto attributes = make_attributes<uhal_norm_attributes>();
  attributes.epsilon = 1e-5;
  attributes.axis = -1;
  expect_norm_gradients(UHAL_OP_RMS_NORM_BACKWARD, shape, reference, {33}, rest, attributes, Layout::kRowMajor);
  for (const uhal_dtype dtype : kFloating) {
    const uhal_dtype own = statistics_of(dtype);
    const Tensor x(shape, dtype), scale({33}, own), y(shape, dtype), inverse_rms(rest, own);
    run(UHAL_OP_RMS_NORM, {&x, &scale}, {&y, &inverse_rms}, &attributes);
    expect_near(reference(x.values(), scale.values(), Values(33)), y, 4);
    Values inverse;
    for (const double v : reference.moments(x.values()).variance) inverse.push_back(1 / std::sqrt(v + 1e-5));
    expect_near(inverse, inverse_rms);
  }
}

TEST(Norm, EmptyBatchesLeaveTheRunningStatisticsAlone) {
  const Tensor x({0, 3, 4}, UHAL_FLOAT32), y({0, 3, 4}, UHAL_FLOAT32), mean({3}, UHAL_FLOAT32);
  const Tensor variance({3}, UHAL_FLOAT32), running_mean({3}, {1, 2, 3}, UHAL_FLOAT32);
  const Tensor running_variance({3}, {4, 5, 6}, UHAL_FLOAT32);
  run(UHAL_OP_BATCH_NORM, {&x, nullptr, nullptr, &running_mean, &running_variance},
      {&y, &mean, &variance, &running_mean, &running_variance});
  EXPECT_EQ((Values{1, 2, 3}), running_mean.values());
  EXPECT_EQ((Values{4, 5, 6}), running_variance.values());
  const Tensor rows({0, 4}, UHAL_FLOAT32), out({0, 4}, UHAL_FLOAT32), dscale({4}, UHAL_FLOAT32);
  const Tensor statistic({0, 1}, UHAL_FLOAT32);
  run(UHAL_OP_LAYER_NORM, {&rows}, {&out});
  run(UHAL_OP_LAYER_NORM_BACKWARD, {&rows, &rows, nullptr, &statistic, &statistic}, {&out, &dscale});
  EXPECT_EQ(Values(4, 0.0), dscale.values());
}

TEST(Norm, RefusesFusedActivationsInGradients) {
  const Tensor x({2, 3}, UHAL_FLOAT32), dx({2, 3}, UHAL_FLOAT32), statistic({3}, UHAL_FLOAT32);
  auto attributes = make_attributes<uhal_norm_attributes>();
  attributes.activation = UHAL_ACTIVATION_RELU;
  EXPECT_EQ(UHAL_UNIMPLEMENTED,
            launch(UHAL_OP_BATCH_NORM_BACKWARD, {&x, &x, nullptr, &statistic, &statistic}, {&dx}, &attributes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "apply it to dy first", uhal_last_error()->message);
}

}  // namespace
}  // namespace nn_test
