#include "plugins/paddle/phi_api.h"

#include <dlfcn.h>

#include <array>

#include "plugins/paddle/library.h"

namespace unihal::paddle {

PhiApi phi;

namespace {

constexpr uhal_dtype kToUhal[kDtypeCount] = {UHAL_DTYPE_INVALID, UHAL_BOOL,     UHAL_UINT8,     UHAL_UINT16,
                                             UHAL_UINT32,        UHAL_UINT64,   UHAL_INT8,      UHAL_INT16,
                                             UHAL_INT32,         UHAL_INT64,    UHAL_FLOAT16,   UHAL_FLOAT32,
                                             UHAL_FLOAT64,       UHAL_BFLOAT16, UHAL_COMPLEX64, UHAL_COMPLEX128};

const char* bind_phi() {
  void* library = find_paddle_library("PD_RegisterPhiKernel");
  if (library == nullptr) return "PD_RegisterPhiKernel";
  const char* missing = nullptr;
#define UNIHAL_BIND(result, name, ...)                                    \
  phi.name = reinterpret_cast<decltype(phi.name)>(dlsym(library, #name)); \
  if (phi.name == nullptr) missing = #name;
  UNIHAL_PADDLE_FUNCTIONS(UNIHAL_BIND)
#undef UNIHAL_BIND
#define UNIHAL_BIND(result, name, symbol, ...)                             \
  phi.name = reinterpret_cast<decltype(phi.name)>(dlsym(library, symbol)); \
  if (phi.name == nullptr) missing = symbol;
  UNIHAL_PADDLE_CXX_FUNCTIONS(UNIHAL_BIND)
#undef UNIHAL_BIND
  return missing;
}

}  // namespace

uhal_dtype to_uhal(Dtype dtype) {
  return dtype >= 0 && dtype < kDtypeCount ? kToUhal[dtype] : static_cast<uhal_dtype>(UHAL_DTYPE_INVALID);
}

Dtype to_paddle(uhal_dtype dtype) {
  static constexpr auto kToPaddle = [] {
    std::array<Dtype, UHAL_DTYPE_COUNT> table = {};
    for (int i = 0; i < kDtypeCount; ++i) table[static_cast<size_t>(kToUhal[i])] = static_cast<Dtype>(i);
    table[UHAL_DTYPE_INVALID] = kUndefined;
    return table;
  }();
  return dtype >= 0 && dtype < UHAL_DTYPE_COUNT ? kToPaddle[static_cast<size_t>(dtype)] : kUndefined;
}

const char* load_phi() {
  static const char* missing = bind_phi();
  return missing;
}

}  // namespace unihal::paddle
