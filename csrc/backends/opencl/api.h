// The part of OpenCL 1.2 that the backend uses: our own declarations, under the standard's names, and the library,
// which is opened at run time. Neither a header nor a library of OpenCL is needed to build, or to load the backend
// without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace unihal::opencl {

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_bool = cl_uint;
using cl_bitfield = cl_ulong;

using cl_platform_id = struct PlatformObject*;
using cl_device_id = struct DeviceObject*;
using cl_context = struct ContextObject*;
using cl_command_queue = struct QueueObject*;
using cl_mem = struct MemoryObject*;
using cl_program = struct ProgramObject*;
using cl_kernel = struct KernelObject*;
using cl_event = struct EventObject*;
using cl_context_properties = intptr_t;

// Status codes that the backend tells apart; status.cc has the names of all.
constexpr cl_int CL_SUCCESS = 0;
constexpr cl_int CL_DEVICE_NOT_FOUND = -1;
constexpr cl_int CL_DEVICE_NOT_AVAILABLE = -2;
constexpr cl_int CL_MEM_OBJECT_ALLOCATION_FAILURE = -4;
constexpr cl_int CL_OUT_OF_RESOURCES = -5;
constexpr cl_int CL_OUT_OF_HOST_MEMORY = -6;
constexpr cl_int CL_PROFILING_INFO_NOT_AVAILABLE = -7;
constexpr cl_int CL_BUILD_PROGRAM_FAILURE = -11;
constexpr cl_int CL_INVALID_CONTEXT = -34;
constexpr cl_int CL_INVALID_COMMAND_QUEUE = -36;
constexpr cl_int CL_INVALID_BUFFER_SIZE = -61;
constexpr cl_int CL_PLATFORM_NOT_FOUND_KHR = -1001;

constexpr cl_bool CL_FALSE = 0;
constexpr cl_bool CL_TRUE = 1;

constexpr cl_uint CL_PLATFORM_VERSION = 0x0901;
constexpr cl_uint CL_PLATFORM_NAME = 0x0902;

constexpr cl_bitfield CL_DEVICE_TYPE_CPU = 1 << 1;
constexpr cl_bitfield CL_DEVICE_TYPE_GPU = 1 << 2;
constexpr cl_bitfield CL_DEVICE_TYPE_ALL = 0xffffffff;

constexpr cl_uint CL_DEVICE_TYPE = 0x1000;
constexpr cl_uint CL_DEVICE_VENDOR_ID = 0x1001;
constexpr cl_uint CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002;
constexpr cl_uint CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004;
constexpr cl_uint CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005;
constexpr cl_uint CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100c;
constexpr cl_uint CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010;
constexpr cl_uint CL_DEVICE_MAX_PARAMETER_SIZE = 0x1017;
constexpr cl_uint CL_DEVICE_GLOBAL_MEM_SIZE = 0x101f;
constexpr cl_uint CL_DEVICE_LOCAL_MEM_SIZE = 0x1023;
constexpr cl_uint CL_DEVICE_SINGLE_FP_CONFIG = 0x101b;
constexpr cl_bitfield CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7;
constexpr cl_uint CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035;
constexpr cl_uint CL_DEVICE_ENDIAN_LITTLE = 0x1026;
constexpr cl_uint CL_DEVICE_AVAILABLE = 0x1027;
constexpr cl_uint CL_DEVICE_COMPILER_AVAILABLE = 0x1028;
constexpr cl_uint CL_DEVICE_NAME = 0x102b;
constexpr cl_uint CL_DEVICE_VENDOR = 0x102c;
constexpr cl_uint CL_DRIVER_VERSION = 0x102d;
constexpr cl_uint CL_DEVICE_PROFILE = 0x102e;
constexpr cl_uint CL_DEVICE_VERSION = 0x102f;
constexpr cl_uint CL_DEVICE_EXTENSIONS = 0x1030;
constexpr cl_uint CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032;
constexpr cl_uint CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x1067;  // since OpenCL 3.0

// Vendors' extensions: cl_amd_device_attribute_query, cl_nv_device_attribute_query, cl_khr_pci_bus_info.
constexpr cl_uint CL_DEVICE_TOPOLOGY_AMD = 0x4037;
constexpr cl_uint CL_DEVICE_BOARD_NAME_AMD = 0x4038;
constexpr cl_uint CL_DEVICE_GLOBAL_FREE_MEMORY_AMD = 0x4039;
constexpr cl_uint CL_DEVICE_SIMD_PER_COMPUTE_UNIT_AMD = 0x4040;
constexpr cl_uint CL_DEVICE_SIMD_WIDTH_AMD = 0x4041;
constexpr cl_uint CL_DEVICE_WAVEFRONT_WIDTH_AMD = 0x4043;
constexpr cl_uint CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV = 0x4000;
constexpr cl_uint CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV = 0x4001;
constexpr cl_uint CL_DEVICE_WARP_SIZE_NV = 0x4003;
constexpr cl_uint CL_DEVICE_PCI_BUS_ID_NV = 0x4008;
constexpr cl_uint CL_DEVICE_PCI_SLOT_ID_NV = 0x4009;
constexpr cl_uint CL_DEVICE_PCI_DOMAIN_ID_NV = 0x400a;
constexpr cl_uint CL_DEVICE_PCI_BUS_INFO_KHR = 0x410f;

