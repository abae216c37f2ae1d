// Registers kernels with TensorFlow for one device type, and remembers which, for the coverage page.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "plugins/tensorflow/kernel.h"
#include "plugins/tensorflow/op_registry.h"

namespace unihal::tensorflow {

// The dtypes that a type attribute of an op ("T") may take.
struct TypeConstraint {
  const char* attribute;
  DtypeSet dtypes;
};

class Registrar {
 public:
  // `device_type` is TensorFlow's name ("RDNA").
  explicit Registrar(const char* device_type) : device_type_(device_type) {}

  // Registers class K for an op: one kernel for all combinations of the constraints' dtypes. The first constraint's
  // dtypes are what the coverage page shows. `host` names arguments that live in host memory.
  template <class K>
  void add(const char* op, std::initializer_list<TypeConstraint> constraints,
           std::initializer_list<const char*> host = {}) {
    record_dtypes(op, constraints);
    add_kernel(op, &create_kernel<K>, constraints, host);
  }

  // As add(), with names of arguments that were found at run time.
  template <class K>
  void add_with_host(const char* op, std::initializer_list<TypeConstraint> constraints,
                     const std::vector<const char*>& host) {
    record_dtypes(op, constraints);
    add_kernel(op, &create_kernel<K>, constraints, host);
  }

  // Registers class K for an op of our own, which no user writes: it is no part of the coverage.
  template <class K>
  void add_own(const char* op, std::initializer_list<TypeConstraint> constraints,
               std::initializer_list<const char*> host = {}) {
    add_kernel(op, &create_kernel<K>, constraints, host);
  }

  // Registers a MovementKernel for dtypes of "T": as add() does, and for int32 with every argument of `data` in host
  // memory too.
  template <class K>
  void add_movement(const char* op, DtypeSet dtypes, std::initializer_list<const char*> data,
                    std::initializer_list<const char*> host = {}) {
    static_assert(std::is_base_of_v<MovementKernel, K>);
    std::vector<const char*> all(data);
    all.insert(all.end(), host);
    record_dtypes(op, {{"T", dtypes}});
    add_kernel(op, &create_kernel<K>, {{"T", without_int32(dtypes)}}, host);
    if (contains(dtypes, UHAL_INT32)) add_kernel(op, &create_kernel<K>, {{"T", kInt32}}, all);
  }

  // Registers class K for an op of exactly these types, which is no part of the coverage.
  template <class K>
  void add_exactly(const char* op, const Types& types, const std::vector<const char*>& host) {
    add_kernel(op, &create_kernel<K>, types, host);
  }

  const char* device_type() const { return device_type_; }
  // The kernels added so far for an op.
  const std::vector<RegisteredKernel>& added(const std::string& op) { return added_[op]; }

 private:
  static void record_dtypes(const char* op, std::initializer_list<TypeConstraint> constraints);
  void add_kernel(const char* op, void* (*create)(TF_OpKernelConstruction*),
                  std::initializer_list<TypeConstraint> constraints, const std::vector<const char*>& host);
  void add_kernel(const char* op, void* (*create)(TF_OpKernelConstruction*), const Types& types,
                  const std::vector<const char*>& host);

  const char* device_type_;
  std::map<std::string, std::vector<RegisteredKernel>> added_;
};

// Each file of kernels/ registers its ops.
void register_array(Registrar& registrar);
void register_color(Registrar& registrar);
void register_convolution(Registrar& registrar);
void register_ctc(Registrar& registrar);
void register_data_dependent(Registrar& registrar);
void register_data_format(Registrar& registrar);
void register_linear_algebra(Registrar& registrar);
void register_least_squares(Registrar& registrar);
void register_dilation(Registrar& registrar);
void register_detection(Registrar& registrar);
void register_diagonal(Registrar& registrar);
void register_einsum(Registrar& registrar);
void register_elementwise(Registrar& registrar);
void register_fft(Registrar& registrar);
void register_fused(Registrar& registrar);
void register_fused_attention(Registrar& registrar);
void register_fused_norm(Registrar& registrar);
void register_image(Registrar& registrar);
void register_index(Registrar& registrar);
void register_join(Registrar& registrar);
void register_matmul(Registrar& registrar);
void register_norm(Registrar& registrar);
void register_numerics(Registrar& registrar);
void register_optimizer(Registrar& registrar);
void register_partition(Registrar& registrar);
void register_pool(Registrar& registrar);
void register_quantization(Registrar& registrar);
void register_random(Registrar& registrar);
void register_random_distribution(Registrar& registrar);
void register_recurrent(Registrar& registrar);
void register_reduce(Registrar& registrar);
void register_resample(Registrar& registrar);
void register_slice(Registrar& registrar);
void register_softmax(Registrar& registrar);
void register_space(Registrar& registrar);
void register_sparse(Registrar& registrar);
void register_sparse_segments(Registrar& registrar);
void register_stateful_random(Registrar& registrar);
void register_variable(Registrar& registrar);
void register_variable_index(Registrar& registrar);
void register_warp(Registrar& registrar);

// After all others: what they leave of the ops on variables.
void register_host_kernels(Registrar& registrar);

void register_all(Registrar& registrar);

}  // namespace unihal::tensorflow
