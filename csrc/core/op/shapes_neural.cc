// Rules of matrix products, softmax and losses, normalization and attention.
#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {

// -- matrix product -----------------------------------------------------------------------------------

uhal_status check_matmul(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  const uhal_tensor& b = *op.input(1);
  const uhal_tensor& d = *op.output(0);
  const auto& attributes = op.attributes_as<uhal_matmul_attributes>();
  UHAL_EXPECT(expect_attribute(op, "activation", attributes.activation, UHAL_ACTIVATION_NONE, UHAL_ACTIVATION_RELU6));
  UHAL_EXPECT(expect_math_mode(op, attributes.math_mode));
  for (const uhal_tensor* operand : {&a, &b, &d}) {
    UHAL_EXPECT(expect_rank(op, operand, 2, UHAL_MAX_RANK, "(..., rows, columns)"));
  }
  int64_t m = a.shape[a.rank - 2];
  int64_t k = a.shape[a.rank - 1];
  int64_t n = b.shape[b.rank - 1];
  // The leading axes are d's; a and b have them, or 1, or leave them out.
  Shape product(d);
  product.dims[d.rank - 2] = m;
  product.dims[d.rank - 1] = n;
  Shape left = product;
  left.dims[d.rank - 1] = k;
  Shape right = product;
  right.dims[d.rank - 2] = k;
  UHAL_EXPECT(expect_shape(op, &d, product, "(..., m, n) of a (..., m, k) and b (..., k, n)"));
  if (b.shape[b.rank - 2] != k) {
    Shape expected(b);
    expected.dims[b.rank - 2] = k;
    return expect_shape(op, &b, expected, "(..., k, n) for a (..., m, k)");
  }
  UHAL_EXPECT(expect_broadcast(op, &a, left));
  UHAL_EXPECT(expect_broadcast(op, &b, right));
  return expect_broadcast(op, op.input(2), product);
}

// -- softmax and losses -------------------------------------------------------------------------------

uhal_status check_softmax(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_softmax_attributes>();
  int axis;
  UHAL_EXPECT(resolve_axis(op, attributes.axis, op.input(0)->rank, true, &axis));
  UHAL_EXPECT(expect_attribute(op, "logarithm", attributes.logarithm, 0, 1));
  return expect_same_shape(op, op.output(0), op.input(0));
}

uhal_status check_softmax_backward(const OpView& op) {
  UHAL_EXPECT(check_softmax(op));
  return expect_same_shape(op, op.input(1), op.input(0));
}

namespace {

// Sparse labels have length 1 along the classes' axis, soft ones the scores' shape.
uhal_status expect_labels(const OpView& op, const uhal_tensor& labels, const uhal_tensor& scores, int axis) {
  if (is_floating(labels.dtype)) return expect_same_shape(op, &labels, &scores);
  UHAL_EXPECT(
      expect_dtype(op, &labels, is_index(labels.dtype), "int32 or int64 (class numbers) or floating (soft labels)"));
  Shape expected(scores);
  expected.dims[axis] = 1;
  return expect_shape(op, &labels, expected, "the scores' shape with length 1 along the classes' axis");
}

Shape with_axis_one(const uhal_tensor& tensor, int axis) {
  Shape shape(tensor);
  shape.dims[axis] = 1;
  return shape;
}

}  // namespace

uhal_status check_cross_entropy(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_cross_entropy_attributes>();
  const uhal_tensor& logits = *op.input(0);
  int axis;
  UHAL_EXPECT(resolve_axis(op, attributes.axis, logits.rank, true, &axis));
  UHAL_EXPECT(expect_attribute(op, "has_ignore", attributes.has_ignore, 0, 1));
  UHAL_EXPECT(expect_labels(op, *op.input(1), logits, axis));
  UHAL_EXPECT(expect_shape(op, op.input(2), {logits.shape[axis]}, "one weight per class"));
  UHAL_EXPECT(
      expect_shape(op, op.output(0), with_axis_one(logits, axis), "logits' shape with length 1 for the classes"));
  UHAL_EXPECT(expect_same_shape(op, op.output(1), &logits));
  return expect_same_shape(op, op.output(2), &logits);
}

uhal_status check_cross_entropy_backward(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_cross_entropy_attributes>();
  const uhal_tensor& probabilities = *op.input(0);
  int axis;
  UHAL_EXPECT(resolve_axis(op, attributes.axis, probabilities.rank, true, &axis));
  UHAL_EXPECT(expect_attribute(op, "has_ignore", attributes.has_ignore, 0, 1));
  UHAL_EXPECT(expect_labels(op, *op.input(1), probabilities, axis));
  UHAL_EXPECT(expect_shape(op, op.input(2), with_axis_one(probabilities, axis),
                           "probabilities' shape with length 1 for the classes"));
  return expect_same_shape(op, op.output(0), &probabilities);
}

// -- normalization ------------------------------------------------------------------------------------

