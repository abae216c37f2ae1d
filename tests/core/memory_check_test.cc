// UNIHAL_CHECK_MEMORY: nothing is cached, freed memory goes back when its stream has passed, errors name the sites of
// allocation and free, and leaks are listed.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/core/core_test.h"
#include "unihal/check.h"
#include "unihal/stream.h"

namespace core_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// What uhal_live_allocations tells, with copies of the strings.
struct Live {
  void* pointer;
  size_t bytes;
  uhal_memory_kind kind;
  std::string site;
};

std::vector<Live> live_allocations(uhal_device* device) {
  std::vector<Live> all;
  auto add = [](const uhal_live_allocation* allocation, void* user_data) {
    EXPECT_EQ(sizeof *allocation, allocation->struct_size);
    static_cast<std::vector<Live>*>(user_data)->push_back(
        {allocation->pointer, allocation->bytes, allocation->kind, allocation->site});
  };
  EXPECT_OK(uhal_live_allocations(device, add, &all));
  return all;
}

class MemoryCheckTest : public CoreTest {
 protected:
  void configure() override {
    setenv("UNIHAL_CHECK_MEMORY", "1", 1);
    control->asynchronous = true;
  }
  void TearDown() override {
    EXPECT_EQ(0, control->stray_fills.load());
    CoreTest::TearDown();
  }

  void* allocate_kind(uhal_memory_kind kind, size_t bytes) {
    void* pointer = nullptr;
    EXPECT_OK(uhal_allocate(device, stream, kind, bytes, &pointer));
    return pointer;
  }
  void fill(uhal_stream* on, void* pointer, size_t bytes) {
    const char pattern = 7;
    EXPECT_OK(uhal_memory_fill(on, pointer, &pattern, 1, bytes));
  }
  std::string text_of(const void* pointer) {
    char text[32];
    snprintf(text, sizeof text, "%p", pointer);
    return text;
  }
};

// -- no cache ------------------------------------------------------------------------------------

TEST_F(MemoryCheckTest, TheDeviceSaysSo) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  EXPECT_EQ(UHAL_CHECK_MEMORY, properties.checks & UHAL_CHECK_MEMORY);
}

TEST_F(MemoryCheckTest, TheBackendIsAskedForExactlyTheBytes) {
  int64_t total = 0;
  int64_t calls = 0;
  std::vector<void*> blocks;
  for (size_t bytes : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{5000}, kMiB + 1, 20 * kMiB + 3}) {
    blocks.push_back(allocate(bytes, stream));
    total += static_cast<int64_t>(bytes);
    EXPECT_EQ(total, control->live_bytes.load()) << bytes;
    EXPECT_EQ(++calls, control->allocate_calls.load()) << bytes;
    uhal_memory_stats stats = memory_stats();
    EXPECT_EQ(static_cast<uint64_t>(total), stats.allocated_bytes);
    EXPECT_EQ(static_cast<uint64_t>(total), stats.reserved_bytes);
    EXPECT_EQ(static_cast<uint64_t>(calls), stats.live_allocations);
  }
  for (void* block : blocks) release(block);
  EXPECT_EQ(0, control->live_allocations.load());
  uhal_memory_stats stats = memory_stats();
  EXPECT_EQ(0u, stats.allocated_bytes);
  EXPECT_EQ(0u, stats.reserved_bytes);
  EXPECT_EQ(static_cast<uint64_t>(total), stats.peak_reserved_bytes);
  EXPECT_EQ(0u, stats.cache_hits);
  EXPECT_EQ(static_cast<uint64_t>(calls), stats.backend_allocations);
}

