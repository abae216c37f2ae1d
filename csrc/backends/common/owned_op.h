// An op that outlives the call that submitted it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "unihal/op.h"

namespace unihal {

// A deep copy of an op, for kernels that find its operands' memory elsewhere.
class OwnedOp {
 public:
  // Where the data of an operand lies for the kernels.
  using Place = std::function<void*(const uhal_tensor& operand)>;

  // Throws std::bad_alloc.
  OwnedOp(const uhal_op& op, const Place& place);
  OwnedOp(const OwnedOp&) = delete;
  OwnedOp& operator=(const OwnedOp&) = delete;

  const uhal_op& op() const { return op_; }

 private:
  uhal_op op_;
  std::vector<uhal_tensor> views_;
  std::vector<const uhal_tensor*> operands_;  // inputs, then outputs; absent ones are nullptr
  std::unique_ptr<char[]> attributes_;
};

}  // namespace unihal
