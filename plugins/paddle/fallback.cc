#include "plugins/paddle/fallback.h"

#include <cstring>
#include <string>

#include "plugins/paddle/error.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_types.h"
#include "plugins/paddle/registry.h"
#include "unihal/fallback.h"

namespace unihal::paddle {
namespace {

constexpr const char* kSelectSymbol =
    "_ZNK3phi13KernelFactory24SelectKernelOrThrowErrorERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_"
    "9KernelKeyEb";
constexpr const char* kHasSymbol =
    "_ZNK3phi13KernelFactory9HasKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_9KernelKeyE";

// phi::KernelResult.
struct KernelResult {
  const void* kernel;
  bool has_fallback_cpu;
  bool is_stride_kernel;
};
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

// Graph building: a "no" sends the op to the CPU, if that has a kernel.
bool has_and_record(const void* factory, const std::string& name, const KernelKey& key) {
  const bool found = original_has(factory, name, key);
  if (!found && key.backend >= kFirstCustomBackend) {
    const KernelKey on_cpu = {kCpuBackend, kAnyLayout, key.dtype};
    if (original_has(factory, name, on_cpu)) record(name, key);
  }
  return found;
}

const char* redirect_all() {
  const char* first = redirect_paddle_function(kSelectSymbol, select_and_record, &original_select);
  const char* second = redirect_paddle_function(kHasSymbol, has_and_record, &original_has);
  return first != nullptr ? first : second;
}

}  // namespace

const char* watch_fallbacks() {
  static const char* missing = redirect_all();
  return missing;
}

}  // namespace unihal::paddle
