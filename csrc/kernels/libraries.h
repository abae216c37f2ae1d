// What the ops know of a vendor's libraries: which work they take. Queue::library_gemm and Queue::library_convolution
// submit it.
#ifndef UNIHAL_KERNELS_LIBRARIES_H_
#define UNIHAL_KERNELS_LIBRARIES_H_

#include <cstddef>
#include <cstdint>

namespace unihal {
struct MatmulProblem;
}

namespace unihal::kernels {

struct ConvolutionTask;  // ops/convolution.h

// Unscaled Fourier transforms of one form along one to three axes, and their batch, in the words of cuFFT and rocFFT.
struct FftTask {
  enum Form : int32_t { kComplex, kFromReal, kToReal };

  // Where element (i, j, k) of transform b lies: at b * distance + ((i * embedding[1] + j) * embedding[2] + k) *
  // stride, in elements of the operand. Axes before the first of `rank` are left out.
  struct Layout {
    int64_t stride;
    int64_t distance;
    int64_t embedding[3];
  };

  Form form;
  bool is_double;
  bool is_inverse;
  int32_t rank;
  int64_t lengths[3];  // of the signals
  int64_t batch;
  Layout from, to;
  void* source;
  void* target;
};

// An algorithm of a library's for one piece of work, by a number that tells it from the others and is the same in all
// processes that use this version of the library on this model of device.
using LibraryAlgorithm = uint32_t;

// The one that the library itself holds to be the best.
inline constexpr LibraryAlgorithm kBestAlgorithm = 0;

// As many of them as `unihal tune` measures. MIOpen, without a database of the card, orders them by estimates.
inline constexpr int kMostGemmAlgorithms = 8;
inline constexpr int kMostConvolutionAlgorithms = 16;

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

  // Bytes of which the lines of a product's matrices (gemm_padding.h) should be multiples, as its places should, where
  // the library is much faster then; else 1.
  virtual int64_t line_bytes(const MatmulProblem& /*problem*/) const { return 1; }

  // Writes the algorithms that it offers for a product that it takes, at most kMostGemmAlgorithms, those first that it
  // holds to be better, and returns how many. For `unihal tune`: it may take long.
  virtual int algorithms(const MatmulProblem& /*problem*/, LibraryAlgorithm* /*numbers*/) const { return 0; }
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

  // As of products: at most kMostConvolutionAlgorithms.
  virtual int algorithms(const ConvolutionTask& /*task*/, LibraryAlgorithm* /*numbers*/) const { return 0; }
};

// Fourier transforms, likewise. Real forms are asked for in the direction that they are named after: forward from real
// numbers, inverse to them.
class FftLibrary {
 public:
  virtual ~FftLibrary() = default;

  virtual const char* name() const = 0;

  // Whether it can run a transform, wherever its operands lie, as far as that can be told without asking it.
  virtual bool takes(const FftTask& task) const = 0;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_LIBRARIES_H_
