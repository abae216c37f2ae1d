#include "plugins/paddle/registry.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "plugins/paddle/signature.h"

namespace unihal::paddle {
namespace {

constexpr int32_t kAnyLayout = 0;

std::map<const KernelRow*, std::string>& skipped() {
  static auto* reasons = new std::map<const KernelRow*, std::string>();
  return *reasons;
}

// What Paddle says of a row's kernel; looked up once, before any kernel of ours bears the name.
struct Verdict {
  std::string reason;  // why it cannot be registered, or empty
  PaddleKernel paddle;
};

Verdict judge(const KernelRow& row) {
  Verdict verdict;
  const std::string expected = signature_of(row.entry);
  const std::string actual = paddle_signature(row.name, &verdict.paddle);
  if (actual.empty()) {
    verdict.reason = "this Paddle has no kernel of that name on the CPU to compare signatures with";
  } else if (actual != expected) {
    verdict.reason = "this Paddle's kernel has another signature: " + actual + "; unihal's has " + expected;
  }
  return verdict;
}

// Paddle calls back, during registration, without a user pointer.
const PaddleKernel* model_of_current_kernel = nullptr;
void define_arguments(const void*, void* kernel) { copy_argument_dtypes(*model_of_current_kernel, kernel); }

void register_row(const KernelRow& row, const PaddleKernel& model, const char* device_type) {
  std::vector<int32_t> types[3];
  for (size_t i = 0; i < row.entry.count; ++i) {
    const Parameter& parameter = row.entry.parameters[i];
    types[static_cast<int>(parameter.role) - static_cast<int>(Role::kInput)].push_back(parameter.type);
  }
  const auto& [inputs, attributes, outputs] = types;
  *row.entry.name = row.name;
  model_of_current_kernel = &model;
  for (int dtype = kUndefined; dtype < kDtypeCount; ++dtype) {
    if ((row.dtypes >> dtype & 1) == 0) continue;
    phi.PD_RegisterPhiKernel(row.name, device_type, dtype, kAnyLayout, inputs.size(), inputs.data(), attributes.size(),
                             attributes.data(), outputs.size(), outputs.data(), define_arguments, row.entry.compute,
                             row.entry.variadic);
  }
}

}  // namespace

const KernelTable& all_kernels() {
  static const KernelTable* all = [] {
    auto* table = new KernelTable();
    for (auto* kernels :
         {activation_kernels, arithmetic_kernels, comparison_kernels, convolution_kernels, copy_kernels,
          creation_kernels, index_kernels, loss_kernels, matmul_kernels, norm_kernels, optimizer_kernels, pool_kernels,
          random_kernels, reduce_kernels, shape_kernels, softmax_kernels, sort_kernels}) {
      KernelTable part = kernels();
      std::move(part.begin(), part.end(), std::back_inserter(*table));
    }
    return table;
  }();
  return *all;
}

void register_kernels(const char* device_type) {
  for (const KernelRow& row : all_kernels()) {
    const Verdict verdict = judge(row);
    if (verdict.reason.empty()) {
      register_row(row, verdict.paddle, device_type);
    } else {
      skipped()[&row] = verdict.reason;
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
