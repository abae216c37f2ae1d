// The kernels of one stream: instances of its own, so that arguments are set without a lock.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

#include "csrc/backends/opencl/api.h"
#include "csrc/kernels/queue.h"
#include "csrc/kernels/spec_table.h"

namespace unihal::opencl {

struct Device;

// A kernel with the arguments that it was last given.
class KernelInstance final : public kernels::KnownKernel {
 public:
  KernelInstance(const Device& device, const kernels::KernelSpec& spec, cl_kernel kernel);
  ~KernelInstance();
  KernelInstance(const KernelInstance&) = delete;
  KernelInstance& operator=(const KernelInstance&) = delete;

  cl_kernel kernel() const { return kernel_; }

  // The most work-items of a group that this kernel runs with on the device.
  size_t max_group_size() const { return max_group_size_; }

  // Whether it leaves the size of its groups to the launch (no UHAL_GROUP_SIZE of the dialect).
  bool takes_any_group_size() const { return takes_any_group_size_; }

  // Sets the arguments that differ from those of the last call.
  uhal_status set(const kernels::Arguments& arguments);

 private:
  uhal_status refuse_argument(cl_int code, int item);

  const Device& device_;
  const cl_kernel kernel_;
  size_t max_group_size_;
  bool takes_any_group_size_ = false;

  bool is_set_ = false;  // whether what follows tells the kernel's arguments
  kernels::Arguments last_;
  uint64_t numbers_[kernels::Arguments::kMaxItems];  // of the allocations behind the pointers
};

class KernelTable {
 public:
  explicit KernelTable(Device& device) : device_(device) {}
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  // The stream's instance of a kernel, made (and its program built) at the first call.
  uhal_status find(const kernels::KernelSpec& spec, KernelInstance** instance) {
    *instance = instances_.find(spec);
    return *instance != nullptr ? UHAL_OK : add(spec, instance);
  }

 private:
  uhal_status add(const kernels::KernelSpec& spec, KernelInstance** instance);

  Device& device_;
  kernels::SpecTable<KernelInstance> instances_;
};

}  // namespace unihal::opencl
