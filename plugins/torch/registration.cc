// How kernels get into PyTorch's dispatcher, with all variants of their ops.
//
// Every kernel can be called boxed: with its arguments in a vector, each with a reference of its own. To count the
// references of a tensor that Python knows means to take Python's lock, so that boxing costs a fifth of what a small op
// does. What takes tensors and numbers only, as most ops of one result do, is therefore registered with its C++
// signature too, and lends its arguments to the call.
#include <deque>
#include <map>
#include <unordered_map>

#include "plugins/torch/call.h"
#include "plugins/torch/fallback.h"

namespace unihal::pytorch {
namespace {

// What a registered variant calls.
struct Target {
  Registration registration;
  c10::OperatorHandle op;
};

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const Target& target) : target_(target) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const Registration& registration = target_.registration;
    const int outs = registration.variant == Variant::kOut ? registration.result_count : 0;
    const int count = registration.argument_count + outs;
    std::optional<std::string> refused;
    {
      Call call(registration, stack->data() + stack->size() - count);
      refused = call.run();
      if (!refused.has_value()) {
        torch::jit::drop(*stack, count);
        call.push_results(*stack);
      }
    }
    if (refused.has_value()) run_on_cpu(op, stack, *refused);
  }

 private:
  const Target target_;
};

// -- C++ signatures ----------------------------------------------------------------------------------------

c10::IValue lend(const at::Tensor& tensor) {
  return c10::IValue(c10::MaybeOwnedTraits<at::Tensor>::createBorrow(tensor));
}
c10::IValue lend(const at::Scalar& number) { return c10::IValue(number); }

// Arguments of a call that are the caller's.
template <size_t kCount>
struct Lent {
  c10::IValue values[kCount];

  template <class... Given>
  explicit Lent(const Given&... given) : values{lend(given)...} {}
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() {
    for (c10::IValue& value : values) {
      if (value.isTensor()) static_cast<void>(std::move(value).toTensor().unsafeReleaseTensorImpl());
    }
  }
};

template <class... Given>
at::Tensor run_unboxed(const Target& target, const Given&... given) {
  std::optional<std::string> refused;
  {
    const Lent<sizeof...(Given)> arguments(given...);
    Call call(target.registration, arguments.values);
    refused = call.run();
    if (!refused.has_value()) {
      // What is written is the caller's already.
      return target.registration.variant == Variant::kFunctional ? call.take_result() : at::Tensor();
    }
  }
  torch::jit::Stack stack{c10::IValue(given)...};
  run_on_cpu(target.op, &stack, *refused);
  return std::move(stack.back()).toTensor();
}

// Whether that is the signature by which PyTorch itself calls the op.
template <class Function>
bool is_signature_of(const c10::OperatorHandle& op) {
  try {
    op.typed<Function>();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

// Registers a variant that takes a tensor and then `Rest`; false if PyTorch calls it otherwise.
using AddUnboxed = bool (*)(torch::Library& library, const char* name, const Target* target);
template <class... Rest>
bool add_functional(torch::Library& library, const char* name, const Target* target) {
  if (!is_signature_of<at::Tensor(const at::Tensor&, const Rest&...)>(target->op)) return false;
  library.impl(name, [target](const at::Tensor& self, const Rest&... rest) -> at::Tensor {
    return run_unboxed(*target, self, rest...);
  });
  return true;
}
template <class... Rest>
bool add_in_place(torch::Library& library, const char* name, const Target* target) {
  if (!is_signature_of<at::Tensor&(at::Tensor&, const Rest&...)>(target->op)) return false;
  library.impl(name, [target](at::Tensor& self, const Rest&... rest) -> at::Tensor& {
    run_unboxed(*target, self, rest...);
    return self;
  });
  return true;
}
template <class... Rest>
bool add_out(torch::Library& library, const char* name, const Target* target) {
  if (!is_signature_of<at::Tensor&(const at::Tensor&, const Rest&..., at::Tensor&)>(target->op)) return false;
  library.impl(name, [target](const at::Tensor& self, const Rest&... rest, at::Tensor& out) -> at::Tensor& {
    run_unboxed(*target, self, rest..., out);
    return out;
  });
  return true;
}

struct Signature {
  const char* arguments;  // T: a tensor, S: a number
  AddUnboxed add[3];      // by variant
};
template <class... Rest>
constexpr Signature signature(const char* arguments) {
  return {arguments, {add_functional<Rest...>, add_in_place<Rest...>, add_out<Rest...>}};
}
using T = at::Tensor;
using S = at::Scalar;
constexpr Signature kSignatures[] = {
    signature<>("T"),       signature<T>("TT"),         signature<S>("TS"),
    signature<S, S>("TSS"), signature<T, S>("TTS"),     signature<T, S, S>("TTSS"),
    signature<T, T>("TTT"), signature<T, T, S>("TTTS"), signature<T, T, S, S>("TTTSS"),
};

// The signature of an op's functional form in the table, or nullptr.
const Signature* find_signature(const c10::FunctionSchema& schema, const Registration& registration) {
  if (registration.result_count != 1 || schema.returns()[0].type()->kind() != c10::TypeKind::TensorType) return nullptr;
  std::string arguments;
  for (int i = 0; i < registration.argument_count; ++i) {
    const c10::TypeKind kind = schema.arguments()[i].type()->kind();
    arguments += kind == c10::TypeKind::TensorType ? 'T' : kind == c10::TypeKind::NumberType ? 'S' : '?';
  }
  for (const Signature& known : kSignatures) {
    if (arguments == known.arguments) return &known;
  }
  return nullptr;
}

// -- the table of covered ops ---------------------------------------------------------------------------------

std::map<std::string, DtypeSet>& covered() {
  static auto* instance = new std::map<std::string, DtypeSet>;
  return *instance;
}

// The overloads of each op of ATen, by the name without the overload's.
const std::unordered_map<std::string, std::vector<std::string>>& overloads() {
  static const auto* all = [] {
    auto* found = new std::unordered_map<std::string, std::vector<std::string>>;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.rfind("aten::", 0) == 0) (*found)[name.name].push_back(name.overload_name);
    }
    return found;
  }();
  return *all;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Whether `other` takes what `schema` takes, and then `extra` arguments.
bool takes_the_same(const c10::FunctionSchema& schema, const c10::FunctionSchema& other, size_t extra) {
  const auto& ours = schema.arguments();
  const auto& theirs = other.arguments();
  if (theirs.size() != ours.size() + extra) return false;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (*ours[i].type() != *theirs[i].type() || ours[i].name() != theirs[i].name()) return false;
  }
  return true;
}

