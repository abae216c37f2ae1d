// Finds the shim for the TensorFlow that is running.
#pragma once

#include <string>

#include "plugins/tensorflow/shim/shim.h"
#include "unihal/op.h"

namespace unihal::tensorflow {

// The versions of TensorFlow with a shim: "2.20, 2.21".
std::string built_versions();

// The functions of unihal_tensorflow_shim_<major.minor>.so beside this library, or nullptr.
const unihal_shim_functions* shim_functions();

// Why there are none: names the running version and the versions with a shim.
std::string missing_shim_reason();

// Of products and convolutions, as TensorFlow's switch for TF32 is now. Only where there are functions.
uhal_math_mode math_mode();

}  // namespace unihal::tensorflow
