#include "ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "views.h"

const char* reason(const char* format, ...) {
  static _Thread_local char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

/* The refusal that most ops share: every operand present must have the output's dtype, one of those that it names. */
static const char* refuse_mixture(const uhal_op* op, int integers) {
  const char* name = uhal_op_kind_name(op->kind);
  const uhal_dtype dtype = op->outputs[0]->dtype;
  if (!is_floating(dtype) && !(integers && dtype == UHAL_INT32)) {
    return reason("%s is implemented for float32%s, not for %s", name,
                  integers ? ", float64 and int32" : " and float64", uhal_dtype_name(dtype));
  }
  for (int i = 0; i < op->input_count; ++i) {
    if (op->inputs[i] != NULL && op->inputs[i]->dtype != dtype) {
      return reason("%s takes operands of one dtype; cast them first", name);
    }
  }
  return NULL;
}

/* -- copy, cast, fill -- */

static const char* refuse_nothing(const uhal_op* op) {
  (void)op;
  return NULL;
}

static void run_copy(const uhal_op* op) {
  const uhal_tensor* x = op->inputs[0];
  const uhal_tensor* y = op->outputs[0];
  const int64_t size = (int64_t)uhal_dtype_size(y->dtype);
  const int64_t count = element_count(y);
  for (int64_t i = 0; i < count; ++i) {
    memcpy((char*)y->data + offset_in(y, y, i) * size, (const char*)x->data + offset_in(x, y, i) * size, (size_t)size);
  }
}

static const char* refuse_cast(const uhal_op* op) {
  const uhal_dtype from = op->inputs[0]->dtype;
  const uhal_dtype to = op->outputs[0]->dtype;
  if (is_computable(from) && is_computable(to)) return NULL;
  return reason("cast is not implemented from %s to %s", uhal_dtype_name(from), uhal_dtype_name(to));
}

static void run_cast(const uhal_op* op) {
  const uhal_tensor* x = op->inputs[0];
  const uhal_tensor* y = op->outputs[0];
  const int64_t count = element_count(y);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = offset_in(x, y, i);
    const int64_t to = offset_in(y, y, i);
    if (is_floating(x->dtype)) {
      write_real(y, to, read_real(x, from));
    } else {
      write_integer(y, to, read_integer(x, from));
    }
  }
}

static const char* refuse_fill(const uhal_op* op) {
  const uhal_dtype dtype = op->outputs[0]->dtype;
  return is_computable(dtype) ? NULL : reason("fill is not implemented for %s", uhal_dtype_name(dtype));
}

static void run_fill(const uhal_op* op) {
  const uhal_fill_attributes* attributes = op->attributes;
  const uhal_tensor* y = op->outputs[0];
  const int64_t count = element_count(y);
  for (int64_t i = 0; i < count; ++i) {
    if (is_floating(y->dtype)) {
      write_real(y, offset_in(y, y, i), attributes->value);
    } else {
      write_integer(y, offset_in(y, y, i), attributes->integer_value);
    }
  }
}

/* -- reduce -- */

static const char* refuse_reduce(const uhal_op* op) {
  const uhal_reduce_attributes* attributes = op->attributes;
  if (attributes->reduction != UHAL_REDUCE_SUM && attributes->reduction != UHAL_REDUCE_MAXIMUM) {
    return reason("reduce is implemented for sum and maximum, not for reduction %d", attributes->reduction);
  }
  return refuse_mixture(op, 1);
}

/* The part of x that falls on one element of y: x's lengths along the reduced axes, 1 along the others. */
static uhal_tensor reduced_part(const uhal_tensor* x, const uhal_tensor* y) {
  uhal_tensor part = *x;
  for (int i = 0; i < x->rank; ++i) part.shape[i] = y->shape[i] == 1 ? x->shape[i] : 1;
  return part;
}

static double reduce_real(const uhal_tensor* x, int64_t start, const uhal_tensor* part, int maximum) {
  const int64_t count = element_count(part);
  double result = maximum ? -INFINITY : 0;
  for (int64_t k = 0; k < count; ++k) {
    const double value = read_real(x, start + offset_in(x, part, k));
    if (!maximum) {
      result += value;
    } else if (value > result || value != value) {
      result = value;
    }
    if (maximum && result != result) break;
  }
  return result;
}

static int64_t reduce_integer(const uhal_tensor* x, int64_t start, const uhal_tensor* part, int maximum) {
  const int64_t count = element_count(part);
  int64_t result = maximum ? INT32_MIN : 0;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t value = read_integer(x, start + offset_in(x, part, k));
    result = !maximum ? result + value : value > result ? value : result;
  }
  return result;
}

