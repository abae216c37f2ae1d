// TensorFlow's collectives on devices of one process, through uhal.collectives.
//
// The ranks of a collective meet on the host, in whatever thread TensorFlow runs them, and the last to come submits it
// to all of their streams, as one group and under one lock. So two collectives are in the same order on all devices,
// whatever order the executor's threads come in, and nobody waits in a thread for another rank.
#pragma once

#include "tensorflow/c/tf_datatype.h"

namespace unihal::tensorflow {

// Whether collectives of this dtype, `average` of them divided by the number of ranks, go this way on devices of a
// type.
bool accepts_collective(const char* device_type, TF_DataType dtype, bool average);

// Registers kernels of TensorFlow's collective ops for a device type ("RDNA"). Needs the shim.
void register_collectives(const char* device_type);

}  // namespace unihal::tensorflow
