#include "csrc/kernels/program_text.h"

#include "kernel_sources.h"

namespace unihal::kernels {

std::string program_text(const KernelSpec& spec, const DeviceTraits& traits, Prelude prelude) {
  std::string text = "#define UHAL_HAS_FLOAT64 ";
  text += traits.has_float64 ? "1\n" : "0\n";
  text += spec.macro_text();
  text += prelude == Prelude::kOpencl ? prelude_opencl : prelude_gpu;
  if (computes_complex(spec.compute())) text += prelude_complex;
  text += prelude_common;
  text += spec.source().text;
  return text;
}

// The word stands in a line of its own in a source; preludes have it in comments and definitions.
bool forbids_contraction(const std::string& text) { return text.find("\nUHAL_NO_CONTRACTION\n") != std::string::npos; }

}  // namespace unihal::kernels
