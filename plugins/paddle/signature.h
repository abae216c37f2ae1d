// The signatures of Paddle's own kernels, read at run time: of the CPU's, and where it has none, of the function by
// which Paddle calls the kernel.
//
// Eager mode calls our kernels through the C++ signature of Paddle's, which changes between versions; a
// difference would be silent corruption. So what Paddle itself says is compared before anything is registered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unihal::paddle {

// What Paddle declares of a kernel.
struct PaddleSignature {
  std::string text;  // "tensor,tensor;bool,int;tensor" as signature_of() spells it; "" if there is no such kernel
  // The phi::DataType of each argument, or one of the numbers below.
  std::vector<int32_t> input_dtypes;
  std::vector<int32_t> output_dtypes;
};
constexpr int32_t kOwnDtype = -1;      // the kernel's
constexpr int32_t kComplexOfOwn = -2;  // complex, of the kernel's precision
constexpr int32_t kRealOfOwn = -3;     // real, of the kernel's precision

PaddleSignature paddle_signature(const char* kernel_name);

// Whether a kernel of Paddle's has a sparse tensor among its inputs and outputs.
bool takes_sparse_tensors(const void* kernel);

// Gives the arguments of our kernel the dtypes that Paddle declares for them, where those are not the kernel's own
// (a comparison's bool output): graph execution plans with them, and eager mode makes gradients of them. `is_double`:
// the kernel is of float64 or complex128.
void declare_dtypes(const PaddleSignature& signature, bool is_double, void* kernel);

}  // namespace unihal::paddle
