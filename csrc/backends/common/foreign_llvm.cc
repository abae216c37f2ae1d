#include "csrc/backends/common/foreign_llvm.h"

#include <dlfcn.h>

namespace unihal {
namespace {

// llvm::cl::Option::addArgument(), which every LLVM calls while it is loaded.
constexpr char kSymbolOfLlvm[] = "_ZN4llvm2cl6Option11addArgumentEv";

}  // namespace

bool has_foreign_llvm() {
  static const bool has = dlsym(RTLD_DEFAULT, kSymbolOfLlvm) != nullptr;
  return has;
}

int vendor_library_flags() { return RTLD_NOW | RTLD_LOCAL | (has_foreign_llvm() ? RTLD_DEEPBIND : 0); }

}  // namespace unihal
