// Finding and opening devices, through the core.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/forked_child.h"
#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

TEST(HipRefusal, AMissingLibraryIsNamed) {
  setenv("ROCM_PATH", "/nowhere", 1);
  ASSERT_OK(uhal_select_backend("hip"));
  const std::string reason = refusal(kRocm);
  EXPECT_SAYS("there is no HIP driver (in force: ROCM_PATH=/nowhere): /nowhere/lib/libamdhip64.so: cannot open",
              reason);
  EXPECT_SAYS("; libamdhip64.so.7: cannot open", reason);
  EXPECT_SAYS("Install ROCm's HIP runtime", reason);
}

TEST(HipRefusal, AMissingFunctionIsNamed) {
  use(kRocmIncomplete);
  ASSERT_OK(uhal_select_backend("hip"));
  EXPECT_SAYS("rocm_incomplete_on_host/lib/libamdhip64.so has no function hipEventQuery, so it is no HIP driver",
              refusal(kRocm));
}

TEST(HipRefusal, ADriverThatDoesNotStartIsNamed) {
  use(kRocm);
  fail_call(kRocm, "hipInit", 999, 0, -1);
  ASSERT_OK(uhal_select_backend("hip"));
  EXPECT_SAYS("libamdhip64.so does not start: hipErrorUnknown (999)", refusal(kRocm));
}

TEST(HipRefusal, WithoutADeviceTheOverridesAreTold) {
  use(kRocm);
  setenv("HIP_VISIBLE_DEVICES", "-1", 1);
  ASSERT_OK(uhal_select_backend("hip"));
  const std::string reason = refusal(kRocm);
  EXPECT_SAYS("libamdhip64.so finds no device (in force: HIP_VISIBLE_DEVICES=-1, ROCM_PATH=", reason);
}

TEST(HipRefusal, ADriverThatDoesNotTellItsDevicesIsAnError) {
  use(kRocm);
  fail_call(kRocm, "hipGetDeviceCount", 3, 0, -1);
  ASSERT_OK(uhal_select_backend("hip"));
  EXPECT_SAYS("libamdhip64.so of HIP does not tell its devices", refusal(kRocm));
}

TEST(HipRefusal, ADeviceThatDoesNotTellItsArchitectureIsLeftOut) {
  use(kRocm);
  setenv("HIP_ON_HOST_DEVICES", "first:gfx1030:100,second:gfx1030:100", 1);
  fail_call(kRocm, "hipGetDevicePropertiesR0600", 1);
  int32_t count = 0;
  ASSERT_OK(uhal_device_count("rdna", &count));
  EXPECT_EQ(1, count);
  uhal_backend_report report = {};
  report.struct_size = sizeof report;
  ASSERT_OK(uhal_backend_report_get("rdna", 0, &report));
  EXPECT_SAYS("device 0 does not tell its architecture: hipErrorInvalidValue", report.reason);
}

TEST(HipRefusal, AForeignCardServesOnlyWhenAskedFor) {
  use(kRocm);
  setenv("HIP_ON_HOST_DEVICES", "NVIDIA H100:sm_90:100", 1);
  EXPECT_SAYS("NVIDIA H100 (sm_90) is no card of AMD's: it serves if UNIHAL_BACKEND=hip asks for it", refusal(kRocm));
}

TEST(HipRefusal, WithoutACompilerTheDeviceDoesNotOpen) {
  use(kRocmWithoutCompiler);
  ASSERT_OK(uhal_select_backend("hip"));
  uhal_device* device = nullptr;
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_device_get("rdna", 0, &device));
  EXPECT_MESSAGE("there is no compiler for the kernels of AMD Radeon RX 6800");
  EXPECT_MESSAGE("libhiprtc.so has no function hiprtcCreateProgram");
}

