// An op that outlives the call that submitted it.
#pragma once

#include <memory>
#include <vector>

#include "unihal/op.h"

namespace unihal::stub::strict {

// A deep copy of an op with the device pointers of its views replaced by where kernels find the memory. Throws
// std::bad_alloc.
class OwnedOp {
 public:
  explicit OwnedOp(const uhal_op& op);
  OwnedOp(const OwnedOp&) = delete;
  OwnedOp& operator=(const OwnedOp&) = delete;

  const uhal_op& op() const { return op_; }

 private:
  uhal_op op_;
  std::vector<uhal_tensor> views_;
  std::vector<const uhal_tensor*> operands_;  // inputs, then outputs; absent ones are nullptr
  std::unique_ptr<char[]> attributes_;
};

}  // namespace unihal::stub::strict
