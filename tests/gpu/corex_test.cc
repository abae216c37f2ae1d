// The same source under CUDA's names: what is CoreX's own, and one round through all of the driver.
#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

TEST(CorexRefusal, AnNvidiaCardServesOnlyWhenAskedFor) {
  use(kCorex);
  setenv("HIP_ON_HOST_DEVICES", "NVIDIA H100:9.0:100", 1);
  EXPECT_SAYS("NVIDIA H100 (sm_90) is no card of Iluvatar's: it serves if UNIHAL_BACKEND=corex asks for it",
              refusal(kCorex));
}

TEST(CorexRefusal, ADriverWithoutDevicesDoesNotStart) {
  use(kCorex);
  setenv("HIP_ON_HOST_DEVICES", "none", 1);
  ASSERT_OK(uhal_select_backend("corex"));
  EXPECT_SAYS("libcuda.so.1 does not start: CUDA_ERROR_NO_DEVICE (100)", refusal(kCorex));
}

TEST(CorexDevices, ServeIluvatarUnasked) {
  use(kCorex);
  uhal_device* device = nullptr;
  ASSERT_OK(uhal_device_get("iluvatar", 0, &device));
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  EXPECT_STREQ("corex", properties.backend);
  EXPECT_STREQ("Iluvatar", properties.vendor);
}

class Corex : public GpuTest {
 protected:
  Corex() : GpuTest(kCorex) {}
};

TEST_F(Corex, HasProperties) {
  const uhal_device_properties all = properties();
  EXPECT_STREQ("Iluvatar BI-V150", all.name);
  EXPECT_SAYS("CUDA 10.2", all.driver);
  EXPECT_SAYS("NVRTC 10.2", all.driver);
  EXPECT_SAYS("(in force: COREX_ROOT=", all.driver);
  EXPECT_EQ(64, all.wavefront_size);
  EXPECT_EQ(0, all.peak_gigaflops_float32);  // not known of these cards
}

TEST_F(Corex, WorksInOrder) {
  char* const memory = allocate(1000);
  char* const pinned = allocate(1000, UHAL_MEMORY_PINNED);
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  for (char letter = 'a'; letter < 'k'; ++letter) {
    EXPECT_OK(uhal_memory_fill(stream, memory, &letter, 1, 1000));
    EXPECT_OK(launch_relu());  // which the driver takes for the device's architecture only
    uhal_event* const event = record(stream);
    EXPECT_OK(uhal_stream_wait_event(other, event));
    EXPECT_OK(uhal_copy(other, pinned, memory, 1000, UHAL_COPY_DEVICE_TO_HOST));
    EXPECT_OK(uhal_stream_host_callback(other, [](void* data) { *static_cast<char*>(data) = '!'; }, pinned));
    EXPECT_OK(uhal_stream_synchronize(other));
    EXPECT_EQ("!" + std::string(999, letter), std::string(pinned, 1000));
    EXPECT_OK(uhal_event_destroy(event));
  }
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(Corex, FailuresHaveCudasCodesAndNames) {
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, size_t{3} << 30, &pointer));
  EXPECT_MESSAGE("(in force: COREX_ROOT=");
  expect_native(2, "CUDA_ERROR_OUT_OF_MEMORY");
  fail_call("cuLaunchKernel", 4242);
  EXPECT_EQ(UHAL_INTERNAL, launch_relu());
  expect_native(4242, "unknown code");
}

}  // namespace
}  // namespace gpu_test
