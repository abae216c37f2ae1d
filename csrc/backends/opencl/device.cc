#include "csrc/backends/opencl/device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/opencl/clblast.h"
#include "csrc/backends/opencl/device_info.h"
#include "csrc/backends/opencl/status.h"
#include "csrc/kernels/device_properties.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"

namespace unihal::opencl {
namespace {

// The width of the vector units, where the driver does not say: what GPUs of any vendor run well with.
constexpr int32_t kUsualWavefront = 64;

template <class Value>
int32_t clamped(Value value) {
  return static_cast<int32_t>(std::min(static_cast<uint64_t>(value), uint64_t{INT32_MAX}));
}

int32_t wavefront_size(cl_device_id device, bool is_cpu) {
  if (is_cpu) return 1;
  const cl_uint amd = extension_value(device, kAmdQueries, CL_DEVICE_WAVEFRONT_WIDTH_AMD, cl_uint{0});
  if (amd != 0) return static_cast<int32_t>(amd);
  const cl_uint nvidia = extension_value(device, kNvidiaQueries, CL_DEVICE_WARP_SIZE_NV, cl_uint{0});
  if (nvidia != 0) return static_cast<int32_t>(nvidia);
  const size_t multiple = device_value(device, CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, size_t{0});
  return multiple != 0 ? clamped(multiple) : kUsualWavefront;
}

// Whether a variable for tests asks for the one thing that it can ask for.
uhal_status asks_for(const char* variable, const char* value, bool* asks) {
  const char* text = std::getenv(variable);
  *asks = text != nullptr && std::strcmp(text, value) == 0;
  if (*asks || text == nullptr || *text == '\0') return UHAL_OK;
  return kernels::fail(UHAL_INVALID_ARGUMENT, "%s is '%s'; expected %s", variable, text, value);
}

// The work-items of a group, along the one axis that kernels use.
int32_t group_size(cl_device_id device) {
  using Sizes = std::array<size_t, 3>;
  const size_t along_axis = device_value(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, Sizes{SIZE_MAX})[0];
  return clamped(std::min(device_value(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, size_t{1}), along_axis));
}

kernels::DeviceTraits traits_of(cl_device_id device) {
  kernels::DeviceTraits traits;
  traits.has_float64 = device_value(device, CL_DEVICE_DOUBLE_FP_CONFIG, cl_bitfield{0}) != 0;
  traits.has_float16_arithmetic = has_extension(device, "cl_khr_fp16");
  traits.has_int64_atomics =
      has_extension(device, "cl_khr_int64_base_atomics") && has_extension(device, "cl_khr_int64_extended_atomics");
  traits.is_cpu = (device_value(device, CL_DEVICE_TYPE, cl_bitfield{0}) & CL_DEVICE_TYPE_CPU) != 0;
  traits.compute_units = clamped(device_value(device, CL_DEVICE_MAX_COMPUTE_UNITS, cl_uint{1}));
  traits.wavefront_size = wavefront_size(device, traits.is_cpu);
  traits.max_group_size = group_size(device);
  traits.local_memory = static_cast<int64_t>(device_value(device, CL_DEVICE_LOCAL_MEM_SIZE, cl_ulong{0}));
  traits.max_parameters = clamped(device_value(device, CL_DEVICE_MAX_PARAMETER_SIZE, size_t{0}));
  for (uhal_dtype dtype = UHAL_BOOL; dtype < UHAL_DTYPE_COUNT; ++dtype) {
    const bool is_double = dtype == UHAL_FLOAT64 || dtype == UHAL_COMPLEX128;
    if (!is_double || traits.has_float64) traits.dtypes |= uint64_t{1} << dtype;
  }
  return traits;
}

}  // namespace

Device::Device(int32_t number, const FoundDevice& found)
    : ordinal(number),
      platform(found.platform),
      id(found.id),
      name(found.name),
      vendor(found.vendor),
      driver(driver_text(found.platform, found.id)),
      pci_bus_id(opencl::pci_bus_id(found.id)),
      memory(*this),
      programs(*this) {}

// Of a device that did not open; all others stay.
Device::~Device() {
  if (clock_cell != nullptr) api.clReleaseMemObject(clock_cell);
  if (context != nullptr) api.clReleaseContext(context);
}

uhal_status Device::open() {
  traits = traits_of(id);
  // For tests: a CPU runs the kernels meant for GPUs, any device those meant for wavefronts of 64, and small operands
  // those meant for large ones.
  bool gpu_kernels, wide_wavefronts, wide_indices;
  if (const uhal_status status = asks_for("UNIHAL_OPENCL_KERNELS", "gpu", &gpu_kernels); status != UHAL_OK) {
    return status;
  }
  if (const uhal_status status = asks_for("UNIHAL_OPENCL_WAVEFRONT", "64", &wide_wavefronts); status != UHAL_OK) {
    return status;
  }
  if (const uhal_status status = asks_for("UNIHAL_OPENCL_INDEX", "64", &wide_indices); status != UHAL_OK) return status;
  if (gpu_kernels) traits.is_cpu = false;
  if (wide_wavefronts) traits.wavefront_size = 64;
  traits.item_share = kernels::item_share(traits.wavefront_size);
  if (wide_indices) kernels::always_use_wide_indices();
  total_memory = device_value(id, CL_DEVICE_GLOBAL_MEM_SIZE, cl_ulong{0});
  divides_exactly =
      (device_value(id, CL_DEVICE_SINGLE_FP_CONFIG, cl_bitfield{0}) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  max_allocation = device_value(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, cl_ulong{0});
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform),
                                              0};
  cl_int code = CL_SUCCESS;
  context = api.clCreateContext(properties, 1, &id, nullptr, nullptr, &code);
  if (context == nullptr) return fail_native(code, "%s gives no context", name.c_str());
  if (const uhal_status status = find_libraries(); status != UHAL_OK) return status;
  if (const uhal_status status = memory.open(); status != UHAL_OK) return status;
  if (const uhal_status status = prepare_clock(); status != UHAL_OK) return status;
  kernels::open_tuning(ordinal, name + "\n" + driver, traits);
  return UHAL_OK;
}

