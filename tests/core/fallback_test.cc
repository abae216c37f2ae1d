// The account of fallbacks, its log, and strict mode.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

uhal_status record(const char* op, const char* dtype, const char* reason = "no kernel is registered") {
  uhal_fallback fallback = {sizeof fallback, "paddle", op, dtype, reason, 0};
  return uhal_fallback_record(&fallback);
}

uhal_fallback get(size_t index) {
  uhal_fallback fallback = {};
  fallback.struct_size = sizeof fallback;
  EXPECT_OK(uhal_fallback_get(index, &fallback));
  return fallback;
}

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Fallback, IsCountedPerOpDtypeAndReason) {
  EXPECT_EQ(0u, uhal_fallback_count());
  EXPECT_EQ(0, uhal_strict());
  for (int i = 0; i < 3; ++i) EXPECT_OK(record("conv3d", "float32"));
  EXPECT_OK(record("conv3d", "float64"));
  EXPECT_OK(record("conv3d", "float32", "groups are not supported"));
  EXPECT_OK(record("conv3d", nullptr));
  ASSERT_EQ(4u, uhal_fallback_count());
  EXPECT_STREQ("paddle", get(0).framework);
  EXPECT_STREQ("conv3d", get(0).op);
  EXPECT_STREQ("float32", get(0).dtype);
  EXPECT_EQ(3u, get(0).count);
  EXPECT_STREQ("float64", get(1).dtype);
  EXPECT_STREQ("groups are not supported", get(2).reason);
  EXPECT_STREQ("", get(3).dtype);
  uhal_fallback fallback = {sizeof fallback};
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_fallback_get(4, &fallback));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_fallback_record(nullptr));
  fallback.struct_size = 8;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_fallback_record(&fallback));
}

TEST(Fallback, StrictModeMakesItAnError) {
  setenv("UNIHAL_STRICT", "1", 1);
  EXPECT_EQ(1, uhal_strict());
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, record("unique", "int64"));
  EXPECT_MESSAGE("The paddle op 'unique' of int64 would run on the CPU: no kernel is registered");
  EXPECT_MESSAGE("UNIHAL_STRICT=1");
  EXPECT_EQ(1u, uhal_fallback_count());
}

TEST(Fallback, LogHasALineOfJsonForEach) {
  std::string path = testing::TempDir() + "unihal_fallbacks_" + std::to_string(getpid()) + ".jsonl";
  setenv("UNIHAL_FALLBACK_LOG", path.c_str(), 1);
  EXPECT_OK(record("unique", "int64"));
  EXPECT_OK(record("unique", "int64"));
  EXPECT_OK(record("odd", "", "a \"quoted\\path\"\n and \x01 and \xff"));
  EXPECT_EQ(
      "{\"framework\": \"paddle\", \"op\": \"unique\", \"dtype\": \"int64\", \"reason\": \"no kernel is registered\"}\n"
      "{\"framework\": \"paddle\", \"op\": \"unique\", \"dtype\": \"int64\", \"reason\": \"no kernel is registered\"}\n"
      "{\"framework\": \"paddle\", \"op\": \"odd\", \"dtype\": \"\", \"reason\": "
      "\"a \\\"quoted\\\\path\\\"\\u000a and \\u0001 and \\ufffd\"}\n",
      text_of(path));
  remove(path.c_str());
}

TEST(Fallback, ALogThatCannotBeWrittenIsAnError) {
  setenv("UNIHAL_FALLBACK_LOG", "/no/such/folder/log.jsonl", 1);
  EXPECT_STATUS(UHAL_PERMISSION_DENIED, record("unique", "int64"));
  EXPECT_MESSAGE("UNIHAL_FALLBACK_LOG is '/no/such/folder/log.jsonl'");
  EXPECT_EQ(1u, uhal_fallback_count());
}

}  // namespace
}  // namespace core_test
