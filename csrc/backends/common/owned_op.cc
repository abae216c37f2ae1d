#include "csrc/backends/common/owned_op.h"

#include <algorithm>
#include <cstring>

#include "csrc/tables/attributes.h"

namespace unihal {

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
  const size_t bytes = std::min(struct_size, kLongestAttributes);
  attributes_.reset(new char[bytes]);
  std::memcpy(attributes_.get(), op.attributes, bytes);
  op_.attributes = attributes_.get();
}

}  // namespace unihal
