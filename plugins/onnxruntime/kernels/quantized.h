// What ops on quantized numbers share.
#pragma once

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {

inline constexpr DtypeSet kBytes = only(UHAL_INT8) | only(UHAL_UINT8);

struct Limits {
  double least, most;
};
// Of a dtype of quantized numbers; throws Refusal for another.
Limits limits_of(uhal_dtype dtype);

// An input of one number, without axes; fails if it is another.
View single(const Call& call, int input);

// A quantized operand of one scale, in float32, and back.
View dequantized(Call& call, const View& x, int scale_input, int zero_input);
void quantize(Call& call, const View& x, int scale_input, int zero_input, const View& y);

// Integers less their zero point, as int32. `column` puts the numbers of a vector of zero points below one another.
View centred(Call& call, const View& x, int zero_input, bool column);

// Sums of int32 as floats, times two scales.
View scaled(Call& call, const View& sums, const View& scale_a, const View& scale_b);

// A scale or zero point of columns: one number, without axes, or one for each.
View of_columns(Call& call, int input);

// The shape of a product of matrices with leading axes.
Shape matrix_shape(const Call& call, const View& a, const View& b);

// y = x in uint8, with the scale and the zero point, both without axes, that x's range gives.
void quantize_by_range(Call& call, const View& x, const View& y, const View& scale, const View& zero);

}  // namespace unihal::onnxruntime
