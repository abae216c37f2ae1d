// What the ops ask of a backend: kernels run, memory copied, in order, on one stream.
//
// csrc/kernels/ops says which kernels make up an op; a backend with a compiler at run time (opencl, and the GPU
// backends to come) implements Queue and has all ops. Threads: one at a time per queue, as for a stream.
#ifndef UNIHAL_KERNELS_QUEUE_H_
#define UNIHAL_KERNELS_QUEUE_H_

#include <cstddef>
#include <cstdint>

#include "csrc/kernels/kernel_launch.h"
#include "csrc/kernels/kernel_spec.h"
#include "csrc/kernels/libraries.h"
#include "csrc/kernels/map_plans.h"
#include "unihal/op.h"

namespace unihal::kernels {

class TuningTable;

// What multiplies matrices of 16-bit numbers on a device, in the words of prelude/matrix_product.h.
enum class MatrixForm : int32_t {
  kNone = 0,
  kMma = 1,        // NVIDIA's from sm_80 on
  kWmma = 2,       // RDNA3's, in waves of 32
  kWarpgroup = 3,  // kMma's, and those of four warps together of sm_90a
};

// Whether a device has the words of kMma.
constexpr bool has_mma(MatrixForm form) { return form == MatrixForm::kMma || form == MatrixForm::kWarpgroup; }

// What a work-item may take of its unit, so that enough of them are there to wait for memory: item_share() of
// device_properties.h. 0: whatever it takes.
struct ItemShare {
  int32_t registers = 0;     // of 32 bits
  int32_t local_memory = 0;  // bytes
};

// What kernels may rely on. Constant for a device.
struct DeviceTraits {
  bool has_float64 = false;
  bool has_float16_arithmetic = false;  // storage of float16 needs nothing
  bool has_int64_atomics = false;
  bool has_tf32 = false;  // in a library: else all products are strict
  bool is_cpu = false;    // work-groups run one after the other on a core: prefer few, long ones
  int32_t compute_units = 1;
  int32_t wavefront_size = 64;        // work-items that run in step
  int32_t max_group_size = 256;       // work-items of a work-group
  int64_t local_memory = 32768;       // bytes of a work-group
  int64_t launched_local_memory = 0;  // the same of kernels that say at launch how many they take (Grid); 0: none can
  ItemShare item_share;               // kernels that are chosen without a measurement keep to it
  MatrixForm matrix_form = MatrixForm::kNone;
  int64_t max_parameters = 1024;        // bytes of a kernel's arguments
  bool takes_addresses = false;         // among the bytes of an argument, as numbers: UHAL_ADDRESS_IN of the dialect
  uint64_t dtypes = 0;                  // uhal_device_properties.supported_dtypes
  const TuningTable* tuning = nullptr;  // what was measured on the device (tuning.h); nullptr: nothing

  // What the queues' library_gemm, library_convolution and library_fft call; nullptr: there is none.
  const GemmLibrary* gemm_library = nullptr;
  const ConvolutionLibrary* convolution_library = nullptr;
  const FftLibrary* fft_library = nullptr;
};

// What a queue keeps of a kernel that it has run; it stays as long as the queue does.
class KnownKernel {
 public:
  explicit KnownKernel(const KernelSpec& spec) : spec_(spec) {}
  const KernelSpec& spec() const { return spec_; }

 private:
  const KernelSpec spec_;
};

class Queue {
 public:
  virtual ~Queue() = default;

  const DeviceTraits& traits() const { return *traits_; }

  // The elementwise launches that were planned here.
  MapPlans& map_plans() { return map_plans_; }

  // Submits a kernel, compiled first if this device has not seen it. UHAL_INTERNAL with the compiler's log if it does
  // not compile, UHAL_UNIMPLEMENTED if the device cannot run it with this group size.
  virtual uhal_status run(const KernelSpec& spec, const Arguments& arguments, const Grid& grid) = 0;

  // A kernel that run() has run, for run_known(); nullptr: the queue keeps none.
  virtual KnownKernel* find_known(const KernelSpec& /*spec*/) { return nullptr; }

  // As run(), without a search for the kernel. It is one of find_known()'s.
  virtual uhal_status run_known(KnownKernel& /*kernel*/, const Arguments& /*arguments*/, const Grid& /*grid*/) {
    return UHAL_UNIMPLEMENTED;
  }

  // Copies within the device; ranges do not overlap.
  virtual uhal_status copy(void* destination, const void* source, size_t bytes) = 0;

  // As uhal_memory_fill.
  virtual uhal_status fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) = 0;

  // As uhal_host.workspace: one block per stream, which the next call may move. Ask once per op, for all parts.
  virtual uhal_status workspace(size_t bytes, void** pointer) = 0;

  // For kernels that meet bad data (an index outside its axis): a device address of four int64, to pass to the kernel,
  // and in *ticket the number that it writes there first (uhal_report_error of the dialect). The stream's next query or
  // synchronize then fails with UHAL_OUT_OF_RANGE and "<op>: index I is outside an axis of length L".
  virtual uhal_status error_cell(const uhal_op& op, void** cell, int64_t* ticket) = 0;

  // Submits a product that traits().gemm_library takes, by an algorithm of the library's or, where that cannot run it,
  // by the best one. `workspace` is its workspace_bytes() of device memory, aligned to 256, or NULL if that is 0.
  // UHAL_UNIMPLEMENTED, without a report and with nothing submitted, if the library refuses it after all.
  virtual uhal_status library_gemm(const MatmulProblem& /*problem*/, LibraryAlgorithm /*algorithm*/,
                                   void* /*workspace*/) {
    return UHAL_UNIMPLEMENTED;
  }

  // Finds how traits().convolution_library runs a convolution that it takes, wherever its operands lie, and the bytes
  // of device memory that this needs. False if the library refuses it after all.
  virtual bool plan_library_convolution(const ConvolutionTask& /*task*/, size_t* /*bytes*/) { return false; }

  // Submits a convolution so planned, without its bias and its activation. `workspace` is so many bytes, aligned to
  // 256, or NULL for none. UHAL_UNIMPLEMENTED as of library_gemm.
  virtual uhal_status library_convolution(const ConvolutionTask& /*task*/, void* /*workspace*/) {
    return UHAL_UNIMPLEMENTED;
  }

  // Finds how traits().fft_library runs a transform that it takes, wherever its operands lie, and the bytes of device
  // memory that this needs. False if the library refuses it after all.
  virtual bool plan_library_fft(const FftTask& /*task*/, size_t* /*bytes*/) { return false; }

  // Submits a transform so planned. `workspace` as of library_convolution; UHAL_UNIMPLEMENTED as of library_gemm.
  virtual uhal_status library_fft(const FftTask& /*task*/, void* /*workspace*/) { return UHAL_UNIMPLEMENTED; }

 protected:
  explicit Queue(const DeviceTraits& traits) : traits_(&traits) {}

 private:
  const DeviceTraits* traits_;
  MapPlans map_plans_;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_QUEUE_H_
