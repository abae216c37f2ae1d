// Finding, refusing and choosing backends.
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

uhal_backend_report report_of(const char* type, size_t index) {
  uhal_backend_report report = {};
  report.struct_size = sizeof report;
  EXPECT_OK(uhal_backend_report_get(type, index, &report));
  return report;
}

struct Refusal {
  const char* library;
  uhal_status status;
  const char* reason;
};

// For the name of the test.
std::ostream& operator<<(std::ostream& out, const Refusal& refusal) { return out << refusal.library; }

class RefusedLibrary : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedLibrary, IsToldWithItsReason) {
  const Refusal& refusal = GetParam();
  std::string path = refusal.library[0] == '/' ? refusal.library : fake_path(refusal.library);
  EXPECT_STATUS(refusal.status, uhal_backend_load(path.c_str(), nullptr));
  EXPECT_MESSAGE(path);
  EXPECT_MESSAGE(refusal.reason);
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, RefusedLibrary,
    testing::Values(Refusal{"/no/such/folder/libunihal_x.so", UHAL_NOT_FOUND, "No such file"},
                    Refusal{"/etc/passwd", UHAL_INVALID_ARGUMENT, "is not a 64-bit ELF library"},
                    Refusal{"fake_major", UHAL_INVALID_ARGUMENT, "has ABI major 9, this core has 1"},
                    Refusal{"fake_refusing", UHAL_INVALID_ARGUMENT, "the fake wants ABI 9"},
                    Refusal{"fake_null", UHAL_INVALID_ARGUMENT, "without a message"},
                    Refusal{"fake_short", UHAL_INVALID_ARGUMENT, "too short for the required slot copy"},
                    Refusal{"fake_tiny", UHAL_INVALID_ARGUMENT, "too short for its own version"},
                    Refusal{"fake_slot", UHAL_INVALID_ARGUMENT, "no function in the required slot launch"}));

TEST(Loader, RefusesALibraryWithoutTheSymbol) {
  std::string path = std::string(FAKE_FOLDER) + "/libnot_a_backend.so";
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_backend_load(path.c_str(), nullptr));
  EXPECT_MESSAGE("it has no symbol uhal_backend_query");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_backend_load(nullptr, nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_backend_load("", nullptr));
}

// Cut anywhere, a library is refused; the dynamic loader would crash on some of these.
TEST(Loader, RefusesATruncatedLibrary) {
  std::ifstream whole(fake_path("fake"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(whole)), std::istreambuf_iterator<char>());
  ASSERT_GT(bytes.size(), 4096u);
  std::string folder = testing::TempDir() + "unihal_truncated_XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(folder.data()));
  std::string path = folder + "/libunihal_cut.so";
  for (size_t length :
       {size_t{0}, size_t{3}, size_t{40}, size_t{64}, size_t{200}, size_t{4096}, bytes.size() / 4, bytes.size() - 1}) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, length);
    EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_backend_load(path.c_str(), nullptr));
    EXPECT_MESSAGE(path);
  }
  EXPECT_MESSAGE("is truncated");
  remove(path.c_str());
  remove(folder.c_str());
}

TEST(Loader, WithoutHardwareOrWishThereAreNoDevicesAndTheErrorTellsWhy) {
  auto start = std::chrono::steady_clock::now();
  int32_t count = 7;
  for (const char* type : {"iluvatar", "rdna", "polaris"}) {
    EXPECT_OK(uhal_device_count(type, &count));
    EXPECT_EQ(0, count);
  }
  EXPECT_EQ(UHAL_OK, uhal_last_error()->status);  // counting is silent
  RecordProperty("microseconds", static_cast<int>((std::chrono::steady_clock::now() - start).count() / 1000));
  uhal_device* device = nullptr;
  EXPECT_STATUS(UHAL_UNAVAILABLE, uhal_device_get("rdna", 0, &device));
  EXPECT_EQ(nullptr, device);
  EXPECT_MESSAGE("No device of type 'rdna'");
  EXPECT_MESSAGE("backend hip, refused: there is no HIP driver");
  EXPECT_MESSAGE("backend opencl, refused: /no/libOpenCL.so");
  EXPECT_MESSAGE("backend stub, not tried: the stub computes in host memory and serves only when asked for");
  EXPECT_MESSAGE("set UNIHAL_BACKEND=stub");
  uhal_backend_report report = report_of("rdna", 2);
  EXPECT_STREQ("stub", report.backend);
  EXPECT_EQ(UHAL_BACKEND_NOT_TRIED, report.state);
  EXPECT_STREQ("", report.library);
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_backend_report_get("rdna", 3, &report));
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_backend_report_get("gpu", 0, &report));
}

