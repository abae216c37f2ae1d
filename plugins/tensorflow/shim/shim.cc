// Resource variables and CPU kernels through TensorFlow's C++ interface: see shim.h.
#include "plugins/tensorflow/shim/shim.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "plugins/tensorflow/shim/collective.h"
#include "plugins/tensorflow/shim/small_outputs.h"
#include "tensorflow/c/tf_status_helper.h"
#include "tensorflow/c/tf_tensor_helper.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "tensorflow/core/public/version.h"
#include "tensorflow/core/util/determinism.h"

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;

// A class of TensorFlow's own or absl's, by version.
using Mutex = std::remove_pointer_t<decltype(std::declval<Var>().mu())>;

struct unihal_variable_locks {
  std::vector<RefCountPtr<Var>> variables;  // in the order asked for
  std::vector<int> references;              // or the inputs, if they are references
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

// An op on references gives the first of them on.
void forward_reference(OpKernelContext* context, int input) {
  if (context->num_outputs() == 1 && tensorflow::IsRefType(context->expected_output_dtype(0))) {
    context->forward_ref_input_to_ref_output(input, 0);
  }
}

unihal_variable_locks* lock(TF_OpKernelContext* handle, const int* inputs, int count, TF_Status* status) {
  auto locks = std::make_unique<unihal_variable_locks>();
  for (int i = 0; i < count; ++i) {
    if (unwrap(handle)->input_is_ref(inputs[i])) {
      locks->references.push_back(inputs[i]);
      locks->locked.push_back(unwrap(handle)->input_ref_mutex(inputs[i]));
      continue;
    }
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
  forward_reference(unwrap(handle), inputs[0]);
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
  if (!locks->references.empty()) {
    // Readers of a reference see what is written, by TensorFlow's design.
    const Tensor tensor = context->mutable_input(locks->references[static_cast<size_t>(index)], /*lock_held=*/true);
    if (tensor.IsInitialized()) return wrap(tensor, status);
    TF_SetStatus(status, TF_FAILED_PRECONDITION, "Attempting to use uninitialized value");
    return nullptr;
  }
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

void assign_reference(OpKernelContext* context, int input, const Tensor& source, bool validate_shape,
                      unihal_variable_copy copy, TF_Status* status) {
  tensorflow::mutex_lock lock(*context->input_ref_mutex(input));
  const Tensor held = context->mutable_input(input, /*lock_held=*/true);
  if (validate_shape && !held.shape().IsSameSize(source.shape())) {
    const std::string message =
        "Assign requires shapes of both tensors to match. lhs shape= " + held.shape().DebugString() +
        " rhs shape= " + source.shape().DebugString();
    return TF_SetStatus(status, TF_INVALID_ARGUMENT, message.c_str());
  }
  Tensor fresh;
  if (!copy_into(context, source, &fresh, copy, status)) return;
  context->replace_ref_input(input, fresh, /*lock_held=*/true);
  forward_reference(context, input);
}

void assign(TF_OpKernelContext* handle, int input, int value, int validate_shape, unihal_variable_copy copy,
            TF_Status* status) {
  OpKernelContext* context = unwrap(handle);
  const Tensor& source = context->input(value);
  if (context->input_is_ref(input)) {
    return assign_reference(context, input, source, validate_shape != 0, copy, status);
  }
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

// -- the CPU's kernels -----------------------------------------------------------------------------------

tensorflow::Device* cpu_of(OpKernelContext* context) {
  tensorflow::FunctionLibraryRuntime* library = context->function_library();
  tensorflow::Device* device = nullptr;
  if (library == nullptr || library->device_mgr() == nullptr) return nullptr;
  return library->device_mgr()->LookupDevice("/device:CPU:0", &device).ok() ? device : nullptr;
}

// Whether an op leaves its variables as they are.
bool only_reads(const OpKernelContext* context) {
  return context->op_kernel().type_string_view().substr(0, 14) == "ResourceGather";
}

// Copies the elements of a tensor between the device and the host.
bool transfer(OpKernelContext* context, const Tensor& source, Tensor* destination, bool to_host, unihal_host_copy copy,
              TF_Status* status) {
  if (source.TotalBytes() == 0) return true;
  if (!destination->IsInitialized()) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory for a copy of an operand");
    return false;
  }
  copy(reinterpret_cast<TF_OpKernelContext*>(context), destination->data(), source.data(), source.TotalBytes(),
       to_host ? 1 : 0, status);
  return TF_GetCode(status) == TF_OK;
}

struct Unlock {
  void operator()(unihal_variable_locks* locks) const { unlock(locks); }
};

// The variables among an op's operands, locked, with copies in host memory for a CPU kernel.
class HostVariables {
 public:
  // False on failure, also where a resource is no variable.
  bool lock_all(OpKernelContext* context, TF_Status* status) {
    std::vector<int> inputs;
    for (int i = 0; i < context->num_inputs(); ++i) {
      if (context->input_dtype(i) == tensorflow::DT_RESOURCE) inputs.push_back(i);
    }
    if (inputs.empty()) return true;
    locks_.reset(
        lock(reinterpret_cast<TF_OpKernelContext*>(context), inputs.data(), static_cast<int>(inputs.size()), status));
    return locks_ != nullptr;
  }

  // Copies the next of the variables; *handle is what the CPU kernel finds the copy by.
  bool fetch(OpKernelContext* context, tensorflow::Device* cpu, tensorflow::Allocator* allocator, unihal_host_copy copy,
             Tensor* handle, TF_Status* status) {
    Var& variable = *locks_->variables[copies_.size()];
    const Tensor& source = *variable.tensor();
    copies_.emplace_back(new Var(source.dtype()));
    Var& host = *copies_.back();
    if (variable.is_initialized) {
      *host.tensor() = Tensor(allocator, source.dtype(), source.shape());
      host.is_initialized = true;
      if (!transfer(context, source, host.tensor(), true, copy, status)) return false;
    }
    host.Ref();  // for the handle
    *handle = Tensor(tensorflow::DT_RESOURCE, tensorflow::TensorShape());
    handle->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(&host, cpu->name());
    return true;
  }

  // Gives the variables the values of their copies, in memory of their own: somebody may still read the old values.
  bool store(OpKernelContext* context, unihal_host_copy copy, TF_Status* status) {
    for (size_t i = 0; i < copies_.size(); ++i) {
      const Tensor& value = *copies_[i]->tensor();
      if (!copies_[i]->is_initialized) continue;
      tensorflow::AllocatorAttributes attributes;
      attributes.set_gpu_compatible(true);
      attributes.set_nic_compatible(true);
      Tensor fresh;
      if (!check(context->allocate_temp(value.dtype(), value.shape(), &fresh, attributes), status)) return false;
      if (!transfer(context, value, &fresh, false, copy, status)) return false;
      *locks_->variables[i]->tensor() = fresh;
    }
    return true;
  }

 private:
  std::unique_ptr<unihal_variable_locks, Unlock> locks_;
  std::vector<RefCountPtr<Var>> copies_;
};

// Host tensors with the values of the context's inputs.
bool fetch_inputs(OpKernelContext* context, tensorflow::Device* cpu, tensorflow::Allocator* allocator,
                  unihal_host_copy copy, HostVariables* variables, std::vector<Tensor>* inputs, TF_Status* status) {
  for (int i = 0; i < context->num_inputs(); ++i) {
    if (context->input_is_ref(i)) {
      TF_SetStatus(status, TF_UNIMPLEMENTED, "the CPU cannot reach variables of the device");
      return false;
    }
    const Tensor& input = context->input(i);
    Tensor host = input;
    if (context->input_dtype(i) == tensorflow::DT_RESOURCE) {
      if (!variables->fetch(context, cpu, allocator, copy, &host, status)) return false;
    } else if (context->input_memory_type(i) != tensorflow::HOST_MEMORY) {
      host = Tensor(allocator, input.dtype(), input.shape());
      if (!transfer(context, input, &host, true, copy, status)) return false;
    }
    inputs->push_back(std::move(host));
  }
  return true;
}

// Gives a host tensor out as an output of the context.
bool set_output(OpKernelContext* context, int index, const Tensor& value, unihal_host_copy copy, TF_Status* status) {
  if (context->output_memory_type(index) == tensorflow::HOST_MEMORY) {
    context->set_output(index, value);
    return true;
  }
  Tensor* output = nullptr;
  if (!check(context->allocate_output(index, value.shape(), &output), status)) return false;
  return transfer(context, value, output, false, copy, status);
}

void compute_on_host(TF_OpKernelContext* handle, int store_variables, unihal_host_copy copy, TF_Status* status) {
  OpKernelContext* context = unwrap(handle);
  tensorflow::Device* cpu = cpu_of(context);
  if (cpu == nullptr) return TF_SetStatus(status, TF_UNIMPLEMENTED, "there is no CPU device");
  tensorflow::Allocator* allocator = cpu->GetAllocator(tensorflow::AllocatorAttributes());
  HostVariables variables;
  std::vector<Tensor> inputs;
  if (!variables.lock_all(context, status)) return;
  if (!fetch_inputs(context, cpu, allocator, copy, &variables, &inputs, status)) return;
  absl::Status result;
  const std::unique_ptr<tensorflow::OpKernel> kernel = tensorflow::CreateOpKernel(
      tensorflow::DeviceType("CPU"), cpu, allocator, context->op_kernel().def(), TF_GRAPH_DEF_VERSION, &result);
  if (!check(result, status)) return;

  std::vector<tensorflow::TensorValue> values;
  values.reserve(inputs.size());
  for (Tensor& input : inputs) values.emplace_back(&input);
  const std::vector<tensorflow::AllocatorAttributes> input_attributes(inputs.size());
  const std::vector<tensorflow::AllocatorAttributes> output_attributes(static_cast<size_t>(context->num_outputs()));
  OpKernelContext::Params parameters;
  parameters.step_id = context->step_id();
  parameters.device = cpu;
  parameters.op_kernel = kernel.get();
  parameters.inputs = values;
  parameters.input_alloc_attrs = input_attributes;
  parameters.output_attr_array = output_attributes.data();
  parameters.resource_manager = cpu->resource_manager();
  parameters.step_container = context->step_container();
  parameters.cancellation_manager = context->cancellation_manager();
  parameters.function_library = context->function_library();
  parameters.runner = context->runner();
  parameters.frame_iter = context->frame_iter();
  OpKernelContext on_host(&parameters);
  cpu->Compute(kernel.get(), &on_host);
  if (!check(on_host.status(), status)) return;
  if (store_variables != 0 && !only_reads(context) && !variables.store(context, copy, status)) return;
  for (int i = 0; i < on_host.num_outputs(); ++i) {
    const Tensor* output = on_host.mutable_output(i);
    if (output != nullptr && !set_output(context, i, *output, copy, status)) return;
  }
}

// -- operands ---------------------------------------------------------------------------------------------

void describe(const Tensor& tensor, unihal_operand* operand) {
  // What Tensor::data() gives, without a call.
  operand->data = const_cast<void*>(tensorflow::DMAHelper::base(&tensor));
  operand->elements = tensor.NumElements();
  operand->dtype = static_cast<TF_DataType>(tensor.dtype());
  operand->rank = tensor.dims();
  for (int i = 0; i < std::min(operand->rank, UNIHAL_OPERAND_AXES); ++i) operand->dims[i] = tensor.dim_size(i);
}

__attribute__((cold)) int refuse_uninitialized(TF_Status* status) {
  TF_SetStatus(status, TF_FAILED_PRECONDITION, "attempt to use a tensor with an uninitialized value");
  return 0;
}

int input(TF_OpKernelContext* context, int index, unihal_operand* operand, TF_Status* status) {
  describe(unwrap(context)->input(index), operand);
  return operand->data != nullptr || operand->elements == 0 ? 1 : refuse_uninitialized(status);
}

tensorflow::TensorShape shape_of(const int64_t* dims, int rank) {
  return tensorflow::TensorShape(absl::MakeConstSpan(dims, static_cast<size_t>(rank)));
}

int make_output(OpKernelContext* context, int index, const tensorflow::TensorShape& shape, unihal_operand* operand,
                TF_Status* status) {
  Tensor* tensor = nullptr;
  if (!unihal::tensorflow_shim::make_small_output(context, index, shape, &tensor) &&
      !check(context->allocate_output(index, shape, &tensor), status)) {
    return 0;
  }
  describe(*tensor, operand);
  return 1;
}

int output(TF_OpKernelContext* context, int index, const int64_t* dims, int rank, unihal_operand* operand,
           TF_Status* status) {
  return make_output(unwrap(context), index, shape_of(dims, rank), operand, status);
}

int forwarded_output(TF_OpKernelContext* handle, const int* candidates, int count, int index, const int64_t* dims,
                     int rank, unihal_operand* operand, TF_Status* status) {
  OpKernelContext* context = unwrap(handle);
  const tensorflow::TensorShape shape = shape_of(dims, rank);
  for (int i = 0; i < count; ++i) {
    Tensor* tensor = nullptr;
    if (!context->forward_input_to_output_with_shape(candidates[i], index, shape, &tensor)) continue;
    describe(*tensor, operand);
    return 1;
  }
  return make_output(context, index, shape, operand, status);
}

int determinism_required() { return tensorflow::OpDeterminismRequired() ? 1 : 0; }

int tensor_float_32_allowed() { return tsl::tensor_float_32_execution_enabled() ? 1 : 0; }

void set_small_outputs(int on) { unihal::tensorflow_shim::set_small_outputs(on != 0); }

constexpr unihal_shim_functions kFunctions = {
    sizeof(unihal_shim_functions),
    lock,
    unlock,
    writable,
    readable,
    assign,
    compute_on_host,
    determinism_required,
    tensor_float_32_allowed,
    unihal_register_collectives,
    input,
    output,
    forwarded_output,
    set_small_outputs,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const unihal_shim_functions* uhal_tensorflow_shim_functions() {
  return &kFunctions;
}
