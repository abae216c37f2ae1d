// Loading OpenCL drivers next to a framework that has an LLVM of its own (csrc/backends/common/foreign_llvm.h).
#pragma once

namespace unihal::opencl {

// Opens the drivers that the OpenCL loader is about to open, with vendor_library_flags(), so that it meets them loaded.
// Does nothing where loading as usual is right. A driver that does not load is left for the loader to skip.
void preload_drivers();

}  // namespace unihal::opencl
