#include "plugins/paddle/fallback.h"

#include <cstring>
#include <string>

#include "plugins/paddle/error.h"
#include "plugins/paddle/in_place.h"
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

const KernelRow* find_row(const std::string& name) {
  for (const KernelRow& row : all_kernels()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const char* reason(const std::string& name) {
  const KernelRow* row = find_row(name);
  if (row == nullptr) return "no kernel is registered";
  return skip_reason(*row).empty() ? "the kernel does not support this dtype" : skip_reason(*row).c_str();
}

const char* key_dtype_name(const KernelKey& key) {
  const int32_t dtype = key.dtype;
  return dtype_name(dtype_of_number(dtype));
}

FallenKernel describe(const std::string& name, const KernelKey& key) {
  return {name, std::string(key_dtype_name(key)) + ": " + reason(name)};
}

void record(const std::string& name, const KernelKey& key) {
  uhal_fallback fallback = {};
  fallback.struct_size = sizeof fallback;
  fallback.framework = "paddle";
  fallback.op = name.c_str();
  fallback.dtype = key_dtype_name(key);
  fallback.reason = reason(name);
  const uhal_status status = uhal_fallback_record(&fallback);
  if (status != UHAL_OK) raise_last_error(status, name.c_str());
}

KernelResult select_and_record(const void* factory, const std::string& name, const KernelKey& key, bool strided) {
  const KernelResult result = original_select(factory, name, key, strided);
  if (result.has_fallback_cpu && key.backend >= kFirstCustomBackend) {
    refuse_in_place_call(describe(name, key));
    record(name, key);
  }
  return result;
}

// Graph building: a "no" sends the op to the CPU, if that has a kernel.
bool has_and_record(const void* factory, const std::string& name, const KernelKey& key) {
  const bool found = original_has(factory, name, key);
  if (!found && key.backend >= kFirstCustomBackend) {
    const KernelKey on_cpu = {kCpuBackend, kAnyLayout, key.dtype};
    if (original_has(factory, name, on_cpu)) {
      record(name, key);
      if (LoweringWatch* graph = LoweringWatch::current()) graph->note(describe(name, key));
    }
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
