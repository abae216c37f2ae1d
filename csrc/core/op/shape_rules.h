// The words in which op checks are written: shapes, and expectations that report what they miss.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>

#include "csrc/core/base/error.h"
#include "csrc/core/op/table.h"

namespace unihal::core {

struct Shape {
  int rank = 0;
  int64_t dims[2 * UHAL_MAX_RANK];  // the first `rank`

  Shape() = default;
  Shape(std::initializer_list<int64_t> list) {
    for (int64_t dim : list) push(dim);
  }
  // All of the tensor's room: a constant number of bytes is copied in place.
  explicit Shape(const uhal_tensor& tensor) : rank(tensor.rank) { memcpy(dims, tensor.shape, sizeof tensor.shape); }
  void push(int64_t dim) { dims[rank++] = dim; }
};

// "(2, 3)"
__attribute__((cold)) std::string shape_text(int rank, const int64_t* dims);

inline bool same_dims(int rank, const int64_t* a, const int64_t* b) {
  for (int i = 0; i < rank; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}
inline bool same_shape(const uhal_tensor& tensor, const Shape& shape) {
  return tensor.rank == shape.rank && same_dims(shape.rank, tensor.shape, shape.dims);
}
inline bool same_shape(const uhal_tensor& a, const uhal_tensor& b) {
  return a.rank == b.rank && same_dims(a.rank, a.shape, b.shape);
}

int64_t element_count(const uhal_tensor& tensor);
inline bool is_floating(uhal_dtype dtype) { return dtype >= UHAL_FLOAT16 && dtype <= UHAL_FLOAT64; }  // computed with
inline bool is_complex(uhal_dtype dtype) { return dtype == UHAL_COMPLEX64 || dtype == UHAL_COMPLEX128; }
// For storage only.
inline bool is_float8(uhal_dtype dtype) { return dtype == UHAL_FLOAT8_E4M3FN || dtype == UHAL_FLOAT8_E5M2; }
inline bool is_index(uhal_dtype dtype) { return dtype == UHAL_INT32 || dtype == UHAL_INT64; }

// The name of an operand of the op, for messages.
const char* operand_name(const OpView& op, const uhal_tensor* operand) __attribute__((cold));

// What the expectations below report.
#define UHAL_REFUSAL __attribute__((cold)) uhal_status
UHAL_REFUSAL refuse_shape(const OpView& op, const uhal_tensor& operand, const Shape& shape, const char* meaning);
UHAL_REFUSAL refuse_other_shape(const OpView& op, const uhal_tensor& operand, const uhal_tensor& as);
UHAL_REFUSAL refuse_rank(const OpView& op, const uhal_tensor& operand, int minimum, int maximum, const char* meaning);
UHAL_REFUSAL refuse_broadcast(const OpView& op, const uhal_tensor& operand, int rank, const int64_t* dims);
UHAL_REFUSAL refuse_dtype(const OpView& op, const uhal_tensor& operand, const char* meaning);
UHAL_REFUSAL refuse_other_dtype(const OpView& op, const uhal_tensor& operand, const uhal_tensor& as);
UHAL_REFUSAL refuse_absence(const OpView& op, const char* name, const char* when);
UHAL_REFUSAL refuse_attribute(const OpView& op, const char* name, int64_t value, int64_t minimum, int64_t maximum);
#undef UHAL_REFUSAL

// Each returns UHAL_OK, or reports. An absent (NULL) operand meets every expectation. What is looked at is inline,
// since each launch does it, and what is said is not.
inline uhal_status expect_shape(const OpView& op, const uhal_tensor* operand, const Shape& shape, const char* meaning) {
  if (operand == nullptr || same_shape(*operand, shape)) return UHAL_OK;
  return refuse_shape(op, *operand, shape, meaning);
}

inline uhal_status expect_same_shape(const OpView& op, const uhal_tensor* operand, const uhal_tensor* as) {
  if (operand == nullptr || as == nullptr || same_shape(*operand, *as)) return UHAL_OK;
  return refuse_other_shape(op, *operand, *as);
}

inline uhal_status expect_rank(const OpView& op, const uhal_tensor* operand, int minimum, int maximum,
                               const char* meaning) {
  if (operand == nullptr || (operand->rank >= minimum && operand->rank <= maximum)) return UHAL_OK;
  return refuse_rank(op, *operand, minimum, maximum, meaning);
}

inline bool broadcasts(const uhal_tensor& operand, int rank, const int64_t* dims) {
  if (operand.rank > rank) return false;
  const int64_t* const to = dims + (rank - operand.rank);
  for (int i = 0; i < operand.rank; ++i) {
    if (operand.shape[i] != to[i] && operand.shape[i] != 1) return false;
  }
  return true;
}
inline uhal_status expect_broadcast(const OpView& op, const uhal_tensor* operand, const Shape& to) {
  if (operand == nullptr || broadcasts(*operand, to.rank, to.dims)) return UHAL_OK;
  return refuse_broadcast(op, *operand, to.rank, to.dims);
}
inline uhal_status expect_broadcast(const OpView& op, const uhal_tensor* operand, const uhal_tensor& to) {
  if (operand == nullptr || broadcasts(*operand, to.rank, to.shape)) return UHAL_OK;
  return refuse_broadcast(op, *operand, to.rank, to.shape);
}

inline uhal_status expect_dtype(const OpView& op, const uhal_tensor* operand, bool allowed, const char* meaning) {
  if (operand == nullptr || allowed) return UHAL_OK;
  return refuse_dtype(op, *operand, meaning);
}

inline uhal_status expect_same_dtype(const OpView& op, const uhal_tensor* operand, const uhal_tensor* as) {
  if (operand == nullptr || as == nullptr || operand->dtype == as->dtype) return UHAL_OK;
  return refuse_other_dtype(op, *operand, *as);
}

inline uhal_status expect_present(const OpView& op, const uhal_tensor* operand, const char* name, const char* when) {
  return operand != nullptr ? UHAL_OK : refuse_absence(op, name, when);
}

// Attributes: `value` within [minimum, maximum].
inline uhal_status expect_attribute(const OpView& op, const char* name, int64_t value, int64_t minimum,
                                    int64_t maximum) {
  return value >= minimum && value <= maximum ? UHAL_OK : refuse_attribute(op, name, value, minimum, maximum);
}

// The attribute math_mode of a product.
inline uhal_status expect_math_mode(const OpView& op, uhal_math_mode math_mode) {
  return expect_attribute(op, "math_mode", math_mode, UHAL_MATH_STRICT, UHAL_MATH_ALLOW_TF32);
}

// An axis attribute of a rank: `*axis` counts from 0 afterwards. -1 is the last where that is the default.
uhal_status resolve_axis(const OpView& op, int32_t attribute, int rank, bool minus_one_is_last, int* axis);

}  // namespace unihal::core
