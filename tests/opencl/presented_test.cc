// What the backend makes of devices that real drivers present (presented_devices.h), computing on PoCL.
#include <cstring>

#include "tests/opencl/opencl_test.h"
#include "unihal/fallback.h"

namespace opencl_test {
namespace {

using testing::IsSubstring;

uhal_backend_report report() {
  uhal_backend_report result = {};
  result.struct_size = sizeof result;
  EXPECT_OK(uhal_backend_report_get("polaris", 0, &result));
  return result;
}

uhal_device_properties properties_of(uhal_device* device) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  EXPECT_OK(uhal_device_properties_get(device, &properties));
  return properties;
}

// The names of all devices, in order: "a | b".
std::string names() {
  int32_t count = 0;
  EXPECT_OK(uhal_device_count("polaris", &count));
  std::string names;
  for (int32_t i = 0; i < count; ++i) {
    uhal_device* device = nullptr;
    EXPECT_EQ(UHAL_OK, uhal_device_get("polaris", i, &device)) << message();
    if (device != nullptr) names += (i == 0 ? "" : " | ") + std::string(properties_of(device).name);
  }
  return names;
}

#define SKIP_WITHOUT_OPENCL() \
  if (!needs_opencl()) GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh"

constexpr char kRx580[] = "Radeon RX 580 Series (Ellesmere)";

// -- properties

struct Expected {
  const char* key;
  const char* name;
  const char* driver;
  const char* pci_bus_id;
  int compute_units, wavefront_size, gigaflops;
  uint64_t max_allocation, local_memory;
  bool has_float64;
};

std::string name_of(const testing::TestParamInfo<Expected>& info) {
  std::string name = info.param.key;
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
}

class PresentedProperties : public testing::TestWithParam<Expected> {};

TEST_P(PresentedProperties, AreThoseOfTheDevice) {
  SKIP_WITHOUT_OPENCL();
  const Expected& expected = GetParam();
  present(expected.key);
  ASSERT_OK(uhal_select_backend("opencl"));
  uhal_device* device = nullptr;
  ASSERT_OK(uhal_device_get("polaris", 0, &device));
  const uhal_device_properties properties = properties_of(device);
  EXPECT_STREQ(expected.name, properties.name);
  EXPECT_PRED_FORMAT2(IsSubstring, expected.driver, std::string(properties.driver));
  EXPECT_STREQ(expected.pci_bus_id, properties.pci_bus_id);
  EXPECT_EQ(expected.compute_units, properties.compute_units);
  EXPECT_EQ(expected.wavefront_size, properties.wavefront_size);
  EXPECT_EQ(expected.gigaflops, static_cast<int>(properties.peak_gigaflops_float32));
  EXPECT_EQ(expected.max_allocation, properties.max_allocation);
  EXPECT_EQ(expected.local_memory, properties.local_memory);
  EXPECT_EQ(expected.has_float64, (properties.supported_dtypes >> UHAL_FLOAT64 & 1) != 0);
  EXPECT_EQ(expected.has_float64, (properties.supported_dtypes >> UHAL_COMPLEX128 & 1) != 0);
  EXPECT_TRUE((properties.supported_dtypes >> UHAL_FLOAT16 & 1) != 0);  // stored as such on every device
}

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kAlmostAll = 85;  // percent of the memory in one buffer, by ROCm

INSTANTIATE_TEST_SUITE_P(
    Device, PresentedProperties,
    testing::Values(
        Expected{"rx580", kRx580, "3380.4 (PAL,HSAIL), OpenCL 1.2", "0000:03:00.0", 36, 64, 6174, 2048 * kMiB, 32768,
                 true},
        Expected{"rx580-no-float64", kRx580, "OpenCL 1.2", "0000:03:00.0", 36, 64, 6174, 2048 * kMiB, 32768, false},
        Expected{"rx580-mesa", "AMD Radeon RX 580 Series (radeonsi, polaris10, LLVM 17.0.6, DRM 3.54)",
                 "rusticl 23.3.1, OpenCL 3.0", "0000:03:00.0", 36, 64, 0, 2048 * kMiB, 65536, false},
        Expected{"rx6800xt", "AMD Radeon RX 6800 XT (gfx1030)", "OpenCL 2.0", "0000:0b:00.0", 36, 32, 20736,
                 16384 * kMiB / 100 * kAlmostAll, 65536, true},
        Expected{"rx7900xtx", "AMD Radeon RX 7900 XTX (gfx1100)", "OpenCL 2.0", "0000:0c:00.0", 48, 32, 30720,
                 24576 * kMiB / 100 * kAlmostAll, 65536, true},
        Expected{"rtx3060", "NVIDIA GeForce RTX 3060", "NVIDIA CUDA 535.129.03, OpenCL 3.0", "0001:2b:01.2", 28, 32,
                 12737, 3072 * kMiB, 49152, true},
        Expected{"intel", "Intel(R) UHD Graphics 630 [0x3e92]", "OpenCL 3.0", "0000:00:02.0", 24, 32, 0,
                 4096 * kMiB - 4096, 65536, true},
        Expected{"processor", "AMD Ryzen 9 5950X 16-Core Processor", "Portable Computing Language 3.1, OpenCL 3.0", "",
                 32, 1, 0, 16384 * kMiB, 32768, true},
        // Drivers that answer badly.
        Expected{"queries-fail", "Ellesmere", "OpenCL 1.2", "", 36, 64, 0, 2048 * kMiB, 32768, true},
        Expected{"queries-short", "Ellesmere", "OpenCL 1.2", "", 36, 64, 6174, 2048 * kMiB, 32768, true},
        Expected{"queries-unlisted", "Ellesmere", "OpenCL 1.2", "", 36, 64, 0, 2048 * kMiB, 32768, true},
        Expected{"name-unterminated", kRx580, "", "0000:03:00.0", 36, 64, 6174, 2048 * kMiB, 32768, true},
        Expected{"name-padded", kRx580, "", "0000:03:00.0", 36, 64, 6174, 2048 * kMiB, 32768, true},
        Expected{"name-size-wrong", "Ellesmere", "", "0000:03:00.0", 36, 64, 6174, 2048 * kMiB, 32768, true},
        Expected{"name-odd", "Radeon? [red]RX 580 [0m (Ellesmere)", "", "0000:03:00.0", 36, 64, 6174, 2048 * kMiB,
                 32768, true},
        Expected{"name-missing", "a device without a name", "", "0000:03:00.0", 36, 64, 6174, 2048 * kMiB, 32768,
                 true}),
    name_of);

TEST(Presented, AnOverlongNameIsCut) {
  SKIP_WITHOUT_OPENCL();
  present("name-overlong");
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_EQ(std::string(160, 'R') + " (Ellesmere)", names());
}

// -- which devices serve

TEST(PresentedOrder, AmdGoesFirstAndProcessorsStayOut) {
  SKIP_WITHOUT_OPENCL();
  present("processor,fpga,intel,rtx3060,rx580-mesa,rx6800xt,rx7900xtx");
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_EQ(
      "AMD Radeon RX 6800 XT (gfx1030) | AMD Radeon RX 7900 XTX (gfx1100) | "
      "AMD Radeon RX 580 Series (radeonsi, polaris10, LLVM 17.0.6, DRM 3.54) | NVIDIA GeForce RTX 3060 | "
      "Intel(R) UHD Graphics 630 [0x3e92] | An FPGA",
      names());
  EXPECT_EQ(UHAL_BACKEND_CHOSEN, report().state);
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "left out: AMD Ryzen 9 5950X 16-Core Processor (Portable Computing Language): it is a processor, "
                      "and there are other devices (UNIHAL_OPENCL_DEVICE names the devices to use)",
                      std::string(report().reason));
}