TEST(HipRefusal, ADeviceThatDoesNotOpenIsAnErrorAndMayOpenLater) {
  use(kRocm);
  fail_call(kRocm, "hipStreamCreateWithFlags", 2);
  ASSERT_OK(uhal_select_backend("hip"));
  uhal_device* device = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_device_get("rdna", 0, &device));
  EXPECT_MESSAGE("AMD Radeon RX 6800 gives no stream (in force: ROCM_PATH=");
  EXPECT_MESSAGE(": hipErrorOutOfMemory (2)");
  EXPECT_OK(uhal_device_get("rdna", 0, &device));
}

TEST(HipDevices, AForeignCardServesWhenAskedFor) {
  use(kRocm);
  setenv("HIP_ON_HOST_DEVICES", "NVIDIA H100:sm_90:100", 1);
  ASSERT_OK(uhal_select_backend("hip"));
  uhal_device* device = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 0, &device));
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  EXPECT_STREQ("not the backend's vendor", properties.vendor);
}

TEST(HipDevices, ServeRdnaUnasked) {
  use(kRocm);
  uhal_device* device = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 0, &device));
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  EXPECT_STREQ("hip", properties.backend);
}

TEST(HipDevices, AreThoseThatAreVisibleInThatOrder) {
  use(kRocm);
  setenv("HIP_ON_HOST_DEVICES", "first:gfx1030:100,second:gfx1100:200,third:gfx1030:300", 1);
  setenv("HIP_VISIBLE_DEVICES", "2,1", 1);
  int32_t count = 0;
  ASSERT_OK(uhal_device_count("rdna", &count));
  ASSERT_EQ(2, count);
  for (const auto& [ordinal, name] : {std::pair<int, const char*>{0, "third"}, {1, "second"}}) {
    uhal_device* device = nullptr;
    ASSERT_OK(uhal_device_get("rdna", ordinal, &device));
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    ASSERT_OK(uhal_device_properties_get(device, &properties));
    EXPECT_STREQ(name, properties.name);
    EXPECT_SAYS("(in force: HIP_VISIBLE_DEVICES=2,1, ROCM_PATH=", properties.driver);
  }
}

class HipDevice : public GpuTest {};

TEST_F(HipDevice, HasProperties) {
  const uhal_device_properties all = properties();
  EXPECT_STREQ("hip", all.backend);
  EXPECT_STREQ("AMD Radeon RX 6800", all.name);
  EXPECT_STREQ("AMD", all.vendor);
  EXPECT_SAYS("HIP 6.3", all.driver);
  EXPECT_SAYS("hipRTC 9.0", all.driver);
  EXPECT_STREQ("0000:03:00.0", all.pci_bus_id);
  EXPECT_EQ(30, all.compute_units);
  EXPECT_EQ(32, all.wavefront_size);
  EXPECT_EQ(2250, all.clock_megahertz);
  EXPECT_EQ(0, all.is_stub);
  EXPECT_EQ(0, all.unified_memory);
  EXPECT_EQ(uint64_t{2048} << 20, all.total_memory);
  EXPECT_EQ(65536u, all.local_memory);
  EXPECT_DOUBLE_EQ(2.0 * 128 * 30 * 2250 / 1000, all.peak_gigaflops_float32);  // a work-group processor has 128 lanes
  EXPECT_DOUBLE_EQ(2.0 * 1e6 * 32 / 1e6, all.peak_gigabytes_per_second);
  EXPECT_EQ(UHAL_FIGURES_OF_DEVICE, all.figures_are_of);
}

TEST_F(HipDevice, IsRefusedInAForkedChild) {
  const pid_t child = fork();
  if (child == 0) {
    is_forked_child = true;
    uhal_stream* other = nullptr;
    _exit(uhal_stream_create(device, &other) == UHAL_FAILED_PRECONDITION ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(child, waitpid(child, &result, 0));
  EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0);
  EXPECT_OK(launch_relu());  // and the parent goes on
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(HipDevice, FinalizeWaitsForWork) {
  std::string host(1 << 20, '?');
  char* const memory = allocate(host.size());
  EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, host.size()));
  EXPECT_OK(uhal_copy(stream, host.data(), memory, host.size(), UHAL_COPY_DEVICE_TO_HOST));
  uhal_finalize();
  EXPECT_EQ(std::string(host.size(), 'x'), host);
  allocations.clear();
  stream = nullptr;
}

