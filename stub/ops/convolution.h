// A convolution or one of its gradients, between convolution.cc and what runs it.
#pragma once

#include "stub/common/kernels.h"
#include "stub/common/staging.h"

namespace unihal::stub {

// Operands have one dtype, but those of convolution_of_bytes(). For the gradients, y is dy and the result is x (dx) or
// w (dw) with bias (dbias).
struct ConvolutionProblem {
  uhal_op_kind kind;
  const uhal_tensor* x;
  const uhal_tensor* w;
  const uhal_tensor* y;
  const uhal_tensor* bias;  // contiguous; nullptr if absent
  uhal_convolution_attributes attributes;

  int spatial() const { return x->rank - 2; }
};

// Runs a float32 problem of few numbers on the calling thread. False if there are more, or it is not for this.
bool convolution_of_little(const ConvolutionProblem& problem);

// Runs a float32 problem with oneDNN. False, with *status untouched, if oneDNN is not there or cannot do it.
bool convolution_with_onednn(const ConvolutionProblem& problem, uhal_status* status);

// Runs a convolution of images and a filter of one byte, into int32 with a bias of int32, as products of bytes over
// unfolded images. False, with *status untouched, where such products are not the fastest.
bool convolution_of_bytes(Staging& staging, const ConvolutionProblem& problem, uhal_status* status);

// Runs a problem as matrix products over unfolded images. T is float or double.
template <typename T>
uhal_status convolution_with_gemm(Staging& staging, const ConvolutionProblem& problem);

}  // namespace unihal::stub
