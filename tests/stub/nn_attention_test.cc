#include <cmath>
#include <limits>

#include "tests/stub/nn_test.h"

namespace nn_test {
namespace {

struct Case {
  int64_t batch, heads, rows, columns, depth, width;
  Shape mask;  // empty: none
  bool causal;
};

const Case kCases[] = {
    {1, 1, 3, 3, 4, 4, {}, false},     {2, 3, 5, 7, 4, 6, {}, false}, {2, 3, 5, 7, 4, 6, {2, 1, 1, 7}, false},
    {1, 2, 6, 6, 3, 3, {6, 6}, true},  {2, 2, 4, 7, 8, 5, {}, true},   // rows see columns from before their own
    {1, 2, 6, 4, 8, 5, {}, true},                                      // the first rows see nothing
    {1, 2, 130, 90, 16, 8, {}, false}, {2, 3, 5, 7, 4, 0, {}, false},  // values without elements
};

struct Result {
  Values y, logsumexp;
};

Result attention(const Case& c, const Values& q, const Values& k, const Values& v, const Values& mask) {
  Result result;
  Shape mask_shape = c.mask;
  if (!mask_shape.empty()) mask_shape.insert(mask_shape.begin(), 4 - mask_shape.size(), 1);
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t head = b * c.heads + h;
      for (int64_t i = 0; i < c.rows; ++i) {
        Values scores;
        double sum = 0;
        for (int64_t j = 0; j < c.columns; ++j) {
          double score = 0;
          for (int64_t d = 0; d < c.depth; ++d) {
            score += q[(head * c.rows + i) * c.depth + d] * k[(head * c.columns + j) * c.depth + d];
          }
          score /= std::sqrt(static_cast<double>(c.depth));
          if (!mask_shape.empty()) {
            const Shape at = {mask_shape[0] > 1 ? b : 0, mask_shape[1] > 1 ? h : 0, mask_shape[2] > 1 ? i : 0, j};
            score += mask[position(mask_shape, at)];
          }
          if (c.causal && j > i + c.columns - c.rows) score = -std::numeric_limits<double>::infinity();
          scores.push_back(score);
          sum += std::exp(score);
        }
        result.logsumexp.push_back(std::log(sum));
        for (int64_t e = 0; e < c.width; ++e) {
          double value = 0;
          for (int64_t j = 0; j < c.columns; ++j) {
            if (sum > 0) value += std::exp(scores[j]) / sum * v[(head * c.columns + j) * c.width + e];
          }
          result.y.push_back(value);
        }
      }
    }
  }
  return result;
}

