// The caching allocator: reuse in stream order, statistics, limits, shortage, and random load.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class AllocatorTest : public CoreTest {};

TEST_F(AllocatorTest, GivesAlignedDistinctMemory) {
  std::vector<std::pair<char*, size_t>> blocks;
  for (size_t bytes : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{4096}, kMiB - 1, kMiB, kMiB + 1,
                       3 * kMiB + 7, 17 * kMiB}) {
    auto* block = static_cast<char*>(allocate(bytes));
    ASSERT_NE(nullptr, block);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(block) % 256) << bytes;
    memset(block, 0x11, bytes);  // the address sanitizer sees what is outside the segment
    blocks.emplace_back(block, bytes);
  }
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i - 1].first + blocks[i - 1].second, blocks[i].first);
  }
  for (auto& [block, bytes] : blocks) release(block);
}

TEST_F(AllocatorTest, NothingForZeroBytes) {
  void* pointer = &pointer;
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 0, &pointer));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_OK(uhal_free(device, stream, nullptr));
}

TEST_F(AllocatorTest, ServesFromTheCache) {
  void* first = allocate(1000, stream);
  release(first, stream);
  int64_t calls = control->allocate_calls;
  for (int i = 0; i < 100; ++i) {
    void* again = allocate(900, stream);
    EXPECT_EQ(first, again);
    release(again, stream);
  }
  EXPECT_EQ(calls, control->allocate_calls);
  uhal_memory_stats stats = memory_stats();
  EXPECT_EQ(100u, stats.cache_hits);
  EXPECT_EQ(101u, stats.total_allocations);
  EXPECT_EQ(1u, stats.backend_allocations);
}

TEST_F(AllocatorTest, CountsWhatIsAllocatedAndReserved) {
  void* small = allocate(1000);
  void* large = allocate(40 * kMiB);
  uhal_memory_stats stats = memory_stats();
  EXPECT_EQ(1024 + 40 * kMiB, stats.allocated_bytes);
  EXPECT_EQ(42 * kMiB, stats.reserved_bytes);
  EXPECT_EQ(static_cast<int64_t>(stats.reserved_bytes), control->live_bytes.load());
  EXPECT_EQ(2u, stats.live_allocations);
  EXPECT_EQ(256 * kMiB, stats.total_bytes);
  release(large);
  stats = memory_stats();
  EXPECT_EQ(1024u, stats.allocated_bytes);
  EXPECT_EQ(1024 + 40 * kMiB, stats.peak_allocated_bytes);
  EXPECT_EQ(40 * kMiB, stats.largest_free_block);
  double cached = static_cast<double>(stats.reserved_bytes - stats.allocated_bytes);
  EXPECT_DOUBLE_EQ(1 - 40.0 * kMiB / cached, stats.fragmentation);
  EXPECT_OK(uhal_memory_reset_peak(device));
  EXPECT_EQ(1024u, memory_stats().peak_allocated_bytes);
  release(small);
}

TEST_F(AllocatorTest, SplitsAndMerges) {
  void* whole = allocate(20 * kMiB);
  release(whole);
  std::vector<void*> parts;
  for (int i = 0; i < 5; ++i) parts.push_back(allocate(4 * kMiB));
  EXPECT_EQ(1u, memory_stats().backend_allocations);
  for (int i : {3, 0, 4, 1, 2}) release(parts[static_cast<size_t>(i)]);
  EXPECT_EQ(20 * kMiB, memory_stats().largest_free_block);
  EXPECT_EQ(0.0, memory_stats().fragmentation);
  release(allocate(20 * kMiB));
  EXPECT_EQ(1u, memory_stats().backend_allocations);
}

TEST_F(AllocatorTest, TakesTheBestFit) {
  void* loose = allocate(24 * kMiB);
  void* keep = allocate(18 * kMiB);
  void* tight = allocate(20 * kMiB);
  release(loose);
  release(tight);
  void* fits = allocate(19 * kMiB + 1);
  EXPECT_EQ(tight, fits);
  release(fits);
  release(keep);
}

