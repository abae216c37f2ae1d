// The graph pass: it counts fallbacks (ops of a placed graph that landed on the CPU beside unihal devices) and fuses
// what is on the devices (fusion.h).
#pragma once

#include "tensorflow/c/experimental/grappler/grappler.h"

namespace unihal::tensorflow {

// Fills the registration of the pass for a device type, a string that lives as long as the process.
void fill_graph_registration(const char* type, TP_OptimizerRegistrationParams* params);

}  // namespace unihal::tensorflow
