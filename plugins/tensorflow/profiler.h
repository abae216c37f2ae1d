// TensorFlow's profiler: tf.profiler.experimental and TensorBoard's trace viewer show what ran on the devices.
#pragma once

#include "tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h"

namespace unihal::tensorflow {

// Registers a profiler for a type ("RDNA"; it outlives the process' profiles). `device_type` is unihal's name of it, ""
// for a type without devices, whose profile is empty.
void fill_profiler_registration(const char* type, const char* device_type, TF_ProfilerRegistrationParams* params);

}  // namespace unihal::tensorflow
