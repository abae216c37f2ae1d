#include "views.h"

/* The dtypes whose elements C can hold, but for bool, which is any number compared with zero. */
#define NUMBERS(X)         \
  X(UHAL_INT8, int8_t)     \
  X(UHAL_INT16, int16_t)   \
  X(UHAL_INT32, int32_t)   \
  X(UHAL_INT64, int64_t)   \
  X(UHAL_UINT8, uint8_t)   \
  X(UHAL_UINT16, uint16_t) \
  X(UHAL_UINT32, uint32_t) \
  X(UHAL_FLOAT32, float)   \
  X(UHAL_FLOAT64, double)

int is_computable(uhal_dtype dtype) {
  switch (dtype) {
#define KNOWN(number, type) case number:
    NUMBERS(KNOWN)
    case UHAL_BOOL:
      return 1;
    default:
      return 0;
  }
}

int is_floating(uhal_dtype dtype) { return dtype == UHAL_FLOAT32 || dtype == UHAL_FLOAT64; }

int64_t element_count(const uhal_tensor* view) {
  int64_t count = 1;
  for (int i = 0; i < view->rank; ++i) {
    if (view->shape[i] == 0) return 0; /* beside it, the product of the other lengths may overflow */
  }
  for (int i = 0; i < view->rank; ++i) count *= view->shape[i];
  return count;
}

int64_t offset_in(const uhal_tensor* view, const uhal_tensor* frame, int64_t element) {
  int64_t offset = 0;
  for (int i = 1; i <= frame->rank; ++i) { /* from the last axis: both shapes are aligned there */
    const int64_t length = frame->shape[frame->rank - i];
    if (i <= view->rank && view->shape[view->rank - i] != 1) {
      offset += element % length * view->strides[view->rank - i];
    }
    element /= length;
  }
  return offset;
}

double read_real(const uhal_tensor* view, int64_t offset) {
  switch (view->dtype) {
#define READ_REAL(number, type) \
  case number:                  \
    return (double)((const type*)view->data)[offset];
    NUMBERS(READ_REAL)
    default:
      return ((const uint8_t*)view->data)[offset] != 0;
  }
}

int64_t read_integer(const uhal_tensor* view, int64_t offset) {
  switch (view->dtype) {
#define READ_INTEGER(number, type) \
  case number:                     \
    return (int64_t)((const type*)view->data)[offset];
    NUMBERS(READ_INTEGER)
    default:
      return ((const uint8_t*)view->data)[offset] != 0;
  }
}

void write_real(const uhal_tensor* view, int64_t offset, double value) {
  if (view->dtype == UHAL_FLOAT64) {
    ((double*)view->data)[offset] = value;
  } else if (view->dtype == UHAL_FLOAT32) {
    ((float*)view->data)[offset] = (float)value;
  } else if (view->dtype == UHAL_BOOL) {
    ((uint8_t*)view->data)[offset] = value != 0;
  } else {
    /* C leaves the conversion of what lies outside undefined; op.h leaves the value open. */
    const int inside = value > -9223372036854775808.0 && value < 9223372036854775808.0;
    write_integer(view, offset, inside ? (int64_t)value : INT64_MIN);
  }
}

void write_integer(const uhal_tensor* view, int64_t offset, int64_t value) {
  switch (view->dtype) {
#define WRITE_INTEGER(number, type)            \
  case number:                                 \
    ((type*)view->data)[offset] = (type)value; \
    break;
    NUMBERS(WRITE_INTEGER)
    default:
      ((uint8_t*)view->data)[offset] = value != 0;
  }
}
