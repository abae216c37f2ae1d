#include "plugins/paddle/math_mode.h"

#include <dlfcn.h>

#include "plugins/paddle/library.h"

namespace unihal::paddle {
namespace {

using Switch = bool (*)();

Switch find_switch(const char* symbol) {
  void* library = find_paddle_library(symbol);
  return library != nullptr ? reinterpret_cast<Switch>(dlsym(library, symbol)) : nullptr;
}

uhal_math_mode math_mode_of(Switch allows_tf32) {
  return allows_tf32 != nullptr && allows_tf32() ? UHAL_MATH_ALLOW_TF32 : UHAL_MATH_STRICT;
}

}  // namespace

uhal_math_mode product_math_mode() {
  static const Switch allows_tf32 = find_switch("_ZN3phi15AllowTF32CublasEv");
  return math_mode_of(allows_tf32);
}

uhal_math_mode dnn_math_mode() {
  static const Switch allows_tf32 = find_switch("_ZN3phi14AllowTF32CudnnEv");
  return math_mode_of(allows_tf32);
}

}  // namespace unihal::paddle
