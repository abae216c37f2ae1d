// Memory, copies and fills.
#include <cstring>

#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

class HipMemory : public GpuTest {};

TEST_F(HipMemory, DevicePointersCannotBeTouched) {
  char* const memory = allocate(100);
  EXPECT_DEATH(*static_cast<volatile char*>(memory) = 1, "");
}

TEST_F(HipMemory, MoreThanThereIsIsRefusedWithNumbers) {
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, size_t{3} << 30, &pointer));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_MESSAGE("AMD Radeon RX 6800 gives no 3221225472 bytes of device memory");
  EXPECT_MESSAGE("of 2147483648 bytes of device memory are free");
  expect_native(2, "hipErrorOutOfMemory");
}

TEST_F(HipMemory, IsTriedAgainWithoutTheCache) {
  void* pointer = nullptr;
  ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 1500 * kMegabyte, &pointer));
  ASSERT_OK(uhal_free(device, stream, pointer));
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 1600 * kMegabyte, &pointer));
  EXPECT_OK(uhal_free(device, stream, pointer));
  EXPECT_OK(uhal_stream_synchronize(stream));
  fail_call("hipHostMalloc", 2, 0, -1);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_PINNED, 300 * kMegabyte, &pointer));
  EXPECT_MESSAGE("bytes of pinned host memory");
  fail_call("hipHostMalloc", 0, 0, 0);
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_PINNED, 3 * kMegabyte, &pointer));
  EXPECT_OK(uhal_free(device, stream, pointer));
}

TEST_F(HipMemory, IsGivenBack) {
  for (int i = 0; i < 20; ++i) {
    void* pointer = nullptr;
    ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 500 * kMegabyte, &pointer));
    ASSERT_OK(uhal_memory_fill(stream, pointer, "x", 1, 1000));
    ASSERT_OK(uhal_free(device, stream, pointer));
    ASSERT_OK(uhal_stream_synchronize(stream));
    size_t released = 0;
    ASSERT_OK(uhal_memory_trim(device, 0, &released));
    EXPECT_GE(released, 500 * kMegabyte);
  }
  EXPECT_EQ(20, calls(vendor, "hipMalloc"));
  EXPECT_EQ(20, calls(vendor, "hipFree"));
}

TEST_F(HipMemory, ThatTheDriverDoesNotTakeBackStaysCounted) {
  void* pointer = nullptr;
  ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 500 * kMegabyte, &pointer));
  ASSERT_OK(uhal_free(device, stream, pointer));
  ASSERT_OK(uhal_stream_synchronize(stream));
  fail_call("hipFree", 1);
  size_t released = 1;
  EXPECT_OK(uhal_memory_trim(device, 0, &released));
  EXPECT_EQ(0u, released);
  EXPECT_OK(uhal_memory_trim(device, 0, &released));
  EXPECT_GE(released, 500 * kMegabyte);
}

TEST_F(HipMemory, OfManagedKindIsTheHostsToo) {
  char* const memory = allocate(1000, UHAL_MEMORY_MANAGED);
  memset(memory, 'a', 1000);
  EXPECT_OK(uhal_memory_fill(stream, memory, "b", 1, 500));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(std::string(500, 'b') + std::string(500, 'a'), std::string(memory, 1000));
}

TEST_F(HipMemory, CopiesReachEveryOffset) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  char* const from = allocate(100);
  char* const to = allocate(100);
  for (size_t i = 0; i < 8; ++i) {
    upload(from, std::string(100, '.'));
    upload(to, std::string(100, '-'));
    upload(from + i, text);
    EXPECT_OK(uhal_copy(stream, to + 3 * i, from + i, text.size(), UHAL_COPY_DEVICE_TO_DEVICE));
    EXPECT_EQ(std::string(3 * i, '-') + text + std::string(100 - 3 * i - text.size(), '-'), download(to, 100));
  }
}

TEST_F(HipMemory, NothingIsCopiedOrFilledWithZeroBytes) {
  char* const memory = allocate(8);
  upload(memory, "original");
  EXPECT_OK(uhal_copy(stream, memory, memory, 0, UHAL_COPY_DEVICE_TO_DEVICE));
  EXPECT_OK(uhal_copy(stream, nullptr, memory, 0, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, 0));
  EXPECT_EQ("original", download(memory, 8));
}

// The driver takes fills of up to four bytes, at multiples of their size; longer ones are kernels.
TEST_F(HipMemory, FillsReachEveryOffsetWithEveryPattern) {
  const char pattern[] = "0123";
  char* const memory = allocate(128);
  for (size_t pattern_bytes = 1; pattern_bytes <= 4; pattern_bytes *= 2) {
    for (size_t offset = 0; offset < 17; ++offset) {
      for (const size_t count : {1, 2, 5}) {
        std::string expected(128, '.');
        upload(memory, expected);
        for (size_t i = 0; i < count * pattern_bytes; ++i) expected[offset + i] = pattern[i % pattern_bytes];
        EXPECT_OK(uhal_memory_fill(stream, memory + offset, pattern, pattern_bytes, count * pattern_bytes));
        ASSERT_EQ(expected, download(memory, 128)) << pattern_bytes << " bytes at " << offset;
      }
    }
  }
}

TEST_F(HipMemory, FillsOfALongPatternThatRepeatsItselfAreShortOnes) {
  char* const memory = allocate(64);
  const int before = calls(vendor, "hipModuleLaunchKernel");
  EXPECT_OK(uhal_memory_fill(stream, memory, "abababababababab", 16, 64));
  EXPECT_EQ("abab", download(memory + 60, 4));
  EXPECT_EQ(before, calls(vendor, "hipModuleLaunchKernel"));
  EXPECT_OK(uhal_memory_fill(stream, memory, "0123456789abcdef", 16, 64));
  EXPECT_EQ(before + 1, calls(vendor, "hipModuleLaunchKernel"));
}

TEST_F(HipMemory, PinnedIsCopiedInOrderOfTheStream) {
  char* const pinned = allocate(1000, UHAL_MEMORY_PINNED);
  char* const memory = allocate(1000);
  memset(pinned, 'a', 1000);
  EXPECT_OK(uhal_copy(stream, memory, pinned, 1000, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_OK(uhal_memory_fill(stream, memory, "b", 1, 500));
  EXPECT_OK(uhal_copy(stream, pinned, memory, 1000, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(std::string(500, 'b') + std::string(500, 'a'), std::string(pinned, 1000));
}

}  // namespace
}  // namespace gpu_test