TEST_F(MemoryCheckTest, AFreeWaitsForItsStream) {
  void* used = allocate(1000, stream);
  void* unused = allocate(500);
  control->hold_streams = true;
  fill(stream, used, 1000);
  release(used, stream);
  EXPECT_EQ(2, control->live_allocations.load());
  uhal_memory_stats stats = memory_stats();
  EXPECT_EQ(1u, stats.live_allocations);
  EXPECT_EQ(500u, stats.allocated_bytes);
  EXPECT_EQ(1500u, stats.reserved_bytes);
  EXPECT_EQ(1000u, stats.largest_free_block);
  // It is gone for new work all the same.
  const char pattern = 1;
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_memory_fill(stream, used, &pattern, 1, 1000));
  release(unused);  // NULL: at once
  EXPECT_EQ(1, control->live_allocations.load());
  control->hold_streams = false;
  ASSERT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(0, control->live_allocations.load());
  EXPECT_EQ(0u, memory_stats().reserved_bytes);
}

TEST_F(MemoryCheckTest, LaterCallsReturnWhatHasPassed) {
  void* used = allocate(1000, stream);
  control->hold_streams = true;
  fill(stream, used, 1000);
  release(used, stream);
  void* second = allocate(10, stream);
  EXPECT_EQ(2, control->live_allocations.load());
  control->hold_streams = false;
  int32_t done = 0;
  while (done == 0) ASSERT_OK(uhal_stream_query(stream, &done));
  void* third = allocate(20, stream);
  EXPECT_EQ(2, control->live_allocations.load());
  EXPECT_EQ(30, control->live_bytes.load());
  release(second, stream);
  EXPECT_EQ(20, control->live_bytes.load());  // the stream is idle
  release(third, stream);
}

TEST_F(MemoryCheckTest, AStreamThatIsDestroyedReturnsItsBlocks) {
  uhal_stream* other;
  ASSERT_OK(uhal_stream_create(device, &other));
  void* used = allocate(100, other);
  control->hold_streams = true;
  fill(other, used, 100);
  release(used, other);
  EXPECT_EQ(1, control->live_allocations.load());
  control->hold_streams = false;
  ASSERT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(0, control->live_allocations.load());
}

TEST_F(MemoryCheckTest, AShortageWaitsForFreedMemory) {
  control->capacity = kMiB;
  void* first = allocate(kMiB * 3 / 4, stream);
  control->hold_streams = true;
  fill(stream, first, kMiB * 3 / 4);
  release(first, stream);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    control->hold_streams = false;
  });
  void* second = allocate(kMiB * 3 / 4, stream);
  later.join();
  EXPECT_NE(nullptr, second);
  EXPECT_EQ(static_cast<int64_t>(kMiB * 3 / 4), control->live_bytes.load());
  void* third = nullptr;
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kMiB / 2, &third));
  EXPECT_MESSAGE("524288 bytes (0.5 MiB) were asked for. Allocated 0.8 MiB in 1 allocations");
  release(second);
}

TEST_F(MemoryCheckTest, TheLimitHolds) {
  ASSERT_OK(uhal_memory_set_limit(device, 1000));
  void* first = allocate(600);
  void* second = nullptr;
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 401, &second));
  EXPECT_EQ(nullptr, second);
  second = allocate(400);
  release(first);
  release(second);
  EXPECT_TRUE(live_allocations(device).empty());
}

TEST_F(MemoryCheckTest, AFailedAllocationLeavesNothing) {
  control->every_allocation = 1;
  void* pointer = &pointer;
  EXPECT_STATUS(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 8, &pointer));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_allocate(device, stream, UHAL_MEMORY_MANAGED, 8, &pointer));
  ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 0, &pointer));
  EXPECT_TRUE(live_allocations(device).empty());
}

TEST_F(MemoryCheckTest, WorkspacesComeAndGo) {
  uhal_stream* other;
  ASSERT_OK(uhal_stream_create(device, &other));
  for (int64_t count : {8, 1000, 100000}) {
    auto* data = static_cast<float*>(allocate(static_cast<size_t>(count) * 4, other));
    uhal_tensor y = {sizeof y, data, UHAL_FLOAT32, 1, {count}, {1}};
    const uhal_tensor* outputs[] = {&y};
    uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, fake::kWorkspace};
    ASSERT_OK(uhal_launch(other, &op));
    release(data, other);
  }
  EXPECT_TRUE(live_allocations(device).empty());  // a workspace is the core's
  ASSERT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(0, control->live_allocations.load());
}

