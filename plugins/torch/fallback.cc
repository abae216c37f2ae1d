#include "plugins/torch/fallback.h"

#include <ATen/native/CPUFallback.h>

#include "plugins/torch/dtype.h"
#include "plugins/torch/runtime.h"
#include "unihal/fallback.h"

namespace unihal::pytorch {
namespace {

constexpr const char* kNoKernel = "no kernel is registered";

// The dtype of the first tensor among the arguments; "" if there is none.
const char* dtype_of(const torch::jit::Stack& stack, size_t argument_count) {
  for (size_t i = stack.size() - argument_count; i < stack.size(); ++i) {
    at::ScalarType dtype;
    if (stack[i].isTensor() && stack[i].toTensor().defined()) {
      dtype = stack[i].toTensor().scalar_type();
    } else if (stack[i].isTensorList() && !stack[i].toTensorList().empty()) {
      dtype = stack[i].toTensorList().get(0).scalar_type();
    } else {
      continue;
    }
    return from_pytorch(dtype) != UHAL_DTYPE_INVALID ? uhal_dtype_name(from_pytorch(dtype)) : c10::toString(dtype);
  }
  return "";
}

void without_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run_on_cpu(op, stack, kNoKernel); }

}  // namespace

void record_fallback(const char* op, const char* dtype, const std::string& reason) {
  uhal_fallback record = {};
  record.struct_size = sizeof record;
  record.framework = "pytorch";
  record.op = op;
  record.dtype = dtype;
  record.reason = reason.c_str();
  check(uhal_fallback_record(&record));
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason) {
  const c10::OperatorName& name = op.operator_name();
  std::string text = name.name;
  if (text.rfind("aten::", 0) == 0) text.erase(0, 6);
  if (!name.overload_name.empty()) text += "." + name.overload_name;
  record_fallback(text.c_str(), dtype_of(*stack, op.schema().arguments().size()), reason);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&without_kernel>()); }

}  // namespace unihal::pytorch