// ROCm 5's struct of properties is another, and only its name is there.
class HipOfRocm5 : public GpuTest {
 protected:
  HipOfRocm5() : GpuTest(kRocm5) {
    setenv("HIP_ON_HOST_DEVICES", "an old card:gfx1031:100", 1);
    setenv("HIP_ON_HOST_VERSION", "50221153", 1);
  }
};

TEST_F(HipOfRocm5, TellsItsArchitecture) {
  EXPECT_SAYS("HIP 5.2", properties().driver);
  EXPECT_OK(launch_relu());  // the driver takes programs for the device's architecture only
  EXPECT_OK(uhal_stream_synchronize(stream));
}

// Work of every kind is pending when the process ends.
[[noreturn]] void exit_with_work() {
  use(kRocm);
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  void* memory = nullptr;
  constexpr size_t kBytes = size_t{64} << 20;
  bool ready = uhal_device_get("rdna", 0, &device) == UHAL_OK && uhal_stream_create(device, &stream) == UHAL_OK &&
               uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kBytes, &memory) == UHAL_OK;
  for (int i = 0; ready && i < 20; ++i) {
    ready = uhal_memory_fill(stream, memory, "x", 1, kBytes) == UHAL_OK &&
            uhal_stream_host_callback(stream, [](void*) {}, nullptr) == UHAL_OK;
  }
  std::exit(ready ? 0 : 1);
}

TEST(HipExit, WithPendingWorkIsClean) { EXPECT_EXIT(exit_with_work(), testing::ExitedWithCode(0), ""); }

TEST(HipDevices, TwoOfThemShareOneProcess) {
  use(kRocm);
  setenv("HIP_ON_HOST_DEVICES", "first:gfx1030:100,second:gfx1030:100", 1);
  int32_t count = 0;
  ASSERT_OK(uhal_device_count("rdna", &count));
  ASSERT_EQ(2, count);
  uhal_device* devices[2];
  uhal_stream* streams[2];
  void* pointers[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(uhal_device_get("rdna", i, &devices[i]));
    ASSERT_OK(uhal_allocate(devices[i], nullptr, UHAL_MEMORY_DEVICE, 100, &pointers[i]));
    ASSERT_OK(uhal_device_default_stream(devices[i], &streams[i]));
  }
  std::string sent(100, 'a');
  std::string received(100, '?');
  ASSERT_OK(uhal_copy(streams[0], pointers[0], sent.data(), 100, UHAL_COPY_HOST_TO_DEVICE));
  ASSERT_OK(uhal_copy_peer(streams[0], devices[1], pointers[1], devices[0], pointers[0], 100));
  ASSERT_OK(uhal_copy(streams[1], received.data(), pointers[1], 100, UHAL_COPY_DEVICE_TO_HOST));
  ASSERT_OK(uhal_stream_synchronize(streams[1]));
  EXPECT_EQ(sent, received);
  // What one of them does waits for the other.
  uhal_event* event = nullptr;
  ASSERT_OK(uhal_event_create(devices[0], &event));
  for (char letter = 'b'; letter < 'z'; ++letter) {
    ASSERT_OK(uhal_memory_fill(streams[0], pointers[0], &letter, 1, 100));
    ASSERT_OK(uhal_event_record(event, streams[0]));
    ASSERT_OK(uhal_stream_wait_event(streams[1], event));
    ASSERT_OK(uhal_copy_peer(streams[1], devices[1], pointers[1], devices[0], pointers[0], 100));
    ASSERT_OK(uhal_copy(streams[1], received.data(), pointers[1], 100, UHAL_COPY_DEVICE_TO_HOST));
    ASSERT_OK(uhal_stream_synchronize(streams[1]));
    ASSERT_EQ(std::string(100, letter), received);
  }
  EXPECT_OK(uhal_event_destroy(event));
  uhal_finalize();
}

}  // namespace
}  // namespace gpu_test