TEST(PresentedOrder, OfACardThatTwoDriversSeeAmdsOwnServes) {
  SKIP_WITHOUT_OPENCL();
  present("rx580-mesa,rx580");
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_EQ(kRx580, names());
  EXPECT_PRED_FORMAT2(IsSubstring, "(rusticl): it is the same card as Radeon RX 580 Series (Ellesmere) (AMD Acc",
                      std::string(report().reason));
}

TEST(PresentedOrder, RefusedDevicesAreTold) {
  SKIP_WITHOUT_OPENCL();
  present("opencl-1.1,rx6800xt,no-compiler");
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_EQ("AMD Radeon RX 6800 XT (gfx1030)", names());
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "(Clover): it has 'OpenCL 1.1 Mesa 22.3.6', and OpenCL 1.2 is needed; refused: Radeon",
                      std::string(report().reason));
  EXPECT_PRED_FORMAT2(IsSubstring, "the driver has no compiler for it", std::string(report().reason));
}

TEST(PresentedOrder, RdnaAndPolarisHaveTheSameDevices) {
  SKIP_WITHOUT_OPENCL();
  present("rx580,rx7900xtx");
  ASSERT_OK(uhal_select_backend("opencl"));
  for (int32_t i = 0; i < 2; ++i) {
    uhal_device *polaris = nullptr, *rdna = nullptr;
    ASSERT_OK(uhal_device_get("polaris", i, &polaris));
    ASSERT_OK(uhal_device_get("rdna", i, &rdna));
    EXPECT_STREQ(properties_of(polaris).name, properties_of(rdna).name);
  }
}

