// The tables of kernels, and their registration with Paddle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/paddle/entry.h"

namespace unihal::paddle {

// Sets of dtypes, as bits (1 << Dtype).
using DtypeSet = uint32_t;
constexpr DtypeSet kHalfs = 1u << kFloat16 | 1u << kBfloat16;
constexpr DtypeSet kWideFloats = 1u << kFloat32 | 1u << kFloat64;
constexpr DtypeSet kFloats = kHalfs | kWideFloats;
constexpr DtypeSet kInt32And64 = 1u << kInt32 | 1u << kInt64;
constexpr DtypeSet kIntegers = kInt32And64 | 1u << kUint8 | 1u << kInt8 | 1u << kInt16;
constexpr DtypeSet kBoolOnly = 1u << kBool;
constexpr DtypeSet kNumbers = kFloats | kIntegers;
constexpr DtypeSet kReal = kNumbers | kBoolOnly;
constexpr DtypeSet kComplex = 1u << kComplex64 | 1u << kComplex128;
// Without the wider unsigned integers: Paddle 3.0 cannot be imported where a kernel of such a dtype is registered.
constexpr DtypeSet kEvery = kReal | kComplex;

// One kernel. Several rows may share a name: variants for different versions of Paddle, of which the one with
// Paddle's signature is registered.
struct KernelRow {
  const char* name;
  Entry entry;
  DtypeSet dtypes;
  // Inputs and outputs, as bits by number, that the kernel also takes in host memory (host_tensor.h).
  uint32_t inputs_anywhere = 0;
  uint32_t outputs_anywhere = 0;
};
using KernelTable = std::vector<KernelRow>;

namespace {
struct ThisFile;
}
#define UNIHAL_KERNEL(name, dtypes, ...) {name, EntryOf<(__VA_ARGS__), ThisFile, __COUNTER__>::entry(), dtypes, 0, 0}
#define UNIHAL_KERNEL_ANYWHERE(name, dtypes, inputs, outputs, ...) \
  {name, EntryOf<(__VA_ARGS__), ThisFile, __COUNTER__>::entry(), dtypes, inputs, outputs}

// One function per file of kernels/.
KernelTable activation_kernels();
KernelTable arithmetic_kernels();
KernelTable assignment_kernels();
KernelTable attention_kernels();
KernelTable binary_loss_kernels();
KernelTable box_kernels();
KernelTable comparison_kernels();
KernelTable convolution_kernels();
KernelTable copy_kernels();
KernelTable creation_kernels();
KernelTable detection_kernels();
KernelTable ctc_kernels();
KernelTable data_dependent_kernels();
KernelTable double_gradient_kernels();
KernelTable einsum_kernels();
KernelTable extreme_kernels();
KernelTable hierarchical_sigmoid_kernels();
KernelTable index_kernels();
KernelTable index_elementwise_kernels();
KernelTable linear_algebra_kernels();
KernelTable linear_algebra_gradient_kernels();
KernelTable lu_solution_kernels();
KernelTable median_kernels();
KernelTable matrix_measure_kernels();
KernelTable message_kernels();
KernelTable statistics_kernels();
KernelTable product_kernels();
KernelTable loss_kernels();
KernelTable matmul_kernels();
KernelTable merged_optimizer_kernels();
KernelTable metric_kernels();
KernelTable neighbor_kernels();
KernelTable norm_kernels();
KernelTable norm_double_gradient_kernels();
KernelTable old_layer_kernels();
KernelTable old_optimizer_kernels();
KernelTable optimizer_kernels();
KernelTable place_kernels();
KernelTable pool_kernels();
KernelTable fractional_pool_kernels();
KernelTable proposal_kernels();
KernelTable quantization_kernels();
KernelTable random_kernels();
KernelTable rearrange_kernels();
KernelTable recurrent_kernels();
KernelTable reduce_kernels();
KernelTable resize_kernels();
KernelTable rms_norm_kernels();
KernelTable sampling_kernels();
KernelTable shape_kernels();
KernelTable softmax_kernels();
KernelTable sort_kernels();
KernelTable sparse_arithmetic_kernels();
KernelTable sparse_convolution_kernels();
KernelTable sparse_layer_kernels();
KernelTable sparse_product_kernels();
KernelTable sparse_optimizer_kernels();
KernelTable sparse_tensor_kernels();
KernelTable spectrum_kernels();
KernelTable suppression_kernels();
KernelTable sync_batch_norm_kernels();
KernelTable top_p_kernels();
KernelTable transducer_kernels();
KernelTable triple_gradient_kernels();
KernelTable unique_kernels();
KernelTable variance_kernels();
KernelTable vector_norm_kernels();
KernelTable viterbi_kernels();
KernelTable yolo_loss_kernels();

// All rows of all tables.
const KernelTable& all_kernels();

// Registers every row whose signature is Paddle's for a device type; load_phi() has succeeded.
void register_kernels(const char* device_type);

// Why a row was not registered; "" if it was, or if nothing was registered yet.
const std::string& skip_reason(const KernelRow& row);

// "float32"; static.
const char* dtype_name(Dtype dtype);

}  // namespace unihal::paddle
