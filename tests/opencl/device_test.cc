// Finding and opening devices, through the core.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/opencl/opencl_test.h"

namespace opencl_test {
namespace {

// What the backend said when it was asked for its devices.
std::string refusal() {
  uhal_backend_report report = {};
  report.struct_size = sizeof report;
  EXPECT_OK(uhal_backend_report_get("polaris", 0, &report));
  EXPECT_STREQ("opencl", report.backend);
  EXPECT_EQ(UHAL_BACKEND_REFUSED, report.state);
  return report.reason;
}

TEST(OpenclRefusal, AMissingLibraryIsNamed) {
  setenv("UNIHAL_OPENCL_LIBRARY", "/nowhere/libnothing.so", 1);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "/nowhere/libnothing.so does not load", refusal());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "UNIHAL_OPENCL_LIBRARY names it", refusal());
}

TEST(OpenclRefusal, ALibraryThatIsNoOpenclIsNamed) {
  setenv("UNIHAL_OPENCL_LIBRARY", "libdl.so.2", 1);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "libdl.so.2 has no function clGetPlatformIDs", refusal());
}

TEST(OpenclRefusal, WithoutAPlatformTheNextStepIsTold) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  use_faulty_opencl();
  fail_call("clGetPlatformIDs", -1001);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "knows no platform: install the OpenCL driver", refusal());
}

TEST(OpenclRefusal, APlatformWithoutDevicesIsNamed) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  use_faulty_opencl();
  fail_call("clGetDeviceIDs", -1, 0, 1000);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "): its driver sees no device", refusal());
}

TEST(OpenclRefusal, ADriverThatFailsIsNamed) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  use_faulty_opencl();
  fail_call("clGetDeviceIDs", -6, 0, 1000);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "its driver failed with CL_OUT_OF_HOST_MEMORY", refusal());
}

TEST(OpenclRefusal, ADeviceThatLacksSomethingIsToldWhat) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  use_faulty_opencl();
  fail_call("embedded", 1, 0, 1000);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "it has OpenCL's embedded profile only", refusal());
}

TEST(OpenclRefusal, AWishThatNoDeviceFulfilsListsThem) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  setenv("UNIHAL_OPENCL_DEVICE", "Voodoo", 1);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "UNIHAL_OPENCL_DEVICE is 'Voodoo'", refusal());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "several separated by commas, of: 0: ", refusal());
}

TEST(OpenclRefusal, ADeviceThatGivesNoContextIsAnError) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  use_faulty_opencl();
  fail_call("clCreateContext", -6);
  ASSERT_OK(uhal_select_backend("opencl"));
  uhal_device* device = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_device_get("polaris", 0, &device));
  EXPECT_MESSAGE("gives no context: CL_OUT_OF_HOST_MEMORY (-6)");
  EXPECT_EQ(-6, uhal_last_error()->native_code);
  EXPECT_STREQ("CL_OUT_OF_HOST_MEMORY", uhal_last_error()->native_name);
  EXPECT_OK(uhal_device_get("polaris", 0, &device));  // the next time it does
}

class OpenclDevice : public OpenclTest {};

TEST_F(OpenclDevice, HasProperties) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  EXPECT_STREQ("opencl", properties.backend);
  EXPECT_STRNE("", properties.name);
  EXPECT_STRNE("", properties.vendor);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, ", OpenCL ", std::string(properties.driver));
  EXPECT_NE(nullptr, properties.pci_bus_id);
  EXPECT_GT(properties.compute_units, 0);
  EXPECT_GT(properties.wavefront_size, 0);
  EXPECT_EQ(0, properties.is_stub);
  EXPECT_EQ(0, properties.unified_memory);
  EXPECT_GT(properties.total_memory, 0u);
  EXPECT_GT(properties.max_allocation, 0u);
  EXPECT_LE(properties.max_allocation, properties.total_memory);
  EXPECT_GE(properties.local_memory, 32768u);
  EXPECT_NE(0u, properties.supported_dtypes >> UHAL_FLOAT32 & 1);
  EXPECT_EQ(UHAL_FIGURES_OF_DEVICE, properties.figures_are_of);
}

