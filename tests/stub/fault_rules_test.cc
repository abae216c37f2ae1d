// The text of fault rules: what is refused, and the rules of the environment. ctest runs each test in a process of its
// own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "stub/backend/fault_rules.h"
#include "unihal/memory.h"

namespace {

using testing::IsSubstring;
using unihal::stub::FaultRule;
using unihal::stub::parse_fault_rules;

std::string message() { return uhal_last_error()->message; }

struct WrongRule {
  const char* rules;
  const char* complaint;
};

class WrongRules : public testing::TestWithParam<WrongRule> {};

TEST_P(WrongRules, AreRefusedWithTheirPlace) {
  std::vector<FaultRule> rules;
  std::string complaint;
  EXPECT_FALSE(parse_fault_rules(GetParam().rules, &rules, &complaint));
  EXPECT_EQ(GetParam().complaint, complaint);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, WrongRules,
    testing::Values(
        WrongRule{"allocate",
                  "rule 1, 'allocate', is wrong at character 1, 'allocate': expected alloc, launch, copy, "
                  "device-lost or slow"},
        WrongRule{"alloc,",
                  "rule 2, '', is wrong at character 7, '': expected alloc, launch, copy, device-lost or slow"},
        WrongRule{
            "alloc, copy",
            "rule 2, ' copy', is wrong at character 7, ' copy': expected alloc, launch, copy, device-lost or slow"},
        WrongRule{
            "alloc:every=0",
            "rule 1, 'alloc:every=0', is wrong at character 7, 'every=0': expected every= and a whole number from 1"},
        WrongRule{"alloc:nth=-1",
                  "rule 1, 'alloc:nth=-1', is wrong at character 7, 'nth=-1': expected nth= and a whole number from 1"},
        WrongRule{"alloc:after=1e3",
                  "rule 1, 'alloc:after=1e3', is wrong at character 7, 'after=1e3': expected after= and a whole number "
                  "from 0"},
        WrongRule{
            "copy:nth=99999999999999999999",
            "rule 1, 'copy:nth=99999999999999999999', is wrong at character 6, 'nth=99999999999999999999': expected "
            "nth= and a whole number from 1"},
        WrongRule{
            "alloc:matmul",
            "rule 1, 'alloc:matmul', is wrong at character 7, 'matmul': expected every=N, after=N, nth=N or once"},
        WrongRule{"alloc:async",
                  "rule 1, 'alloc:async', is wrong at character 7, 'async': expected every=N, after=N, nth=N or once"},
        WrongRule{
            "copy:once,launch:matmull",
            "rule 2, 'launch:matmull', is wrong at character 18, 'matmull': expected an op's name (such as matmul or "
            "map.relu), every=N, after=N, nth=N, once or async"},
        WrongRule{
            "launch:map.rellu",
            "rule 1, 'launch:map.rellu', is wrong at character 8, 'map.rellu': expected an op's name (such as matmul "
            "or map.relu), every=N, after=N, nth=N, once or async"},
        WrongRule{
            "launch:once:matmul",
            "rule 1, 'launch:once:matmul', is wrong at character 13, 'matmul': expected every=N, after=N, nth=N, once "
            "or async"},
        WrongRule{"copy:once:every=2",
                  "rule 1, 'copy:once:every=2', is wrong at character 11, 'every=2': the rule has a condition already"},
        WrongRule{"copy::once",
                  "rule 1, 'copy::once', is wrong at character 6, '': expected every=N, after=N, nth=N, "
                  "once or async"},
        WrongRule{"slow",
                  "rule 1, 'slow', is wrong at character 1, 'slow': slow needs x and a factor, such as slow:x10"},
        WrongRule{
            "slow:x0.5",
            "rule 1, 'slow:x0.5', is wrong at character 6, 'x0.5': expected x and a factor from 1 to 10000, such as "
            "x10 or x1.5"},
        WrongRule{
            "slow:x1e3",
            "rule 1, 'slow:x1e3', is wrong at character 6, 'x1e3': expected x and a factor from 1 to 10000, such as "
            "x10 or x1.5"},
        WrongRule{"slow:10",
                  "rule 1, 'slow:10', is wrong at character 6, '10': expected every=N, after=N, nth=N, once or x and a "
                  "factor"}));

// -- the environment --------------------------------------------------------------------------------------

TEST(FaultEnvironment, RulesApplyFromTheStart) {
  setenv("UNIHAL_STUB_FAULTS", "copy:once", 1);
  ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  void* memory = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_device_get("rdna", 0, &device)) << message();
  ASSERT_EQ(UHAL_OK, uhal_device_default_stream(device, &stream));
  ASSERT_EQ(UHAL_OK, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 4, &memory));
  const uint32_t word = 0;
  EXPECT_EQ(UHAL_INTERNAL, uhal_copy(stream, memory, &word, sizeof word, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_EQ(UHAL_OK, uhal_copy(stream, memory, &word, sizeof word, UHAL_COPY_HOST_TO_DEVICE)) << message();
  EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream));
  EXPECT_EQ(UHAL_OK, uhal_free(device, stream, memory));
}

TEST(FaultEnvironment, WrongRulesAreRefusedByName) {
  setenv("UNIHAL_STUB_FAULTS", "alloc:sometimes", 1);
  ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
  uhal_device* device = nullptr;
  EXPECT_NE(UHAL_OK, uhal_device_get("rdna", 0, &device));
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "UNIHAL_STUB_FAULTS: rule 1, 'alloc:sometimes', is wrong at character 7, 'sometimes': expected "
                      "every=N, after=N, nth=N or once.",
                      message());
}

TEST(FaultEnvironment, ADeviceCanBeLostFromTheStart) {
  setenv("UNIHAL_STUB_FAULTS", "device-lost", 1);
  ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
  uhal_device* device = nullptr;
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_device_get("rdna", 0, &device));
  EXPECT_PRED_FORMAT2(IsSubstring, "Injected fault: the device is lost", message());
}

}  // namespace
