/* UHAL_OP_MAP: a handful of the functions of elementwise.def, found by name. */
#include <math.h>
#include <string.h>

#include "ops.h"
#include "views.h"

/* X(name, expression in x and y): for floating operands, computed in double. */
#define REAL_FUNCTIONS(X)               \
  X(identity, x)                        \
  X(negative, -x)                       \
  X(absolute, fabs(x))                  \
  X(square, x* x)                       \
  X(reciprocal, 1 / x)                  \
  X(add, x + y)                         \
  X(subtract, x - y)                    \
  X(multiply, x* y)                     \
  X(divide, x / y)                      \
  X(maximum, (x > y || x != x) ? x : y) \
  X(minimum, (x < y || x != x) ? x : y) \
  X(relu, x < 0 ? 0 : x)                \
  X(sqrt, sqrt(x))                      \
  X(exp, exp(x))                        \
  X(log, log(x))                        \
  X(tanh, tanh(x))

/* The same for int32, in 64 bits: none of these overflows them. */
#define INTEGER_FUNCTIONS(X)  \
  X(identity, x)              \
  X(negative, -x)             \
  X(absolute, x < 0 ? -x : x) \
  X(square, x* x)             \
  X(add, x + y)               \
  X(subtract, x - y)          \
  X(multiply, x* y)           \
  X(maximum, x > y ? x : y)   \
  X(minimum, x < y ? x : y)   \
  X(relu, x < 0 ? 0 : x)

#define DEFINE_REAL(name, expression)             \
  static double name##_real(double x, double y) { \
    (void)y;                                      \
    return expression;                            \
  }
#define DEFINE_INTEGER(name, expression)                \
  static int64_t name##_integer(int64_t x, int64_t y) { \
    (void)y;                                            \
    return expression;                                  \
  }
REAL_FUNCTIONS(DEFINE_REAL)
INTEGER_FUNCTIONS(DEFINE_INTEGER)

typedef struct real_function {
  const char* name;
  double (*compute)(double x, double y);
} real_function;

typedef struct integer_function {
  const char* name;
  int64_t (*compute)(int64_t x, int64_t y);
} integer_function;

#define REAL_ROW(name, expression) {#name, name##_real},
#define INTEGER_ROW(name, expression) {#name, name##_integer},
static const real_function real_functions[] = {REAL_FUNCTIONS(REAL_ROW)};
static const integer_function integer_functions[] = {INTEGER_FUNCTIONS(INTEGER_ROW)};

/* The name that the core gives a function's number: the numbers themselves are no part of the headers. */
static const char* name_of(const uhal_op* op) {
  const uhal_map_attributes* attributes = op->attributes;
  uhal_map_function_info info = {.struct_size = sizeof info};
  return uhal_map_function_get(attributes->function, &info) == UHAL_OK ? info.name : "";
}

static const real_function* find_real(const char* name) {
  for (size_t i = 0; i < sizeof real_functions / sizeof *real_functions; ++i) {
    if (strcmp(real_functions[i].name, name) == 0) return &real_functions[i];
  }
  return NULL;
}

static const integer_function* find_integer(const char* name) {
  for (size_t i = 0; i < sizeof integer_functions / sizeof *integer_functions; ++i) {
    if (strcmp(integer_functions[i].name, name) == 0) return &integer_functions[i];
  }
  return NULL;
}

const char* refuse_map(const uhal_op* op) {
  const char* name = name_of(op);
  const uhal_dtype dtype = op->outputs[0]->dtype;
  for (int i = 0; i < op->input_count; ++i) {
    if (op->inputs[i]->dtype != dtype) return reason("map %s takes operands of one dtype; cast them first", name);
  }
  const int known = dtype == UHAL_INT32 ? find_integer(name) != NULL : is_floating(dtype) && find_real(name) != NULL;
  return known ? NULL : reason("map %s is not implemented for %s", name, uhal_dtype_name(dtype));
}

void run_map(const uhal_op* op) {
  const uhal_tensor* x = op->inputs[0];
  const uhal_tensor* y = op->input_count > 1 ? op->inputs[1] : x; /* functions of x alone ignore it */
  const uhal_tensor* result = op->outputs[0];
  const char* name = name_of(op);
  const real_function* real = find_real(name);
  const integer_function* integer = find_integer(name);
  const int64_t count = element_count(result);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = offset_in(result, result, i);
    const int64_t at_x = offset_in(x, result, i);
    const int64_t at_y = offset_in(y, result, i);
    if (is_floating(result->dtype)) {
      write_real(result, at, real->compute(read_real(x, at_x), read_real(y, at_y)));
    } else {
      write_integer(result, at, integer->compute(read_integer(x, at_x), read_integer(y, at_y)));
    }
  }
}