// Many threads and streams; each fill must find its memory, however late it runs.
TEST_F(MemoryCheckTest, NoWorkFindsItsMemoryGone) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      uhal_stream* own;
      ASSERT_OK(uhal_stream_create(device, &own));
      std::vector<std::pair<void*, size_t>> blocks;
      for (int step = 0; step < 300; ++step) {
        size_t bytes = 1 + random() % 3000;
        blocks.emplace_back(allocate(bytes, own), bytes);
        fill(own, blocks.back().first, bytes);
        if (random() % 3 == 0) {
          std::swap(blocks[random() % blocks.size()], blocks.back());
          fill(own, blocks.back().first, blocks.back().second);
          release(blocks.back().first, own);
          blocks.pop_back();
        }
        if (random() % 100 == 0) {
          ASSERT_OK(uhal_stream_synchronize(own));
        }
      }
      for (auto& [block, bytes] : blocks) release(block, own);
      ASSERT_OK(uhal_stream_destroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(0, control->live_allocations.load());
  EXPECT_TRUE(live_allocations(device).empty());
}

// Work that another stream waits for is part of that stream's order.
TEST_F(MemoryCheckTest, AFreeWaitsForTheWorkThatItsStreamWaitsFor) {
  uhal_stream* other;
  uhal_event* event;
  ASSERT_OK(uhal_stream_create(device, &other));
  ASSERT_OK(uhal_event_create(device, &event));
  void* shared = allocate(256, stream);
  control->hold_streams = true;
  fill(other, shared, 256);
  ASSERT_OK(uhal_event_record(event, other));
  ASSERT_OK(uhal_stream_wait_event(stream, event));
  release(shared, stream);
  EXPECT_EQ(1, control->live_allocations.load());
  control->hold_streams = false;
  ASSERT_OK(uhal_device_synchronize(device));
  EXPECT_EQ(0, control->live_allocations.load());
  ASSERT_OK(uhal_event_destroy(event));
  ASSERT_OK(uhal_stream_destroy(other));
}

// -- messages ------------------------------------------------------------------------------------

TEST_F(MemoryCheckTest, UseAfterFreeNamesBothSites) {
  void* block = allocate(4096, stream);
  std::string site = live_allocations(device).at(0).site;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "core_test", site);
  EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "libunihal.so", site);
  release(block, stream);
  ASSERT_OK(uhal_stream_synchronize(stream));
  const std::string history =
      " That memory, 4096 bytes at " + text_of(block) + ", was allocated at " + site + " and freed at core_test +0x";
  char host[16] = {};
  EXPECT_STATUS(UHAL_OUT_OF_RANGE,
                uhal_copy(stream, static_cast<char*>(block) + 4080, host, 16, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_MESSAGE("copy.host_to_device: the destination at " + text_of(static_cast<char*>(block) + 4080) +
                 " lies in no live allocation of rdna:0 (fake)");
  EXPECT_MESSAGE(history);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, stream, block));
  EXPECT_MESSAGE("is not a live allocation of rdna:0 (fake); it was freed already");
  EXPECT_MESSAGE(history);
  uhal_tensor y = {sizeof y, block, UHAL_FLOAT32, 1, {5}, {1}};
  const uhal_tensor* outputs[] = {&y};
  uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, nullptr};
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_launch(stream, &op));
  EXPECT_MESSAGE("fill: the view of y covers 20 bytes");
  EXPECT_MESSAGE(history);
}

