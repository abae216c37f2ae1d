// What Paddle allows TF32 to do.
//
// Paddle 3.3 has a switch for matrix products, off by default (paddle.base.core.set_cublas_switch), and one for what
// cuDNN does on its GPUs, convolutions and recurrent layers, on by default (set_cudnn_switch), in its CPU wheels too.
// Those of 3.0 to 3.2 have neither: what nobody could switch off is not switched on, and all is strict.
#pragma once

#include "unihal/op.h"

namespace unihal::paddle {

// As the switches are now. Threads: any.
uhal_math_mode product_math_mode();
uhal_math_mode dnn_math_mode();

}  // namespace unihal::paddle
