// Rules of ops whose results' size depends on data, and of searches.
#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

// What an index operand counts must fit its dtype.
uhal_status expect_room(const OpView& op, const uhal_tensor* indices, int64_t elements) {
  if (indices == nullptr || indices->dtype != UHAL_INT32 || elements <= INT32_MAX) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "%s: %s is int32, and int32 does not hold the numbers of %lld elements; expected int64.",
                   op.row->name, operand_name(op, indices), static_cast<long long>(elements));
}

uhal_status expect_index_dtype(const OpView& op, const uhal_tensor* operand) {
  return expect_dtype(op, operand, operand == nullptr || is_index(operand->dtype), "int32 or int64");
}

// Of a number of all elements of `counted`.
uhal_status expect_count(const OpView& op, const uhal_tensor& count, const uhal_tensor& counted) {
  UHAL_EXPECT(expect_index_dtype(op, &count));
  if (count.rank > 0) UHAL_EXPECT(expect_shape(op, &count, Shape{1}, "one element"));
  return expect_room(op, &count, element_count(counted));
}

}  // namespace

uhal_status check_nonzero(const OpView& op) {
  const uhal_tensor& mask = *op.input(0);
  const uhal_tensor* indices = op.output(1);
  UHAL_EXPECT(expect_count(op, *op.output(0), mask));
  if (indices == nullptr) return UHAL_OK;
  UHAL_EXPECT(expect_index_dtype(op, indices));
  UHAL_EXPECT(expect_room(op, indices, element_count(mask)));
  UHAL_EXPECT(expect_rank(op, indices, 1, 2, "(k) for numbers of elements, (k, rank of mask) for coordinates"));
  if (indices->rank == 1) return UHAL_OK;
  return expect_shape(op, indices, Shape{indices->shape[0], mask.rank}, "(k, rank of mask)");
}

uhal_status check_compact(const OpView& op) {
  const uhal_tensor& x = *op.input(0);
  const uhal_tensor* count = op.output(1);
  UHAL_EXPECT(expect_shape(op, op.input(1), Shape(x), "the shape of x"));
  UHAL_EXPECT(expect_rank(op, op.output(0), 1, 1, "(k)"));
  UHAL_EXPECT(expect_same_dtype(op, op.output(0), &x));
  return count == nullptr ? UHAL_OK : expect_count(op, *count, x);
}

uhal_status check_search_sorted(const OpView& op) {
  const uhal_tensor& sorted = *op.input(0);
  const uhal_tensor& values = *op.input(1);
  const uhal_tensor& y = *op.output(0);
  UHAL_EXPECT(expect_attribute(op, "right", op.attributes_as<uhal_search_attributes>().right, 0, 1));
  UHAL_EXPECT(expect_rank(op, &sorted, 1, UHAL_MAX_RANK, "(..., n)"));
  UHAL_EXPECT(expect_same_dtype(op, &values, &sorted));
  UHAL_EXPECT(expect_index_dtype(op, &y));
  UHAL_EXPECT(expect_room(op, &y, sorted.shape[sorted.rank - 1]));
  if (sorted.rank > 1) {
    UHAL_EXPECT(
        expect_rank(op, &values, sorted.rank, sorted.rank, "the rank of sorted, whose rows are searched side by side"));
    Shape expected(sorted);
    expected.dims[sorted.rank - 1] = values.shape[sorted.rank - 1];
    UHAL_EXPECT(expect_shape(op, &values, expected, "the leading axes of sorted"));
  }
  return expect_same_shape(op, &y, &values);
}

uhal_status check_segment_reduce(const OpView& op) {
  const uhal_tensor& x = *op.input(0);
  const uhal_tensor& ids = *op.input(1);
  const uhal_tensor* indices = op.input(2);
  const uhal_tensor* weights = op.input(3);
  const uhal_tensor& y = *op.output(0);
  const uhal_tensor* counts = op.output(1);
  const auto& attributes = op.attributes_as<uhal_segment_attributes>();
  UHAL_EXPECT(expect_attribute(op, "reduction", attributes.reduction, UHAL_REDUCE_SUM, UHAL_REDUCE_MINIMUM));
  UHAL_EXPECT(expect_attribute(op, "form", attributes.form, UHAL_SEGMENT_UNSORTED, UHAL_SEGMENT_OFFSETS));
  UHAL_EXPECT(expect_attribute(op, "ignore_negative", attributes.ignore_negative, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "ignore_out_of_range", attributes.ignore_out_of_range, 0, 1));
  UHAL_EXPECT(expect_rank(op, &x, 1, UHAL_MAX_RANK, "(n, ...)"));
  UHAL_EXPECT(expect_rank(op, &y, 1, UHAL_MAX_RANK, "(segments, ...)"));
  UHAL_EXPECT(expect_same_dtype(op, &y, &x));
  UHAL_EXPECT(expect_index_dtype(op, &ids));
  UHAL_EXPECT(expect_index_dtype(op, indices));
  UHAL_EXPECT(expect_index_dtype(op, counts));
  Shape expected(x);
  expected.dims[0] = y.shape[0];
  UHAL_EXPECT(expect_shape(op, &y, expected, "the segments, then the axes of x but the first"));
  UHAL_EXPECT(expect_rank(op, indices, 1, 1, "(m)"));
  const int64_t elements = indices != nullptr ? indices->shape[0] : x.shape[0];
  const bool offsets = attributes.form == UHAL_SEGMENT_OFFSETS;
  UHAL_EXPECT(expect_shape(op, &ids, Shape{offsets ? y.shape[0] + 1 : elements},
                           offsets ? "an offset more than segments" : "an id for each element"));
  UHAL_EXPECT(expect_same_dtype(op, weights, &x));
  UHAL_EXPECT(expect_shape(op, weights, Shape{elements}, "a weight for each element"));
  UHAL_EXPECT(expect_room(op, counts, elements));
  return expect_shape(op, counts, Shape{y.shape[0]}, "a count for each segment");
}

}  // namespace unihal::core
