#include "plugins/paddle/registry.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "plugins/paddle/host_tensor.h"
#include "plugins/paddle/phi_types.h"
#include "plugins/paddle/selected_rows.h"
#include "plugins/paddle/signature.h"
#include "plugins/paddle/sparse_tensors.h"

namespace unihal::paddle {
namespace {

std::map<const KernelRow*, std::string>& skipped() {
  static auto* reasons = new std::map<const KernelRow*, std::string>();
  return *reasons;
}

// Why a row cannot be registered, or empty.
std::string objection(const KernelRow& row, const PaddleSignature& paddle) {
  const std::string ours = signature_of(row.entry);
  if (paddle.text.empty()) return "this Paddle has no kernel or function of that name to compare signatures with";
  if (paddle.text == ours) {
    const auto has = [&ours](const char* code) { return ours.find(code) != std::string::npos; };
    if (has(kSelectedRowsCode) && !selected_rows_known()) {
      return "this Paddle's SelectedRows is not laid out as expected";
    }
    if ((has(kCooCode) || has(kCsrCode)) && !sparse_tensors_known()) {
      return "this Paddle's sparse tensors are not laid out as expected";
    }
    return "";
  }
  return "this Paddle's kernel has another signature: " + paddle.text + "; unihal's has " + ours;
}

// Paddle calls back, during registration, without a user pointer.
struct {
  const PaddleSignature* signature;
  const KernelRow* row;
  bool is_double;
} being_registered;
void define_arguments(const void*, void* kernel) {
  declare_dtypes(*being_registered.signature, being_registered.is_double, kernel);
  const KernelRow& row = *being_registered.row;
  if ((row.inputs_anywhere | row.outputs_anywhere) != 0) {
    declare_anywhere(row.inputs_anywhere, row.outputs_anywhere, kernel);
  }
}

void register_row(const KernelRow& row, const PaddleSignature& signature, const char* device_type) {
  std::vector<int32_t> types[3];
  for (size_t i = 0; i < row.entry.count; ++i) {
    const Parameter& parameter = row.entry.parameters[i];
    types[static_cast<int>(parameter.role) - static_cast<int>(Role::kInput)].push_back(parameter.type);
  }
  const auto& [inputs, attributes, outputs] = types;
  *row.entry.name = row.name;
  for (int dtype = kUndefined; dtype < kDtypeCount; ++dtype) {
    if ((row.dtypes >> dtype & 1) == 0) continue;
    being_registered = {&signature, &row, dtype == kFloat64 || dtype == kComplex128};
    phi.PD_RegisterPhiKernel(row.name, device_type, dtype, kAnyLayout, inputs.size(), inputs.data(), attributes.size(),
                             attributes.data(), outputs.size(), outputs.data(), define_arguments, row.entry.compute,
                             row.entry.variadic);
  }
  being_registered = {};
}

}  // namespace

const KernelTable& all_kernels() {
  static const KernelTable* all = [] {
    auto* table = new KernelTable();
    for (auto* kernels : {activation_kernels,
                          arithmetic_kernels,
                          assignment_kernels,
                          attention_kernels,
                          comparison_kernels,
                          convolution_kernels,
                          copy_kernels,
                          creation_kernels,
                          double_gradient_kernels,
                          extreme_kernels,
                          index_kernels,
                          loss_kernels,
                          matmul_kernels,
                          norm_kernels,
                          norm_double_gradient_kernels,
                          sync_batch_norm_kernels,
                          optimizer_kernels,
                          pool_kernels,
                          random_kernels,
                          rearrange_kernels,
                          reduce_kernels,
                          resize_kernels,
                          sampling_kernels,
                          shape_kernels,
                          softmax_kernels,
                          sort_kernels,
                          sparse_optimizer_kernels,
                          sparse_arithmetic_kernels,
                          sparse_convolution_kernels,
                          sparse_layer_kernels,
                          sparse_product_kernels,
                          rms_norm_kernels,
                          sparse_tensor_kernels,
                          spectrum_kernels,
                          index_elementwise_kernels,
                          data_dependent_kernels,
                          linear_algebra_kernels,
                          recurrent_kernels,
                          detection_kernels,
                          ctc_kernels,
                          linear_algebra_gradient_kernels,
                          lu_solution_kernels,
                          message_kernels,
                          product_kernels,
                          binary_loss_kernels,
                          place_kernels,
                          merged_optimizer_kernels,
                          fractional_pool_kernels,
                          hierarchical_sigmoid_kernels,
                          viterbi_kernels,
                          triple_gradient_kernels,
                          vector_norm_kernels,
                          variance_kernels,
                          old_layer_kernels,
                          old_optimizer_kernels,
                          quantization_kernels,
                          proposal_kernels,
                          box_kernels,
                          median_kernels,
                          einsum_kernels,
                          matrix_measure_kernels,
                          statistics_kernels,
                          suppression_kernels,
                          unique_kernels,
                          metric_kernels,
                          neighbor_kernels,
                          top_p_kernels,
                          transducer_kernels,
                          yolo_loss_kernels}) {
      KernelTable part = kernels();
      std::move(part.begin(), part.end(), std::back_inserter(*table));
    }
    return table;
  }();
  return *all;
}

void register_kernels(const char* device_type) {
  for (const KernelRow& row : all_kernels()) {
    const PaddleSignature signature = paddle_signature(row.name);
    const std::string reason = objection(row, signature);
    if (reason.empty()) {
      register_row(row, signature, device_type);
    } else {
      skipped()[&row] = reason;
    }
  }
}

const std::string& skip_reason(const KernelRow& row) {
  static const std::string none;
  auto found = skipped().find(&row);
  return found == skipped().end() ? none : found->second;
}

const char* dtype_name(Dtype dtype) { return uhal_dtype_name(to_uhal(dtype)); }

}  // namespace unihal::paddle