uhal_status Device::find_libraries() {
  software = driver;
  ClblastWish wish;
  if (const uhal_status status = clblast_wish(&wish); status != UHAL_OK) return status;
  if (wish == ClblastWish::kOff) return UHAL_OK;
  if (has_clblast()) {
    traits.gemm_library = &clblast(wish == ClblastWish::kOn);
    software += wish == ClblastWish::kOn ? ", CLBlast" : ", CLBlast where tuned";
    return UHAL_OK;
  }
  if (wish == ClblastWish::kWhereTuned) return UHAL_OK;
  return kernels::fail(UHAL_NOT_FOUND,
                       "UNIHAL_CLBLAST is 'on', and libclblast.so.1 could not be opened; install CLBlast or unset it");
}

// Finds out whether a marker has a time.
uhal_status Device::prepare_clock() {
  cl_int code = CL_SUCCESS;
  const cl_command_queue queue = api.clCreateCommandQueue(context, id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (queue == nullptr) return fail_native(code, "%s gives no command queue with times", name.c_str());
  cl_event marker = nullptr;
  code = api.clEnqueueMarkerWithWaitList(queue, 0, nullptr, &marker);
  if (code == CL_SUCCESS) code = api.clWaitForEvents(1, &marker);
  cl_ulong time = 0;
  if (code == CL_SUCCESS) {
    const cl_int timed = api.clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr);
    if (timed != CL_SUCCESS || time == 0) {
      clock_cell = api.clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(cl_int), nullptr, &code);
    }
  }
  if (marker != nullptr) api.clReleaseEvent(marker);
  api.clReleaseCommandQueue(queue);
  return code == CL_SUCCESS ? UHAL_OK : fail_native(code, "%s cannot tell the times of events", name.c_str());
}

}  // namespace unihal::opencl
