// Which of the devices serve, by UNIHAL_OPENCL_DEVICE. No OpenCL is needed: the inventory is invented.
#include <gtest/gtest.h>

#include "csrc/backends/opencl/enumerate.h"
#include "tests/opencl/parts_host.h"

namespace unihal::opencl {
namespace {

using testing::IsSubstring;

FoundDevice device(uintptr_t id, const char* name, const char* platform, cl_bitfield type) {
  FoundDevice found;
  found.id = reinterpret_cast<cl_device_id>(id);
  found.name = name;
  found.platform_name = platform;
  found.type = type;
  return found;
}

class Selection : public testing::Test {
 protected:
  void SetUp() override {
    keep_reports();
    inventory.usable = {
        device(1, "Radeon RX 580 (Ellesmere)", "AMD Accelerated Parallel Processing", CL_DEVICE_TYPE_GPU),
        device(2, "Radeon RX 560", "rusticl", CL_DEVICE_TYPE_GPU),
        device(3, "pthread-skylake", "Portable Computing Language", CL_DEVICE_TYPE_CPU)};
    inventory.refused = {device(4, "GeForce 210", "NVIDIA CUDA", CL_DEVICE_TYPE_GPU)};
    inventory.refused[0].refusal = "it has 'OpenCL 1.1', and OpenCL 1.2 is needed";
  }

  // The ids of the chosen devices, one digit each.
  std::string choose(const char* wish, bool asked_for = true) {
    std::vector<FoundDevice> chosen;
    status = choose_devices(inventory, wish, asked_for, &chosen);
    std::string ids;
    for (const FoundDevice& found : chosen) ids += std::to_string(reinterpret_cast<uintptr_t>(found.id));
    return ids;
  }

  Inventory inventory;
  uhal_status status = UHAL_OK;
};

TEST_F(Selection, WithoutAWishProcessorsStayOut) { EXPECT_EQ("12", choose("")); }

TEST_F(Selection, AProcessorServesIfItWasAskedForAndThereIsNothingElse) {
  inventory.usable.erase(inventory.usable.begin(), inventory.usable.begin() + 2);
  EXPECT_EQ("3", choose(""));
}

TEST_F(Selection, AProcessorDoesNotServeUnasked) {
  EXPECT_EQ("12", choose("", false));
  inventory.usable.erase(inventory.usable.begin(), inventory.usable.begin() + 2);
  EXPECT_EQ("3", choose("portable", false));
  EXPECT_EQ("", choose("", false));
  EXPECT_EQ(UHAL_UNAVAILABLE, status);
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "has processors only, which serve when they are asked for: set UNIHAL_BACKEND=opencl, or name "
                      "devices in UNIHAL_OPENCL_DEVICE, of: 0: pthread-skylake (Portable Computing Language)",
                      last_report.message);
}

TEST_F(Selection, ACardThatTwoDriversSeeServesOnce) {
  inventory.usable[0].pci_bus_id = inventory.usable[1].pci_bus_id = "0000:03:00.0";
  EXPECT_EQ("1", choose(""));
  EXPECT_EQ("2", choose("rusticl"));
}

TEST_F(Selection, ByIndex) {
  EXPECT_EQ("2", choose("1"));
  EXPECT_EQ("3", choose("2"));
  EXPECT_EQ("31", choose("2,0"));
}

TEST_F(Selection, ByPartOfTheNameInAnyCase) {
  EXPECT_EQ("1", choose("ellesmere"));
  EXPECT_EQ("12", choose("RADEON"));
  EXPECT_EQ("2", choose("RustiCL"));
  EXPECT_EQ("3", choose("portable"));
}

TEST_F(Selection, ByANumberThatIsPartOfTheName) {
  EXPECT_EQ("1", choose("580"));
  EXPECT_EQ("21", choose("560,580"));
  EXPECT_EQ("", choose("58"));  // more likely an index of a machine with more devices
}

TEST_F(Selection, WhatDoesNotServeIsTold) {
  inventory.usable[1].pci_bus_id = inventory.usable[0].pci_bus_id = "0000:03:00.0";
  EXPECT_EQ("1", choose(""));
  EXPECT_EQ(UHAL_OK, last_report.status);
  EXPECT_EQ(
      "left out: Radeon RX 560 (rusticl): it is the same card as Radeon RX 580 (Ellesmere) (AMD Accelerated Parallel "
      "Processing); left out: pthread-skylake (Portable Computing Language): it is a processor, and there are other "
      "devices (UNIHAL_OPENCL_DEVICE names the devices to use); refused: GeForce 210 (NVIDIA CUDA): it has 'OpenCL "
      "1.1', and OpenCL 1.2 is needed",
      last_report.message);
}

TEST_F(Selection, NoDeviceServesTwice) { EXPECT_EQ("21", choose("rx 560,Radeon,1")); }

TEST_F(Selection, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  for (const char* wish : {"GeForce", "3", "999999999999999999999", "0,", ",", "0,,1", "-1", "RX 580,GeForce"}) {
    choose(wish);
    EXPECT_EQ(UHAL_INVALID_ARGUMENT, status) << wish;
    EXPECT_PRED_FORMAT2(IsSubstring, std::string("UNIHAL_OPENCL_DEVICE is '") + wish + "'", last_report.message);
    EXPECT_PRED_FORMAT2(IsSubstring, "0: Radeon RX 580 (Ellesmere) (AMD Accelerated Parallel Processing); 1: Radeon",
                        last_report.message);
    EXPECT_PRED_FORMAT2(IsSubstring, "refused: GeForce 210 (NVIDIA CUDA): it has 'OpenCL 1.1', and",
                        last_report.message);
  }
}

TEST_F(Selection, WithoutAUsableDeviceEachRefusalIsTold) {
  inventory.usable.clear();
  EXPECT_EQ("", choose(""));
  EXPECT_EQ(UHAL_UNAVAILABLE, status);
  EXPECT_PRED_FORMAT2(IsSubstring, "GeForce 210 (NVIDIA CUDA): it has 'OpenCL 1.1', and", last_report.message);
}

TEST_F(Selection, TheFailureOfTheLibraryIsTold) {
  inventory.failure = "libOpenCL.so.1 does not load";
  EXPECT_EQ("", choose("0"));
  EXPECT_EQ(UHAL_UNAVAILABLE, status);
  EXPECT_EQ("libOpenCL.so.1 does not load", last_report.message);
}

}  // namespace
}  // namespace unihal::opencl
