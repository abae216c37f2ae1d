// Injected faults: when every n-th allocation or launch of the backend fails, nothing crashes, leaks or lies.
#include <vector>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

class FaultTest : public CoreTest, public testing::WithParamInterface<int> {};

TEST_P(FaultTest, EveryNthAllocation) {
  control->every_allocation = GetParam();
  std::vector<std::pair<void*, size_t>> held;
  int failures = 0;
  for (size_t i = 0; i < 60; ++i) {
    size_t bytes = (i % 6 + 1) * (size_t{3} << 20);
    void* pointer = &pointer;
    uhal_status status = uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, bytes, &pointer);
    if (status == UHAL_OK) {
      ASSERT_NE(nullptr, pointer);
      held.emplace_back(pointer, bytes);
    } else {
      EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, status);
      EXPECT_EQ(nullptr, pointer);
      EXPECT_MESSAGE("Out of device memory");
      ++failures;
    }
    if (held.size() > 8) {
      release(held.front().first, stream);
      held.erase(held.begin());
    }
    uint64_t sum = 0;
    for (auto& [block, size] : held) sum += size;
    EXPECT_GE(memory_stats().allocated_bytes, sum);
    EXPECT_EQ(held.size(), memory_stats().live_allocations);
    EXPECT_EQ(static_cast<int64_t>(memory_stats().reserved_bytes), control->live_bytes.load());
  }
  if (GetParam() == 1) {
    EXPECT_EQ(60, failures);
  }
  for (auto& [block, size] : held) release(block, stream);
  control->every_allocation = 0;
}

TEST_P(FaultTest, EveryNthLaunch) {
  control->every_launch = GetParam();
  auto* y = static_cast<float*>(allocate(400));
  int failures = 0;
  for (int i = 1; i <= 60; ++i) {
    for (int k = 0; k < 100; ++k) y[k] = -1;
    uhal_fill_attributes fill = {sizeof fill, static_cast<double>(i), 0};
    uhal_tensor view = {sizeof view, y, UHAL_FLOAT32, 1, {100}, {1}};
    const uhal_tensor* outputs[] = {&view};
    uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, &fill, "Constant"};
    uhal_status status = uhal_launch(stream, &op);
    if (status != UHAL_OK) {
      EXPECT_EQ(UHAL_INTERNAL, status);
      EXPECT_MESSAGE("injected: launch failed");
      EXPECT_STREQ("Constant (fill): -> float32(100,)", uhal_last_error()->op);
      EXPECT_EQ(-1.0f, y[7]);
      ++failures;
    } else {
      EXPECT_EQ(static_cast<float>(i), y[99]);
    }
  }
  EXPECT_EQ(60 / GetParam(), failures);
  release(y);
}

INSTANTIATE_TEST_SUITE_P(Every, FaultTest, testing::Values(1, 2, 3, 7));

// A segment for many requests that fails is followed by one that is just large enough.
TEST_F(CoreTest, OneFailedAllocationIsNoShortage) {
  control->fail_allocation_in = 1;
  void* pointer = allocate(5000000);
  EXPECT_EQ(2, control->allocate_calls.load());
  EXPECT_EQ(UHAL_OK, uhal_last_error()->status);  // success writes no record
  release(pointer);
}

}  // namespace
}  // namespace core_test
