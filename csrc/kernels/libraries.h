// What the ops know of a vendor's libraries: which work they take. Queue::library_gemm and Queue::library_convolution
// submit it.
#ifndef UNIHAL_KERNELS_LIBRARIES_H_
#define UNIHAL_KERNELS_LIBRARIES_H_

#include <cstddef>

namespace unihal {
struct MatmulProblem;
}

namespace unihal::kernels {

struct ConvolutionTask;  // ops/convolution.h

// Matrix products. All functions from any thread.
class GemmLibrary {
 public:
  virtual ~GemmLibrary() = default;

  // "cuBLASLt 12.4", for people. Lives as long as this.
  virtual const char* name() const = 0;

  // Whether it runs the products that it takes unless `unihal tune` found another way faster; else only those that it
  // was found faster at.
  virtual bool is_preferred() const = 0;

  // Whether it can run a simplified product as it stands, with its c and its activation, wherever its operands lie. One
  // that it is not sure of it may still refuse when asked (UHAL_UNIMPLEMENTED of Queue::library_gemm).
  virtual bool takes(const MatmulProblem& problem) const = 0;

  // Device memory that a product may need.
  virtual size_t workspace_bytes() const = 0;
};

// Convolutions, likewise.
class ConvolutionLibrary {
 public:
  virtual ~ConvolutionLibrary() = default;

  virtual const char* name() const = 0;

  // Whether it is expected to be faster than our own kernels at what it takes.
  virtual bool suits(const ConvolutionTask& task) const = 0;

  // Whether it can run a convolution, whatever its data (also NULL) and without regard to the bias and the activation,
  // which are ours.
  virtual bool takes(const ConvolutionTask& task) const = 0;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_LIBRARIES_H_
