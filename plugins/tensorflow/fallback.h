// Tells which ops on the CPU are fallbacks, for the graph pass and for eager execution.
#pragma once

#include <string>
#include <string_view>

#include "tensorflow/c/tf_datatype.h"

namespace unihal::tensorflow {

// Whether an op that TensorFlow placed on the CPU would have run on `device_type` ("RDNA") had it a kernel there:
// not ops that belong to the host by nature (input pipelines, strings, control), not int32 (which TensorFlow keeps in
// host memory), and not ops with a kernel for the device (then the CPU was asked for). `dtype` is the op's main one,
// 0 if it has none. If so, *reason says what is missing; a literal.
bool is_fallback(const char* device_type, std::string_view op, TF_DataType dtype, const char** reason);

// Counts a fallback. Returns false, with *message set, where UNIHAL_STRICT=1 makes it an error.
bool record_fallback(std::string_view op, TF_DataType dtype, const char* reason, std::string* message);

}  // namespace unihal::tensorflow
