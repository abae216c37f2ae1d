// Ops on resource variables without a kernel of ours. Where a variable lives on the device, TensorFlow cannot run them
// on the CPU: so they are registered for the device, and TensorFlow's CPU kernel computes on copies of the variables.
// Each execution counts as a fallback.
#include <algorithm>
#include <utility>

#include "plugins/tensorflow/coverage.h"
#include "plugins/tensorflow/fallback.h"
#include "plugins/tensorflow/op_registry.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

constexpr const char* kPrefixes[] = {
    "ResourceApply",     "ResourceSparseApply",        "ResourceScatter",        "ResourceGather",
    "ResourceCountUpTo", "ResourceStridedSliceAssign", "StatefulRandomBinomial",
};

class HostKernel : public Kernel {
 public:
  explicit HostKernel(Construction& construction) : Kernel(construction) {
    DtypeSet dtypes = 0;
    construction.refuse(find_coverage(construction.op(), &dtypes) ? kNoKernelForDtype : kNoKernel);
  }
  void compute(Context&) const override {}
};

// All combinations of the types that a kernel allows.
std::vector<Types> combinations(const RegisteredKernel& kernel) {
  std::vector<Types> result(1);
  for (const auto& [attribute, allowed] : kernel.allowed) {
    std::vector<Types> longer;
    for (const Types& types : result) {
      for (TF_DataType type : allowed) {
        longer.push_back(types);
        longer.back()[attribute] = {type};
      }
    }
    result = std::move(longer);
  }
  return result;
}

// int32 variables, and those of dtypes that unihal has not, live on the CPU.
bool may_be_on_device(const Types& types) {
  const TF_DataType type = main_type(types);
  return type == 0 || (type != TF_INT32 && from_tensorflow(type) != UHAL_DTYPE_INVALID);
}

// What another type of device has registered since the registry was read plays no part.
void register_missing(Registrar& registrar, const std::string& op) {
  const Operation* operation = find_operation(op);
  std::vector<RegisteredKernel> kernels = find_kernels(op);
  const std::vector<RegisteredKernel> ours = registrar.added(op);
  kernels.insert(kernels.end(), ours.begin(), ours.end());
  std::vector<const char*> arguments;
  for (const Argument& argument : operation->inputs) arguments.push_back(argument.name.c_str());
  for (const Argument& argument : operation->outputs) arguments.push_back(argument.name.c_str());
  for (const RegisteredKernel& kernel : kernels) {
    if (kernel.device != "CPU") continue;
    for (const Types& types : combinations(kernel)) {
      const bool served = std::any_of(kernels.begin(), kernels.end(), [&](const RegisteredKernel& other) {
        return (other.device == registrar.device_type() || other.device == "DEFAULT") && other.fits(types);
      });
      if (!served && may_be_on_device(types)) registrar.add_exactly<HostKernel>(op.c_str(), types, arguments);
    }
  }
}

}  // namespace

void register_host_kernels(Registrar& registrar) {
  for (const char* prefix : kPrefixes) {
    for (const std::string& op : operations_like(prefix)) register_missing(registrar, op);
  }
}

}  // namespace unihal::tensorflow
