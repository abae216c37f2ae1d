#include "csrc/backends/opencl/kernel_table.h"

#include <array>
#include <cstring>
#include <memory>

#include "csrc/backends/opencl/address_space.h"
#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/status.h"
#include "csrc/kernels/ops.h"

namespace unihal::opencl {
namespace {

// What a kernel's work-groups are on a device; `otherwise` if the driver does not say.
template <class Value>
Value kernel_value(const Device& device, cl_kernel kernel, cl_uint what, Value otherwise) {
  Value value;
  const cl_int code = api.clGetKernelWorkGroupInfo(kernel, device.id, what, sizeof value, &value, nullptr);
  return code == CL_SUCCESS ? value : otherwise;
}

}  // namespace

KernelInstance::KernelInstance(const Device& device, const kernels::KernelSpec& spec, cl_kernel kernel)
    : KnownKernel(spec),
      device_(device),
      kernel_(kernel),
      max_group_size_(kernel_value(device, kernel, CL_KERNEL_WORK_GROUP_SIZE, size_t{0})) {
  if (max_group_size_ == 0) max_group_size_ = static_cast<size_t>(device.traits.max_group_size);
  using Sizes = std::array<size_t, 3>;
  takes_any_group_size_ = kernel_value(device, kernel, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, Sizes{1, 1, 1}) == Sizes{};
}

KernelInstance::~KernelInstance() { api.clReleaseKernel(kernel_); }

uhal_status KernelInstance::set(const kernels::Arguments& arguments) {
  const bool comparable = is_set_ && arguments.count() == last_.count();
  is_set_ = false;
  cl_uint index = 0;
  for (int i = 0; i < arguments.count(); ++i) {
    const kernels::Arguments::Item& item = arguments.item(i);
    const bool same = comparable && item.kind == last_.item(i).kind && item.bytes == last_.item(i).bytes &&
                      memcmp(arguments.data(i), last_.data(i), item.bytes) == 0;
    if (item.kind == kernels::Arguments::kValue) {
      if (!same) {
        const cl_int code = api.clSetKernelArg(kernel_, index, item.bytes, arguments.data(i));
        if (code != CL_SUCCESS) return refuse_argument(code, i);
      }
      index += 1;
      continue;
    }
    Place place;
    const void* address = arguments.address(i);
    if (address != nullptr && !AddressSpace::instance().resolve(address, &place)) {
      return kernels::fail(UHAL_INTERNAL, "%s: argument %d, %p, is no address of device memory",
                           spec().describe().c_str(), i, address);
    }
    // An address may be another buffer's than the last time.
    if (!same || place.number != numbers_[i]) {
      const int64_t offset = static_cast<int64_t>(place.offset);
      cl_int code = api.clSetKernelArg(kernel_, index, sizeof place.buffer, &place.buffer);
      if (code == CL_SUCCESS) code = api.clSetKernelArg(kernel_, index + 1, sizeof offset, &offset);
      if (code != CL_SUCCESS) return refuse_argument(code, i);
      numbers_[i] = place.number;
    }
    index += 2;
  }
  last_.assign(arguments);
  is_set_ = true;
  return UHAL_OK;
}

uhal_status KernelInstance::refuse_argument(cl_int code, int item) {
  return fail_native(code, "%s does not take argument %d of %s", device_.name.c_str(), item, spec().describe().c_str());
}

uhal_status KernelTable::add(const kernels::KernelSpec& spec, KernelInstance** instance) {
  cl_program program;
  if (const uhal_status status = device_.programs.find(spec, &program); status != UHAL_OK) return status;
  cl_int code = CL_SUCCESS;
  const cl_kernel kernel = api.clCreateKernel(program, spec.entry(), &code);
  if (kernel == nullptr) {
    return fail_native(code, "%s has no kernel %s", device_.name.c_str(), spec.describe().c_str());
  }
  *instance = instances_.add(std::make_unique<KernelInstance>(device_, spec, kernel));
  return UHAL_OK;
}

}  // namespace unihal::opencl
