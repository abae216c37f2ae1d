// The cost of a launch on the opencl backend, against a bare clEnqueueNDRangeKernel of such a kernel, whose arguments
// were set once. Both submit to a queue with profiling.
//
//     benchmark_opencl_launch [DEVICE]     polaris:0 if none is given; UNIHAL_BACKEND=opencl

#include "benchmarks/launch.h"

#include "csrc/backends/opencl/api.h"

namespace {

using namespace unihal::opencl;

void check_opencl(cl_int status, const char* call) {
  if (status == CL_SUCCESS) return;
  std::fprintf(stderr, "%s failed with %d\n", call, status);
  std::exit(1);
}

// The bare kernel, on the device that unihal opened: found again by its name.
class BareKernel {
 public:
  explicit BareKernel(const std::string& device_name) {
    const std::string& missing = open_library();
    if (!missing.empty()) {
      std::fprintf(stderr, "%s\n", missing.c_str());
      std::exit(1);
    }
    const cl_device_id device = find(device_name);
    cl_int status;
    context_ = api.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    check_opencl(status, "clCreateContext");
    queue_ = api.clCreateCommandQueue(context_, device, CL_QUEUE_PROFILING_ENABLE, &status);
    check_opencl(status, "clCreateCommandQueue");
    const char* text =
        "__kernel void add(__global const float* a, __global const float* b, __global float* c, int count) {\n"
        "  int i = get_global_id(0);\n"
        "  if (i < count) c[i] = a[i] + b[i];\n"
        "}\n";
    const cl_program program = api.clCreateProgramWithSource(context_, 1, &text, nullptr, &status);
    check_opencl(status, "clCreateProgramWithSource");
    check_opencl(api.clBuildProgram(program, 1, &device, "-cl-std=CL1.2", nullptr, nullptr), "clBuildProgram");
    kernel_ = api.clCreateKernel(program, "add", &status);
    check_opencl(status, "clCreateKernel");
    for (cl_uint i = 0; i < 3; ++i) {
      const cl_mem memory = api.clCreateBuffer(context_, CL_MEM_READ_WRITE, 4096, nullptr, &status);
      check_opencl(status, "clCreateBuffer");
      check_opencl(api.clSetKernelArg(kernel_, i, sizeof memory, &memory), "clSetKernelArg");
    }
    const cl_int count = 16;
    check_opencl(api.clSetKernelArg(kernel_, 3, sizeof count, &count), "clSetKernelArg");
  }

  void launch() {
    const size_t items = 256;
    check_opencl(api.clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &items, &items, 0, nullptr, nullptr),
                 "clEnqueueNDRangeKernel");
  }

  void wait() { check_opencl(api.clFinish(queue_), "clFinish"); }

 private:
  // unihal's name may be a board's; the first device of its name, else the first of all.
  static cl_device_id find(const std::string& wanted) {
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    check_opencl(api.clGetPlatformIDs(16, platforms, &platform_count), "clGetPlatformIDs");
    cl_device_id first = nullptr;
    for (cl_uint p = 0; p < std::min<cl_uint>(platform_count, 16); ++p) {
      cl_device_id devices[16];
      cl_uint count = 0;
      if (api.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &count) != CL_SUCCESS) continue;
      for (cl_uint d = 0; d < std::min<cl_uint>(count, 16); ++d) {
        char name[256] = "";
        api.clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name, name, nullptr);
        if (wanted == name) return devices[d];
        if (first == nullptr) first = devices[d];
      }
    }
    if (first == nullptr) check_opencl(CL_DEVICE_NOT_FOUND, "clGetDeviceIDs");
    return first;
  }

  cl_context context_;
  cl_command_queue queue_;
  cl_kernel kernel_;
};

}  // namespace

int main(int argc, char** argv) {
  launch_benchmark::measure("opencl: launch", argc > 1 ? argv[1] : "polaris:0", "clEnqueueNDRangeKernel", 1.3,
                            [](const std::string& name) { return BareKernel(name); });
  return 0;
}
