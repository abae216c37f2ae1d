// Loading vendors' libraries next to a framework that has an LLVM of its own.
//
// Most drivers and run-time compilers (PoCL, Mesa's, AMD's) bring an LLVM along. A process may have another one
// already, whose symbols every library can see: TensorFlow's Python loads its libraries that way. The library's calls
// then end in the wrong LLVM, and the process crashes while it is loaded. Libraries opened with RTLD_DEEPBIND look at
// their own symbols first.
#ifndef UNIHAL_BACKENDS_COMMON_FOREIGN_LLVM_H_
#define UNIHAL_BACKENDS_COMMON_FOREIGN_LLVM_H_

namespace unihal {

// Whether the process shows an LLVM to libraries that are loaded from now on; asked once.
bool has_foreign_llvm();

// The flags for dlopen of a vendor's library: with RTLD_DEEPBIND where this process needs it, and only there, since a
// library so loaded does not take part in a replacement of malloc.
int vendor_library_flags();

}  // namespace unihal

#endif  // UNIHAL_BACKENDS_COMMON_FOREIGN_LLVM_H_
