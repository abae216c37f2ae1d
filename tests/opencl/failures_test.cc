// Failures of the driver: each comes out with OpenCL's code and name, and what can go on goes on.
#include "tests/opencl/opencl_test.h"

namespace opencl_test {
namespace {

class OpenclFailure : public OpenclTest {
 protected:
  void SetUp() override {
    if (std::getenv("UNIHAL_TESTS_NEED_OPENCL") == nullptr)
      GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
    use_faulty_opencl();
    setenv("UNIHAL_CACHE", "off", 1);  // kernels are compiled, whatever was compiled before
    setenv("UNIHAL_STRICT", "1", 1);   // what the backend refuses is seen
    OpenclTest::SetUp();
  }

  void expect_native(int32_t code, const char* name) {
    EXPECT_EQ(code, uhal_last_error()->native_code);
    EXPECT_STREQ(name, uhal_last_error()->native_name);
    EXPECT_MESSAGE(name);
  }
};

TEST_F(OpenclFailure, OfMemoryThatThereIsNotIsTriedAgainWithoutTheCache) {
  void* pointer = nullptr;
  ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 100 << 20, &pointer));
  ASSERT_OK(uhal_free(device, stream, pointer));
  ASSERT_OK(uhal_stream_synchronize(stream));
  fail_call("clCreateBuffer", -4);
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 200 << 20, &pointer));
  EXPECT_OK(uhal_free(device, stream, pointer));
  fail_call("clCreateBuffer", -4, 0, 1000);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 300 << 20, &pointer));
  EXPECT_MESSAGE("bytes of device memory");
  EXPECT_MESSAGE("CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)");
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_PINNED, 300 << 20, &pointer));
  EXPECT_MESSAGE("bytes of pinned host memory");
  fail_call("clCreateBuffer", -4, 0, 0);
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 300 << 20, &pointer));
  EXPECT_OK(uhal_free(device, stream, pointer));
}

TEST_F(OpenclFailure, OfAllocationAtFirstUseComesOutOfTheAllocation) {
  fail_call("clFinish", -4, 0, 2);  // at first, and once the cache was given back
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 100 << 20, &pointer));
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 100 << 20, &pointer));
  EXPECT_OK(uhal_free(device, stream, pointer));
}

TEST_F(OpenclFailure, OfAStream) {
  fail_call("clCreateCommandQueue", -6);
  uhal_stream* other = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_stream_create(device, &other));
  expect_native(-6, "CL_OUT_OF_HOST_MEMORY");
}

TEST_F(OpenclFailure, OfALaunchNamesTheKernel) {
  EXPECT_OK(launch_map("relu"));
  fail_call("clEnqueueNDRangeKernel", -5);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, launch_map("relu"));
  expect_native(-5, "CL_OUT_OF_RESOURCES");
  EXPECT_MESSAGE("does not take map.");
  EXPECT_OK(launch_map("relu"));
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(OpenclFailure, OfTheCompilerShowsItsLogTheKernelAndTheDevice) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  fail_call("source", 1);
  EXPECT_EQ(UHAL_INTERNAL, launch_map("relu"));
  expect_native(-11, "CL_BUILD_PROGRAM_FAILURE");
  EXPECT_MESSAGE("the kernel map.");
  EXPECT_MESSAGE("T=float");
  EXPECT_MESSAGE("does not compile for " + std::string(properties.name));
  EXPECT_MESSAGE("unknown type name 'UHAL_MISTAKE'");
  EXPECT_OK(launch_map("relu"));  // what failed is not kept
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(OpenclFailure, OfAGroupThatIsTooLargeIsARefusalWithNumbers) {
  fail_call("clGetKernelWorkGroupInfo", 8, 0, 1000);  // the limit
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_REDUCE, vector(10000), vector(1), nullptr));
  EXPECT_MESSAGE("with at most 8 work-items in a group (CL_KERNEL_WORK_GROUP_SIZE)");
}

TEST_F(OpenclFailure, KernelsWithoutASizeOfTheirOwnRunInSmallerGroups) {
  fail_call("clGetKernelWorkGroupInfo", 24, 0, 1000);
  const uhal_tensor x = vector(10007);
  const uhal_tensor y = vector(10007);
  std::vector<float> values(10007);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 5000;
  const size_t bytes = values.size() * sizeof(float);
  upload(x.data, std::string(reinterpret_cast<const char*>(values.data()), bytes));
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = uhal_map_function_find("relu");
  EXPECT_OK(launch(UHAL_OP_MAP, x, y, &attributes));
  for (float& value : values) value = value > 0 ? value : 0;
  EXPECT_EQ(0, memcmp(download(y.data, bytes).data(), values.data(), bytes));
}

TEST_F(OpenclFailure, OfRunningWorkIsNoLackOfMemory) {
  EXPECT_OK(launch_map("relu"));
  fail_call("clFinish", -5);
  EXPECT_EQ(UHAL_INTERNAL, uhal_stream_synchronize(stream));
  expect_native(-5, "CL_OUT_OF_RESOURCES");
  EXPECT_MESSAGE("failed while it ran");
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(OpenclFailure, ALostDeviceIsTold) {
  uhal_event* event = nullptr;
  EXPECT_OK(uhal_event_create(device, &event));
  EXPECT_OK(uhal_event_record(event, stream));
  fail_call("clFinish", -2, 0, 2);
  fail_call("clWaitForEvents", -36, 0, 1);
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_stream_synchronize(stream));
  expect_native(-2, "CL_DEVICE_NOT_AVAILABLE");
  EXPECT_MESSAGE("is lost");
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_device_synchronize(device));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_event_synchronize(event));
  expect_native(-36, "CL_INVALID_COMMAND_QUEUE");
  EXPECT_OK(uhal_event_destroy(event));
}

// As NVIDIA's driver loses them, beyond what 32 bits count.
TEST_F(OpenclFailure, FillsThatTheDriverLosesFarIntoABuffer) {
  constexpr size_t kLimit = size_t{1} << 30;
  const char pattern[] = "0123456789abcdef";
  char* const memory = allocate(kLimit + 4096);
  fail_call("fills", kLimit, 0, 1 << 20);
  EXPECT_OK(uhal_memory_fill(stream, memory, "xy", 2, kLimit + 4096));
  for (const size_t at : {size_t{0}, kLimit / 2, kLimit - 2, kLimit + 4094}) EXPECT_EQ("xy", download(memory + at, 2));
  for (const size_t start : {kLimit - 50, kLimit}) {
    for (size_t pattern_bytes = 1; pattern_bytes <= 16; pattern_bytes *= 2) {
      for (size_t offset = 0; offset < 17; ++offset) {
        std::string expected(128, '.');
        upload(memory + start, expected);
        for (size_t i = 0; i < 5 * pattern_bytes; ++i) expected[offset + i] = pattern[i % pattern_bytes];
        EXPECT_OK(uhal_memory_fill(stream, memory + start + offset, pattern, pattern_bytes, 5 * pattern_bytes));
        ASSERT_EQ(expected, download(memory + start, 128)) << pattern_bytes << " bytes at " << start + offset;
      }
    }
  }
}

TEST_F(OpenclFailure, OfAMarker) {
  uhal_event* event = nullptr;
  EXPECT_OK(uhal_event_create(device, &event));
  fail_call("clEnqueueMarkerWithWaitList", -5);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_event_record(event, stream));
  EXPECT_MESSAGE("does not take a marker");
  EXPECT_OK(uhal_event_record(event, stream));
  EXPECT_OK(uhal_event_synchronize(event));
  EXPECT_OK(uhal_event_destroy(event));
}

}  // namespace
}  // namespace opencl_test