namespace {

// Statistics, scale and bias are float32, or float64 for float64 x.
uhal_status expect_statistic(const OpView& op, const uhal_tensor* operand, const Shape& shape, const char* meaning) {
  if (operand == nullptr) return UHAL_OK;
  uhal_dtype wanted = op.input(0)->dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32;
  UHAL_EXPECT(expect_dtype(op, operand, operand->dtype == wanted,
                           wanted == UHAL_FLOAT64 ? "float64, as x is" : "float32 (for every x but float64)"));
  return expect_shape(op, operand, shape, meaning);
}

uhal_status expect_statistics(const OpView& op, std::initializer_list<const uhal_tensor*> operands, const Shape& shape,
                              const char* meaning) {
  for (const uhal_tensor* operand : operands) UHAL_EXPECT(expect_statistic(op, operand, shape, meaning));
  return UHAL_OK;
}

uhal_status expect_norm_attributes(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_norm_attributes>();
  UHAL_EXPECT(expect_attribute(op, "activation", attributes.activation, UHAL_ACTIVATION_NONE, UHAL_ACTIVATION_RELU6));
  if (attributes.epsilon >= 0) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attribute epsilon is %g, expected 0 or more.", op.row->name,
                   attributes.epsilon);
}

const char* const kPerChannel = "one number per channel of x (N, C, ...)";

uhal_status expect_channels(const OpView& op) {
  UHAL_EXPECT(expect_norm_attributes(op));
  UHAL_EXPECT(expect_rank(op, op.input(0), 2, UHAL_MAX_RANK, "(N, C, ...)"));
  return expect_same_shape(op, op.output(0), op.input(0));
}

// The shapes of layer norm: `own` of the normalized axes, `rest` of x with those of length 1.
uhal_status layer_shapes(const OpView& op, Shape* own, Shape* rest) {
  const uhal_tensor& x = *op.input(0);
  int axis;
  UHAL_EXPECT(expect_norm_attributes(op));
  UHAL_EXPECT(resolve_axis(op, op.attributes_as<uhal_norm_attributes>().axis, x.rank, true, &axis));
  UHAL_EXPECT(expect_same_shape(op, op.output(0), &x));
  for (int i = axis; i < x.rank; ++i) own->push(x.shape[i]);
  for (int i = 0; i < x.rank; ++i) rest->push(i < axis ? x.shape[i] : 1);
  return UHAL_OK;
}

const char* const kNormalizedAxes = "the shape of the normalized axes of x";
const char* const kRestOfAxes = "x's shape with the normalized axes of length 1";

uhal_status group_shape(const OpView& op, Shape* statistics) {
  UHAL_EXPECT(expect_channels(op));
  const uhal_tensor& x = *op.input(0);
  int64_t groups = op.attributes_as<uhal_norm_attributes>().groups;
  UHAL_EXPECT(expect_attribute(op, "groups", groups, 1, INT64_MAX));
  if (x.shape[1] % groups != 0) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %lld groups do not divide the %lld channels of x.", op.row->name,
                     static_cast<long long>(groups), static_cast<long long>(x.shape[1]));
  }
  *statistics = {x.shape[0], groups};
  return UHAL_OK;
}

const char* const kPerGroup = "(N, groups)";

}  // namespace

uhal_status check_batch_norm(const OpView& op) {
  UHAL_EXPECT(expect_channels(op));
  const auto& attributes = op.attributes_as<uhal_norm_attributes>();
  UHAL_EXPECT(expect_attribute(op, "inference", attributes.inference, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "unbiased_running", attributes.unbiased_running, 0, 1));
  Shape channels = {op.input(0)->shape[1]};
  if (attributes.inference != 0) {
    UHAL_EXPECT(expect_present(op, op.input(3), "running_mean", "for inference"));
    UHAL_EXPECT(expect_present(op, op.input(4), "running_variance", "for inference"));
  } else {
    UHAL_EXPECT(expect_present(op, op.output(1), "mean", "for training"));
    UHAL_EXPECT(expect_present(op, op.output(2), "variance", "for training"));
  }
  UHAL_EXPECT(expect_statistics(op, {op.input(1), op.input(2), op.input(3), op.input(4)}, channels, kPerChannel));
  return expect_statistics(op, {op.output(1), op.output(2), op.output(3), op.output(4)}, channels, kPerChannel);
}

uhal_status check_batch_norm_backward(const OpView& op) {
  UHAL_EXPECT(expect_channels(op));
  Shape channels = {op.input(0)->shape[1]};
  UHAL_EXPECT(expect_same_shape(op, op.input(1), op.input(0)));
  UHAL_EXPECT(expect_statistics(op, {op.input(2), op.input(3), op.input(4)}, channels, kPerChannel));
  return expect_statistics(op, {op.output(1), op.output(2)}, channels, kPerChannel);
}

uhal_status check_layer_norm(const OpView& op) {
  Shape own, rest;
  UHAL_EXPECT(layer_shapes(op, &own, &rest));
  UHAL_EXPECT(expect_statistics(op, {op.input(1), op.input(2)}, own, kNormalizedAxes));
  return expect_statistics(op, {op.output(1), op.output(2)}, rest, kRestOfAxes);
}

