#include "csrc/backends/common/owned_op.h"

#include <algorithm>
#include <cstring>

namespace unihal {
namespace {

// A caller's struct may be longer than any that the kernels know.
constexpr size_t kLargestAttributes =
    std::max({sizeof(uhal_map_attributes), sizeof(uhal_fill_attributes), sizeof(uhal_iota_attributes),
              sizeof(uhal_triangular_attributes), sizeof(uhal_index_attributes), sizeof(uhal_reduce_attributes),
              sizeof(uhal_axis_attributes), sizeof(uhal_scan_attributes), sizeof(uhal_matmul_attributes),
              sizeof(uhal_convolution_attributes), sizeof(uhal_pool_attributes), sizeof(uhal_softmax_attributes),
              sizeof(uhal_cross_entropy_attributes), sizeof(uhal_norm_attributes), sizeof(uhal_attention_attributes),
              sizeof(uhal_random_attributes), sizeof(uhal_resize_attributes)});

}  // namespace

OwnedOp::OwnedOp(const uhal_op& op, const Place& place) {
  std::memcpy(&op_, &op, sizeof op_);
  op_.struct_size = sizeof op_;
  const size_t inputs = static_cast<size_t>(op.input_count);
  const size_t outputs = static_cast<size_t>(op.output_count);
  views_.resize(inputs + outputs);
  operands_.resize(inputs + outputs);
  for (size_t i = 0; i < operands_.size(); ++i) {
    const uhal_tensor* view = i < inputs ? op.inputs[i] : op.outputs[i - inputs];
    if (view == nullptr) continue;
    std::memcpy(&views_[i], view, sizeof views_[i]);
    views_[i].struct_size = sizeof views_[i];
    views_[i].data = place(*view);
    operands_[i] = &views_[i];
  }
  op_.inputs = operands_.data();
  op_.outputs = operands_.data() + inputs;
  if (op.attributes == nullptr) return;
  // Each attribute struct begins with its size.
  size_t struct_size;
  std::memcpy(&struct_size, op.attributes, sizeof struct_size);
  attributes_.reset(new char[kLargestAttributes]());
  std::memcpy(attributes_.get(), op.attributes, std::min(struct_size, kLargestAttributes));
  op_.attributes = attributes_.get();
}

}  // namespace unihal