constexpr cl_context_properties CL_CONTEXT_PLATFORM = 0x1084;
constexpr cl_bitfield CL_QUEUE_PROFILING_ENABLE = 1 << 1;
constexpr cl_bitfield CL_MEM_READ_WRITE = 1 << 0;
constexpr cl_bitfield CL_MEM_ALLOC_HOST_PTR = 1 << 4;
constexpr cl_bitfield CL_MAP_READ = 1 << 0;
constexpr cl_bitfield CL_MAP_WRITE = 1 << 1;

constexpr cl_uint CL_PROGRAM_BUILD_LOG = 0x1183;
constexpr cl_uint CL_PROGRAM_BINARY_SIZES = 0x1165;
constexpr cl_uint CL_PROGRAM_BINARIES = 0x1166;
constexpr cl_uint CL_KERNEL_WORK_GROUP_SIZE = 0x11b0;
constexpr cl_uint CL_KERNEL_COMPILE_WORK_GROUP_SIZE = 0x11b1;
constexpr cl_uint CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11d3;
constexpr cl_int CL_COMPLETE = 0;
constexpr cl_uint CL_PROFILING_COMMAND_END = 0x1283;

// X(result, name, parameters)
#define UHAL_OPENCL_FUNCTIONS(X)                                                                                    \
  X(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id*, cl_uint*))                                                 \
  X(cl_int, clGetPlatformInfo, (cl_platform_id, cl_uint, size_t, void*, size_t*))                                   \
  X(cl_int, clGetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id*, cl_uint*))                        \
  X(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void*, size_t*))                                       \
  X(cl_context, clCreateContext,                                                                                    \
    (const cl_context_properties*, cl_uint, const cl_device_id*, void (*)(const char*, const void*, size_t, void*), \
     void*, cl_int*))                                                                                               \
  X(cl_int, clReleaseContext, (cl_context))                                                                         \
  X(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int*))                       \
  X(cl_int, clReleaseCommandQueue, (cl_command_queue))                                                              \
  X(cl_int, clFlush, (cl_command_queue))                                                                            \
  X(cl_int, clFinish, (cl_command_queue))                                                                           \
  X(cl_mem, clCreateBuffer, (cl_context, cl_bitfield, size_t, void*, cl_int*))                                      \
  X(cl_int, clReleaseMemObject, (cl_mem))                                                                           \
  X(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char**, const size_t*, cl_int*))             \
  X(cl_program, clCreateProgramWithBinary,                                                                          \
    (cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**, cl_int*, cl_int*))             \
  X(cl_int, clReleaseProgram, (cl_program))                                                                         \
  X(cl_int, clBuildProgram,                                                                                         \
    (cl_program, cl_uint, const cl_device_id*, const char*, void (*)(cl_program, void*), void*))                    \
  X(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void*, size_t*))                                        \
  X(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void*, size_t*))                     \
  X(cl_kernel, clCreateKernel, (cl_program, const char*, cl_int*))                                                  \
  X(cl_int, clReleaseKernel, (cl_kernel))                                                                           \
  X(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void*))                                              \
  X(cl_int, clGetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_uint, size_t, void*, size_t*))                   \
  X(cl_int, clEnqueueNDRangeKernel,                                                                                 \
    (cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint, const cl_event*,   \
     cl_event*))                                                                                                    \
  X(cl_int, clEnqueueReadBuffer,                                                                                    \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*))                \
  X(cl_int, clEnqueueWriteBuffer,                                                                                   \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*, cl_event*))          \
  X(cl_int, clEnqueueCopyBuffer,                                                                                    \
    (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))                \
  X(cl_int, clEnqueueFillBuffer,                                                                                    \
    (cl_command_queue, cl_mem, const void*, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))           \
  X(void*, clEnqueueMapBuffer,                                                                                      \
    (cl_command_queue, cl_mem, cl_bool, cl_bitfield, size_t, size_t, cl_uint, const cl_event*, cl_event*, cl_int*)) \
  X(cl_int, clEnqueueUnmapMemObject, (cl_command_queue, cl_mem, void*, cl_uint, const cl_event*, cl_event*))        \
  X(cl_int, clEnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event*, cl_event*))                   \
  X(cl_int, clEnqueueBarrierWithWaitList, (cl_command_queue, cl_uint, const cl_event*, cl_event*))                  \
  X(cl_int, clWaitForEvents, (cl_uint, const cl_event*))                                                            \
  X(cl_int, clGetEventInfo, (cl_event, cl_uint, size_t, void*, size_t*))                                            \
  X(cl_int, clGetEventProfilingInfo, (cl_event, cl_uint, size_t, void*, size_t*))                                   \
  X(cl_event, clCreateUserEvent, (cl_context, cl_int*))                                                             \
  X(cl_int, clSetUserEventStatus, (cl_event, cl_int))                                                               \
  X(cl_int, clRetainEvent, (cl_event))                                                                              \
  X(cl_int, clReleaseEvent, (cl_event))

struct Api {
#define UHAL_OPENCL_DECLARE(result, name, parameters) result(*name) parameters;
  UHAL_OPENCL_FUNCTIONS(UHAL_OPENCL_DECLARE)
#undef UHAL_OPENCL_DECLARE
};

// The functions. Valid after open_library() succeeded.
extern Api api;

// Opens the library once: the file that UNIHAL_OPENCL_LIBRARY names, which may be a vendor's own, else the loader
// libOpenCL.so.1. Empty, or why there is no OpenCL and what to do. It is never closed.
const std::string& open_library();

// The name that was opened last, for messages.
const std::string& library_name();

}  // namespace unihal::opencl
