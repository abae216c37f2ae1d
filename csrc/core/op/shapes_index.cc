// Rules of gathers and scatters.
#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

uhal_status expect_indices(const OpView& op, const uhal_tensor& indices) {
  return expect_dtype(op, &indices, is_index(indices.dtype), "int32 or int64");
}

uhal_status expect_switches(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_index_attributes>();
  UHAL_EXPECT(expect_attribute(op, "negative_wraps", attributes.negative_wraps, 0, 1));
  return expect_attribute(op, "ignore_out_of_range", attributes.ignore_out_of_range, 0, 1);
}

uhal_status expect_scatter_reduction(const OpView& op) {
  return expect_attribute(op, "reduction", op.attributes_as<uhal_index_attributes>().reduction, UHAL_REDUCE_NONE,
                          UHAL_REDUCE_MINIMUM);
}

// `picked` has the table's shape with the axis replaced by the indices' own axes.
uhal_status check_along_axis(const OpView& op, const uhal_tensor& table, const uhal_tensor& indices,
                             const uhal_tensor& picked) {
  const auto& attributes = op.attributes_as<uhal_index_attributes>();
  UHAL_EXPECT(expect_switches(op));
  UHAL_EXPECT(expect_indices(op, indices));
  UHAL_EXPECT(expect_same_dtype(op, &picked, &table));
  int axis;
  UHAL_EXPECT(resolve_axis(op, attributes.axis, table.rank, false, &axis));
  int batch = attributes.batch_dimensions;
  UHAL_EXPECT(expect_attribute(op, "batch_dimensions", batch, 0, axis < indices.rank ? axis : indices.rank));
  for (int i = 0; i < batch; ++i) {
    if (indices.shape[i] == table.shape[i]) continue;
    Shape expected(indices);
    expected.dims[i] = table.shape[i];
    return expect_shape(op, &indices, expected, "its batch dimensions run together with those of the indexed operand");
  }
  Shape expected;
  for (int i = 0; i < axis; ++i) expected.push(table.shape[i]);
  for (int i = batch; i < indices.rank; ++i) expected.push(indices.shape[i]);
  for (int i = axis + 1; i < table.rank; ++i) expected.push(table.shape[i]);
  return expect_shape(op, &picked, expected, "the indexed operand's shape with the axis replaced by the indices' axes");
}

// The indices' last axis addresses the table's first axes.
uhal_status check_nd(const OpView& op, const uhal_tensor& table, const uhal_tensor& indices,
                     const uhal_tensor& picked) {
  UHAL_EXPECT(expect_switches(op));
  UHAL_EXPECT(expect_indices(op, indices));
  UHAL_EXPECT(expect_same_dtype(op, &picked, &table));
  UHAL_EXPECT(
      expect_rank(op, &indices, 1, UHAL_MAX_RANK, "its last axis addresses the first axes of the indexed operand"));
  int64_t depth = indices.shape[indices.rank - 1];
  if (depth > table.rank) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: the last axis of indices has length %lld, but the indexed operand has only %d axes.",
                     op.row->name, static_cast<long long>(depth), table.rank);
  }
  Shape expected;
  for (int i = 0; i + 1 < indices.rank; ++i) expected.push(indices.shape[i]);
  for (int i = static_cast<int>(depth); i < table.rank; ++i) expected.push(table.shape[i]);
  return expect_shape(op, &picked, expected, "the indices' axes but the last, then the axes that are not addressed");
}

uhal_status check_elements(const OpView& op, const uhal_tensor& table, const uhal_tensor& indices,
                           const uhal_tensor& picked) {
  UHAL_EXPECT(expect_switches(op));
  UHAL_EXPECT(expect_indices(op, indices));
  UHAL_EXPECT(expect_same_dtype(op, &picked, &table));
  UHAL_EXPECT(expect_same_shape(op, &picked, &indices));
  UHAL_EXPECT(expect_rank(op, &indices, table.rank, table.rank, "the rank of the indexed operand"));
  int axis;
  UHAL_EXPECT(resolve_axis(op, op.attributes_as<uhal_index_attributes>().axis, table.rank, false, &axis));
  for (int i = 0; i < table.rank; ++i) {
    if (i == axis || indices.shape[i] <= table.shape[i]) continue;
    Shape expected(indices);
    expected.dims[i] = table.shape[i];
    return expect_shape(op, &indices, expected, "at most the indexed operand's length along every other axis");
  }
  return UHAL_OK;
}

}  // namespace

uhal_status check_gather(const OpView& op) { return check_along_axis(op, *op.input(0), *op.input(1), *op.output(0)); }

uhal_status check_scatter(const OpView& op) {
  UHAL_EXPECT(expect_scatter_reduction(op));
  return check_along_axis(op, *op.output(0), *op.input(0), *op.input(1));
}

uhal_status check_gather_nd(const OpView& op) { return check_nd(op, *op.input(0), *op.input(1), *op.output(0)); }

uhal_status check_scatter_nd(const OpView& op) {
  UHAL_EXPECT(expect_scatter_reduction(op));
  return check_nd(op, *op.output(0), *op.input(0), *op.input(1));
}

uhal_status check_gather_elements(const OpView& op) {
  return check_elements(op, *op.input(0), *op.input(1), *op.output(0));
}

uhal_status check_scatter_elements(const OpView& op) {
  UHAL_EXPECT(expect_scatter_reduction(op));
  return check_elements(op, *op.output(0), *op.input(0), *op.input(1));
}

uhal_status check_one_hot(const OpView& op) {
  const uhal_tensor& indices = *op.input(0);
  const uhal_tensor& y = *op.output(0);
  UHAL_EXPECT(expect_indices(op, indices));
  UHAL_EXPECT(expect_rank(op, &y, indices.rank + 1, indices.rank + 1, "one axis more than indices"));
  int axis;
  UHAL_EXPECT(resolve_axis(op, op.attributes_as<uhal_index_attributes>().axis, y.rank, false, &axis));
  Shape expected;
  for (int i = 0; i < y.rank; ++i) {
    expected.push(i == axis ? y.shape[i] : indices.shape[i < axis ? i : i - 1]);
  }
  return expect_shape(op, &y, expected, "the shape of indices with the classes' axis added");
}

}  // namespace unihal::core
