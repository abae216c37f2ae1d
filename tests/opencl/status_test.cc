// OpenCL's status codes as reports.
#include "csrc/backends/opencl/status.h"

#include <gtest/gtest.h>

#include "tests/opencl/parts_host.h"

namespace unihal::opencl {
namespace {

TEST(Status, AFailureHasTheNativeCodeAndItsName) {
  keep_reports();
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, fail_native(CL_MEM_OBJECT_ALLOCATION_FAILURE, "no %d bytes", 42));
  EXPECT_EQ(-4, last_report.native_code);
  EXPECT_EQ("CL_MEM_OBJECT_ALLOCATION_FAILURE", last_report.native_name);
  EXPECT_EQ("no 42 bytes: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)", last_report.message);
}

TEST(Status, EveryCodeHasAName) {
  EXPECT_STREQ("CL_SUCCESS", status_name(0));
  EXPECT_STREQ("CL_INVALID_KERNEL_ARGS", status_name(-52));
  EXPECT_STREQ("CL_INVALID_DEVICE_PARTITION_COUNT", status_name(-68));
  EXPECT_STREQ("CL_PLATFORM_NOT_FOUND_KHR", status_name(-1001));
  EXPECT_STREQ("unknown OpenCL status", status_name(-4242));
}

TEST(Status, ALongMessageIsCutButKeepsTheCode) {
  keep_reports();
  EXPECT_EQ(UHAL_INTERNAL, fail_native(-52, "%s", std::string(5000, 'x').c_str()));
  EXPECT_LT(last_report.message.size(), 1100u);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "xxx: CL_INVALID_KERNEL_ARGS (-52)", last_report.message);
}

TEST(Status, FailuresOfWorkAreNoLackOfMemory) {
  keep_reports();
  EXPECT_EQ(UHAL_INTERNAL, fail_work(CL_OUT_OF_RESOURCES, "board"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "work on board failed while it ran", last_report.message);
  EXPECT_EQ("CL_OUT_OF_RESOURCES", last_report.native_name);
  EXPECT_EQ(UHAL_UNAVAILABLE, fail_work(CL_DEVICE_NOT_AVAILABLE, "board"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "board is lost", last_report.message);
}

}  // namespace
}  // namespace unihal::opencl
