// Failures of the driver: each comes out with HIP's code and name, and what can go on goes on.
#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

class HipFailure : public GpuTest {
 protected:
  void SetUp() override {
    setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0", 1);
    GpuTest::SetUp();
  }
};

TEST_F(HipFailure, TellsTheOverridesInForce) {
  fail_call("hipStreamCreateWithFlags", 2);
  uhal_stream* other = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_stream_create(device, &other));
  EXPECT_MESSAGE("gives no stream (in force: HSA_OVERRIDE_GFX_VERSION=10.3.0, ROCM_PATH=");
  expect_native(2, "hipErrorOutOfMemory");
  EXPECT_OK(uhal_stream_create(device, &other));
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(HipFailure, OfAnEvent) {
  uhal_event* event = nullptr;
  fail_call("hipEventCreateWithFlags", 2);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_event_create(device, &event));
  EXPECT_MESSAGE("gives no event");
  ASSERT_OK(uhal_event_create(device, &event));
  fail_call("hipEventRecord", 999);
  EXPECT_EQ(UHAL_INTERNAL, uhal_event_record(event, stream));
  EXPECT_MESSAGE("does not take an event");
  expect_native(999, "hipErrorUnknown");
  EXPECT_OK(uhal_event_record(event, stream));
  fail_call("hipStreamWaitEvent", 999);
  EXPECT_EQ(UHAL_INTERNAL, uhal_stream_wait_event(stream, event));
  EXPECT_MESSAGE("does not take a wait for an event");
  EXPECT_OK(uhal_event_destroy(event));
}

TEST_F(HipFailure, OfCopiesAndFills) {
  char* const memory = allocate(100);
  char host[100];
  fail_call("hipMemcpyAsync", 1);
  EXPECT_EQ(UHAL_INTERNAL, uhal_copy(stream, memory, host, 100, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_MESSAGE("does not take a copy");
  expect_native(1, "hipErrorInvalidValue");
  fail_call("hipMemsetD8Async", 1);
  EXPECT_EQ(UHAL_INTERNAL, uhal_memory_fill(stream, memory, "x", 1, 100));
  EXPECT_MESSAGE("does not take a fill");
  EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, 100));
  EXPECT_EQ("xx", download(memory, 2));
}

TEST_F(HipFailure, OfALaunchNamesTheKernel) {
  EXPECT_OK(launch_relu());
  fail_call("hipModuleLaunchKernel", 701);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, launch_relu());
  EXPECT_MESSAGE("does not take map.");
  expect_native(701, "hipErrorLaunchOutOfResources");
  EXPECT_OK(launch_relu());
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(HipFailure, OfTheCompilerShowsItsLogTheKernelAndTheDevice) {
  fail_call("compile", 1);
  EXPECT_EQ(UHAL_INTERNAL, launch_relu());
  EXPECT_MESSAGE("the kernel map.");
  EXPECT_MESSAGE("does not compile for AMD Radeon RX 6800 (gfx1030), by hipRTC 9.0");
  EXPECT_MESSAGE("(in force: HSA_OVERRIDE_GFX_VERSION=10.3.0");
  EXPECT_MESSAGE("unknown type name 'UHAL_MISTAKE'");
  EXPECT_OK(launch_relu());  // what failed is not kept
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(HipFailure, OfAProgramThatTheDriverDoesNotTake) {
  fail_call("hipModuleLoadData", 209);
  EXPECT_EQ(UHAL_INTERNAL, launch_relu());
  EXPECT_MESSAGE("does not take the program that hipRTC 9.0 made of map.");
  expect_native(209, "hipErrorNoBinaryForGpu");
  EXPECT_OK(launch_relu());
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(HipFailure, OfAGroupThatIsTooLargeIsARefusalWithNumbers) {
  fail_call("groups", 8, 0, -1);
  const uhal_tensor x = vector(10000);
  const uhal_tensor y = vector(1);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_REDUCE, x, y, nullptr));
  EXPECT_MESSAGE("with at most 8 work-items in a group");
  // Kernels without a size of their own run in smaller groups; the driver refuses larger ones.
  EXPECT_OK(launch_relu(10007));
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(HipFailure, OfRunningWorkLosesTheDevice) {
  uhal_event* const event = record(stream);
  EXPECT_OK(launch_relu());
  EXPECT_OK(uhal_stream_synchronize(stream));
  fail_call("work", 700);
  EXPECT_OK(launch_relu());
  EXPECT_EQ(UHAL_INTERNAL, uhal_stream_synchronize(stream));
  EXPECT_MESSAGE("work on AMD Radeon RX 6800 failed while it ran");
  EXPECT_MESSAGE("(in force: HSA_OVERRIDE_GFX_VERSION=10.3.0");
  expect_native(700, "hipErrorIllegalAddress");
  int32_t done = 0;
  EXPECT_EQ(UHAL_INTERNAL, uhal_stream_query(stream, &done));
  EXPECT_EQ(UHAL_INTERNAL, uhal_event_synchronize(event));
  EXPECT_EQ(UHAL_INTERNAL, launch_relu());
  // The process ends all the same, without waiting for what does not come.
  static_cast<void>(uhal_event_destroy(event));
  uhal_finalize();
  allocations.clear();
  stream = nullptr;
}

// The first access outside an allocation loses the device: none is made.
TEST_F(HipFailure, AnAddressOutsideEveryAllocationNeverReachesTheDriver) {
  char* const memory = allocate(100);
  EXPECT_NE(UHAL_OK, uhal_memory_fill(stream, memory, "x", 1, size_t{1} << 30));
  EXPECT_OK(uhal_stream_synchronize(stream));
}

}  // namespace
}  // namespace gpu_test
