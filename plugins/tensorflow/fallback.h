// Tells which ops on the CPU are fallbacks, for the graph pass and for eager execution.
#pragma once

#include <string>
#include <string_view>

#include "plugins/tensorflow/op_registry.h"

namespace unihal::tensorflow {

inline constexpr const char* kNoKernel = "no kernel is registered";
inline constexpr const char* kNoKernelForDtype = "no kernel for this dtype is registered";

// Where an op that TensorFlow placed on the CPU has no kernel on a device: what is counted.
struct Fallback {
  TF_DataType dtype;   // that of the data; 0 if it has none
  const char* reason;  // a literal
};

// Whether an op that TensorFlow placed on the CPU would have run on `device_type` ("RDNA") had it a kernel there:
// not ops that belong to the host by nature (whatever takes or gives strings, resources or variants; control; what has
// no tensors but int32, which TensorFlow keeps in host memory), and not ops with a kernel for the device (then the CPU
// was asked for).
bool is_fallback(const char* device_type, std::string_view op, const Types& types, Fallback* fallback);

// Counts a fallback. Returns false, with *message set, where UNIHAL_STRICT=1 makes it an error.
bool record_fallback(std::string_view op, const Fallback& fallback, std::string* message);

}  // namespace unihal::tensorflow