class PresentedWish : public testing::Test {
 protected:
  void wish(const char* text) {
    present("rx580,rx6800xt,rtx3060,processor");
    setenv("UNIHAL_OPENCL_DEVICE", text, 1);
    ASSERT_OK(uhal_select_backend("opencl"));
  }
  void expect(const char* text, const char* expected) {
    SKIP_WITHOUT_OPENCL();
    wish(text);
    EXPECT_EQ(expected, names());
  }
};

TEST_F(PresentedWish, ByIndex) { expect("2", "NVIDIA GeForce RTX 3060"); }
TEST_F(PresentedWish, ByName) { expect("ryzen", "AMD Ryzen 9 5950X 16-Core Processor"); }
TEST_F(PresentedWish, ByANumberThatIsPartOfAName) { expect("580", kRx580); }
TEST_F(PresentedWish, ByANameOfSeveralTakesAll) {
  expect("radeon", "Radeon RX 580 Series (Ellesmere) | AMD Radeon RX 6800 XT (gfx1030)");
}
TEST_F(PresentedWish, OrderIsTheWishes) {
  expect("3060,6800", "NVIDIA GeForce RTX 3060 | AMD Radeon RX 6800 XT (gfx1030)");
}
TEST_F(PresentedWish, AnUnknownNameIsAnErrorThatListsAll) {
  SKIP_WITHOUT_OPENCL();
  wish("7900");
  EXPECT_EQ("", names());
  EXPECT_EQ(UHAL_BACKEND_REFUSED, report().state);
  EXPECT_PRED_FORMAT2(IsSubstring, "there is no OpenCL device '7900'", std::string(report().reason));
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "0: Radeon RX 580 Series (Ellesmere) (AMD Accelerated Parallel Processing); 1: AMD R",
                      std::string(report().reason));
}

// -- devices that do not serve

struct Refused {
  const char* key;
  const char* reason;
};

class PresentedRefusal : public testing::TestWithParam<Refused> {};

