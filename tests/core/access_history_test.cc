// The race check's knowledge of memory: sets of bytes against lists of them, and how much is kept.
#include "csrc/core/check/access_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace unihal::core {
namespace {

uhal_tensor view_of(uintptr_t data, uhal_dtype dtype, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  uhal_tensor view = {sizeof view, reinterpret_cast<void*>(data), dtype, static_cast<int32_t>(shape.size()), {}, {}};
  std::copy(shape.begin(), shape.end(), view.shape);
  std::copy(strides.begin(), strides.end(), view.strides);
  return view;
}

// Every byte of a view, one by one.
std::set<uintptr_t> bytes_of(const uhal_tensor& view) {
  std::set<uintptr_t> starts = {reinterpret_cast<uintptr_t>(view.data)};
  const auto size = static_cast<int64_t>(uhal_dtype_size(view.dtype));
  for (int axis = 0; axis < view.rank; ++axis) {
    std::set<uintptr_t> extended;
    for (uintptr_t start : starts) {
      for (int64_t i = 0; i < view.shape[axis]; ++i) {
        extended.insert(start + static_cast<uintptr_t>(i * view.strides[axis] * size));
      }
    }
    starts = extended;
  }
  std::set<uintptr_t> bytes;
  for (uintptr_t start : starts) {
    for (int64_t i = 0; i < size; ++i) bytes.insert(start + static_cast<uintptr_t>(i));
  }
  return bytes;
}

constexpr uintptr_t kBase = 1 << 20;

TEST(ByteSetTest, TheSameBytesInOtherWordsAreEqual) {
  const ByteSet rows(view_of(kBase, UHAL_FLOAT32, {4, 3}, {3, 1}));
  EXPECT_TRUE(rows.dense());
  EXPECT_EQ(48u, rows.end() - rows.begin());
  EXPECT_TRUE(rows == ByteSet(kBase, 48));
  EXPECT_TRUE(rows == ByteSet(view_of(kBase, UHAL_FLOAT32, {3, 4}, {1, 3})));           // transposed
  EXPECT_TRUE(rows == ByteSet(view_of(kBase + 44, UHAL_FLOAT32, {4, 3}, {-3, -1})));    // reversed
  EXPECT_TRUE(rows == ByteSet(view_of(kBase, UHAL_FLOAT32, {5, 12, 1}, {0, 1, 999})));  // repeated
  EXPECT_TRUE(rows == ByteSet(view_of(kBase, UHAL_FLOAT32, {10, 3}, {1, 1})));          // windows
  EXPECT_TRUE(rows == ByteSet(view_of(kBase, UHAL_FLOAT64, {6}, {1})));
  EXPECT_FALSE(rows == ByteSet(view_of(kBase, UHAL_FLOAT32, {4, 3}, {4, 1})));
  const ByteSet columns(view_of(kBase, UHAL_FLOAT32, {2, 4, 3}, {24, 6, 1}));
  EXPECT_FALSE(columns.dense());
  EXPECT_TRUE(columns == ByteSet(view_of(kBase, UHAL_FLOAT32, {3, 8}, {1, 6})));
  EXPECT_TRUE(ByteSet(view_of(kBase, UHAL_FLOAT32, {4, 0}, {1, 1})).empty());
  EXPECT_EQ(kBase - 8, ByteSet(view_of(kBase, UHAL_FLOAT32, {3}, {-1})).begin());
}

TEST(ByteSetTest, OverlapIsExact) {
  std::mt19937 random(7);
  auto choose = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  auto random_view = [&] {
    const auto rank = static_cast<size_t>(choose(0, 4));
    std::vector<int64_t> shape, strides;
    for (size_t i = 0; i < rank; ++i) {
      shape.push_back(choose(0, 9) == 0 ? 0 : choose(1, 5));
      strides.push_back(choose(-12, 40));
    }
    const uhal_dtype dtypes[] = {UHAL_INT8, UHAL_FLOAT16, UHAL_FLOAT32, UHAL_FLOAT64};
    return view_of(kBase + static_cast<uintptr_t>(choose(-120, 120)), dtypes[choose(0, 3)], shape, strides);
  };
  int overlapping = 0;
  for (int i = 0; i < 4000; ++i) {
    const uhal_tensor a = random_view(), b = random_view();
    const std::set<uintptr_t> bytes_a = bytes_of(a), bytes_b = bytes_of(b);
    bool expected =
        std::any_of(bytes_a.begin(), bytes_a.end(), [&](uintptr_t byte) { return bytes_b.count(byte) != 0; });
    ASSERT_EQ(expected, ByteSet(a).overlaps(ByteSet(b))) << i;
    ASSERT_EQ(expected, ByteSet(b).overlaps(ByteSet(a))) << i;
    if (!bytes_a.empty()) {
      ASSERT_EQ(*bytes_a.begin(), ByteSet(a).begin()) << i;
      ASSERT_EQ(*bytes_a.rbegin() + 1, ByteSet(a).end()) << i;
    }
    overlapping += expected ? 1 : 0;
  }
  EXPECT_GT(overlapping, 500);
  EXPECT_LT(overlapping, 3500);
}

TEST(ByteSetTest, LargeSlicesAreDecidedAtOnce) {
  // The channels of NHWC images, as a concatenation writes them.
  auto channels = [](int64_t first, int64_t count) {
    return ByteSet(view_of(kBase + static_cast<uintptr_t>(first) * 2, UHAL_FLOAT16, {64, 112, 112, count},
                           {112 * 112 * 96, 112 * 96, 96, 1}));
  };
  EXPECT_FALSE(channels(0, 32).overlaps(channels(32, 64)));
  EXPECT_TRUE(channels(0, 33).overlaps(channels(32, 64)));
  // A window of rows and columns beside another.
  auto window = [](int64_t row, int64_t column) {
    return ByteSet(view_of(kBase + static_cast<uintptr_t>(row * 1000 + column) * 4, UHAL_FLOAT32, {100, 30, 100},
                           {1000000, 1000, 1}));
  };
  EXPECT_FALSE(window(10, 0).overlaps(window(10, 100)));
  EXPECT_FALSE(window(10, 50).overlaps(window(40, 50)));
  EXPECT_TRUE(window(10, 50).overlaps(window(39, 149)));
}

TEST(ByteSetTest, RepeatedElementsAreFoundExactly) {
  std::mt19937 random(11);
  auto choose = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int repeating = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<int64_t> shape, strides;
    int64_t elements = 1;
    for (int axis = choose(0, 4); axis > 0; --axis) {
      shape.push_back(choose(0, 19) == 0 ? 0 : choose(1, 5));
      strides.push_back(choose(0, 19) == 0 ? 0 : choose(-30, 60));
      elements *= shape.back();
    }
    const uhal_tensor view = view_of(kBase, UHAL_INT8, shape, strides);
    const bool expected = elements != 0 && bytes_of(view).size() != static_cast<size_t>(elements);
    ASSERT_EQ(expected ? Answer::kYes : Answer::kNo, repeats_elements(view)) << i;
    repeating += expected ? 1 : 0;
  }
  EXPECT_GT(repeating, 500);
  EXPECT_LT(repeating, 3500);
}

