// Lanes for float32 of GPUs, which drivers do not tell: fused multiplications and additions that a compute unit begins
// in a cycle. 0 for what is not known here.
#ifndef UNIHAL_BACKENDS_COMMON_LANES_H_
#define UNIHAL_BACKENDS_COMMON_LANES_H_

#include <string>

namespace unihal {

// Of a multiprocessor by compute capability, from NVIDIA's programming guide.
int lanes_of_capability(int major, int minor);

// Of what HIP counts as a multiprocessor, by the name of the architecture ("gfx1030"), from AMD's guides to the
// instruction sets: 64 of a compute unit; from gfx10 on it counts work-group processors, of two units each; gfx11 and
// later begin two operations at once.
int lanes_of_gfx(const std::string& name);

}  // namespace unihal

#endif  // UNIHAL_BACKENDS_COMMON_LANES_H_