TEST_F(AllocatorTest, RefusesWrongFrees) {
  auto* pointer = static_cast<char*>(allocate(5000));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, pointer + 256));
  EXPECT_MESSAGE("lies 256 bytes inside an allocation of 5000 bytes");
  int on_the_stack;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, &on_the_stack));
  EXPECT_MESSAGE("never came from uhal_allocate");
  uhal_device* other;
  ASSERT_OK(uhal_device_get("rdna", 1, &other));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(other, nullptr, pointer));
  EXPECT_MESSAGE("belongs to device rdna:0 (fake)");
  release(pointer);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, pointer));
  EXPECT_MESSAGE("freed already");
}

TEST_F(AllocatorTest, RefusesWrongArguments) {
  void* pointer = &pointer;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_allocate(nullptr, nullptr, UHAL_MEMORY_DEVICE, 1, &pointer));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_allocate(device, nullptr, 3, 1, &pointer));
  EXPECT_MESSAGE("memory kind 3");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 1, nullptr));
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_allocate(device, nullptr, UHAL_MEMORY_MANAGED, 1, &pointer));
  EXPECT_MESSAGE("no managed memory");
  EXPECT_EQ(77, uhal_last_error()->native_code);
  EXPECT_STREQ("FAKE_ERROR", uhal_last_error()->native_name);
  uhal_device* other;
  ASSERT_OK(uhal_device_get("rdna", 1, &other));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_allocate(other, stream, UHAL_MEMORY_DEVICE, 1, &pointer));
  EXPECT_MESSAGE("belongs to device rdna:0 (fake), not to rdna:1 (fake)");
}

TEST_F(AllocatorTest, FindsTheAllocationOfAnInteriorPointer) {
  void* pinned = nullptr;
  ASSERT_OK(uhal_allocate(device, nullptr, UHAL_MEMORY_PINNED, 3 * kMiB, &pinned));
  std::vector<char*> blocks;
  for (size_t bytes = 100; bytes < 30 * kMiB; bytes = bytes * 3 + 1) {
    blocks.push_back(static_cast<char*>(allocate(bytes)));
    for (size_t offset : {size_t{0}, bytes / 2, bytes - 1}) {
      uhal_pointer_info info = {};
      info.struct_size = sizeof info;
      ASSERT_OK(uhal_pointer_query(blocks.back() + offset, &info));
      EXPECT_EQ(blocks.back(), info.base);
      EXPECT_EQ(bytes, info.bytes);
      EXPECT_EQ(device, info.device);
      EXPECT_EQ(UHAL_MEMORY_DEVICE, info.kind);
    }
  }
  uhal_pointer_info info = {};
  info.struct_size = sizeof info;
  ASSERT_OK(uhal_pointer_query(static_cast<char*>(pinned) + 12345, &info));
  EXPECT_EQ(UHAL_MEMORY_PINNED, info.kind);
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_pointer_query(&info, &info));
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_pointer_query(nullptr, &info));
  for (char* block : blocks) release(block);
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_pointer_query(blocks[3], &info));
  EXPECT_OK(uhal_free(device, nullptr, pinned));
}

TEST_F(AllocatorTest, TrimReturnsWhatIsCached) {
  void* a = allocate(20 * kMiB);
  void* b = allocate(30 * kMiB);
  void* c = allocate(1000);
  release(a);
  release(b);
  size_t released = 0;
  ASSERT_OK(uhal_memory_trim(device, 25 * kMiB, &released));
  EXPECT_EQ(30 * kMiB, released);
  ASSERT_OK(uhal_memory_trim(device, 0, &released));
  EXPECT_EQ(20 * kMiB, released);
  EXPECT_EQ(2 * kMiB, memory_stats().reserved_bytes);
  release(c);
  ASSERT_OK(uhal_memory_trim(device, 0, nullptr));
  EXPECT_EQ(0, control->live_bytes.load());
}

