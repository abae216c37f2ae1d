// torch.autocast: which ops compute in a short dtype, which in float32, and which in the widest of their operands'. The
// lists are PyTorch's own; the kernels are boxed, so that one serves each policy.
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "plugins/torch/pytorch.h"

namespace unihal::pytorch {
namespace {

enum class Policy { kShort, kFloat, kFloatResult, kWidest };

bool is_eligible(const at::Tensor& tensor) { return at::autocast::is_eligible(tensor, kDevice); }

c10::IValue cast(const c10::IValue& value, at::ScalarType dtype) {
  if (value.isTensor() && value.toTensor().defined()) {
    return at::autocast::cached_cast(dtype, value.toTensor(), kDevice);
  }
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors) tensor = at::autocast::cached_cast(dtype, tensor, kDevice);
    return tensors;
  }
  return value;
}

at::ScalarType widest(const torch::jit::Stack& stack, size_t first, at::ScalarType dtype) {
  for (size_t i = first; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined()) {
      dtype = at::autocast::prioritize(dtype, stack[i].toTensor(), kDevice);
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) {
        dtype = at::autocast::prioritize(dtype, tensor, kDevice);
      }
    }
  }
  return dtype;
}

class AutocastKernel final : public c10::OperatorKernel {
 public:
  explicit AutocastKernel(Policy policy) : policy_(policy) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard without(c10::DispatchKey::AutocastPrivateUse1);
    const auto& arguments = op.schema().arguments();
    const size_t first = stack->size() - arguments.size();
    const at::ScalarType lower = at::autocast::get_autocast_dtype(kDevice);
    at::ScalarType dtype = at::kFloat;
    if (policy_ == Policy::kShort) dtype = lower;
    if (policy_ == Policy::kWidest) dtype = widest(*stack, first, lower);
    if (policy_ == Policy::kFloatResult) {
      // The dtype that an op takes, unless the caller gave one.
      const bool fits = (*stack)[first].isTensor() && is_eligible((*stack)[first].toTensor());
      for (size_t i = 0; i < arguments.size() && fits; ++i) {
        if (arguments[i].name() == "dtype" && (*stack)[first + i].isNone()) (*stack)[first + i] = at::kFloat;
      }
    } else {
      for (size_t i = first; i < stack->size(); ++i) (*stack)[i] = cast((*stack)[i], dtype);
    }
    op.callBoxed(stack);
  }

 private:
  const Policy policy_;
};

struct Row {
  const char* op;  // "conv_transpose2d, input": a name and, after a comma, that of an overload
  Policy policy;
};

#define SHORT_ROW(...) {#__VA_ARGS__, Policy::kShort},
#define FLOAT_ROW(...) {#__VA_ARGS__, Policy::kFloat},
#define RESULT_ROW(...) {#__VA_ARGS__, Policy::kFloatResult},
#define WIDEST_ROW(...) {#__VA_ARGS__, Policy::kWidest},

constexpr Row kCastRows[] = {
    AT_FORALL_LOWER_PRECISION_FP(SHORT_ROW)   //
    AT_FORALL_FP32(FLOAT_ROW)                 //
    AT_FORALL_FP32_SET_OPT_DTYPE(RESULT_ROW)  //
    AT_FORALL_PROMOTE(WIDEST_ROW)             //
    {"norm, Scalar", Policy::kFloat},         // whose signature with a dtype is another one
    {"norm, ScalarOpt_dim", Policy::kFloat},  //
    {"norm, names_ScalarOpt_dim", Policy::kFloat},
};

void refuse_binary_cross_entropy(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
              "Use torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss instead.");
}

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  for (const Row& row : kCastRows) {
    std::string name = row.op;
    const size_t comma = name.find(", ");
    std::string overload;
    if (comma != std::string::npos) {
      overload = name.substr(comma + 2);
      name.resize(comma);
    }
    if (!c10::Dispatcher::singleton().findSchema({"aten::" + name, overload}).has_value()) continue;
    if (!overload.empty()) name += "." + overload;
    m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutocastKernel>(row.policy)));
  }
  m.impl("binary_cross_entropy", torch::CppFunction::makeFromBoxedFunction<&refuse_binary_cross_entropy>());
}

}  // namespace unihal::pytorch
