// Assignment to resource variables, and to reference variables. The former override TensorFlow's kernels for all
// devices, which compute on the device pointer with the host's arithmetic.
#include "plugins/tensorflow/variable.h"

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {

void copy_variable(TF_OpKernelContext* handle, TF_Tensor* source, TF_Tensor* destination, TF_Status* status) {
  const auto stream = reinterpret_cast<uhal_stream*>(TF_GetStream(handle, status));
  const size_t bytes = TF_TensorByteSize(source);
  if (TF_GetCode(status) == TF_OK && bytes > 0) {
    const uhal_status result =
        uhal_copy(stream, TF_TensorData(destination), TF_TensorData(source), bytes, UHAL_COPY_DEVICE_TO_DEVICE);
    if (result != UHAL_OK) TF_SetStatus(status, static_cast<TF_Code>(result), uhal_last_error()->message);
  }
  TF_DeleteTensor(source);
  TF_DeleteTensor(destination);
}

LockedVariables::LockedVariables(Context& context, const std::vector<int>& inputs)
    : context_(context), locks_(nullptr) {
  if (!context.ok()) return;
  locks_ = shim_functions()->lock(context.handle(), inputs.data(), static_cast<int>(inputs.size()), context.status());
  context.check();
}

LockedVariables::~LockedVariables() {
  for (TF_Tensor* tensor : tensors_) TF_DeleteTensor(tensor);
  shim_functions()->unlock(locks_);
}

View LockedVariables::writable(int index) {
  if (!context_.ok()) return View();
  TF_Tensor* tensor = shim_functions()->writable(context_.handle(), locks_, index, copy_variable, context_.status());
  if (!context_.check()) return View();
  tensors_.push_back(tensor);
  return context_.view(tensor);
}

ReadVariable::ReadVariable(Context& context, int input) {
  if (!context.ok()) return;
  tensor_ = shim_functions()->readable(context.handle(), input, context.status());
  if (context.check()) view_ = context.view(tensor_);
}

ReadVariable::~ReadVariable() {
  if (tensor_ != nullptr) TF_DeleteTensor(tensor_);
}

namespace {

class AssignVariable : public Kernel {
 public:
  explicit AssignVariable(Construction& construction) : Kernel(construction) {
    validate_shape_ = construction.has("validate_shape") && construction.boolean("validate_shape");
  }
  void compute(Context& context) const override {
    shim_functions()->assign(context.handle(), 0, 1, validate_shape_, copy_variable, context.status());
    context.check();
  }

 private:
  bool validate_shape_;
};

template <int kFunction>
class UpdateVariable : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    LockedVariables variables(context, {0});
    const View variable = variables.writable(0);
    const View value = context.input(1);
    if (!context.ok()) return;
    if (shape_of(variable) != shape_of(value)) {
      return context.fail_invalid(std::string(op()) + ": the variable has shape " + to_text(variable) +
                                  ", the value has shape " + to_text(value));
    }
    context.map(kFunction, {&variable, &value}, {&variable});
  }
};

}  // namespace

void register_variable(Registrar& registrar) {
  // int32 variables live on the CPU: TensorFlow has no VarHandleOp for them on other devices.
  const DtypeSet any = without_int32(kAll);
  const DtypeSet numbers = without_int32(kNumbers | kComplex);
  registrar.add<AssignVariable>("AssignVariableOp", {{"dtype", any}}, {"resource"});
  registrar.add<UpdateVariable<uhal_map_add>>("AssignAddVariableOp", {{"dtype", numbers}}, {"resource"});
  registrar.add<UpdateVariable<uhal_map_subtract>>("AssignSubVariableOp", {{"dtype", numbers}}, {"resource"});
  registrar.add<AssignVariable>("Assign", {{"T", any}});
  registrar.add<UpdateVariable<uhal_map_add>>("AssignAdd", {{"T", numbers}});
  registrar.add<UpdateVariable<uhal_map_subtract>>("AssignSub", {{"T", numbers}});
}

}  // namespace unihal::tensorflow