TEST_F(AllocatorTest, LimitIsKept) {
  void* cached = allocate(20 * kMiB);
  release(cached);
  ASSERT_OK(uhal_memory_set_limit(device, 10 * kMiB));  // trims
  EXPECT_EQ(0u, memory_stats().reserved_bytes);
  void* pointer;
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 11 * kMiB, &pointer));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_MESSAGE("Raise the limit");
  EXPECT_MESSAGE("limit 10.0 MiB");
  // Just enough, since a segment for many does not fit.
  void* fits = allocate(10 * kMiB);
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 1, &pointer));
  ASSERT_OK(uhal_memory_set_limit(device, 0));
  release(allocate(11 * kMiB));
  release(fits);
}

TEST_F(AllocatorTest, ReturnsTheCacheBeforeItReportsShortage) {
  void* first = allocate(200 * kMiB);  // of 256
  release(first, stream);
  void* second = allocate(220 * kMiB);
  EXPECT_NE(nullptr, second);
  void* third = nullptr;
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 100 * kMiB, &third));
  EXPECT_EQ(nullptr, third);
  for (const char* text : {"Out of device memory on rdna:0 (fake)", "(100.0 MiB)",
                           "Allocated 220.0 MiB in 1 allocations", "device memory 256.0 MiB (36.0 MiB of it free)",
                           "limit none", "Use smaller batches", "the fake's memory is full"}) {
    EXPECT_MESSAGE(text);
  }
  EXPECT_STREQ("rdna:0 (fake)", uhal_last_error()->device);
  EXPECT_EQ(77, uhal_last_error()->native_code);
  EXPECT_STREQ("FAKE_ERROR", uhal_last_error()->native_name);
  release(second);
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, SIZE_MAX - 5, &third));
}

// A device without more memory than it says, whether or not its backend counts.
TEST_F(AllocatorTest, TheDevicesMemoryIsALimit) {
  control->counts_memory = false;
  void* first = allocate(200 * kMiB);  // of 256
  void* second = nullptr;
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 57 * kMiB, &second));
  EXPECT_EQ(nullptr, second);
  EXPECT_MESSAGE("device memory 256.0 MiB");
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, size_t{1} << 46, &second));
  second = allocate(56 * kMiB);
  EXPECT_EQ(256 * kMiB, memory_stats().reserved_bytes);
  release(first);
  release(second);
}

class StreamOrderTest : public CoreTest {
 protected:
  void configure() override { control->asynchronous = true; }
};

