// A Fourier transform (UHAL_OP_FFT) in the words that backends share: its axes, its form, its scale.
#pragma once

#include <algorithm>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"

namespace unihal {

// What is transformed into what; half spectra lie along the last of the axes.
enum class FftForm { kComplex, kFromReal, kToReal };

struct FftProblem {
  FftForm form;
  bool inverse;
  bool is_double;  // float64 and complex128
  double scale;
  int axis_count;
  int axes[UHAL_FFT_MAX_AXES];         // from 0 on
  int64_t lengths[UHAL_FFT_MAX_AXES];  // of the signals along them

  int last_axis() const { return axes[axis_count - 1]; }
  int64_t last_length() const { return lengths[axis_count - 1]; }
};

// Of a validated op.
inline FftProblem fft_problem(const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  uhal_fft_attributes defaults = {};
  defaults.axis_count = 1;
  for (int32_t& axis : defaults.axes) axis = -1;
  const uhal_fft_attributes attributes = attributes_or(op, defaults);
  FftProblem problem = {};
  problem.form = !is_complex(x.dtype)   ? FftForm::kFromReal
                 : !is_complex(y.dtype) ? FftForm::kToReal
                                        : FftForm::kComplex;
  problem.inverse = attributes.direction == UHAL_FFT_INVERSE;
  problem.is_double = x.dtype == UHAL_FLOAT64 || x.dtype == UHAL_COMPLEX128;
  problem.axis_count = attributes.axis_count;
  const uhal_tensor& signal = problem.form == FftForm::kToReal ? y : x;
  double length = 1;
  for (int i = 0; i < problem.axis_count; ++i) {
    problem.axes[i] = attributes.axes[i] < 0 ? signal.rank - 1 : attributes.axes[i];
    problem.lengths[i] = signal.shape[problem.axes[i]];
    length *= static_cast<double>(problem.lengths[i]);
  }
  problem.scale = attributes.normalization == UHAL_FFT_UNSCALED    ? 1
                  : attributes.normalization == UHAL_FFT_BY_LENGTH ? 1 / length
                                                                   : 1 / std::sqrt(length);
  return problem;
}

// The least length from `least` on whose only prime factors are 2, 3 and 5: what a convolution is padded to.
inline int64_t smooth_length(int64_t least) {
  int64_t best = INT64_MAX;
  for (int64_t fives = 1; fives < 2 * least; fives *= 5) {
    for (int64_t threes = fives; threes < 2 * least; threes *= 3) {
      int64_t length = threes;
      while (length < least) length *= 2;
      best = std::min(best, length);
    }
  }
  return best;
}

}  // namespace unihal
