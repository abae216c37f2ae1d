// TensorFlow's collectives within one process, done by the adapter: see shim.h.
#pragma once

#include "plugins/tensorflow/shim/shim.h"

void unihal_register_collectives(const char* device_type, const unihal_collective_functions* functions);