TEST_F(MemoryCheckTest, OutOfBoundsNamesTheAllocation) {
  char* block = static_cast<char*>(allocate(100));
  const std::string allocation =
      "allocation of 100 bytes at " + text_of(block) + ", made at " + live_allocations(device).at(0).site + ".";
  char host[200] = {};
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, host, block, 101, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_MESSAGE("the source of 101 bytes at " + text_of(block) + " reaches beyond its allocation of 100 bytes");
  EXPECT_MESSAGE(" It is in the " + allocation);
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, host, block + 101, 1, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_MESSAGE(" It is 1 byte past the end of the " + allocation);
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, host, block - 12, 20, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_MESSAGE(" It is 12 bytes before the start of the " + allocation);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, block + 4));
  EXPECT_MESSAGE("lies 4 bytes inside an allocation of 100 bytes");
  EXPECT_MESSAGE(" It is in the " + allocation);
  // Two rows of 15 floats, where there is room for 25.
  uhal_tensor y = {sizeof y, block, UHAL_FLOAT32, 2, {2, 15}, {15, 1}};
  const uhal_tensor* outputs[] = {&y};
  uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, nullptr};
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_launch(stream, &op));
  EXPECT_MESSAGE("fill: the view of y covers 120 bytes");
  EXPECT_MESSAGE(" It is in the " + allocation);
  // Nowhere near anything: nothing is said.
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_copy(stream, host, reinterpret_cast<void*>(8), 4, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "allocation of 100 bytes", last_message());
  release(block);
}

TEST_F(MemoryCheckTest, TheLatestFreesAreRemembered) {
  void* const first = allocate(64 * 1024);
  release(first);
  std::vector<void*> others;
  for (int i = 0; i < 4096; ++i) others.push_back(allocate(8));
  for (void* other : others) release(other);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, others[0]));
  EXPECT_MESSAGE("That memory, 8 bytes at " + text_of(others[0]));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, static_cast<char*>(first) + 60000));
  EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "65536 bytes", last_message());
}

// -- live allocations ----------------------------------------------------------------------------

TEST_F(MemoryCheckTest, LiveAllocationsAreListedOldestFirst) {
  EXPECT_TRUE(live_allocations(device).empty());
  void* a = allocate(300);
  void* b = allocate(10);
  void* c = allocate_kind(UHAL_MEMORY_PINNED, 20);
  void* d = allocate(40, stream);
  release(b);
  std::vector<Live> live = live_allocations(device);
  ASSERT_EQ(3u, live.size());
  EXPECT_EQ(a, live[0].pointer);
  EXPECT_EQ(300u, live[0].bytes);
  EXPECT_EQ(UHAL_MEMORY_DEVICE, live[0].kind);
  EXPECT_EQ(c, live[1].pointer);
  EXPECT_EQ(20u, live[1].bytes);
  EXPECT_EQ(UHAL_MEMORY_PINNED, live[1].kind);
  EXPECT_EQ(d, live[2].pointer);
  for (const Live& allocation : live) EXPECT_FALSE(allocation.site.empty());
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_live_allocations(device, nullptr, nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_live_allocations(nullptr, nullptr, nullptr));
  uhal_device* second;
  ASSERT_OK(uhal_device_get("rdna", 1, &second));
  EXPECT_TRUE(live_allocations(second).empty());
  for (void* pointer : {a, c, d}) release(pointer);
}

TEST_F(MemoryCheckTest, SitesAreToldOnAnyThread) {
  std::thread thread([&] {
    void* block = allocate(1);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "core_test +0x", live_allocations(device).at(0).site);
    release(block);
  });
  thread.join();
}

class WithoutMemoryCheckTest : public CoreTest {};

TEST_F(WithoutMemoryCheckTest, NothingIsRecorded) {
  void* block = allocate(8);
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION,
                uhal_live_allocations(device, [](const uhal_live_allocation*, void*) {}, nullptr));
  EXPECT_MESSAGE("set UNIHAL_CHECK_MEMORY=1");
  release(block);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, nullptr, block));
  EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "allocated at", last_message());
}

// -- leaks ---------------------------------------------------------------------------------------

// Runs `body` in a child that then exits as a program does; what it wrote on stderr.
template <class Body>
std::string errors_of_child(Body body) {
  int ends[2];
  EXPECT_EQ(0, pipe(ends));
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    body();
    exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(0, WEXITSTATUS(status));
  return text;
}

uhal_device* open_fake() {
  use_fake("fake");
  uhal_device* device = nullptr;
  EXPECT_OK(uhal_device_get("rdna", 0, &device));
  return device;
}

