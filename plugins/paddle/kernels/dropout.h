// What a dropout kept of its operand is what its gradient keeps of the result's.
#pragma once

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

// y = x / (1 - rate) where `kept` (uint8) is 1, and 0 elsewhere: everywhere at a rate of 1. y may be x.
inline void pass_kept(const Context& context, const View& kept, const View& x, double rate, const View& y) {
  if (rate >= 1) return fill_zero(context, y);
  Chain chain(2);
  chain.step(uhal_map_scale, {chain.step(uhal_map_multiply, {0, 1})}, {1 / (1 - rate), 0});
  context.run(UHAL_OP_MAP_CHAIN, {&kept, &x}, {&y}, chain.program());
}

}  // namespace unihal::paddle
