// The discrete Fourier transform by the library that a device has: cuFFT, hipFFT.
#ifndef UNIHAL_KERNELS_OPS_FFT_LIBRARY_H_
#define UNIHAL_KERNELS_OPS_FFT_LIBRARY_H_

#include "csrc/backends/common/fft_problem.h"
#include "csrc/kernels/ops.h"

namespace unihal::kernels {

// Whether the library ran a transform of views that have elements, or failed at it: *status. False, with nothing of it
// submitted that shows, if it is not its to run: our own kernels do.
bool run_fft_by_library(Queue& queue, const uhal_op& op, const FftProblem& problem, uhal_status* status);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_OPS_FFT_LIBRARY_H_