TEST_P(PresentedRefusal, HasItsReason) {
  SKIP_WITHOUT_OPENCL();
  present(GetParam().key);
  ASSERT_OK(uhal_select_backend("opencl"));
  EXPECT_EQ(UHAL_BACKEND_REFUSED, report().state);
  EXPECT_PRED_FORMAT2(IsSubstring, "Radeon RX 580 Series", std::string(report().reason));
  EXPECT_PRED_FORMAT2(IsSubstring, GetParam().reason, std::string(report().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Device, PresentedRefusal,
    testing::Values(Refused{"local-16k", "it has 16384 bytes of local memory, and 32768 are needed"},
                    Refused{"few-arguments", "its kernels take 256 bytes of arguments, and 1024 are needed"},
                    Refused{"no-compiler", "the driver has no compiler for it, and kernels are compiled at run time"},
                    Refused{"not-available", "the driver says that it is not available now"},
                    Refused{"opencl-1.0", "it has 'OpenCL 1.0 ATI-Stream-v2.2 (302)', and OpenCL 1.2 is needed"},
                    Refused{"opencl-1.1", "it has 'OpenCL 1.1 Mesa 22.3.6', and OpenCL 1.2 is needed"},
                    Refused{"no-version", "it has '', and OpenCL 1.2 is needed"},
                    Refused{"embedded", "it has OpenCL's embedded profile only"},
                    Refused{"big-endian", "it is big-endian"}));

// -- limits

class PresentedLimits : public OpenclTest {
 protected:
  void open(const char* key) {
    present(key);
    OpenclTest::SetUp();
  }
  void SetUp() override { SKIP_WITHOUT_OPENCL(); }
};

TEST_F(PresentedLimits, OneBufferHasAtMostSoManyBytes) {
  open("rx580");
  void* pointer = nullptr;
  for (const uhal_memory_kind kind : {UHAL_MEMORY_DEVICE, UHAL_MEMORY_PINNED}) {
    EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, kind, 2049 * kMiB, &pointer));
    EXPECT_MESSAGE("at most 2147483648 bytes in one buffer (CL_DEVICE_MAX_MEM_ALLOC_SIZE)");
  }
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 2048 * kMiB, &pointer));
  EXPECT_OK(uhal_free(device, stream, pointer));
}

TEST_F(PresentedLimits, FreeMemoryIsWhatAmdsDriverSays) {
  open("rx580");
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 2049 * kMiB, &pointer));
  EXPECT_MESSAGE("6835.9 MiB of it free");
}

TEST_F(PresentedLimits, Float64IsRefusedByName) {
  setenv("UNIHAL_STRICT", "1", 1);
  open("rx580-no-float64");
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch_map("relu", 4, UHAL_FLOAT64));
  EXPECT_MESSAGE("the device has no float64");
  EXPECT_OK(launch_map("relu", 10000));
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(PresentedLimits, Float64RunsOnTheHost) {
  open("rx580-no-float64");
  const uhal_tensor x = vector(4, UHAL_FLOAT64);
  double values[4] = {-1, 0.1, -0.3, 1e300};
  upload(x.data, std::string(reinterpret_cast<const char*>(values), sizeof values));
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = uhal_map_function_find("relu");
  EXPECT_OK(launch(UHAL_OP_MAP, x, x, &attributes));
  EXPECT_OK(launch(UHAL_OP_MAP, x, x, &attributes));
  const std::string found = download(x.data, sizeof values);
  memcpy(values, found.data(), sizeof values);
  EXPECT_EQ(0.0, values[0]);
  EXPECT_EQ(0.1, values[1]);
  EXPECT_EQ(0.0, values[2]);
  EXPECT_EQ(1e300, values[3]);
  uhal_fallback fallback = {};
  fallback.struct_size = sizeof fallback;
  ASSERT_EQ(1u, uhal_fallback_count());
  EXPECT_OK(uhal_fallback_get(0, &fallback));
  EXPECT_STREQ("float64", fallback.dtype);
  EXPECT_EQ(2u, fallback.count);
  EXPECT_NE(nullptr, strstr(fallback.reason, "the device has no float64")) << fallback.reason;
}

TEST_F(PresentedLimits, Float32RunsOnTheDevice) {
  open("rx580-no-float64");
  EXPECT_OK(launch_map("relu", 10000));
  EXPECT_EQ(0u, uhal_fallback_count());
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(PresentedLimits, GroupsAreNoLargerThanTheAxisTakes) {
  open("groups-64-along-x");
  EXPECT_OK(launch_map("relu", 100000));
  EXPECT_OK(uhal_stream_synchronize(stream));
}

}  // namespace
}  // namespace opencl_test