TEST(Loader, UnknownTypesListTheKnownOnes) {
  uhal_device* device;
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_device_get("nvidia", 0, &device));
  EXPECT_MESSAGE("'nvidia'");
  EXPECT_MESSAGE("iluvatar, rdna, polaris");
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_device_get(nullptr, 0, &device));
}

TEST(Loader, TakesTheFirstBackendInOrderWithADevice) {
  setenv("UNIHAL_BACKEND_PATH", ("/no/such/folder:" + std::string(FAKE_FOLDER)).c_str(), 1);
  int32_t count = 0;
  ASSERT_OK(uhal_device_count("rdna", &count));  // hip, opencl, stub
  EXPECT_EQ(2, count);
  uhal_backend_report hip = report_of("rdna", 0);
  EXPECT_EQ(UHAL_BACKEND_CHOSEN, hip.state);
  EXPECT_EQ(2, hip.device_count);
  EXPECT_EQ(fake_path("hip"), hip.library);
  EXPECT_EQ(UHAL_BACKEND_NOT_TRIED, report_of("rdna", 1).state);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "'hip' serves", report_of("rdna", 1).reason);

  ASSERT_OK(uhal_device_count("polaris", &count));  // opencl, hip, stub
  EXPECT_EQ(2, count);
  uhal_backend_report opencl = report_of("polaris", 0);
  EXPECT_EQ(UHAL_BACKEND_REFUSED, opencl.state);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the driver /dev/fake was not found", opencl.reason);
  EXPECT_EQ(UHAL_BACKEND_CHOSEN, report_of("polaris", 1).state);
  EXPECT_EQ(1, control_of("hip").count_calls.load());  // once per process, for both types

  ASSERT_OK(uhal_device_count("iluvatar", &count));  // corex, stub
  EXPECT_EQ(0, count);
  // The fake of that name is another backend, and the real one beside the core finds no driver.
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "there is no CoreX driver", report_of("iluvatar", 0).reason);
}

TEST(Loader, DevicesOfTwoTypesShareTheBackendsDevice) {
  setenv("UNIHAL_BACKEND_PATH", FAKE_FOLDER, 1);
  uhal_device *rdna, *polaris, *again;
  ASSERT_OK(uhal_device_get("rdna", 1, &rdna));
  ASSERT_OK(uhal_device_get("polaris", 1, &polaris));
  ASSERT_OK(uhal_device_get("rdna", 1, &again));
  EXPECT_EQ(rdna, again);
  EXPECT_NE(rdna, polaris);
  EXPECT_EQ(1, control_of("hip").open_calls.load());
}

TEST(Loader, ABackendWithoutDevicesIsRefused) {
  control_of("hip").device_count = 0;
  setenv("UNIHAL_BACKEND_PATH", FAKE_FOLDER, 1);
  setenv("UNIHAL_BACKEND", "hip", 1);
  uhal_device* device;
  EXPECT_STATUS(UHAL_UNAVAILABLE, uhal_device_get("rdna", 0, &device));
  EXPECT_MESSAGE("backend hip, refused: it found no device");
  EXPECT_MESSAGE("backend opencl, not tried: UNIHAL_BACKEND=hip asks for another backend");
}

TEST(Loader, WhatABackendLeavesOutIsTold) {
  control_of("hip").remarks = true;
  setenv("UNIHAL_BACKEND_PATH", FAKE_FOLDER, 1);
  setenv("UNIHAL_BACKEND", "hip", 1);
  uhal_backend_report report = {};
  report.struct_size = sizeof report;
  ASSERT_OK(uhal_backend_report_get("rdna", 0, &report));
  EXPECT_EQ(UHAL_BACKEND_CHOSEN, report.state);
  EXPECT_STREQ("UNIHAL_BACKEND=hip; left out: a card without memory", report.reason);
  EXPECT_EQ(UHAL_OK, uhal_last_error()->status);  // it is no failure
}

