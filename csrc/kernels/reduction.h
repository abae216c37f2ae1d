// Combining the elements along axes of an operand: reduce and arg_reduce, by source/reduce.cl.
#ifndef UNIHAL_KERNELS_REDUCTION_H_
#define UNIHAL_KERNELS_REDUCTION_H_

#include "csrc/kernels/prelude/reduce_steps.h"
#include "csrc/kernels/queue.h"

namespace unihal::kernels {

// y has x's rank, and length 1 along the axes that are reduced. Complex numbers are multiplied only.
struct Reduction {
  const uhal_tensor& x;
  const uhal_tensor& y;
  int step;         // UHAL_STEP_...
  int finish;       // UHAL_FINISH_...
  Compute compute;  // in what it is done
};

uhal_status run_reduction(Queue& queue, const Reduction& reduction);

// The type in which elements of a dtype are compared and counted: 64-bit integers, floating point or complex numbers.
Compute compute_of(uhal_dtype dtype);

// The step that combines two elements: of a product, maximum or minimum its own, else the sum's.
int combining_step(uhal_reduction reduction);

// nullptr if a reduction is defined on the dtypes of its operands, else the refusal: complex numbers have no order.
// `name` is that of the op.
const char* refuse_complex_reduction(const char* name, uhal_reduction reduction, const uhal_tensor& x,
                                     const uhal_tensor& y);

// Appends what combining nothing gives, as a T: 0, 1, or the extreme of the elements' dtype (an infinity where it has
// them). `step` is UHAL_STEP_SUM to UHAL_STEP_LOG_SUM_EXP.
void append_neutral(Arguments& arguments, int step, uhal_dtype dtype, Compute compute);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_REDUCTION_H_
