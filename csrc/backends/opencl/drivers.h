// Loading OpenCL drivers next to a framework that has an LLVM of its own.
//
// Most drivers (PoCL, Mesa's, AMD's) bring an LLVM along. A process may have another one already, whose symbols every
// library can see: TensorFlow's Python loads its libraries that way. The driver's calls then end in the wrong LLVM, and
// the process crashes while the driver is loaded. Libraries opened with RTLD_DEEPBIND look at their own symbols first.
#pragma once

namespace unihal::opencl {

// The flags for dlopen of a driver, or of the OpenCL loader: with RTLD_DEEPBIND where this process needs it, and only
// there, since a driver so loaded does not take part in a replacement of malloc.
int driver_flags();

// Opens the drivers that the OpenCL loader is about to open, with driver_flags(), so that it meets them loaded. Does
// nothing where loading as usual is right. A driver that does not load is left for the loader to skip.
void preload_drivers();

}  // namespace unihal::opencl
