// The kernels of one stream: instances of its own, so that arguments are set without a lock.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "csrc/backends/opencl/api.h"
#include "csrc/kernels/queue.h"

namespace unihal::opencl {

struct Device;

// A kernel with the arguments that it was last given.
class KernelInstance {
 public:
  KernelInstance(const Device& device, const kernels::KernelSpec& spec, cl_kernel kernel);
  ~KernelInstance();
  KernelInstance(const KernelInstance&) = delete;
  KernelInstance& operator=(const KernelInstance&) = delete;

  const kernels::KernelSpec& spec() const { return spec_; }
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
  const kernels::KernelSpec spec_;
  const cl_kernel kernel_;
  size_t max_group_size_;
  bool takes_any_group_size_ = false;

  bool is_set_ = false;  // whether what follows tells the kernel's arguments
  kernels::Arguments last_;
  uint64_t numbers_[kernels::Arguments::kMaxItems];  // of the allocations behind the pointers
};

class KernelTable {
 public:
  explicit KernelTable(Device& device);
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  // The stream's instance of a kernel, made (and its program built) at the first call.
  uhal_status find(const kernels::KernelSpec& spec, KernelInstance** instance) {
    const uint64_t hash = spec.hash();
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.instance == nullptr) return add(spec, hash, instance);
      if (slot.hash == hash && slot.instance->spec() == spec) {
        *instance = slot.instance.get();
        return UHAL_OK;
      }
    }
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    std::unique_ptr<KernelInstance> instance;
  };

  uhal_status add(const kernels::KernelSpec& spec, uint64_t hash, KernelInstance** instance);
  void insert(uint64_t hash, std::unique_ptr<KernelInstance> instance);
  void grow();

  Device& device_;
  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  size_t mask_;
  size_t used_ = 0;
};

}  // namespace unihal::opencl
