// The op that chains of elementwise ops become (fusion/elementwise.cc).
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// (inputs) -> (outputs): the attributes are a program of UHAL_OP_MAP_CHAIN. Steps broadcast as the single ops did:
// where all outputs have the joint shape of the inputs they are one launch, else one for each step.
class FusedElementwise : public Kernel {
 public:
  explicit FusedElementwise(Construction& construction);
  Merging merging() const override { return Merging::kBroadcast; }
  void compute(Context& context) const override;

 private:
  bool read_program(Construction& construction);  // false if it is none
  int operand(int step, int index) const { return attributes_.operands[step][index]; }
  void run_chain(Context& context, const View* inputs, const Shape& shape) const;
  void run_steps(Context& context, const View* inputs, const Shape* shapes) const;

  uhal_map_chain_attributes attributes_ = {};
  int arity_[UHAL_MAP_CHAIN_MAX_STEPS] = {};
  int inputs_ = 0;
  int outputs_ = 0;
  uhal_dtype dtypes_[UHAL_MAP_MAX_OUTPUTS] = {};
};

}  // namespace unihal::tensorflow
