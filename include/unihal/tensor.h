/* Strided tensor views.
 *
 * A view describes memory that somebody else owns. Element (i0, ..., in) lies at
 * data + sizeof(dtype) * (i0*strides[0] + ... + in*strides[n]). Strides count elements, may be 0
 * (broadcast; inputs only) and may be negative (`data` then points at the first element, not at the
 * lowest address). Layouts such as NHWC are strides: an op names its axes in one logical order.
 */
#ifndef UNIHAL_TENSOR_H_
#define UNIHAL_TENSOR_H_

#include "unihal/status.h"

UHAL_EXTERN_C_BEGIN

typedef int32_t uhal_dtype;
enum {
  UHAL_DTYPE_INVALID = 0,
  UHAL_BOOL = 1, /* one byte, 0 or 1 */
  UHAL_INT8 = 2,
  UHAL_INT16 = 3,
  UHAL_INT32 = 4,
  UHAL_INT64 = 5,
  UHAL_UINT8 = 6,
  UHAL_UINT16 = 7,
  UHAL_UINT32 = 8,
  UHAL_UINT64 = 9,
  UHAL_FLOAT16 = 10, /* IEEE binary16 */
  UHAL_BFLOAT16 = 11,
  UHAL_FLOAT32 = 12,
  UHAL_FLOAT64 = 13,
  UHAL_COMPLEX64 = 14,  /* two float32, the real part first; computed with since ABI 1.6 (op.h, "Complex numbers") */
  UHAL_COMPLEX128 = 15, /* two float64 */
  /* Since ABI 1.8, for storage: copied, filled, gathered and cast; what computes takes them after a cast (op.h). A
   * value that is cast to them and is beyond the largest number becomes infinite, or NaN where there are no infinities.
   */
  UHAL_FLOAT8_E4M3FN = 16, /* 3 bits of mantissa, the largest number is 448; no infinities */
  UHAL_FLOAT8_E5M2 = 17,   /* 2 bits of mantissa, the largest number is 57344 */
  UHAL_DTYPE_COUNT = 18
};

enum { UHAL_MAX_RANK = 10 };

typedef struct uhal_tensor {
  size_t struct_size;
  void* data; /* may be NULL only if the view has no elements */
  uhal_dtype dtype;
  int32_t rank; /* 0 (a scalar, one element) to UHAL_MAX_RANK */
  int64_t shape[UHAL_MAX_RANK];
  int64_t strides[UHAL_MAX_RANK];
} uhal_tensor;

/* Bytes of one element; 0 for an unknown dtype. */
UHAL_API size_t uhal_dtype_size(uhal_dtype dtype);

/* "float32"; "invalid" for an unknown dtype. Static. */
UHAL_API const char* uhal_dtype_name(uhal_dtype dtype);

UHAL_EXTERN_C_END

#endif /* UNIHAL_TENSOR_H_ */
