// Paddle's sparse tensors: coordinates and values (SparseCooTensor), compressed rows (SparseCsrTensor).
//
// Paddle's C functions do not know the classes. Their parts are dense tensors, which the functions do know, inside the
// object at places that are the same in Paddle 3.0 to 3.3; whether that holds is tried on objects that Paddle's own
// constructors have made, before a kernel with such an argument is registered.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/paddle/arguments.h"

namespace unihal::paddle {

// What both have.
struct SparseTensor {
  void* handle = nullptr;

  std::vector<int64_t> dims() const;
  Tensor part(size_t offset) const { return Tensor{static_cast<char*>(handle) + offset}; }
};

struct CooTensor : SparseTensor {
  Tensor indices() const;  // (axes of coordinates, elements)
  Tensor values() const;   // (elements, other axes...)
  bool is_coalesced() const;
  // Makes it of parts, whose memory it shares.
  void set(const Tensor& indices, const Tensor& values, const std::vector<int64_t>& dims, bool coalesced) const;
};

struct CsrTensor : SparseTensor {
  Tensor crows() const;  // where each row begins in the others, and where the last ends
  Tensor cols() const;
  Tensor values() const;
  void set(const Tensor& crows, const Tensor& cols, const Tensor& values, const std::vector<int64_t>& dims) const;
};

struct CooInput : CooTensor {};
struct CooOutput : CooTensor {
  explicit operator bool() const { return handle != nullptr; }
};
struct CsrInput : CsrTensor {};
struct CsrOutput : CsrTensor {
  explicit operator bool() const { return handle != nullptr; }
};

// How signatures spell the classes.
constexpr const char* kCooCode = "coo";
constexpr const char* kCsrCode = "csr";

// Whether this Paddle's classes look as expected.
bool sparse_tensors_known();

// A class of tensors travels as a pointer to its base, so the C functions for dense ones hand it over too.
UNIHAL_ARGUMENT(CooInput, kInput, kArgumentTensor, kCooCode, void*, (CooInput{{{raw}}}),
                (CooInput{{{phi.PD_KernelContextInputAt(context, i)}}}));
UNIHAL_ARGUMENT(CooOutput, kOutput, kArgumentTensor, kCooCode, void*, (CooOutput{{{raw}}}),
                (CooOutput{{{phi.PD_KernelContextOutputAt(context, i)}}}));
UNIHAL_ARGUMENT(CsrInput, kInput, kArgumentTensor, kCsrCode, void*, (CsrInput{{{raw}}}),
                (CsrInput{{{phi.PD_KernelContextInputAt(context, i)}}}));
UNIHAL_ARGUMENT(CsrOutput, kOutput, kArgumentTensor, kCsrCode, void*, (CsrOutput{{{raw}}}),
                (CsrOutput{{{phi.PD_KernelContextOutputAt(context, i)}}}));

}  // namespace unihal::paddle
