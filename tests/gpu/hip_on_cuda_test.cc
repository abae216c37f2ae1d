// The double by which the hip backend runs on an NVIDIA GPU (tests/doubles/hip_on_cuda), on the double with CUDA's
// names: its driver and its compiler reach the other side whole.
#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

void use_hip_on_cuda() {
  use(kHipOnCuda);
  setenv("HIP_ON_CUDA_LIBRARIES", COREX_ON_HOST "/lib64", 1);
  setenv("HIP_ON_HOST_DEVICES", "NVIDIA H100:9.0:2048,NVIDIA H100:9.0:1024", 1);
}

TEST(HipOnCudaRefusal, ServesOnlyWhenAskedFor) {
  use_hip_on_cuda();
  EXPECT_SAYS("NVIDIA H100 (sm_90) is no card of AMD's: it serves if UNIHAL_BACKEND=hip asks for it",
              refusal(kHipOnCuda));
}

TEST(HipOnCudaRefusal, WithoutADriverThereIsNoDevice) {
  use_hip_on_cuda();
  setenv("HIP_ON_HOST_DEVICES", "none", 1);
  ASSERT_OK(uhal_select_backend("hip"));
  EXPECT_SAYS("libamdhip64.so does not start: CUDA_ERROR_NO_DEVICE (100)", refusal(kHipOnCuda));
}

class HipOnCuda : public GpuTest {
 protected:
  HipOnCuda() : GpuTest(kHipOnCuda) { use_hip_on_cuda(); }
};

TEST_F(HipOnCuda, HasProperties) {
  const uhal_device_properties all = properties();
  EXPECT_STREQ("hip", all.backend);
  EXPECT_STREQ("NVIDIA H100", all.name);
  EXPECT_STREQ("not the backend's vendor", all.vendor);
  EXPECT_SAYS("HIP 10.2", all.driver);
  EXPECT_SAYS("hipRTC 10.2", all.driver);
  EXPECT_EQ(30, all.compute_units);
  EXPECT_EQ(32, all.wavefront_size);
  EXPECT_EQ(65536u, all.local_memory);
  EXPECT_DOUBLE_EQ(64, all.peak_gigabytes_per_second);
  EXPECT_EQ(uint64_t{2048} << 20, all.total_memory);
}

TEST_F(HipOnCuda, WorksInOrder) {
  char* const memory = allocate(1000);
  char* const managed = allocate(1000, UHAL_MEMORY_MANAGED);
  char* const pinned = allocate(1000, UHAL_MEMORY_PINNED);
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  for (char letter = 'a'; letter < 'k'; ++letter) {
    const char pattern[] = {letter, letter, letter, '.'};
    EXPECT_OK(uhal_memory_fill(stream, memory, pattern, 4, 1000));
    EXPECT_OK(uhal_memory_fill(stream, managed, &letter, 1, 1000));
    EXPECT_OK(launch_relu());
    uhal_event* const event = record(stream);
    EXPECT_OK(uhal_stream_wait_event(other, event));
    EXPECT_OK(uhal_copy(other, pinned, memory, 1000, UHAL_COPY_DEVICE_TO_HOST));
    EXPECT_OK(uhal_stream_host_callback(other, [](void* data) { *static_cast<char*>(data) = '!'; }, pinned));
    uhal_event* const end = record(other);
    EXPECT_OK(uhal_event_synchronize(end));
    EXPECT_EQ(std::string("!") + letter + letter + "." + letter, std::string(pinned, 5));
    EXPECT_EQ(std::string(1000, letter), std::string(managed, 1000));
    int64_t nanoseconds = -1;
    EXPECT_OK(uhal_event_elapsed_nanoseconds(event, end, &nanoseconds));
    EXPECT_GE(nanoseconds, 0);
    EXPECT_OK(uhal_event_destroy(event));
    EXPECT_OK(uhal_event_destroy(end));
  }
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(HipOnCuda, CopiesBetweenDevices) {
  uhal_device* second = nullptr;
  void* there = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 1, &second));
  ASSERT_OK(uhal_allocate(second, nullptr, UHAL_MEMORY_DEVICE, 100, &there));
  char* const here = allocate(100);
  upload(here, std::string(100, 'p'));
  EXPECT_OK(uhal_copy_peer(stream, second, there, device, here, 100));
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_device_default_stream(second, &other));
  std::string received(100, '?');
  EXPECT_OK(uhal_copy(other, received.data(), there, 100, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_stream_synchronize(other));
  EXPECT_EQ(std::string(100, 'p'), received);
  EXPECT_EQ(2, calls(kCorex, "cuCtxEnablePeerAccess"));  // both ways
}

TEST_F(HipOnCuda, FailuresHaveCudasNames) {
  gpu_test::fail_call(kCorex, "cuStreamCreate", 2);
  uhal_stream* other = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_stream_create(device, &other));
  expect_native(2, "CUDA_ERROR_OUT_OF_MEMORY");
  gpu_test::fail_call(kCorex, "compile", 1);
  EXPECT_EQ(UHAL_INTERNAL, launch_relu());
  EXPECT_MESSAGE("unknown type name 'UHAL_MISTAKE'");
  EXPECT_OK(launch_relu());
  EXPECT_OK(uhal_stream_synchronize(stream));
}

}  // namespace
}  // namespace gpu_test
