// Matrix products of complex numbers as one product of real numbers, which backends are fast at.
//
// Row-major a and d are used as they lie: m rows of k pairs (re, im) are a real matrix of m x 2k, and b becomes one of
// 2k x 2n, in which each element is the 2 x 2 block
//
//     re  im
//    -im  re
//
// so that the product has the pairs of d. That is four multiplications for each complex one, no more than the
// textbook's.
#pragma once

#include "csrc/backends/common/complex_parts.h"
#include "unihal/op.h"

namespace unihal {

// Whether a matmul has a complex operand.
bool is_complex_matmul(const uhal_op& op);

class ComplexMatmul {
 public:
  // Of a validated op with elements in d. Its views are copied.
  explicit ComplexMatmul(const uhal_op& op);

  // Device memory that it takes besides the real product's own.
  size_t bytes() const { return bytes_; }

  // Once, before what follows. `memory` is aligned to 16.
  void use(void* memory);

  // Makes the operands of the product: convert(from, to) is UHAL_OP_CAST, negate(from, to) the map function `negative`.
  template <class Convert, class Negate>
  uhal_status prepare(const Convert& convert, const Negate& negate) const;

  // A UHAL_OP_MATMUL of real numbers, valid as long as this object.
  const uhal_op& product() const { return product_; }

  // Puts the result into d, if it is not there.
  template <class Convert>
  uhal_status finish(const Convert& convert) const;

 private:
  // An operand: the view that the op has, and the complex view that stands for it, which may be the same memory.
  struct Operand {
    uhal_tensor given;
    uhal_tensor used;
    size_t offset = 0;  // of a copy, in the memory
    bool copied = false;
  };

  Operand a_, c_, d_;
  uhal_tensor b_;     // as the op has it
  uhal_tensor even_;  // its copy in the even rows, as complex numbers, and i times it in the odd ones
  uhal_tensor odd_;
  bool has_c_;
  size_t b_offset_;
  size_t bytes_ = 0;
  uhal_matmul_attributes attributes_;
  uhal_tensor real_[4];  // a, b, c, d
  const uhal_tensor* inputs_[3];
  const uhal_tensor* outputs_[1];
  uhal_op product_;
};

template <class Convert, class Negate>
uhal_status ComplexMatmul::prepare(const Convert& convert, const Negate& negate) const {
  uhal_status status = UHAL_OK;
  if (a_.copied) status = convert(a_.given, a_.used);
  if (status == UHAL_OK && has_c_ && c_.copied) status = convert(c_.given, c_.used);
  if (status == UHAL_OK) status = convert(b_, even_);
  if (status == UHAL_OK) status = negate(part(even_, true), part(odd_, false));
  if (status == UHAL_OK) status = convert(part(even_, false), part(odd_, true));
  return status;
}

template <class Convert>
uhal_status ComplexMatmul::finish(const Convert& convert) const {
  return d_.copied ? convert(d_.used, d_.given) : UHAL_OK;
}

}  // namespace unihal