static void run_reduce(const uhal_op* op) {
  const uhal_reduce_attributes* attributes = op->attributes;
  const int maximum = attributes->reduction == UHAL_REDUCE_MAXIMUM;
  const uhal_tensor* x = op->inputs[0];
  const uhal_tensor* y = op->outputs[0];
  const uhal_tensor part = reduced_part(x, y);
  const int64_t count = element_count(y);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = offset_in(x, y, i); /* y's coordinate along a reduced axis is 0 */
    const int64_t at = offset_in(y, y, i);
    if (is_floating(y->dtype)) {
      write_real(y, at, reduce_real(x, start, &part, maximum));
    } else {
      write_integer(y, at, reduce_integer(x, start, &part, maximum));
    }
  }
}

/* -- matmul -- */

static const char* refuse_matmul(const uhal_op* op) {
  const uhal_matmul_attributes* attributes = op->attributes;
  if (attributes->activation != UHAL_ACTIVATION_NONE && attributes->activation != UHAL_ACTIVATION_RELU) {
    return reason("matmul is implemented without an activation and with relu, not with activation %d",
                  attributes->activation);
  }
  return refuse_mixture(op, 0);
}

static void run_matmul(const uhal_op* op) {
  const uhal_matmul_attributes* attributes = op->attributes;
  const uhal_tensor* a = op->inputs[0];
  const uhal_tensor* b = op->inputs[1];
  const uhal_tensor* c = op->input_count > 2 ? op->inputs[2] : NULL;
  const uhal_tensor* d = op->outputs[0];
  const int64_t terms = a->shape[a->rank - 1];
  const int64_t step_a = a->strides[a->rank - 1];
  const int64_t step_b = b->strides[b->rank - 2];
  uhal_tensor rows = *a; /* broadcasts to d: one row for all columns */
  rows.shape[a->rank - 1] = 1;
  uhal_tensor columns = *b;
  columns.shape[b->rank - 2] = 1;
  const int64_t count = element_count(d);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = offset_in(&rows, d, i);
    const int64_t column = offset_in(&columns, d, i);
    double value = 0;
    for (int64_t k = 0; k < terms; ++k) value += read_real(a, row + k * step_a) * read_real(b, column + k * step_b);
    value *= attributes->alpha;
    if (c != NULL) value += attributes->beta * read_real(c, offset_in(c, d, i));
    if (attributes->activation == UHAL_ACTIVATION_RELU && value < 0) value = 0;
    write_real(d, offset_in(d, d, i), value);
  }
}

/* -- softmax -- */

static const char* refuse_softmax(const uhal_op* op) { return refuse_mixture(op, 0); }

static void run_softmax(const uhal_op* op) {
  const uhal_softmax_attributes* attributes = op->attributes;
  const uhal_tensor* x = op->inputs[0];
  const uhal_tensor* y = op->outputs[0];
  const int axis = attributes->axis == -1 ? x->rank - 1 : attributes->axis;
  const int64_t length = x->shape[axis];
  uhal_tensor lines = *x; /* one element for each line along the axis */
  lines.shape[axis] = 1;
  const int64_t count = length == 0 ? 0 : element_count(&lines);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start_x = offset_in(x, &lines, i);
    const int64_t start_y = offset_in(y, &lines, i);
    double largest = -INFINITY;
    for (int64_t k = 0; k < length; ++k) largest = fmax(largest, read_real(x, start_x + k * x->strides[axis]));
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += exp(read_real(x, start_x + k * x->strides[axis]) - largest);
    for (int64_t k = 0; k < length; ++k) { /* y may be x: each element is read before it is written */
      const double shifted = read_real(x, start_x + k * x->strides[axis]) - largest;
      write_real(y, start_y + k * y->strides[axis], attributes->logarithm ? shifted - log(sum) : exp(shifted) / sum);
    }
  }
}

/* -- the table -- */

typedef struct kernel {
  uhal_op_kind kind;
  const char* (*refuse)(const uhal_op* op);
  void (*run)(const uhal_op* op);
} kernel;

static const kernel kernels[] = {
    {UHAL_OP_MAP, refuse_map, run_map},
    {UHAL_OP_COPY, refuse_nothing, run_copy},
    {UHAL_OP_CAST, refuse_cast, run_cast},
    {UHAL_OP_FILL, refuse_fill, run_fill},
    {UHAL_OP_REDUCE, refuse_reduce, run_reduce},
    {UHAL_OP_MATMUL, refuse_matmul, run_matmul},
    {UHAL_OP_SOFTMAX, refuse_softmax, run_softmax},
};

static const kernel* find(uhal_op_kind kind) {
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i) {
    if (kernels[i].kind == kind) return &kernels[i];
  }
  return NULL;
}

const char* refuse_op(const uhal_op* op) {
  const kernel* found = find(op->kind);
  return found != NULL ? found->refuse(op) : reason("%s is not implemented", uhal_op_kind_name(op->kind));
}

void run_op(const uhal_op* op) { find(op->kind)->run(op); }
