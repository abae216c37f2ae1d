// Rules of elementwise ops, data movement, reductions and random numbers.
#include <cmath>

#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"
#include "csrc/tables/elementwise.h"

namespace unihal::core {

uhal_status check_fill(const OpView&) { return UHAL_OK; }

// -- map --------------------------------------------------------------------------------------------

namespace {

__attribute__((cold)) uhal_status refuse_complex(const OpView& op, const uhal_tensor& operand,
                                                 const uhal_map_function_info& function) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "map: %s has dtype %s, but function %s is not defined on complex numbers; expected a real dtype.",
                   operand_name(op, &operand), uhal_dtype_name(operand.dtype), function.name);
}

uhal_status expect_complex_form(const OpView& op, const uhal_tensor* operand, const uhal_map_function_info& function) {
  if (!is_complex(operand->dtype) || function.complex_expression != nullptr) return UHAL_OK;
  return refuse_complex(op, *operand, function);
}

__attribute__((cold)) uhal_status refuse_map_operands(const OpView& op, const uhal_map_function_info& function) {
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "map: function %s takes %d inputs and %d outputs, but got %d and %d.",
                   function.name, function.input_count, function.output_count, op.op->input_count, op.op->output_count);
}

}  // namespace

__attribute__((hot)) uhal_status check_map(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_map_attributes>();
  UHAL_EXPECT(expect_attribute(op, "function", attributes.function, 0, uhal_map_function_limit - 1));
  const uhal_map_function_info& function = map_function_of(op);
  if (op.op->input_count != function.input_count || op.op->output_count != function.output_count) {
    return refuse_map_operands(op, function);
  }
  const uhal_tensor* const* const outputs = op.op->outputs;
  const uhal_tensor* const* const inputs = op.op->inputs;
  const int output_count = function.output_count;
  const int input_count = function.input_count;
  const uhal_tensor* first = outputs[0];
  for (int i = 0; i < output_count; ++i) {
    const uhal_tensor* y = outputs[i];
    if (y == nullptr) return refuse_map_operands(op, function);
    UHAL_EXPECT(expect_complex_form(op, y, function));
    if (i > 0) UHAL_EXPECT(expect_same_shape(op, y, first));
  }
  for (int i = 0; i < input_count; ++i) {
    const uhal_tensor* x = inputs[i];
    if (x == nullptr) return refuse_map_operands(op, function);
    UHAL_EXPECT(expect_complex_form(op, x, function));
    UHAL_EXPECT(expect_broadcast(op, x, *first));
  }
  return UHAL_OK;
}

namespace {

// Whether the step's function is one, takes values that are there, and is defined on complex numbers where it must be.
uhal_status expect_step(const OpView& op, int step, int values, const uhal_tensor* complex) {
  const auto& attributes = op.attributes_as<uhal_map_chain_attributes>();
  const uhal_map_function number = attributes.functions[step];
  if (number < 0 || number >= uhal_map_function_limit) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "map_chain: step %d has function %d; expected 0 to %d.", step, number,
                     uhal_map_function_limit - 1);
  }
  const uhal_map_function_info& function = map_function_row(number);
  for (int i = 0; i < function.input_count; ++i) {
    const int32_t value = attributes.operands[step][i];
    if (value >= 0 && value < values) continue;
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "map_chain: operand %d of step %d (%s) is value %d, but before it there are values 0 to %d: the "
                     "inputs, then the results of earlier steps.",
                     i, step, function.name, value, values - 1);
  }
  if (complex != nullptr && function.complex_expression == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "map_chain: %s has dtype %s, but function %s of step %d is not defined on complex numbers; "
                     "expected real dtypes.",
                     operand_name(op, complex), uhal_dtype_name(complex->dtype), function.name, step);
  }
  return UHAL_OK;
}

}  // namespace

__attribute__((hot)) uhal_status check_map_chain(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_map_chain_attributes>();
  UHAL_EXPECT(expect_attribute(op, "step_count", attributes.step_count, 1, UHAL_MAP_CHAIN_MAX_STEPS));
  const uhal_tensor* first = op.output(0);
  const uhal_tensor* complex = nullptr;
  for (int i = 0; i < op.op->output_count; ++i) {
    const uhal_tensor* y = op.output(i);
    if (y == nullptr)
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "map_chain: output %d of %d is absent.", i, op.op->output_count);
    if (is_complex(y->dtype)) complex = y;
    UHAL_EXPECT(expect_same_shape(op, y, first));
  }
  for (int i = 0; i < op.op->input_count; ++i) {
    const uhal_tensor* x = op.input(i);
    if (x == nullptr)
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "map_chain: input %d of %d is absent.", i, op.op->input_count);
    if (is_complex(x->dtype)) complex = x;
    UHAL_EXPECT(expect_broadcast(op, x, *first));
  }
  int values = op.op->input_count;
  for (int step = 0; step < attributes.step_count; ++step) {
    UHAL_EXPECT(expect_step(op, step, values, complex));
    values += map_function_row(attributes.functions[step]).output_count;
  }
  for (int i = 0; i < op.op->output_count; ++i) {
    if (attributes.results[i] >= 0 && attributes.results[i] < values) continue;
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "map_chain: output %d is value %d, but the program has values 0 to %d.", i,
                     attributes.results[i], values - 1);
  }
  return UHAL_OK;
}

