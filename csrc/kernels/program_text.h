// The text of a program: what a compiler is given to make a spec's entry of.
#ifndef UNIHAL_KERNELS_PROGRAM_TEXT_H_
#define UNIHAL_KERNELS_PROGRAM_TEXT_H_

#include <string>

#include "csrc/kernels/kernel_spec.h"
#include "csrc/kernels/queue.h"

namespace unihal::kernels {

// What the words of the dialect are made of.
enum class Prelude {
  kOpencl,  // OpenCL C 1.2: prelude/opencl.h
  kGpu,     // C++ for HIP and CUDA: prelude/gpu.h
};

// The whole text, which includes nothing. Entries of one source with the same macros have the same text, so that a
// program is compiled once for all of them.
std::string program_text(const KernelSpec& spec, const DeviceTraits& traits, Prelude prelude);

// Whether the source of a program's text forbids to fuse products and sums (UHAL_NO_CONTRACTION): for compilers that
// have an option for it rather than a pragma.
bool forbids_contraction(const std::string& text);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_PROGRAM_TEXT_H_