class Registrar {
 public:
  void add(const Kernel& kernel) {
    const std::string text = std::string("aten::") + kernel.op;
    const size_t dot = text.find('.');
    const std::string name = text.substr(0, dot);
    const std::string overload = dot == std::string::npos ? "" : text.substr(dot + 1);
    const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
    if (!found.has_value()) return;
    const c10::FunctionSchema& schema = found->schema();
    const int arguments = static_cast<int>(schema.arguments().size());
    const int results = static_cast<int>(schema.returns().size());
    const bool writes_self = arguments > 0 && is_written(schema.arguments()[0]) && results == 1;
    covered()[kernel.op] |= kernel.dtypes;
    add(name, overload, *found, {&kernel, writes_self ? Variant::kInPlace : Variant::kFunctional, arguments, results});
    if (writes_self) return;
    for (const std::string& other : overloads_of(name + "_")) {
      const auto candidate = c10::Dispatcher::singleton().findSchema({name + "_", other});
      const c10::FunctionSchema& variant = candidate->schema();
      if (results == 1 && takes_the_same(schema, variant, 0) && is_written(variant.arguments()[0])) {
        add(name + "_", other, *candidate, {&kernel, Variant::kInPlace, arguments, results});
      }
    }
    for (const std::string& other : overloads_of(name)) {
      const auto candidate = c10::Dispatcher::singleton().findSchema({name, other});
      const c10::FunctionSchema& variant = candidate->schema();
      if (results > 0 && takes_the_same(schema, variant, static_cast<size_t>(results)) &&
          variant.arguments().back().is_out()) {
        add(name, other, *candidate, {&kernel, Variant::kOut, arguments, results});
      }
    }
  }

 private:
  static const std::vector<std::string>& overloads_of(const std::string& name) {
    static const std::vector<std::string> none;
    const auto found = overloads().find(name);
    return found != overloads().end() ? found->second : none;
  }

  void add(const std::string& name, const std::string& overload, const c10::OperatorHandle& op,
           const Registration& registration) {
    const std::string full = overload.empty() ? name : name + "." + overload;
    if (const Signature* const known = find_signature(op.schema(), registration)) {
      targets_.push_back(Target{registration, op});
      if (known->add[static_cast<int>(registration.variant)](library_, full.c_str(), &targets_.back())) return;
    }
    auto kernel = std::make_unique<BoxedKernel>(Target{registration, op});
    library_.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }

  std::deque<Target> targets_;  // where they stay
  torch::Library library_{torch::Library::IMPL, "aten", c10::make_optional(c10::DispatchKey::PrivateUse1), __FILE__,
                          __LINE__};
};

}  // namespace

void register_kernels(const Kernel* kernels, size_t count) {
  static auto* registrar = new Registrar;  // never destroyed, or it would take the kernels with it
  for (size_t i = 0; i < count; ++i) registrar->add(kernels[i]);
}

std::string coverage() {
  std::string text = "[";
  for (const auto& [op, dtypes] : covered()) {
    text += (text.size() > 1 ? ",\n" : "") + std::string("{\"op\": \"") + op + "\", \"dtypes\": [";
    const char* separator = "";
    for (uhal_dtype dtype = 1; dtype < UHAL_DTYPE_COUNT; ++dtype) {
      if (!contains(dtypes, dtype)) continue;
      text += std::string(separator) + "\"" + uhal_dtype_name(dtype) + "\"";
      separator = ", ";
    }
    text += "]}";
  }
  return text + "]";
}

}  // namespace unihal::pytorch