// -- data movement ----------------------------------------------------------------------------------

uhal_status check_copy(const OpView& op) {
  UHAL_EXPECT(expect_same_dtype(op, op.output(0), op.input(0)));
  return expect_broadcast(op, op.input(0), *op.output(0));
}

uhal_status check_cast(const OpView& op) { return expect_broadcast(op, op.input(0), *op.output(0)); }

uhal_status check_iota(const OpView& op) {
  const uhal_tensor* y = op.output(0);
  return expect_dtype(op, y, !is_complex(y->dtype) && y->dtype != UHAL_BOOL, "a real dtype other than bool");
}

uhal_status check_triangular(const OpView& op) {
  UHAL_EXPECT(expect_rank(op, op.input(0), 2, UHAL_MAX_RANK, "(..., rows, columns)"));
  UHAL_EXPECT(expect_attribute(op, "upper", op.attributes_as<uhal_triangular_attributes>().upper, 0, 1));
  UHAL_EXPECT(expect_same_dtype(op, op.output(0), op.input(0)));
  return expect_same_shape(op, op.output(0), op.input(0));
}

// -- reductions -------------------------------------------------------------------------------------

uhal_status check_reduce(const OpView& op) {
  const uhal_tensor& x = *op.input(0);
  const uhal_tensor& y = *op.output(0);
  UHAL_EXPECT(expect_attribute(op, "reduction", op.attributes_as<uhal_reduce_attributes>().reduction, UHAL_REDUCE_SUM,
                               UHAL_REDUCE_LOG_SUM_EXP));
  UHAL_EXPECT(expect_rank(op, &y, x.rank, x.rank, "the rank of x, with length 1 along each reduced axis"));
  for (int i = 0; i < x.rank; ++i) {
    if (y.shape[i] == x.shape[i] || y.shape[i] == 1) continue;
    Shape expected(x);
    expected.dims[i] = 1;
    return expect_shape(op, &y, expected, "x's length along an axis that is kept, 1 along one that is reduced");
  }
  return UHAL_OK;
}

uhal_status check_arg_reduce(const OpView& op) {
  const uhal_tensor& x = *op.input(0);
  const uhal_tensor& y = *op.output(0);
  int axis;
  UHAL_EXPECT(resolve_axis(op, op.attributes_as<uhal_axis_attributes>().axis, x.rank, false, &axis));
  UHAL_EXPECT(expect_dtype(op, &y, is_index(y.dtype), "int32 or int64"));
  Shape expected(x);
  expected.dims[axis] = 1;
  UHAL_EXPECT(expect_shape(op, &y, expected, "x's shape with length 1 along the axis"));
  if (x.shape[axis] > 0 || element_count(y) == 0) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: x has shape %s, with no element along axis %d to choose from.",
                   op.row->name, shape_text(x.rank, x.shape).c_str(), axis);
}

uhal_status check_scan(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_scan_attributes>();
  int axis;
  UHAL_EXPECT(resolve_axis(op, attributes.axis, op.input(0)->rank, false, &axis));
  UHAL_EXPECT(expect_same_shape(op, op.output(0), op.input(0)));
  UHAL_EXPECT(expect_attribute(op, "exclusive", attributes.exclusive, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "reverse", attributes.reverse, 0, 1));
  if (const uhal_tensor* indices = op.output(1)) {
    UHAL_EXPECT(expect_dtype(op, indices, is_index(indices->dtype), "int32 or int64"));
    UHAL_EXPECT(expect_same_shape(op, indices, op.input(0)));
    UHAL_EXPECT(expect_attribute(op, "exclusive", attributes.exclusive, 0, 0));
    return expect_attribute(op, "reduction", attributes.reduction, UHAL_REDUCE_MAXIMUM, UHAL_REDUCE_MINIMUM);
  }
  if (attributes.reduction == UHAL_REDUCE_LOG_SUM_EXP) {
    UHAL_EXPECT(expect_dtype(op, op.input(0), is_floating(op.input(0)->dtype), "a floating dtype for log_sum_exp"));
    return expect_dtype(op, op.output(0), is_floating(op.output(0)->dtype), "a floating dtype for log_sum_exp");
  }
  if (attributes.reduction != UHAL_REDUCE_MEAN) {
    return expect_attribute(op, "reduction", attributes.reduction, UHAL_REDUCE_SUM, UHAL_REDUCE_MINIMUM);
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "scan: the attribute reduction is %d (mean), expected sum, product, maximum or "
                   "minimum.",
                   attributes.reduction);
}

uhal_status check_sort(const OpView& op) {
  int axis;
  UHAL_EXPECT(resolve_axis(op, op.attributes_as<uhal_axis_attributes>().axis, op.input(0)->rank, false, &axis));
  const uhal_tensor* indices = op.output(1);
  UHAL_EXPECT(expect_dtype(op, indices, indices != nullptr && is_index(indices->dtype), "int32 or int64"));
  UHAL_EXPECT(expect_same_dtype(op, op.output(0), op.input(0)));
  UHAL_EXPECT(expect_same_shape(op, op.output(0), op.input(0)));
  return expect_same_shape(op, indices, op.input(0));
}

