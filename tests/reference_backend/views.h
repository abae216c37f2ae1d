/* Elements of strided views, for every op alike. */
#ifndef REFERENCE_BACKEND_VIEWS_H_
#define REFERENCE_BACKEND_VIEWS_H_

#include "unihal/tensor.h"

/* Whether read_* and write_* know a dtype: bool, integers up to int64, float32 and float64. */
int is_computable(uhal_dtype dtype);
int is_floating(uhal_dtype dtype);

int64_t element_count(const uhal_tensor* view);

/* Where `view`, broadcast to the shape of `frame`, has element number `element` (row-major) of that shape, in elements
 * from its data. */
int64_t offset_in(const uhal_tensor* view, const uhal_tensor* frame, int64_t element);

/* The element at an offset, as a double or as a whole number. The caller picks the one that loses nothing. */
double read_real(const uhal_tensor* view, int64_t offset);
int64_t read_integer(const uhal_tensor* view, int64_t offset);

/* Converts as UHAL_OP_CAST does. */
void write_real(const uhal_tensor* view, int64_t offset, double value);
void write_integer(const uhal_tensor* view, int64_t offset, int64_t value);

#endif /* REFERENCE_BACKEND_VIEWS_H_ */
