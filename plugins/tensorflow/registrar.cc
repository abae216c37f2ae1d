#include "plugins/tensorflow/registrar.h"

#include <cstdio>
#include <utility>

#include "plugins/tensorflow/coverage.h"

namespace unihal::tensorflow {

void Registrar::record_dtypes(const char* op, std::initializer_list<TypeConstraint> constraints) {
  record_coverage(op, constraints.size() > 0 ? constraints.begin()->dtypes : 0);
}

// False where TensorFlow refuses.
bool Registrar::add_kernel(const char* op, void* (*create)(TF_OpKernelConstruction*), const Types& types,
                           const std::vector<const char*>& host) {
  const std::string name = std::string("Unihal") + op;
  TF_Status* status = TF_NewStatus();
  TF_KernelBuilder* builder = TF_NewKernelBuilder(op, device_type_, create, compute_kernel, delete_kernel);
  for (const auto& [attribute, list] : types) {
    TF_KernelBuilder_TypeConstraint(builder, attribute.c_str(), list.front(), status);
  }
  for (const char* argument : host) TF_KernelBuilder_HostMemory(builder, argument);
  if (TF_GetCode(status) == TF_OK) {
    TF_RegisterKernelBuilder(name.c_str(), builder, status);
  } else {
    TF_DeleteKernelBuilder(builder);
  }
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
  return added;
}

void Registrar::add_kernel(const char* op, void* (*create)(TF_OpKernelConstruction*),
                           std::initializer_list<TypeConstraint> constraints, const std::vector<const char*>& host) {
  std::vector<int> chosen(constraints.size(), UHAL_DTYPE_INVALID);
  // Counts through all combinations, one dtype number per constraint.
  const auto advance = [&](size_t i) {
    do {
      ++chosen[i];
    } while (chosen[i] < UHAL_DTYPE_COUNT && !contains(constraints.begin()[i].dtypes, chosen[i]));
    return chosen[i] < UHAL_DTYPE_COUNT;
  };
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!advance(i)) return;
  }
  for (bool more = true; more;) {
    Types types;
    for (size_t i = 0; i < chosen.size(); ++i) {
      types[constraints.begin()[i].attribute] = {to_tensorflow(chosen[i])};
    }
    if (!add_kernel(op, create, types, host)) return;
    size_t i = 0;
    for (; i < chosen.size(); ++i) {
      if (advance(i)) break;
      chosen[i] = UHAL_DTYPE_INVALID;
      advance(i);
    }
    more = i < chosen.size();
  }
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
