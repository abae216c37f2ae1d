// Resource variables through TensorFlow's C++ interface: see shim.h.
#include "plugins/tensorflow/shim/shim.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensorflow/c/tf_status_helper.h"
#include "tensorflow/c/tf_tensor_helper.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;

// A class of TensorFlow's own or absl's, by version.
using Mutex = std::remove_pointer_t<decltype(std::declval<Var>().mu())>;

struct unihal_variable_locks {
  std::vector<RefCountPtr<Var>> variables;  // in the order asked for
  std::vector<Mutex*> locked;               // sorted
};

namespace {

OpKernelContext* unwrap(TF_OpKernelContext* context) { return reinterpret_cast<OpKernelContext*>(context); }

bool check(const absl::Status& result, TF_Status* status) {
  if (!result.ok()) tensorflow::Set_TF_Status_from_Status(status, result);
  return result.ok();
}

TF_Tensor* wrap(const Tensor& tensor, TF_Status* status) {
  absl::Status result;
  TF_Tensor* wrapped = tensorflow::TF_TensorFromTensor(tensor, &result);
  return check(result, status) ? wrapped : nullptr;
}

RefCountPtr<Var> find(OpKernelContext* context, int input, TF_Status* status) {
  RefCountPtr<Var> variable;
  check(LookupResource(context, tensorflow::HandleFromInput(context, input), &variable), status);
  return variable;
}

bool check_initialized(const Var& variable, const OpKernelContext* context, TF_Status* status) {
  if (!variable.is_initialized) {
    const std::string message = "The variable is not initialized; assign it a value before " +
                                context->op_kernel().type_string() + " updates it";
    TF_SetStatus(status, TF_FAILED_PRECONDITION, message.c_str());
  }
  return variable.is_initialized;
}

// Replaces *tensor by a tensor of its own that holds a copy of `source`.
bool copy_into(OpKernelContext* context, const Tensor& source, Tensor* tensor, unihal_variable_copy copy,
               TF_Status* status) {
  Tensor fresh;
  tensorflow::AllocatorAttributes attributes;
  attributes.set_gpu_compatible(true);
  attributes.set_nic_compatible(true);
  if (!check(context->allocate_temp(source.dtype(), source.shape(), &fresh, attributes), status)) return false;
  TF_Tensor* from = wrap(source, status);
  TF_Tensor* to = from != nullptr ? wrap(fresh, status) : nullptr;
  if (to == nullptr) {
    if (from != nullptr) TF_DeleteTensor(from);
    return false;
  }
  copy(reinterpret_cast<TF_OpKernelContext*>(context), from, to, status);
  if (TF_GetCode(status) == TF_OK) *tensor = fresh;
  return TF_GetCode(status) == TF_OK;
}

unihal_variable_locks* lock(TF_OpKernelContext* handle, const int* inputs, int count, TF_Status* status) {
  auto locks = std::make_unique<unihal_variable_locks>();
  for (int i = 0; i < count; ++i) {
    RefCountPtr<Var> variable = find(unwrap(handle), inputs[i], status);
    if (variable == nullptr) return nullptr;
    locks->locked.push_back(variable->mu());
    locks->variables.push_back(std::move(variable));
  }
  std::sort(locks->locked.begin(), locks->locked.end());
  if (std::adjacent_find(locks->locked.begin(), locks->locked.end()) != locks->locked.end()) {
    // Each would be a copy of its own, and all updates but one be lost.
    const std::string message = unwrap(handle)->op_kernel().type_string() + " was given one variable twice to update";
    TF_SetStatus(status, TF_INVALID_ARGUMENT, message.c_str());
    return nullptr;
  }
  for (Mutex* mutex : locks->locked) mutex->lock();
  return locks.release();
}

void unlock(unihal_variable_locks* locks) {
  if (locks == nullptr) return;
  for (Mutex* mutex : locks->locked) mutex->unlock();
  delete locks;
}

TF_Tensor* writable(TF_OpKernelContext* handle, unihal_variable_locks* locks, int index, unihal_variable_copy copy,
                    TF_Status* status) {
  OpKernelContext* context = unwrap(handle);
  Var& variable = *locks->variables[static_cast<size_t>(index)];
  if (!check_initialized(variable, context, status)) return nullptr;
  // In copy-on-read mode readers copy, so the variable never shares its memory.
  if (!variable.copy_on_read_mode.load() && !variable.tensor()->RefCountIsOne()) {
    const Tensor shared = *variable.tensor();
    if (!copy_into(context, shared, variable.tensor(), copy, status)) return nullptr;
  }
  return wrap(*variable.tensor(), status);
}

TF_Tensor* readable(TF_OpKernelContext* handle, int input, TF_Status* status) {
  OpKernelContext* context = unwrap(handle);
  RefCountPtr<Var> variable = find(context, input, status);
  if (variable == nullptr) return nullptr;
  tensorflow::tf_shared_lock lock(*variable->mu());
  return check_initialized(*variable, context, status) ? wrap(*variable->tensor(), status) : nullptr;
}

void assign(TF_OpKernelContext* handle, int input, int value, int validate_shape, unihal_variable_copy copy,
            TF_Status* status) {
  OpKernelContext* context = unwrap(handle);
  const Tensor& source = context->input(value);
  RefCountPtr<Var> variable;
  const auto create = [&source](Var** created) {
    *created = new Var(source.dtype());
    return absl::OkStatus();
  };
  if (!check(tensorflow::LookupOrCreateResource<Var>(context, tensorflow::HandleFromInput(context, input), &variable,
                                                     create),
             status)) {
    return;
  }
  tensorflow::mutex_lock lock(*variable->mu());
  if (variable->tensor()->dtype() != source.dtype()) {
    const std::string message = "The variable has dtype " + DataTypeString(variable->tensor()->dtype()) +
                                ", the value has dtype " + DataTypeString(source.dtype()) + "; cast the value";
    return TF_SetStatus(status, TF_INVALID_ARGUMENT, message.c_str());
  }
  if (validate_shape != 0 && variable->is_initialized && !variable->tensor()->shape().IsSameSize(source.shape())) {
    const std::string message = "The variable has shape " + variable->tensor()->shape().DebugString() +
                                ", the value has shape " + source.shape().DebugString();
    return TF_SetStatus(status, TF_INVALID_ARGUMENT, message.c_str());
  }
  if (variable->copy_on_read_mode.load()) {
    if (!copy_into(context, source, variable->tensor(), copy, status)) return;
  } else {
    *variable->tensor() = source;
  }
  variable->is_initialized = true;
}

constexpr unihal_variable_functions kFunctions = {
    sizeof(unihal_variable_functions), lock, unlock, writable, readable, assign,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const unihal_variable_functions*
uhal_tensorflow_variable_functions() {
  return &kFunctions;
}
