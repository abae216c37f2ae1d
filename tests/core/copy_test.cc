// Copies and fills, and ranges that do not fit.
#include <cstring>
#include <vector>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

class CopyTest : public CoreTest {
 protected:
  void configure() override { control->asynchronous = true; }
};

TEST_F(CopyTest, ThereAndBack) {
  std::vector<char> data(1000), back(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  auto* first = static_cast<char*>(allocate(1000, stream));
  auto* second = static_cast<char*>(allocate(1100, stream));
  ASSERT_OK(uhal_copy(stream, first, data.data(), 1000, UHAL_COPY_HOST_TO_DEVICE));
  ASSERT_OK(uhal_copy(stream, second + 100, first, 1000, UHAL_COPY_DEVICE_TO_DEVICE));
  ASSERT_OK(uhal_copy(stream, back.data(), second + 101, 999, UHAL_COPY_DEVICE_TO_HOST));
  ASSERT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(0, memcmp(data.data() + 1, back.data(), 999));
  EXPECT_OK(uhal_copy(stream, nullptr, nullptr, 0, UHAL_COPY_DEVICE_TO_DEVICE));
  release(first, stream);
  release(second, stream);
}

TEST_F(CopyTest, RangesAreChecked) {
  auto* block = static_cast<char*>(allocate(1000));
  std::vector<char> host(5000);
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, block, host.data(), 1001, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_MESSAGE("copy.host_to_device: the destination of 1001 bytes");
  EXPECT_MESSAGE("beyond its allocation of 1000 bytes");
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, host.data(), block + 1, 1000, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, block + 999, host.data(), SIZE_MAX, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, host.data(), block, 10, UHAL_COPY_DEVICE_TO_DEVICE));
  EXPECT_MESSAGE("lies in no live allocation of rdna:0 (fake)");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_copy(stream, nullptr, block, 10, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_copy(stream, nullptr, host.data(), 10, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_copy(stream, block, host.data(), 10, 3));
  EXPECT_MESSAGE("copy kind 3");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_copy(stream, block, block + 99, 100, UHAL_COPY_DEVICE_TO_DEVICE));
  EXPECT_MESSAGE("overlap");
  EXPECT_OK(uhal_copy(stream, block, block + 100, 100, UHAL_COPY_DEVICE_TO_DEVICE));
  release(block);
  // The thread remembers the allocation, but it is gone.
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, block, host.data(), 10, UHAL_COPY_HOST_TO_DEVICE));
}

TEST_F(CopyTest, FillsWithPatternsOfAllSizes) {
  auto* block = static_cast<unsigned char*>(allocate(4096));
  const unsigned char pattern[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (size_t size : {1, 2, 4, 8, 16}) {
    ASSERT_OK(uhal_memory_fill(stream, block, pattern, size, 4096));
    ASSERT_OK(uhal_stream_synchronize(stream));
    for (size_t i = 0; i < 4096; ++i) ASSERT_EQ(pattern[i % size], block[i]) << size;
  }
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_fill(stream, block, pattern, 3, 9));
  EXPECT_MESSAGE("1, 2, 4, 8 or 16 bytes");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_fill(stream, block, pattern, 0, 16));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_fill(stream, block, pattern, 32, 64));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_fill(stream, block, pattern, 8, 12));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_fill(stream, block, nullptr, 8, 16));
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_memory_fill(stream, block, pattern, 8, 4104));
  EXPECT_OK(uhal_memory_fill(stream, nullptr, pattern, 8, 0));
  release(block);
}

TEST_F(CopyTest, BetweenDevices) {
  uhal_device* other;
  ASSERT_OK(uhal_device_get("rdna", 1, &other));
  const size_t bytes = (size_t{20} << 20) + 3;  // more than one staging block
  auto* here = static_cast<unsigned char*>(allocate(bytes));
  void* there = nullptr;
  ASSERT_OK(uhal_allocate(other, nullptr, UHAL_MEMORY_DEVICE, bytes, &there));
  for (size_t i = 0; i < bytes; ++i) here[i] = static_cast<unsigned char>(i % 251);
  ASSERT_OK(uhal_copy_peer(stream, other, there, device, here, bytes));
  EXPECT_EQ(0, memcmp(here, there, bytes));
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy_peer(stream, other, there, device, here, bytes + 1));
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy_peer(stream, device, there, other, here, 1));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_copy_peer(stream, other, there, nullptr, here, 1));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_copy_peer(stream, other, there, other, there, 1));
  EXPECT_MESSAGE("neither");
  EXPECT_OK(uhal_free(other, nullptr, there));
  void* beside = allocate(bytes);
  ASSERT_OK(uhal_copy_peer(stream, device, beside, device, here, bytes));  // one device on both ends
  EXPECT_EQ(0, memcmp(here, beside, bytes));
  release(beside);
  release(here);
}

}  // namespace
}  // namespace core_test
