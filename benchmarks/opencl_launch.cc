// The cost of a launch: microseconds from one add of 16 elements to the next through uhal_launch, against a bare
// clEnqueueNDRangeKernel of such a kernel, whose arguments were set once. Both submit to a queue with profiling, and
// wait once at the end. Prints one JSON object; the ratio is ours over the bare call's.
//
//     benchmark_opencl_launch [DEVICE]     polaris:0 if none is given; UNIHAL_BACKEND=opencl

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "csrc/backends/opencl/api.h"
#include "plugins/common/view.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace {

using namespace unihal::opencl;

constexpr int kBatches = 15;
constexpr int kCalls = 2000;

void check(uhal_status status) {
  if (status == UHAL_OK) return;
  std::fprintf(stderr, "%s\n", uhal_last_error()->message);
  std::exit(1);
}

void check_opencl(cl_int status, const char* call) {
  if (status == CL_SUCCESS) return;
  std::fprintf(stderr, "%s failed with %d\n", call, status);
  std::exit(1);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Microseconds of one call, in a batch that ends with `wait`.
template <class Call, class Wait>
double batch(Call call, Wait wait) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  wait();
  const std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - start;
  return passed.count() / kCalls;
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
  using unihal::View;
  std::string name = argc > 1 ? argv[1] : "polaris:0";
  const size_t colon = name.find(':');
  const int ordinal = colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1);
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  check(uhal_device_get(name.substr(0, colon).c_str(), ordinal, &device));
  check(uhal_stream_create(device, &stream));
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  check(uhal_device_properties_get(device, &properties));
  void* memory = nullptr;
  check(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 4096, &memory));
  char* base = static_cast<char*>(memory);
  const View a(base, UHAL_FLOAT32, {16});
  const View b(base + 256, UHAL_FLOAT32, {16});
  const View c(base + 512, UHAL_FLOAT32, {16});
  BareKernel bare(properties.name);

  auto launch_ours = [&] { check(unihal::map(stream, uhal_map_add, {&a, &b}, {&c})); };
  auto wait_ours = [&] { check(uhal_stream_synchronize(stream)); };
  auto launch_bare = [&] { bare.launch(); };
  auto wait_bare = [&] { bare.wait(); };
  batch(launch_ours, wait_ours);  // compiles
  batch(launch_bare, wait_bare);
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int i = 0; i < kBatches; ++i) {
    ours.push_back(batch(launch_ours, wait_ours));
    theirs.push_back(batch(launch_bare, wait_bare));
  }
  check(uhal_free(device, stream, memory));
  check(uhal_stream_destroy(stream));
  std::printf(
      "{\"benchmark\": \"opencl: launch\", \"unit\": \"us\", \"device\": %.3f, \"peer\": %.3f, \"ratio\": %.2f, "
      "\"peer_name\": \"clEnqueueNDRangeKernel\", \"target\": 1.3}\n",
      median(ours), median(theirs), median(ours) / median(theirs));
  return 0;
}