TEST(Attention, EqualsTheReferenceAndItsGradients) {
  for (const Case& c : kCases) {
    const Shape q_shape = {c.batch, c.heads, c.rows, c.depth}, k_shape = {c.batch, c.heads, c.columns, c.depth};
    const Shape v_shape = {c.batch, c.heads, c.columns, c.width}, y_shape = {c.batch, c.heads, c.rows, c.width};
    const Shape rows = {c.batch, c.heads, c.rows};
    auto attributes = make_attributes<uhal_attention_attributes>();
    attributes.causal = c.causal ? 1 : 0;
    // The same numbers in all dtypes.
    const Tensor q(q_shape, UHAL_BFLOAT16), k(k_shape, UHAL_BFLOAT16), v(v_shape, UHAL_BFLOAT16);
    const Tensor dy(y_shape, UHAL_BFLOAT16), mask(c.mask, UHAL_BFLOAT16);
    Values q_values = q.values(), k_values = k.values(), v_values = v.values();
    const Values mask_values = mask.values(), dy_values = dy.values();
    const Result expected = attention(c, q_values, k_values, v_values, mask_values);
    Values expected_dq, expected_dk, expected_dv;
    for (const uhal_dtype dtype : {UHAL_FLOAT64, UHAL_FLOAT32, UHAL_FLOAT16, UHAL_BFLOAT16}) {
      for (const Layout layout : {Layout::kRowMajor, Layout::kReversed}) {
        SCOPED_TRACE(testing::Message() << "case " << &c - kCases << " " << uhal_dtype_name(dtype));
        const Tensor own_q(q_shape, q_values, dtype, layout), own_k(k_shape, k_values, dtype, layout);
        const Tensor own_v(v_shape, v_values, dtype, layout), own_dy(y_shape, dy_values, dtype, layout);
        const Tensor own_mask(c.mask, mask_values, dtype, layout);
        const Tensor y(y_shape, dtype, layout), logsumexp(rows, dtype == UHAL_FLOAT64 ? dtype : UHAL_FLOAT32);
        const Tensor* mask_or_none = c.mask.empty() ? nullptr : &own_mask;
        run(UHAL_OP_ATTENTION, {&own_q, &own_k, &own_v, mask_or_none}, {&y, &logsumexp}, &attributes);
        expect_near(expected.y, y, 4);
        expect_near(expected.logsumexp, logsumexp, 4);

        const Tensor dq(q_shape, dtype, layout), dk(k_shape, dtype, layout), dv(v_shape, dtype, layout);
        run(UHAL_OP_ATTENTION_BACKWARD, {&own_q, &own_k, &own_v, mask_or_none, &y, &logsumexp, &own_dy},
            {&dq, &dk, &dv}, &attributes);
        if (expected_dq.empty()) {
          const auto loss = [&] { return dot(dy_values, attention(c, q_values, k_values, v_values, mask_values).y); };
          expect_gradient(dq.values(), q_values, loss);
          expect_gradient(dk.values(), k_values, loss);
          expect_gradient(dv.values(), v_values, loss);
          expected_dq = dq.values();
          expected_dk = dk.values();
          expected_dv = dv.values();
        }
        expect_near(expected_dq, dq, 4);
        expect_near(expected_dk, dk, 8);
        expect_near(expected_dv, dv, 8);
      }
    }
  }
}

// More scores than are held at once: the gradients of keys and values are summed over blocks of rows.
TEST(Attention, LongSequencesGoThroughInBlocks) {
  const Case c = {1, 1, 4500, 4500, 2, 2, {}, true};
  const Shape shape = {1, 1, c.rows, 2};
  const Tensor q(shape, UHAL_FLOAT32), k(shape, UHAL_FLOAT32), v(shape, Values(2 * c.rows, 1.0), UHAL_FLOAT32);
  const Tensor y(shape, UHAL_FLOAT32), logsumexp({1, 1, c.rows}, UHAL_FLOAT32), dy(shape, UHAL_FLOAT32);
  const Tensor dq(shape, UHAL_FLOAT32), dk(shape, UHAL_FLOAT32), dv(shape, UHAL_FLOAT32);
  auto attributes = make_attributes<uhal_attention_attributes>();
  attributes.causal = 1;
  run(UHAL_OP_ATTENTION, {&q, &k, &v}, {&y, &logsumexp}, &attributes);
  expect_near(Values(2 * c.rows, 1.0), y);
  run(UHAL_OP_ATTENTION_BACKWARD, {&q, &k, &v, nullptr, &y, &logsumexp, &dy}, {&dq, &dk, &dv}, &attributes);
  // All values are 1: the result does not depend on the scores, and dv sums up to the sum of dy.
  expect_near(Values(2 * c.rows, 0.0), dq);
  expect_near(Values(2 * c.rows, 0.0), dk);
  double given = 0, got = 0;
  for (const double value : dy.values()) given += value;
  for (const double value : dv.values()) got += value;
  EXPECT_NEAR(given, got, 1e-2);
}

TEST(Attention, RefusesBooleanMasks) {
  const Tensor q({1, 1, 2, 3}, UHAL_FLOAT32), y({1, 1, 2, 3}, UHAL_FLOAT32), mask({2, 2}, UHAL_BOOL);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_ATTENTION, {&q, &q, &q, &mask}, {&y}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "-infinity where it does not", uhal_last_error()->message);
}

}  // namespace
}  // namespace nn_test
