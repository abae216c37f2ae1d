#include "plugins/paddle/fallback.h"

#include <cstring>
#include <string>

#include "plugins/paddle/error.h"
#include "plugins/paddle/in_place.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_types.h"
#include "plugins/paddle/registry.h"
#include "plugins/paddle/selections.h"
#include "plugins/paddle/signature.h"
#include "unihal/fallback.h"

namespace unihal::paddle {
namespace {

constexpr const char* kSelectSymbol =
    "_ZNK3phi13KernelFactory24SelectKernelOrThrowErrorERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_"
    "9KernelKeyEb";
constexpr const char* kSelectAnySymbol =
    "_ZNK3phi13KernelFactory12SelectKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_9KernelKeyE";
constexpr const char* kSelectWithDnnSymbol =
    "_ZNK3phi13KernelFactory22SelectKernelWithGPUDNNERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_"
    "9KernelKeyE";
constexpr const char* kHasSymbol =
    "_ZNK3phi13KernelFactory9HasKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_9KernelKeyE";

// phi::KernelResult.
struct KernelResult {
  const void* kernel;
  bool has_fallback_cpu;
  bool is_stride_kernel;
};

using Select = KernelResult (*)(const void* factory, const std::string& name, const KernelKey& key, bool strided);
// Returns a phi::Kernel: always the same empty one where there is none.
using SelectAny = const void* (*)(const void* factory, const std::string& name, const KernelKey& key);
using Has = bool (*)(const void* factory, const std::string& name, const KernelKey& key);
Select original_select = nullptr;
SelectAny original_select_any = nullptr;
SelectAny original_select_with_dnn = nullptr;
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

FallenKernel describe_fallen(const std::string& name, const KernelKey& key) {
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

// Kernels that take views as they are. Paddle would hand them dense copies, which their other arguments do not
// describe.
bool takes_strides(const std::string& name) { return name.compare(0, 18, "index_elementwise_") == 0; }

// Paddle hands the CPU's kernels of sparse tensors the device's memory as it is, without a copy: they would read it on
// the host.
void refuse_sparse_tensors(const std::string& name, const KernelKey& key, const void* kernel) {
  if (!takes_sparse_tensors(kernel)) return;
  raise(UHAL_UNIMPLEMENTED,
        "(unihal) " + name + ": the sparse op '" + name + "' of " + key_dtype_name(key) +
            " has no kernel on this device, and Paddle cannot run it on the CPU from there. Compute "
            "with x.to_dense(), or with the op's values (x.values()), or make the tensor on the CPU "
            "(paddle.set_device('cpu')) and put its result on the device");
}

KernelResult select_and_record(const void* factory, const std::string& name, const KernelKey& key, bool strided) {
  KernelResult result = original_select(factory, name, key, strided);
  if (result.has_fallback_cpu && key.backend >= kFirstCustomBackend) {
    refuse_in_place_call(describe_fallen(name, key));
    record(name, key);
    refuse_sparse_tensors(name, key, result.kernel);
  } else if (key.backend >= kFirstCustomBackend) {
    note_selection(name, key.dtype);
    if (strided && takes_strides(name)) result.is_stride_kernel = true;
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
      if (LoweringWatch* graph = LoweringWatch::current()) graph->note(describe_fallen(name, key));
    }
  }
  return found;
}

// Programs of the old intermediate representation, and what is left of its eager ops: Paddle asks for the device's
// kernel, gets the empty one, and asks for the CPU's next.
thread_local struct {
  std::string name;
  KernelKey key;
} missed;

template <const SelectAny& original>
const void* select_any_and_record(const void* factory, const std::string& name, const KernelKey& key) {
  static const void* const empty = original(factory, std::string(), KernelKey{});  // no kernel has this name
  const void* kernel = original(factory, name, key);
  if (key.backend >= kFirstCustomBackend && kernel == empty) {
    missed = {name, key};
    return kernel;
  }
  if (key.backend >= kFirstCustomBackend) note_selection(name, key.dtype);
  const bool is_fallback = key.backend == kCpuBackend && kernel != empty && missed.name == name;
  const KernelKey wanted = missed.key;
  missed.name.clear();
  if (is_fallback) record(name, wanted);
  return kernel;
}

const char* redirect_selection() {
  const char* missing[] = {
      redirect_paddle_function(kSelectSymbol, select_and_record, &original_select),
      redirect_paddle_function(kSelectAnySymbol, select_any_and_record<original_select_any>, &original_select_any),
      redirect_paddle_function(kSelectWithDnnSymbol, select_any_and_record<original_select_with_dnn>,
                               &original_select_with_dnn),
      redirect_paddle_function(kHasSymbol, has_and_record, &original_has)};
  return first_missing(missing);
}

}  // namespace

const char* watch_fallbacks() {
  static const char* missing = redirect_selection();
  return missing;
}

}  // namespace unihal::paddle
