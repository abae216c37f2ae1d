// The signatures of Paddle's own CPU kernels, read at run time.
//
// Eager mode calls our kernels through the C++ signature of Paddle's, which changes between versions; a
// difference would be silent corruption. So what Paddle itself says is compared before anything is registered.
#pragma once

#include <cstdint>
#include <string>

namespace unihal::paddle {

// One of Paddle's kernels, and the phi::DataType that it was found under.
struct PaddleKernel {
  void* handle = nullptr;
  int32_t dtype = 0;
};

// "tensor,tensor;bool,int;tensor" as signature_of() spells it, or "" if Paddle has no CPU kernel of that name.
std::string paddle_signature(const char* kernel_name, PaddleKernel* found = nullptr);

// Gives the arguments of our kernel the dtypes that Paddle's kernel declares for them, where those are not the
// kernel's own dtype (a comparison's bool output): graph execution plans with them.
void copy_argument_dtypes(const PaddleKernel& from, void* to_kernel);

}  // namespace unihal::paddle
