// TensorFlow's StreamExecutor callbacks onto unihal devices, streams, events and memory.
#pragma once

#include <string>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "unihal/stream.h"

namespace unihal::tensorflow {

// What a platform is made from. Lives as long as the process; SP_Platform.ext points at it.
struct Platform {
  std::string type;         // "RDNA"
  std::string device_type;  // the core's name, "rdna"; empty: a platform without devices
  bool pool = true;         // TensorFlow pools memory; else each tensor is an allocation of its own
  bool hidden = false;      // the program wants none of its devices, which TensorFlow 2.18 cannot say otherwise
};

// Fills the registration for a platform. `params` has the sizes that this adapter was built with.
void fill_registration(Platform& platform, SE_PlatformRegistrationParams* params);

// Says which stream of its device kernels are given.
void set_compute_stream(uhal_stream* stream);

}  // namespace unihal::tensorflow