// Never freed. Each has a site of its own.
template <int site>
__attribute__((noinline)) void leak(uhal_device* device, size_t bytes, uhal_memory_kind kind = UHAL_MEMORY_DEVICE) {
  void* pointer;
  EXPECT_OK(uhal_allocate(device, nullptr, kind, bytes, &pointer)) << site;
}

// Sites that are known only in the child are written as <site>.
std::string without_sites(std::string text) {
  size_t at = 0;
  while ((at = text.find("memory at ", at)) != std::string::npos) {
    at += strlen("memory at ");
    const size_t end = text.find('\n', at);
    EXPECT_EQ(0u, text.find("core_test", at) - at) << text;
    text.replace(at, end - at, "<site>");
  }
  return text;
}

TEST(LeakList, GroupsBySite) {
  setenv("UNIHAL_CHECK_MEMORY", "1", 1);
  const std::string text = errors_of_child([] {
    uhal_device* device = open_fake();
    void* freed;
    EXPECT_OK(uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 1 << 20, &freed));
    EXPECT_OK(uhal_free(device, nullptr, freed));
    volatile size_t rounds = 3;  // unknown to the compiler, which would make several sites of a loop that it unrolls
    for (size_t i = 0; i < rounds; ++i) leak<0>(device, 1000 + i);
    leak<1>(device, 1);
    leak<2>(device, 5000, UHAL_MEMORY_PINNED);
  });
  EXPECT_EQ(
      "unihal: never freed on rdna:0 (fake): 5 allocations, 8004 bytes\n"
      "  1 allocation, 5000 bytes of pinned memory at <site>\n"
      "  3 allocations, 3003 bytes of device memory at <site>\n"
      "  1 allocation, 1 byte of device memory at <site>\n",
      without_sites(text));
}

TEST(LeakList, NamesTheLargestTen) {
  setenv("UNIHAL_CHECK_MEMORY", "1", 1);
  const std::string text = errors_of_child([] {
    uhal_device* device = open_fake();
    leak<0>(device, 100), leak<1>(device, 101), leak<2>(device, 102), leak<3>(device, 103), leak<4>(device, 104);
    leak<5>(device, 105), leak<6>(device, 106), leak<7>(device, 107), leak<8>(device, 108), leak<9>(device, 109);
    leak<10>(device, 7), leak<11>(device, 5);
    uhal_finalize();  // lists them, and the end of the process does not once more
    uhal_finalize();
  });
  std::string expected = "unihal: never freed on rdna:0 (fake): 12 allocations, 1057 bytes\n";
  for (int bytes = 109; bytes >= 100; --bytes) {
    expected += "  1 allocation, " + std::to_string(bytes) + " bytes of device memory at <site>\n";
  }
  EXPECT_EQ(expected + "  and 2 more: 2 allocations, 12 bytes\n", without_sites(text));
}

TEST(LeakList, IsSilentWithoutLeaks) {
  setenv("UNIHAL_CHECK_MEMORY", "1", 1);
  EXPECT_EQ("", errors_of_child([] {
              uhal_device* device = open_fake();
              void* freed;
              EXPECT_OK(uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 8, &freed));
              EXPECT_OK(uhal_free(device, nullptr, freed));
            }));
}

TEST(LeakList, IsSilentWithoutTheCheck) {
  unsetenv("UNIHAL_CHECK_MEMORY");
  EXPECT_EQ("", errors_of_child([] { leak<0>(open_fake(), 8); }));
}

TEST(LeakList, IsTheParentsOnly) {
  setenv("UNIHAL_CHECK_MEMORY", "1", 1);
  const std::string text = errors_of_child([] {
    leak<0>(open_fake(), 8);
    EXPECT_EQ("", errors_of_child([] {}));
  });
  EXPECT_EQ(
      "unihal: never freed on rdna:0 (fake): 1 allocation, 8 bytes\n"
      "  1 allocation, 8 bytes of device memory at <site>\n",
      without_sites(text));
}

}  // namespace
}  // namespace core_test
