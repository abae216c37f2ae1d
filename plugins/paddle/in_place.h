// Calls of Paddle that write in place, which must not fall back.
//
// Paddle's fallback copies the operands to the host, runs the CPU's kernel there, and hands on its outputs. What an op
// writes into an operand is lost so: in graphs the parameter keeps its value, in eager mode the tensor gets new memory,
// of which the kernel fills only what it meant to change, and which views of the tensor do not see. So an in-place op
// without a kernel is an error that names it. The same kernel out of place (relu beside relu_) may fall back.
//
// What is in place is read from Paddle itself: eager ops that write in place are functions called `op__ad_func`, one of
// which is on the stack; ops of a graph carry the attribute is_inplace.
#pragma once

#include <string>
#include <vector>

namespace unihal::paddle {

// A kernel that Paddle takes from the CPU.
struct FallenKernel {
  std::string name;
  std::string why;  // "float32: no kernel is registered"
};

// Eager mode: throws if this thread is inside a call of an in-place op.
void refuse_in_place_call(const FallenKernel& fallen);

// Graphs: gathers the kernels that fall back while this thread lowers one.
class LoweringWatch {
 public:
  LoweringWatch();
  LoweringWatch(const LoweringWatch&) = delete;
  LoweringWatch& operator=(const LoweringWatch&) = delete;
  ~LoweringWatch();

  // Throws if an op of the lowered graph, a pir::Program, writes in place by one of them, into what came from the
  // device.
  void refuse_in_place_ops(const void* lowered) const;

  // The innermost watch of this thread, or nullptr.
  static LoweringWatch* current();
  void note(FallenKernel fallen) { fallen_.push_back(std::move(fallen)); }

 private:
  LoweringWatch* outer_;
  std::vector<FallenKernel> fallen_;
};

}  // namespace unihal::paddle