uhal_status check_layer_norm_backward(const OpView& op) {
  Shape own, rest;
  UHAL_EXPECT(layer_shapes(op, &own, &rest));
  UHAL_EXPECT(expect_same_shape(op, op.input(1), op.input(0)));
  UHAL_EXPECT(expect_statistics(op, {op.input(2), op.output(1), op.output(2)}, own, kNormalizedAxes));
  return expect_statistics(op, {op.input(3), op.input(4)}, rest, kRestOfAxes);
}

uhal_status check_group_norm(const OpView& op) {
  Shape statistics;
  UHAL_EXPECT(group_shape(op, &statistics));
  UHAL_EXPECT(expect_statistics(op, {op.input(1), op.input(2)}, {op.input(0)->shape[1]}, kPerChannel));
  return expect_statistics(op, {op.output(1), op.output(2)}, statistics, kPerGroup);
}

uhal_status check_group_norm_backward(const OpView& op) {
  Shape statistics;
  UHAL_EXPECT(group_shape(op, &statistics));
  UHAL_EXPECT(expect_same_shape(op, op.input(1), op.input(0)));
  UHAL_EXPECT(expect_statistics(op, {op.input(2), op.output(1), op.output(2)}, {op.input(0)->shape[1]}, kPerChannel));
  return expect_statistics(op, {op.input(3), op.input(4)}, statistics, kPerGroup);
}

uhal_status check_rms_norm(const OpView& op) {
  Shape own, rest;
  UHAL_EXPECT(layer_shapes(op, &own, &rest));
  UHAL_EXPECT(expect_statistic(op, op.input(1), own, kNormalizedAxes));
  return expect_statistic(op, op.output(1), rest, kRestOfAxes);
}

uhal_status check_rms_norm_backward(const OpView& op) {
  Shape own, rest;
  UHAL_EXPECT(layer_shapes(op, &own, &rest));
  UHAL_EXPECT(expect_same_shape(op, op.input(1), op.input(0)));
  UHAL_EXPECT(expect_statistics(op, {op.input(2), op.output(1)}, own, kNormalizedAxes));
  return expect_statistic(op, op.input(3), rest, kRestOfAxes);
}

// -- attention ----------------------------------------------------------------------------------------

namespace {

struct AttentionShapes {
  Shape q, k, v, scores, y, logsumexp;
};

uhal_status attention_shapes(const OpView& op, AttentionShapes* shapes) {
  const uhal_tensor& q = *op.input(0);
  const uhal_tensor& k = *op.input(1);
  const uhal_tensor& v = *op.input(2);
  const auto& attributes = op.attributes_as<uhal_attention_attributes>();
  UHAL_EXPECT(expect_attribute(op, "causal", attributes.causal, 0, 1));
  UHAL_EXPECT(expect_math_mode(op, attributes.math_mode));
  UHAL_EXPECT(expect_rank(op, &q, 4, 4, "(B, H, M, D)"));
  UHAL_EXPECT(expect_rank(op, &k, 4, 4, "(B, H, N, D)"));
  UHAL_EXPECT(expect_rank(op, &v, 4, 4, "(B, H, N, E)"));
  int64_t batch = q.shape[0], heads = q.shape[1], rows = q.shape[2], columns = k.shape[2];
  shapes->q = Shape(q);
  shapes->k = {batch, heads, columns, q.shape[3]};
  shapes->v = {batch, heads, columns, v.shape[3]};
  shapes->scores = {batch, heads, rows, columns};
  shapes->y = {batch, heads, rows, v.shape[3]};
  shapes->logsumexp = {batch, heads, rows};
  UHAL_EXPECT(expect_shape(op, &k, shapes->k, "(B, H, N, D) with B, H, D of q"));
  UHAL_EXPECT(expect_shape(op, &v, shapes->v, "(B, H, N, E) with B, H of q and N of k"));
  return expect_broadcast(op, op.input(3), shapes->scores);
}

}  // namespace

uhal_status check_attention(const OpView& op) {
  AttentionShapes shapes;
  UHAL_EXPECT(attention_shapes(op, &shapes));
  UHAL_EXPECT(expect_shape(op, op.output(0), shapes.y, "(B, H, M, E)"));
  return expect_shape(op, op.output(1), shapes.logsumexp, "(B, H, M)");
}

uhal_status check_attention_backward(const OpView& op) {
  AttentionShapes shapes;
  UHAL_EXPECT(attention_shapes(op, &shapes));
  UHAL_EXPECT(expect_shape(op, op.input(4), shapes.y, "(B, H, M, E)"));
  UHAL_EXPECT(expect_shape(op, op.input(5), shapes.logsumexp, "(B, H, M)"));
  UHAL_EXPECT(expect_shape(op, op.input(6), shapes.y, "(B, H, M, E)"));
  UHAL_EXPECT(expect_shape(op, op.output(0), shapes.q, "the shape of q"));
  UHAL_EXPECT(expect_shape(op, op.output(1), shapes.k, "the shape of k"));
  return expect_shape(op, op.output(2), shapes.v, "the shape of v");
}

}  // namespace unihal::core
