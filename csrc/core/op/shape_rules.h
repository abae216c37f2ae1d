// The words in which op checks are written: shapes, and expectations that report what they miss.
#pragma once

#include <initializer_list>
#include <string>

#include "csrc/core/base/error.h"
#include "csrc/core/op/table.h"

namespace unihal::core {

struct Shape {
  int rank = 0;
  int64_t dims[2 * UHAL_MAX_RANK] = {};

  Shape() = default;
  Shape(std::initializer_list<int64_t> list) {
    for (int64_t dim : list) push(dim);
  }
  explicit Shape(const uhal_tensor& tensor) {
    for (int i = 0; i < tensor.rank; ++i) push(tensor.shape[i]);
  }
  void push(int64_t dim) { dims[rank++] = dim; }
};

// "(2, 3)"
std::string shape_text(int rank, const int64_t* dims);

int64_t element_count(const uhal_tensor& tensor);
bool same_shape(const uhal_tensor& tensor, const Shape& shape);
bool is_floating(uhal_dtype dtype);  // and computed with
bool is_complex(uhal_dtype dtype);
// For storage only.
inline bool is_float8(uhal_dtype dtype) { return dtype == UHAL_FLOAT8_E4M3FN || dtype == UHAL_FLOAT8_E5M2; }
bool is_index(uhal_dtype dtype);  // int32 or int64

// The name of an operand of the op, for messages.
const char* operand_name(const OpView& op, const uhal_tensor* operand);

// Each returns UHAL_OK, or reports. An absent (NULL) operand meets every expectation.
uhal_status expect_shape(const OpView& op, const uhal_tensor* operand, const Shape& shape, const char* meaning);
uhal_status expect_same_shape(const OpView& op, const uhal_tensor* operand, const uhal_tensor* as);
uhal_status expect_rank(const OpView& op, const uhal_tensor* operand, int minimum, int maximum, const char* meaning);
uhal_status expect_broadcast(const OpView& op, const uhal_tensor* operand, const Shape& to);
uhal_status expect_dtype(const OpView& op, const uhal_tensor* operand, bool allowed, const char* meaning);
uhal_status expect_same_dtype(const OpView& op, const uhal_tensor* operand, const uhal_tensor* as);
uhal_status expect_present(const OpView& op, const uhal_tensor* operand, const char* name, const char* when);

// Attributes: `value` within [minimum, maximum].
uhal_status expect_attribute(const OpView& op, const char* name, int64_t value, int64_t minimum, int64_t maximum);

// The attribute math_mode of a product.
uhal_status expect_math_mode(const OpView& op, uhal_math_mode math_mode);

// An axis attribute of a rank: `*axis` counts from 0 afterwards. -1 is the last where that is the default.
uhal_status resolve_axis(const OpView& op, int32_t attribute, int rank, bool minus_one_is_last, int* axis);

}  // namespace unihal::core
