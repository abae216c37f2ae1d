#include "plugins/paddle/fallback.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "plugins/paddle/error.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/registry.h"
#include "unihal/fallback.h"

namespace unihal::paddle {
namespace {

constexpr const char* kSelectSymbol =
    "_ZNK3phi13KernelFactory24SelectKernelOrThrowErrorERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_"
    "9KernelKeyEb";
constexpr const char* kHasSymbol =
    "_ZNK3phi13KernelFactory9HasKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_9KernelKeyE";

// phi::KernelKey and phi::KernelResult.
struct KernelKey {
  uint8_t backend;
  int32_t layout;
  int32_t dtype;
};
struct KernelResult {
  const void* kernel;
  bool has_fallback_cpu;
  bool is_stride_kernel;
};
// phi::Backend: CUSTOM devices, the first of which is NUM_BACKENDS.
constexpr uint8_t kCpuBackend = 1;
constexpr uint8_t kFirstCustomBackend = 9;
constexpr int32_t kAnyLayout = 0;

using Select = KernelResult (*)(const void* factory, const std::string& name, const KernelKey& key, bool strided);
using Has = bool (*)(const void* factory, const std::string& name, const KernelKey& key);
Select original_select = nullptr;
Has original_has = nullptr;

const char* reason(const std::string& name) {
  for (const KernelRow& row : all_kernels()) {
    if (name != row.name) continue;
    return skip_reason(row).empty() ? "the kernel does not support this dtype" : skip_reason(row).c_str();
  }
  return "no kernel is registered";
}

void record(const std::string& name, const KernelKey& key) {
  int32_t dtype = key.dtype;
  uhal_fallback fallback = {};
  fallback.struct_size = sizeof fallback;
  fallback.framework = "paddle";
  fallback.op = name.c_str();
  fallback.dtype = dtype_name(static_cast<Dtype>(phi.PD_DatatTypeAttr(&dtype)));
  fallback.reason = reason(name);
  const uhal_status status = uhal_fallback_record(&fallback);
  if (status != UHAL_OK) raise_last_error(status, name.c_str());
}

KernelResult select_and_record(const void* factory, const std::string& name, const KernelKey& key, bool strided) {
  const KernelResult result = original_select(factory, name, key, strided);
  if (result.has_fallback_cpu && key.backend >= kFirstCustomBackend) record(name, key);
  return result;
}

// Graph building asks first with the layout of the tensors, then with any layout: only the second "no" counts,
// and only where the CPU has a kernel to fall back on.
bool has_and_record(const void* factory, const std::string& name, const KernelKey& key) {
  const bool found = original_has(factory, name, key);
  if (!found && key.backend >= kFirstCustomBackend && key.layout == kAnyLayout) {
    const KernelKey on_cpu = {kCpuBackend, kAnyLayout, key.dtype};
    if (original_has(factory, name, on_cpu)) record(name, key);
  }
  return found;
}

template <class Function>
const char* redirect(const char* symbol, Function replacement, Function* original) {
  *original = reinterpret_cast<Function>(dlsym(find_paddle_library("PD_RegisterPhiKernel"), symbol));
  if (*original == nullptr) return symbol;
  return redirect_paddle_calls(symbol, reinterpret_cast<void*>(replacement)) > 0 ? nullptr : symbol;
}

}  // namespace

const char* watch_fallbacks() {
  static const char* missing = [] {
    const char* first = redirect(kSelectSymbol, select_and_record, &original_select);
    const char* second = redirect(kHasSymbol, has_and_record, &original_has);
    return first != nullptr ? first : second;
  }();
  return missing;
}

}  // namespace unihal::paddle
