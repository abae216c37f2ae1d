// Status names and the error record.
#include <thread>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

TEST(Status, NamesAreTheCanonicalOnes) {
  EXPECT_STREQ("OK", uhal_status_name(UHAL_OK));
  EXPECT_STREQ("INVALID_ARGUMENT", uhal_status_name(UHAL_INVALID_ARGUMENT));
  EXPECT_STREQ("UNAUTHENTICATED", uhal_status_name(UHAL_UNAUTHENTICATED));
  EXPECT_STREQ("UNKNOWN_STATUS", uhal_status_name(17));
  EXPECT_STREQ("UNKNOWN_STATUS", uhal_status_name(-1));
}

TEST(Dtype, NamesAndSizes) {
  EXPECT_EQ(2u, uhal_dtype_size(UHAL_BFLOAT16));
  EXPECT_EQ(16u, uhal_dtype_size(UHAL_COMPLEX128));
  EXPECT_EQ(0u, uhal_dtype_size(UHAL_DTYPE_INVALID));
  EXPECT_EQ(0u, uhal_dtype_size(99));
  EXPECT_STREQ("float32", uhal_dtype_name(UHAL_FLOAT32));
  EXPECT_STREQ("invalid", uhal_dtype_name(-3));
}

TEST(ErrorRecord, IsEmptyBeforeTheFirstFailureAndAfterClear) {
  const uhal_error* error = uhal_last_error();
  ASSERT_NE(nullptr, error);
  EXPECT_EQ(UHAL_OK, error->status);
  for (const char* text : {error->native_name, error->message, error->op, error->device, error->file}) {
    EXPECT_STREQ("", text);
  }
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_get("rdna", 0, nullptr));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_last_error()->status);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "csrc/core/registry/registry.cc", uhal_last_error()->file);
  EXPECT_GT(uhal_last_error()->line, 0);
  uhal_clear_error();
  EXPECT_EQ(UHAL_OK, uhal_last_error()->status);
  EXPECT_STREQ("", uhal_last_error()->message);
}

TEST(ErrorRecord, BelongsToItsThread) {
  int32_t count;
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_device_count("no-such-type", &count));
  std::thread([] {
    EXPECT_EQ(UHAL_OK, uhal_last_error()->status);
    EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_count("rdna", nullptr));
  }).join();
  EXPECT_EQ(UHAL_NOT_FOUND, uhal_last_error()->status);
  EXPECT_MESSAGE("no-such-type");
}

class ErrorRecordTest : public CoreTest {};

TEST_F(ErrorRecordTest, SuccessLeavesIt) {
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, &control));
  std::string before = last_message();
  release(allocate(100));
  EXPECT_EQ(before, last_message());
}

TEST_F(ErrorRecordTest, LongTextsAreCutNotOverrun) {
  std::string name(20000, 'x');
  int32_t count;
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_device_count(name.c_str(), &count));
  EXPECT_GT(last_message().size(), 1000u);
  EXPECT_LT(last_message().size(), 20000u);
}

}  // namespace
}  // namespace core_test
