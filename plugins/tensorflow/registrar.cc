#include "plugins/tensorflow/registrar.h"

#include <cstdio>
#include <utility>

#include "plugins/tensorflow/coverage.h"
#include "plugins/tensorflow/protobuf.h"

namespace unihal::tensorflow {
namespace {

// TensorFlow's message KernelDef. One for all dtypes: TensorFlow's eager ops look theirs up in each call, and compare
// the attributes with those of every kernel of the op. It has no byte 0, at which TensorFlow would end it: names and
// lists are not empty, and no dtype's number is 0.
std::string kernel_definition(const char* op, const char* device_type, const Types& types,
                              const std::vector<const char*>& host) {
  enum { kOp = 1, kDevice = 2, kConstraint = 3, kHostMemory = 4 };
  enum { kConstraintName = 1, kConstraintAllowed = 2, kValueList = 1, kListTypes = 6 };
  std::string kernel;
  append_bytes(&kernel, kOp, op);
  append_bytes(&kernel, kDevice, device_type);
  for (const auto& [attribute, allowed] : types) {
    std::string numbers, list, value, constraint;
    for (const TF_DataType type : allowed) append_varint(&numbers, static_cast<uint64_t>(type));
    append_bytes(&list, kListTypes, numbers);
    append_bytes(&value, kValueList, list);
    append_bytes(&constraint, kConstraintName, attribute);
    append_bytes(&constraint, kConstraintAllowed, value);
    append_bytes(&kernel, kConstraint, constraint);
  }
  for (const char* argument : host) append_bytes(&kernel, kHostMemory, argument);
  return kernel;
}

}  // namespace

void Registrar::record_dtypes(const char* op, std::initializer_list<TypeConstraint> constraints) {
  record_coverage(op, constraints.size() > 0 ? constraints.begin()->dtypes : 0);
}

void Registrar::add_kernel(const char* op, void* (*create)(TF_OpKernelConstruction*), const Types& types,
                           const std::vector<const char*>& host) {
  const std::string name = std::string("Unihal") + op;
  TF_Status* status = TF_NewStatus();
  TF_KernelBuilder* builder = TF_NewKernelBuilder(op, device_type_, create, compute_kernel, delete_kernel);
  TF_RegisterKernelBuilderWithKernelDef(kernel_definition(op, device_type_, types, host).c_str(), name.c_str(), builder,
                                        status);
  const bool added = TF_GetCode(status) == TF_OK;
  if (!added) {
    // An op that this TensorFlow lacks, or knows otherwise: it stays on the CPU, counted as a fallback.
    std::fprintf(stderr, "unihal: no kernel for %s on %s: %s\n", op, device_type_, TF_Message(status));
  }
  TF_DeleteStatus(status);
  if (added) {
    RegisteredKernel kernel = {device_type_, {}};
    kernel.allowed = types;
    added_[op].push_back(std::move(kernel));
  }
}

void Registrar::add_kernel(const char* op, void* (*create)(TF_OpKernelConstruction*),
                           std::initializer_list<TypeConstraint> constraints, const std::vector<const char*>& host) {
  Types types;
  for (const TypeConstraint& constraint : constraints) {
    std::vector<TF_DataType>& allowed = types[constraint.attribute];
    for (int dtype = 0; dtype < UHAL_DTYPE_COUNT; ++dtype) {
      if (contains(constraint.dtypes, dtype)) allowed.push_back(to_tensorflow(dtype));
    }
    if (allowed.empty()) return;
  }
  add_kernel(op, create, types, host);
}

void register_all(Registrar& registrar) {
  for (auto register_file : {register_array,
                             register_convolution,
                             register_diagonal,
                             register_einsum,
                             register_elementwise,
                             register_fused,
                             register_fused_attention,
                             register_fused_norm,
                             register_image,
                             register_index,
                             register_join,
                             register_matmul,
                             register_norm,
                             register_optimizer,
                             register_pool,
                             register_random,
                             register_reduce,
                             register_slice,
                             register_softmax,
                             register_stateful_random,
                             register_variable,
                             register_variable_index,
                             register_data_dependent,
                             register_data_format,
                             register_linear_algebra,
                             register_least_squares,
                             register_quantization,
                             register_random_distribution,
                             register_resample,
                             register_dilation,
                             register_fft,
                             register_numerics,
                             register_partition,
                             register_sparse,
                             register_sparse_segments,
                             register_space,
                             register_detection,
                             register_color,
                             register_warp,
                             register_ctc,
                             register_recurrent,
                             register_host_kernels}) {
    register_file(registrar);
  }
}

}  // namespace unihal::tensorflow