uhal_status check_top_k(const OpView& op) {
  const uhal_tensor& x = *op.input(0);
  const uhal_tensor& values = *op.output(0);
  const uhal_tensor& indices = *op.output(1);
  int axis;
  UHAL_EXPECT(resolve_axis(op, op.attributes_as<uhal_axis_attributes>().axis, x.rank, false, &axis));
  UHAL_EXPECT(expect_dtype(op, &indices, is_index(indices.dtype), "int32 or int64"));
  UHAL_EXPECT(expect_same_dtype(op, &values, &x));
  Shape expected(x);
  if (values.rank == x.rank && values.shape[axis] <= x.shape[axis]) expected.dims[axis] = values.shape[axis];
  UHAL_EXPECT(expect_shape(op, &values, expected, "x's shape, with at most its length along the axis"));
  return expect_same_shape(op, &indices, &values);
}

// -- random -----------------------------------------------------------------------------------------

namespace {

// What is added to a counter as an op runs.
uhal_status check_turn(const OpView& op, const uhal_tensor* turn) {
  if (turn == nullptr) return UHAL_OK;
  UHAL_EXPECT(expect_dtype(op, turn, turn->dtype == UHAL_INT64, "int64"));
  return expect_shape(op, turn, Shape{1}, "one element");
}

}  // namespace

uhal_status check_random(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_random_attributes>();
  const uhal_tensor& y = *op.output(0);
  UHAL_EXPECT(check_turn(op, op.input(0)));
  UHAL_EXPECT(expect_attribute(op, "distribution", attributes.distribution, UHAL_RANDOM_UNIFORM, UHAL_RANDOM_BITS));
  UHAL_EXPECT(expect_dtype(op, &y, !is_complex(y.dtype), "a real dtype"));
  bool floating = is_floating(y.dtype);
  switch (attributes.distribution) {
    case UHAL_RANDOM_NORMAL:
    case UHAL_RANDOM_TRUNCATED_NORMAL:
      return expect_dtype(op, &y, floating, "a floating dtype for a normal distribution");
    case UHAL_RANDOM_BITS:
      return expect_dtype(op, &y, !floating && y.dtype != UHAL_BOOL, "an integer dtype for raw bits");
    case UHAL_RANDOM_UNIFORM:
      if (floating || (attributes.a < attributes.b && attributes.a >= -0x1p63 && attributes.b < 0x1p64)) return UHAL_OK;
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "random: the integers in [%g, %g) are none, or need more than 64 bits; b must be above a, a at "
                       "least -2^63, and b below 2^64.",
                       attributes.a, attributes.b);
    default:
      if (attributes.a >= 0 && attributes.a <= 1) return UHAL_OK;
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "random: the probability a is %g, expected 0 to 1.", attributes.a);
  }
}

uhal_status check_random_distribution(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_random_distribution_attributes>();
  const uhal_tensor& y = *op.output(0);
  UHAL_EXPECT(expect_attribute(op, "distribution", attributes.distribution, UHAL_RANDOM_GAMMA, UHAL_RANDOM_BINOMIAL));
  const bool is_binomial = attributes.distribution == UHAL_RANDOM_BINOMIAL;
  if (is_binomial) UHAL_EXPECT(expect_present(op, op.input(1), "q", "for the binomial distribution"));
  if (!is_binomial && op.input(1) != nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "random_distribution: q is given, but only the binomial distribution has two parameters.");
  }
  for (const uhal_tensor* parameter : {op.input(0), op.input(1)}) {
    if (parameter == nullptr) continue;
    UHAL_EXPECT(expect_dtype(op, parameter, is_floating(parameter->dtype), "a floating dtype"));
    UHAL_EXPECT(expect_broadcast(op, parameter, Shape(y)));
  }
  if (attributes.distribution == UHAL_RANDOM_GAMMA) {
    return expect_dtype(op, &y, is_floating(y.dtype), "a floating dtype for a gamma distribution");
  }
  return expect_dtype(op, &y, !is_complex(y.dtype) && y.dtype != UHAL_BOOL, "a real dtype other than bool");
}

uhal_status check_dropout(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_random_attributes>();
  const uhal_tensor& mask = *op.output(1);
  UHAL_EXPECT(expect_same_shape(op, op.output(0), op.input(0)));
  UHAL_EXPECT(expect_same_shape(op, &mask, op.input(0)));
  UHAL_EXPECT(check_turn(op, op.input(1)));
  UHAL_EXPECT(expect_dtype(op, &mask, mask.dtype == UHAL_UINT8 || mask.dtype == UHAL_BOOL, "uint8 or bool"));
  if (attributes.a >= 0 && attributes.a <= 1) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "dropout: the rate a is %g, expected 0 to 1.", attributes.a);
}

}  // namespace unihal::core