TEST(Loader, ANumberOfDevicesThatCannotBeIsRefused) {
  control_of("hip").device_count = INT32_MAX;
  setenv("UNIHAL_BACKEND_PATH", FAKE_FOLDER, 1);
  setenv("UNIHAL_BACKEND", "hip", 1);
  uhal_device* device;
  EXPECT_STATUS(UHAL_UNAVAILABLE, uhal_device_get("rdna", 0, &device));
  EXPECT_MESSAGE("it reported 2147483647 devices, which cannot be; expected 0 to 4096");
}

TEST(Loader, LoadedLibrariesAreSelectableForEveryType) {
  const char* name = nullptr;
  ASSERT_OK(uhal_backend_load(fake_path("fake").c_str(), &name));
  EXPECT_STREQ("fake", name);
  EXPECT_OK(uhal_backend_load(fake_path("fake").c_str(), &name));  // once more is no harm
  ASSERT_OK(uhal_select_backend("fake"));
  uhal_device* device;
  for (const char* type : {"iluvatar", "rdna", "polaris"}) ASSERT_OK(uhal_device_get(type, 0, &device));
  uhal_backend_report report = report_of("iluvatar", 2);  // after corex and stub
  EXPECT_STREQ("fake", report.backend);
  EXPECT_EQ(UHAL_BACKEND_CHOSEN, report.state);
}

TEST(Loader, SelectionIsOverOnceDevicesWereEnumerated) {
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_select_backend("fake"));
  EXPECT_MESSAGE("uhal_backend_load");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_select_backend(nullptr));
  EXPECT_OK(uhal_select_backend("opencl"));
  EXPECT_OK(uhal_select_backend("hip"));  // the last call wins
  int32_t count;
  ASSERT_OK(uhal_device_count("rdna", &count));
  EXPECT_OK(uhal_select_backend("hip"));
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_select_backend("stub"));
  EXPECT_MESSAGE("UNIHAL_BACKEND=stub");
}

// A backend of the minor before: its table ends earlier, and the later slots have defaults.
TEST(Loader, TakesABackendOfThePreviousMinor) {
  use_fake("fake_previous");
  uhal_device* device;
  uhal_stream* stream;
  ASSERT_OK(uhal_device_get("rdna", 0, &device));
  ASSERT_OK(uhal_stream_create(device, &stream));
  int called = 0;
  EXPECT_OK(uhal_stream_host_callback(stream, [](void* data) { ++*static_cast<int*>(data); }, &called));
  EXPECT_EQ(1, called);
  EXPECT_EQ(0, control_of("fake_previous").callback_calls.load());
  EXPECT_OK(uhal_stream_destroy(stream));
}

// A table that ends within a slot does not have it: half a pointer is none.
TEST(Loader, PartOfASlotIsNoSlot) {
  use_fake("fake_half_slot");
  uhal_device* device;
  uhal_stream* stream;
  ASSERT_OK(uhal_device_get("rdna", 0, &device));
  ASSERT_OK(uhal_device_default_stream(device, &stream));
  int called = 0;
  EXPECT_OK(uhal_stream_host_callback(stream, [](void* data) { ++*static_cast<int*>(data); }, &called));
  EXPECT_EQ(1, called);
}

TEST(Loader, OrdinalsAreChecked) {
  use_fake("fake");
  uhal_device* device;
  for (int32_t ordinal : {-1, 2, INT32_MAX}) {
    EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_device_get("rdna", ordinal, &device));
    EXPECT_EQ(nullptr, device);
  }
  EXPECT_MESSAGE("from rdna:0 to rdna:1");
}

TEST(DeviceTypes, AreTheTable) {
  ASSERT_EQ(3u, uhal_device_type_count());
  uhal_device_type_info info = {};
  info.struct_size = sizeof info;
  ASSERT_OK(uhal_device_type_get(1, &info));
  EXPECT_STREQ("rdna", info.name);
  EXPECT_STREQ("rdna", info.paddle_name);
  EXPECT_STREQ("RDNA", info.tensorflow_name);
  EXPECT_STREQ("hip,opencl,stub", info.backends);
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_device_type_get(3, &info));
}

}  // namespace
}  // namespace core_test
