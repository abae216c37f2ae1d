// Device pointers: how addresses are handed out and resolved. No OpenCL is needed: buffers are numbers here.
#include "csrc/backends/opencl/address_space.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace unihal::opencl {
namespace {

constexpr size_t kGigabyte = size_t{1} << 30;

cl_mem buffer(uintptr_t number) { return reinterpret_cast<cl_mem>(number); }

class AddressSpaceTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ("", addresses.open(4 * kGigabyte)); }

  char* insert(uintptr_t number, size_t bytes) { return static_cast<char*>(addresses.insert(buffer(number), bytes)); }

  AddressSpace addresses;
};

TEST_F(AddressSpaceTest, ResolvesEveryAddressOfAnAllocation) {
  const size_t bytes = 3 * AddressSpace::kGranule + 5;
  char* const base = insert(7, bytes);
  ASSERT_NE(nullptr, base);
  for (const size_t offset :
       {size_t{0}, size_t{1}, AddressSpace::kGranule - 1, AddressSpace::kGranule, bytes - 1, bytes}) {
    Place place;
    ASSERT_TRUE(addresses.resolve(base + offset, &place)) << offset;
    EXPECT_EQ(buffer(7), place.buffer);
    EXPECT_EQ(offset, place.offset);
  }
}

TEST_F(AddressSpaceTest, ResolvesNothingElse) {
  char* const base = insert(7, 100);
  Place place;
  int on_the_host = 0;
  EXPECT_FALSE(addresses.resolve(nullptr, &place));
  EXPECT_FALSE(addresses.resolve(&on_the_host, &place));
  EXPECT_FALSE(addresses.resolve(base + 101, &place));
  EXPECT_FALSE(addresses.resolve(base + AddressSpace::kGranule, &place));
}

TEST_F(AddressSpaceTest, TheEndOfAnAllocationIsItsOwn) {
  for (const size_t bytes : {AddressSpace::kGranule, 2 * AddressSpace::kGranule, AddressSpace::kGranule - 1}) {
    char* const first = insert(1, bytes);
    insert(2, 100);
    Place place;
    ASSERT_TRUE(addresses.resolve(first + bytes, &place));
    EXPECT_EQ(buffer(1), place.buffer);
  }
}

TEST_F(AddressSpaceTest, TheHostCannotTouchAnAddress) {
  char* const base = insert(7, 100);
  EXPECT_DEATH(*static_cast<volatile char*>(base) = 1, "");
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile char*>(base)), "");
}

TEST_F(AddressSpaceTest, RemovedAddressesResolveToNothing) {
  char* const base = insert(7, 100);
  Allocation removed;
  EXPECT_FALSE(addresses.remove(base + 1, &removed));
  ASSERT_TRUE(addresses.remove(base, &removed));
  EXPECT_EQ(buffer(7), removed.buffer);
  EXPECT_EQ(100u, removed.bytes);
  Place place;
  EXPECT_FALSE(addresses.resolve(base, &place));
  EXPECT_FALSE(addresses.remove(base, &removed));
}

TEST_F(AddressSpaceTest, AddressesComeAgainLate) {
  char* const first = insert(1, 100);
  Allocation removed;
  ASSERT_TRUE(addresses.remove(first, &removed));
  const size_t all = addresses.size() / AddressSpace::kGranule;
  for (size_t i = 1; i < all; ++i) {
    char* const next = insert(2, 100);
    ASSERT_NE(first, next) << "after " << i << " of " << all;
    ASSERT_TRUE(addresses.remove(next, &removed));
  }
  EXPECT_EQ(first, insert(3, 100));
}

TEST_F(AddressSpaceTest, NumbersNeverComeAgain) {
  Place first, second;
  Allocation removed;
  char* const base = insert(1, 100);
  ASSERT_TRUE(addresses.resolve(base, &first));
  ASSERT_TRUE(addresses.remove(base, &removed));
  ASSERT_TRUE(addresses.resolve(insert(1, 100), &second));
  EXPECT_NE(first.number, second.number);
  EXPECT_NE(0u, first.number);  // the number of NULL
}

TEST_F(AddressSpaceTest, FullIsFull) {
  char* const large = insert(1, 4 * kGigabyte - 2 * AddressSpace::kGranule);
  ASSERT_NE(nullptr, large);
  EXPECT_EQ(nullptr, insert(2, AddressSpace::kGranule));
  EXPECT_NE(nullptr, insert(3, AddressSpace::kGranule - 1));
  EXPECT_EQ(nullptr, insert(4, 1));
  EXPECT_EQ(nullptr, insert(5, SIZE_MAX / 2));
  Allocation removed;
  ASSERT_TRUE(addresses.remove(large, &removed));
  EXPECT_NE(nullptr, insert(6, kGigabyte));
}

TEST_F(AddressSpaceTest, ManyAllocationsOfManyThreads) {
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([this, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<char*, size_t>> live;
      for (int step = 0; step < 2000; ++step) {
        if (live.size() < 20 || random() % 2 == 0) {
          const size_t bytes = 1 + random() % (4 * AddressSpace::kGranule);
          char* const base = insert(bytes, bytes);  // the size doubles as the buffer
          ASSERT_NE(nullptr, base);
          live.emplace_back(base, bytes);
        } else {
          const size_t i = random() % live.size();
          Allocation removed;
          ASSERT_TRUE(addresses.remove(live[i].first, &removed));
          ASSERT_EQ(live[i].second, removed.bytes);
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
        }
        for (const auto& [base, bytes] : live) {
          Place place;
          const size_t offset = random() % (bytes + 1);
          ASSERT_TRUE(addresses.resolve(base + offset, &place));
          ASSERT_EQ(buffer(bytes), place.buffer);
          ASSERT_EQ(offset, place.offset);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AddressSpaceOpenTest, TakesLessWhereTheSystemRefuses) {
  AddressSpace addresses;
  ASSERT_EQ("", addresses.open(size_t{1} << 50));  // more than there is
  EXPECT_GE(addresses.size(), 4 * kGigabyte);
  EXPECT_LT(addresses.size(), size_t{1} << 50);
}

}  // namespace
}  // namespace unihal::opencl