TEST_F(StreamOrderTest, OtherStreamsWaitForTheWorkBeforeAFree) {
  uhal_stream* other;
  ASSERT_OK(uhal_stream_create(device, &other));
  void* pointer = allocate(30 * kMiB, stream);
  control->hold_streams = true;
  char byte = 1;
  ASSERT_OK(uhal_memory_fill(stream, pointer, &byte, 1, kMiB));
  release(pointer, stream);
  void* elsewhere = allocate(30 * kMiB, other);  // the fill has not run
  EXPECT_NE(pointer, elsewhere);
  void* anywhere = allocate(30 * kMiB, nullptr);
  EXPECT_NE(pointer, anywhere);
  void* again = allocate(30 * kMiB, stream);  // in the stream's own order
  EXPECT_EQ(pointer, again);
  release(again, stream);
  control->hold_streams = false;
  ASSERT_OK(uhal_stream_synchronize(stream));
  void* now = allocate(30 * kMiB, other);
  EXPECT_EQ(pointer, now);
  for (void* block : {elsewhere, now}) release(block, other);
  release(anywhere);
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(StreamOrderTest, ShortageWaitsForOtherStreams) {
  void* pointer = allocate(200 * kMiB, stream);
  char byte = 2;
  ASSERT_OK(uhal_memory_fill(stream, pointer, &byte, 1, kMiB));
  release(pointer, stream);
  uhal_stream* other;
  ASSERT_OK(uhal_stream_create(device, &other));
  void* large = allocate(210 * kMiB, other);  // only in place of the other stream's block
  EXPECT_NE(nullptr, large);
  release(large, other);
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(StreamOrderTest, ADestroyedStreamsBlocksAreEverybodys) {
  uhal_stream* other;
  ASSERT_OK(uhal_stream_create(device, &other));
  void* pointer = allocate(30 * kMiB, other);
  release(pointer, other);
  ASSERT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(pointer, allocate(30 * kMiB));
  release(pointer);
  EXPECT_EQ(1u, memory_stats().backend_allocations);
}

TEST_F(StreamOrderTest, WorkspaceGrowsAndIsGivenBack) {
  uhal_stream* other;
  ASSERT_OK(uhal_stream_create(device, &other));
  void* y = allocate(8 * kMiB);
  for (int64_t count : {100, 1000, 1000000, 10}) {
    uhal_tensor view = {sizeof view, y, UHAL_FLOAT32, 1, {count}, {1}};
    const uhal_tensor* outputs[] = {&view};
    uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, fake::kWorkspace};
    EXPECT_OK(uhal_launch(other, &op));
  }
  EXPECT_EQ(2u, memory_stats().live_allocations);
  EXPECT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(1u, memory_stats().live_allocations);
  release(y);
}

// Many threads, many sizes, two streams. Each block is filled with its owner's mark, so that a block handed out
// twice shows.
class RandomLoadTest : public CoreTest {
 protected:
  void configure() override { control->capacity = 64 * kMiB; }

  void load(unsigned seed, uhal_stream* own) {
    std::mt19937 random(seed);
    std::vector<std::pair<unsigned char*, size_t>> held;
    const auto mark = static_cast<unsigned char>(seed);
    for (int i = 0; i < 3000; ++i) {
      bool take = held.empty() || (held.size() < 40 && random() % 2 == 0);
      if (take) {
        size_t bytes = size_t{1} << (random() % 21);
        bytes += random() % bytes;
        void* pointer = nullptr;
        uhal_status status =
            uhal_allocate(device, random() % 3 == 0 ? nullptr : own, UHAL_MEMORY_DEVICE, bytes, &pointer);
        if (status == UHAL_RESOURCE_EXHAUSTED) continue;
        ASSERT_EQ(UHAL_OK, status) << last_message();
        auto* block = static_cast<unsigned char*>(pointer);
        block[0] = block[bytes / 2] = block[bytes - 1] = mark;
        held.emplace_back(block, bytes);
      } else {
        size_t which = random() % held.size();
        auto [block, bytes] = held[which];
        ASSERT_EQ(mark, block[0]);
        ASSERT_EQ(mark, block[bytes / 2]);
        ASSERT_EQ(mark, block[bytes - 1]);
        ASSERT_EQ(UHAL_OK, uhal_free(device, random() % 3 == 0 ? nullptr : own, block));
        held[which] = held.back();
        held.pop_back();
      }
      if (random() % 500 == 0) {
        ASSERT_EQ(UHAL_OK, uhal_memory_trim(device, 0, nullptr));
      }
    }
    for (auto& [block, bytes] : held) ASSERT_EQ(UHAL_OK, uhal_free(device, own, block));
  }
};

TEST_F(RandomLoadTest, KeepsItsInvariants) {
  uhal_stream* streams[2];
  for (uhal_stream*& s : streams) ASSERT_OK(uhal_stream_create(device, &s));
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 6; ++i) threads.emplace_back([this, i, &streams] { load(i + 1, streams[i % 2]); });
  for (std::thread& thread : threads) thread.join();
  uhal_memory_stats stats = memory_stats();
  EXPECT_EQ(0u, stats.allocated_bytes);
  EXPECT_EQ(0u, stats.live_allocations);
  EXPECT_EQ(static_cast<int64_t>(stats.reserved_bytes), control->live_bytes.load());
  EXPECT_LE(stats.peak_reserved_bytes, control->capacity.load());
  EXPECT_GT(stats.cache_hits, stats.backend_allocations);
  for (uhal_stream* s : streams) EXPECT_OK(uhal_stream_destroy(s));
  // Everything has merged again: all of it can be given back.
  ASSERT_OK(uhal_memory_trim(device, 0, nullptr));
  EXPECT_EQ(0, control->live_bytes.load());
}

}  // namespace
}  // namespace core_test
