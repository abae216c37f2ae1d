// Memory, copies and fills.
#include <algorithm>
#include <cstring>

#include "tests/opencl/opencl_test.h"

namespace opencl_test {
namespace {

class OpenclMemory : public OpenclTest {
 protected:
  // UHAL_OK if `bytes` can be had in one piece; gives them back.
  uhal_status try_allocate(uint64_t bytes) {
    void* pointer = nullptr;
    const uhal_status status = uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, bytes, &pointer);
    EXPECT_EQ(status == UHAL_OK, pointer != nullptr);
    if (pointer != nullptr) {
      EXPECT_OK(uhal_free(device, stream, pointer));
    }
    return status;
  }
};

TEST_F(OpenclMemory, MoreThanABufferHoldsIsRefusedWithThatNumber) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, try_allocate(properties.max_allocation + 1));
  EXPECT_MESSAGE("at most " + std::to_string(properties.max_allocation) + " bytes in one buffer");
  EXPECT_MESSAGE("CL_DEVICE_MAX_MEM_ALLOC_SIZE");
  EXPECT_OK(try_allocate(1 << 20));
}

TEST_F(OpenclMemory, ManagedMemoryIsRefused) {
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_UNIMPLEMENTED, uhal_allocate(device, stream, UHAL_MEMORY_MANAGED, 100, &pointer));
  EXPECT_MESSAGE("no managed memory");
}

TEST_F(OpenclMemory, DevicePointersCannotBeTouched) {
  char* const memory = allocate(100);
  EXPECT_DEATH(*static_cast<volatile char*>(memory) = 1, "");
}

TEST_F(OpenclMemory, CopiesReachEveryOffset) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  char* const from = allocate(100);
  char* const to = allocate(100);
  for (size_t i = 0; i < 8; ++i) {
    upload(from, std::string(100, '.'));
    upload(to, std::string(100, '-'));
    upload(from + i, text);
    EXPECT_OK(uhal_copy(stream, to + 3 * i, from + i, text.size(), UHAL_COPY_DEVICE_TO_DEVICE));
    EXPECT_EQ(std::string(3 * i, '-') + text + std::string(100 - 3 * i - text.size(), '-'), download(to, 100));
    EXPECT_EQ(text.substr(5, 10), download(from + i + 5, 10));
  }
}

TEST_F(OpenclMemory, CopiesWithinOneAllocation) {
  char* const memory = allocate(64);
  upload(memory, std::string(32, 'a') + std::string(32, 'b'));
  EXPECT_OK(uhal_copy(stream, memory + 32, memory, 32, UHAL_COPY_DEVICE_TO_DEVICE));
  EXPECT_EQ(std::string(64, 'a'), download(memory, 64));
}

TEST_F(OpenclMemory, NothingIsCopiedOrFilledWithZeroBytes) {
  char* const memory = allocate(8);
  upload(memory, "original");
  EXPECT_OK(uhal_copy(stream, memory, memory, 0, UHAL_COPY_DEVICE_TO_DEVICE));
  EXPECT_OK(uhal_copy(stream, nullptr, memory, 0, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_copy(stream, memory, nullptr, 0, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, 0));
  EXPECT_EQ("original", download(memory, 8));
}

// TensorFlow gives them addresses of the host.
TEST_F(OpenclMemory, AViewWithoutElementsMayHaveAnyAddress) {
  char on_host[16];
  uhal_tensor nothing = vector(1);
  nothing.data = on_host;
  nothing.shape[0] = 0;
  const uhal_tensor sum = vector(1);
  upload(sum.data, "four");
  uhal_reduce_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = UHAL_REDUCE_SUM;
  EXPECT_OK(launch(UHAL_OP_REDUCE, nothing, sum, &attributes));
  EXPECT_EQ(std::string(4, '\0'), download(sum.data, 4));
}

// OpenCL takes fills at multiples of the pattern's size only.
TEST_F(OpenclMemory, FillsReachEveryOffsetWithEveryPattern) {
  const char pattern[] = "0123456789abcdef";
  char* const memory = allocate(128);
  for (size_t pattern_bytes = 1; pattern_bytes <= 16; pattern_bytes *= 2) {
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

class OpenclPinned : public OpenclMemory {
 protected:
  void SetUp() override {
    OpenclMemory::SetUp();
    if (stream != nullptr) pinned = allocate(1000, UHAL_MEMORY_PINNED);
  }

  char* pinned = nullptr;
};

TEST_F(OpenclPinned, IsHostMemory) {
  EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(pinned) % 256);
  memset(pinned, 'x', 1000);
  EXPECT_EQ('x', pinned[999]);
}

TEST_F(OpenclPinned, IsCopiedInOrderOfTheStream) {
  char* const memory = allocate(1000);
  memset(pinned, 'a', 1000);
  EXPECT_OK(uhal_copy(stream, memory, pinned, 1000, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_OK(uhal_memory_fill(stream, memory, "b", 1, 500));
  EXPECT_OK(uhal_copy(stream, pinned, memory, 1000, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(std::string(500, 'b') + std::string(500, 'a'), std::string(pinned, 1000));
}

// The core takes pinned addresses for either side of a copy on the device, and for fills.
TEST_F(OpenclPinned, TakesTheDevicesSideToo) {
  char* const other = allocate(1000, UHAL_MEMORY_PINNED);
  char* const memory = allocate(1000);
  EXPECT_OK(uhal_memory_fill(stream, pinned, "wxyz", 4, 1000));
  EXPECT_OK(uhal_copy(stream, other, pinned, 1000, UHAL_COPY_DEVICE_TO_DEVICE));
  EXPECT_OK(uhal_memory_fill(stream, pinned, "q", 1, 1000));
  EXPECT_OK(uhal_copy(stream, memory, other, 1000, UHAL_COPY_DEVICE_TO_DEVICE));
  EXPECT_EQ("wxyzwxyz", download(memory + 992, 8));
  EXPECT_EQ("qqqq", std::string(pinned, 4));
}

TEST_F(OpenclPinned, IsGivenBack) {
  for (int i = 0; i < 50; ++i) {
    void* pointer = nullptr;
    ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_PINNED, 1 << 20, &pointer));
    memset(pointer, i, 1 << 20);
    ASSERT_OK(uhal_free(device, stream, pointer));
    ASSERT_OK(uhal_memory_trim(device, 0, nullptr));
  }
}

TEST_F(OpenclMemory, IsGivenBackAndHadAgain) {
  for (int i = 0; i < 50; ++i) {
    char letter = static_cast<char>('a' + i % 26);
    void* pointer = nullptr;
    ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 5 << 20, &pointer));
    ASSERT_OK(uhal_memory_fill(stream, pointer, &letter, 1, 5 << 20));
    EXPECT_EQ(std::string(3, letter), download(static_cast<char*>(pointer) + (5 << 20) - 3, 3));
    ASSERT_OK(uhal_free(device, stream, pointer));
    ASSERT_OK(uhal_memory_trim(device, 0, nullptr));
  }
}

}  // namespace
}  // namespace opencl_test