TEST_F(OpenclDevice, IsRefusedInAForkedChild) {
  const pid_t child = fork();
  if (child == 0) {
    uhal_stream* other = nullptr;
    _exit(uhal_stream_create(device, &other) == UHAL_FAILED_PRECONDITION ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(child, waitpid(child, &result, 0));
  EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0);
  EXPECT_OK(launch_map("relu"));  // and the parent goes on
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(OpenclDevice, FinalizeWaitsForWork) {
  std::string host(1 << 20, '?');
  char* const memory = allocate(host.size());
  EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, host.size()));
  EXPECT_OK(uhal_copy(stream, host.data(), memory, host.size(), UHAL_COPY_DEVICE_TO_HOST));
  uhal_finalize();
  EXPECT_EQ(std::string(host.size(), 'x'), host);
  allocations.clear();
  stream = nullptr;
}

// Work of every kind is pending when the process ends. Its kernel has run before: PoCL compiles at the first run, and
// its compiler does not survive the end of a process.
[[noreturn]] void exit_with_work() {
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  void* memory = nullptr;
  constexpr size_t kBytes = size_t{64} << 20;
  bool ready = uhal_select_backend("opencl") == UHAL_OK && uhal_device_get("polaris", 0, &device) == UHAL_OK &&
               uhal_stream_create(device, &stream) == UHAL_OK &&
               uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kBytes, &memory) == UHAL_OK;
  uhal_tensor x = {};
  x.struct_size = sizeof x;
  x.data = memory;
  x.dtype = UHAL_FLOAT32;
  x.rank = 1;
  x.shape[0] = kBytes / 4;
  x.strides[0] = 1;
  const uhal_tensor* operands[] = {&x};
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = uhal_map_function_find("sin");
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_MAP;
  op.inputs = operands;
  op.input_count = 1;
  op.outputs = operands;
  op.output_count = 1;
  op.attributes = &attributes;
  ready = ready && uhal_launch(stream, &op) == UHAL_OK && uhal_stream_synchronize(stream) == UHAL_OK;
  for (int i = 0; ready && i < 20; ++i) {
    ready = uhal_launch(stream, &op) == UHAL_OK && uhal_memory_fill(stream, memory, "x", 1, kBytes) == UHAL_OK &&
            uhal_stream_host_callback(stream, [](void*) {}, nullptr) == UHAL_OK;
  }
  std::exit(ready ? 0 : 1);
}

TEST(OpenclExit, WithPendingWorkIsClean) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  EXPECT_EXIT(exit_with_work(), testing::ExitedWithCode(0), "");
}

TEST(OpenclDevices, TwoOfThemShareOneProcess) {
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh";
  setenv("POCL_DEVICES", "pthread pthread", 1);
  ASSERT_OK(uhal_select_backend("opencl"));
  int32_t count = 0;
  ASSERT_OK(uhal_device_count("polaris", &count));
  if (count != 2) GTEST_SKIP() << "only PoCL can be told to have two devices";
  uhal_device* devices[2];
  void* pointers[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(uhal_device_get("polaris", i, &devices[i]));
    ASSERT_OK(uhal_allocate(devices[i], nullptr, UHAL_MEMORY_DEVICE, 100, &pointers[i]));
  }
  EXPECT_NE(pointers[0], pointers[1]);
  uhal_stream* stream = nullptr;
  ASSERT_OK(uhal_device_default_stream(devices[0], &stream));
  std::string sent(100, 'a');
  std::string received(100, '?');
  ASSERT_OK(uhal_copy(stream, pointers[0], sent.data(), 100, UHAL_COPY_HOST_TO_DEVICE));
  ASSERT_OK(uhal_copy_peer(stream, devices[1], pointers[1], devices[0], pointers[0], 100));
  ASSERT_OK(uhal_device_default_stream(devices[1], &stream));
  ASSERT_OK(uhal_copy(stream, received.data(), pointers[1], 100, UHAL_COPY_DEVICE_TO_HOST));
  ASSERT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(sent, received);
  uhal_finalize();
}

}  // namespace
}  // namespace opencl_test