// Views whose strides have nothing to do with each other: the search is given up, and says so.
TEST(ByteSetTest, WhatIsNotDecidedIsNotGuessed) {
  std::mt19937_64 random(3);
  auto scattered = [&](uintptr_t data) {
    std::vector<int64_t> strides;
    for (int axis = 0; axis < UHAL_MAX_RANK; ++axis) {
      strides.push_back(static_cast<int64_t>(random() % (uint64_t{1} << 40) | 1));
    }
    return view_of(data, UHAL_INT8, std::vector<int64_t>(UHAL_MAX_RANK, 3), strides);
  };
  const ByteSet a(scattered(kBase)), b(scattered(kBase + 12345));
  EXPECT_EQ(Answer::kUnknown, a.meets(b));
  EXPECT_FALSE(a.overlaps(b));
  EXPECT_EQ(Answer::kUnknown, repeats_elements(scattered(kBase)));
}

// Accesses by agents whose clocks know only themselves.
class AccessHistoryTest : public testing::Test {
 protected:
  size_t access(uint32_t agent, bool writes, const ByteSet& bytes) {
    auto work = std::make_shared<Work>();
    work->moment = clocks_[agent].tick(agent);
    work->operands.push_back({"x", writes, bytes});
    const size_t conflicts = history_.conflicts({work, 0}, clocks_[agent]).size();
    history_.add({work, 0}, clocks_[agent]);
    return conflicts;
  }
  size_t write(uint32_t agent, uintptr_t begin, uint64_t bytes) {
    return access(agent, true, ByteSet(kBase + begin, bytes));
  }
  size_t read(uint32_t agent, uintptr_t begin, uint64_t bytes) {
    return access(agent, false, ByteSet(kBase + begin, bytes));
  }

