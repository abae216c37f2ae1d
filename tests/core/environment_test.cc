// UNIHAL_* variables with nonsense values: each is an error that names the variable, the value and what is allowed.
#include <cstdlib>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

struct Nonsense {
  const char* name;
  const char* value;
  const char* allowed;
};

// For the name of the test.
std::ostream& operator<<(std::ostream& out, const Nonsense& variable) {
  return out << variable.name << "=" << variable.value;
}

class NonsenseVariable : public testing::TestWithParam<Nonsense> {};

TEST_P(NonsenseVariable, IsAnError) {
  const Nonsense& variable = GetParam();
  setenv(variable.name, variable.value, 1);
  int32_t count = 7;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_count("rdna", &count));
  EXPECT_EQ(0, count);
  EXPECT_MESSAGE(variable.name);
  EXPECT_MESSAGE("'" + std::string(variable.value) + "'");
  EXPECT_MESSAGE(variable.allowed);
  uhal_device* device;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_get("rdna", 0, &device));
  EXPECT_MESSAGE(variable.name);
}

INSTANTIATE_TEST_SUITE_P(Values, NonsenseVariable,
                         testing::Values(Nonsense{"UNIHAL_BACKEND", "cuda", "corex, hip, opencl, stub"},
                                         Nonsense{"UNIHAL_BACKEND", "STUB", "stub"},
                                         Nonsense{"UNIHAL_STRICT", "yes", "0 or 1"},
                                         Nonsense{"UNIHAL_CHECK_NAN", "2", "0 or 1"},
                                         Nonsense{"UNIHAL_MEMORY_LIMIT", "lots", "a number of bytes"},
                                         Nonsense{"UNIHAL_MEMORY_LIMIT", "4GB", "4G"},
                                         Nonsense{"UNIHAL_MEMORY_LIMIT", "-1", "suffix"},
                                         Nonsense{"UNIHAL_MEMORY_LIMIT", "1.5G", "suffix"},
                                         Nonsense{"UNIHAL_MEMORY_LIMIT", "99999999999999G", "suffix"}));

TEST(Environment, SeveralMistakesAreToldAtOnce) {
  setenv("UNIHAL_STRICT", "yes", 1);
  setenv("UNIHAL_CHECK_NAN", "no", 1);
  int32_t count;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_count("rdna", &count));
  EXPECT_MESSAGE("UNIHAL_STRICT");
  EXPECT_MESSAGE("UNIHAL_CHECK_NAN");
}

TEST(Environment, MemoryLimitTakesSuffixes) {
  setenv("UNIHAL_MEMORY_LIMIT", "12M", 1);
  use_fake("fake");
  uhal_device* device;
  ASSERT_OK(uhal_device_get("iluvatar", 1, &device));
  uhal_memory_stats stats = {};
  stats.struct_size = sizeof stats;
  ASSERT_OK(uhal_memory_stats_get(device, UHAL_MEMORY_DEVICE, &stats));
  EXPECT_EQ(uint64_t{12} << 20, stats.limit_bytes);
  void* pointer;
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 13 << 20, &pointer));
  EXPECT_MESSAGE("Raise the limit (UNIHAL_MEMORY_LIMIT");
}

TEST(Environment, DeviceErrorsTellTheOverridesInForce) {
  setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0", 1);
  setenv("UNIHAL_STRICT", "0", 1);
  uhal_device* device;
  EXPECT_STATUS(UHAL_UNAVAILABLE, uhal_device_get("rdna", 0, &device));
  EXPECT_MESSAGE("HSA_OVERRIDE_GFX_VERSION=10.3.0");
  EXPECT_MESSAGE("UNIHAL_STRICT=0");
}

}  // namespace
}  // namespace core_test