  AccessHistory history_;
  VectorClock clocks_[4];
};

TEST_F(AccessHistoryTest, CellsAreCutWhereAccessesEnd) {
  EXPECT_EQ(0u, write(0, 0, 100));
  EXPECT_EQ(1u, history_.size());
  EXPECT_EQ(1u, read(1, 40, 20));
  EXPECT_EQ(3u, history_.size());
  EXPECT_EQ(0u, read(1, 100, 50));  // nothing was known of it
  EXPECT_EQ(4u, history_.size());
  EXPECT_EQ(3u, write(2, 50, 100));  // with the write and both reads
  EXPECT_EQ(3u, history_.size());
}

TEST_F(AccessHistoryTest, WhatIsKeptIsBoundedByTheRangesInUse) {
  std::mt19937 random(11);
  for (int i = 0; i < 100000; ++i) {
    const auto agent = static_cast<uint32_t>(random() % 4);
    const uintptr_t begin = 64 * (random() % 32);
    const uint64_t bytes = 64 * (1 + random() % 8);
    if (random() % 3 == 0) {
      write(agent, begin, bytes);
    } else {
      read(agent, begin, bytes);
    }
    ASSERT_LE(history_.size(), 40u);  // of 64 bytes each
  }
}

TEST_F(AccessHistoryTest, InterleavedViewsAreKeptOncePerView) {
  for (int i = 0; i < 100000; ++i) {
    const uhal_tensor column = view_of(kBase + 4u * static_cast<uintptr_t>(i % 8), UHAL_FLOAT32, {100}, {8});
    access(static_cast<uint32_t>(i % 5 % 4), i % 3 == 0, ByteSet(column));
    ASSERT_LE(history_.size(), 8u * 5u);  // of each column a write, and a read per agent
  }
  // A write of the whole matrix stands for all of them.
  write(0, 0, 3200);
  EXPECT_EQ(1u, history_.size());
}

TEST_F(AccessHistoryTest, WhatTheHostHasSeenIsDropped) {
  write(0, 0, 100);
  read(1, 200, 100);
  access(1, true, ByteSet(view_of(kBase + 400, UHAL_FLOAT32, {10}, {2})));
  VectorClock host = clocks_[0];
  history_.forget_before(host);
  EXPECT_EQ(2u, history_.size());
  host.join(clocks_[1]);
  history_.forget_before(host);
  EXPECT_EQ(0u, history_.size());
}

TEST_F(AccessHistoryTest, OldAccessesOfEverNewMemoryAreDroppedInTime) {
  size_t most = 0;
  for (uintptr_t i = 0; i < 100000; ++i) {
    write(static_cast<uint32_t>(i % 2), 64 * i, 64);
    history_.forget_old(clocks_[0]);  // the host waits for one of the two
    if (i % 1000 == 0) clocks_[0].join(clocks_[1]);
    most = std::max(most, history_.size());
  }
  EXPECT_LE(most, 4096u);
}

TEST_F(AccessHistoryTest, AForgottenRangeConflictsWithNothing) {
  write(0, 0, 100);
  access(0, true, ByteSet(view_of(kBase + 200, UHAL_FLOAT32, {10}, {2})));
  history_.forget(kBase + 20, kBase + 60);
  EXPECT_EQ(0u, write(1, 20, 40));
  EXPECT_EQ(1u, write(1, 19, 1));
  history_.forget(kBase + 200, kBase + 300);
  EXPECT_EQ(0u, write(1, 200, 100));
}

}  // namespace
}  // namespace unihal::core
