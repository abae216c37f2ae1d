// Streams, events and callbacks.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

class HipStream : public GpuTest {};

TEST_F(HipStream, WithoutWorkIsDone) {
  int32_t done = 0;
  EXPECT_OK(uhal_stream_query(stream, &done));
  EXPECT_EQ(1, done);
}

TEST_F(HipStream, IsNotDoneWhileItsWorkHangs) {
  char* const memory = allocate(100);
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  fail_call("hang", 1, 0, -1);
  EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, 100));
  uhal_event* const event = record(stream);
  int32_t done = 1;
  EXPECT_OK(uhal_stream_query(stream, &done));
  EXPECT_EQ(0, done);
  done = 1;
  EXPECT_OK(uhal_event_query(event, &done));
  EXPECT_EQ(0, done);
  EXPECT_OK(uhal_stream_wait_event(other, event));
  done = 1;
  EXPECT_OK(uhal_stream_query(other, &done));
  EXPECT_EQ(0, done);
  // Who waits can be interrupted.
  uhal_set_wait_function([](void*) { return 1; }, nullptr);
  EXPECT_EQ(UHAL_CANCELLED, uhal_stream_synchronize(other));
  uhal_set_wait_function(nullptr, nullptr);
  fail_call("hang", 0, 0, 0);
  EXPECT_OK(uhal_stream_synchronize(other));
  EXPECT_OK(uhal_event_query(event, &done));
  EXPECT_EQ(1, done);
  EXPECT_OK(uhal_event_destroy(event));
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(HipStream, IsQueriedWhileAnotherThreadSubmits) {
  char* const memory = allocate(kMegabyte);
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    while (!stop) {
      int32_t done = 0;
      EXPECT_OK(uhal_stream_query(stream, &done));
      EXPECT_OK(uhal_stream_synchronize(stream));
    }
  });
  for (int i = 0; i < 300; ++i) EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, 4096));
  stop = true;
  asker.join();
}

TEST_F(HipStream, SeveralThreadsHaveTheirOwn) {
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    threads.emplace_back([this, letter] {
      uhal_stream* own = nullptr;
      EXPECT_OK(uhal_stream_create(device, &own));
      for (int i = 0; i < 20; ++i) {
        void* memory = nullptr;
        std::string result(4096, '?');
        EXPECT_OK(uhal_allocate(device, own, UHAL_MEMORY_DEVICE, result.size(), &memory));
        EXPECT_OK(uhal_memory_fill(own, memory, &letter, 1, result.size()));
        EXPECT_OK(uhal_copy(own, result.data(), memory, result.size(), UHAL_COPY_DEVICE_TO_HOST));
        EXPECT_OK(uhal_stream_host_callback(own, [](void*) {}, nullptr));
        EXPECT_OK(uhal_free(device, own, memory));
        EXPECT_OK(uhal_stream_synchronize(own));
        EXPECT_EQ(std::string(4096, letter), result);
      }
      EXPECT_OK(uhal_stream_destroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(HipStream, KernelsAreCompiledOnceForAllThreads) {
  std::vector<uhal_tensor> views;
  for (int i = 0; i < 8; ++i) views.push_back(vector(100));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([this, i, &views] {
      uhal_stream* own = nullptr;
      EXPECT_OK(uhal_stream_create(device, &own));
      const uhal_tensor* inputs[] = {&views[2 * i]};
      const uhal_tensor* outputs[] = {&views[2 * i + 1]};
      uhal_map_attributes attributes = {};
      attributes.struct_size = sizeof attributes;
      attributes.function = uhal_map_function_find("sin");
      uhal_op op = {};
      op.struct_size = sizeof op;
      op.kind = UHAL_OP_MAP;
      op.inputs = inputs;
      op.input_count = 1;
      op.outputs = outputs;
      op.output_count = 1;
      op.attributes = &attributes;
      for (int launch = 0; launch < 20; ++launch) EXPECT_OK(uhal_launch(own, &op));
      EXPECT_OK(uhal_stream_destroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(1, calls(vendor, "hiprtcCompileProgram"));
  EXPECT_EQ(80, calls(vendor, "hipModuleLaunchKernel"));
}

TEST_F(HipStream, CallsTheHostBetweenWork) {
  char* const memory = allocate(kMegabyte);
  std::string before(kMegabyte, '?');
  std::string after(kMegabyte, '?');
  struct Call {
    std::string* before;
    std::string* after;
    std::string seen;
  } call = {&before, &after, ""};
  EXPECT_OK(uhal_memory_fill(stream, memory, "a", 1, kMegabyte));
  EXPECT_OK(uhal_copy(stream, before.data(), memory, kMegabyte, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_stream_host_callback(
      stream,
      [](void* data) {
        Call& self = *static_cast<Call*>(data);
        self.seen = {self.before->back(), self.after->back()};
        // What comes later waits for this.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        self.seen += self.after->back();
      },
      &call));
  EXPECT_OK(uhal_memory_fill(stream, memory, "b", 1, kMegabyte));
  EXPECT_OK(uhal_copy(stream, after.data(), memory, kMegabyte, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ("a??", call.seen);
  EXPECT_EQ('b', after.back());
}

// Drivers read ordinary host memory when a copy is asked for.
TEST_F(HipStream, CopiesWhatTheHostWroteBefore) {
  char* const memory = allocate(kMegabyte);
  void* pinned = nullptr;
  EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_PINNED, kMegabyte, &pinned));
  std::string ordinary(kMegabyte, '?');
  for (char* const written : {ordinary.data(), static_cast<char*>(pinned)}) {
    for (const char letter : {'a', 'b'}) {  // the second time with memory that served the first
      std::string read(kMegabyte, '?');
      struct Call {
        char* written;
        char letter;
      } call = {written, letter};
      EXPECT_OK(uhal_stream_host_callback(
          stream,
          [](void* data) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            const Call& self = *static_cast<Call*>(data);
            std::fill_n(self.written, kMegabyte, self.letter);
          },
          &call));
      EXPECT_OK(uhal_copy(stream, memory, written, kMegabyte, UHAL_COPY_HOST_TO_DEVICE));
      EXPECT_OK(uhal_copy(stream, read.data(), memory, kMegabyte, UHAL_COPY_DEVICE_TO_HOST));
      EXPECT_OK(uhal_stream_synchronize(stream));
      EXPECT_EQ(kMegabyte, static_cast<size_t>(std::count(read.begin(), read.end(), letter)));
    }
  }
  EXPECT_OK(uhal_free(device, stream, pinned));
  // The core's one piece, and two blocks of a copy's own: there and back.
  EXPECT_EQ(3, calls(vendor, "hipHostMalloc"));
}

TEST_F(HipStream, ACopyBehindTheHostFailsWithoutPinnedMemory) {
  char* const memory = allocate(100);
  std::string source(100, 'x');
  std::atomic<bool> goes_on{false};
  EXPECT_OK(uhal_stream_host_callback(
      stream,
      [](void* data) {
        while (!*static_cast<std::atomic<bool>*>(data)) std::this_thread::yield();
      },
      &goes_on));
  fail_call("hipHostMalloc", 2);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_copy(stream, memory, source.data(), 100, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_MESSAGE("pinned host memory for a copy behind a function of the host");
  EXPECT_OK(uhal_copy(stream, memory, source.data(), 100, UHAL_COPY_HOST_TO_DEVICE));
  goes_on = true;
  EXPECT_OK(uhal_stream_synchronize(stream));
}

// The driver's own thread would refuse it.
TEST_F(HipStream, ACallbackMaySubmitToItsStreamAndToOthers) {
  struct Call {
    uhal_stream* own;
    uhal_stream* other;
    char* memory;
  } call = {stream, nullptr, allocate(200)};
  EXPECT_OK(uhal_stream_create(device, &call.other));
  EXPECT_OK(uhal_stream_host_callback(
      stream,
      [](void* data) {
        Call& self = *static_cast<Call*>(data);
        EXPECT_OK(uhal_memory_fill(self.other, self.memory, "c", 1, 100));
        EXPECT_OK(uhal_memory_fill(self.own, self.memory + 100, "d", 1, 100));
      },
      &call));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_stream_synchronize(call.other));
  EXPECT_EQ(std::string(100, 'c') + std::string(100, 'd'), download(call.memory, 200));
  EXPECT_OK(uhal_stream_destroy(call.other));
}

TEST_F(HipStream, CallbacksKeepTheirOrder) {
  std::string order;
  struct Call {
    std::string* order;
    char letter;
  } calls[26];
  std::string expected;
  for (int i = 0; i < 26; ++i) {
    calls[i] = {&order, static_cast<char>('a' + i)};
    expected += calls[i].letter;
    EXPECT_OK(uhal_stream_host_callback(
        stream, [](void* data) { *static_cast<Call*>(data)->order += static_cast<Call*>(data)->letter; }, &calls[i]));
  }
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(expected, order);
}

TEST_F(HipStream, IsDestroyedWithCallbacksPending) {
  std::atomic<int> calls{0};
  uhal_stream* other = nullptr;
  EXPECT_OK(uhal_stream_create(device, &other));
  for (int i = 0; i < 20; ++i) {
    EXPECT_OK(uhal_stream_host_callback(other, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls));
  }
  EXPECT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(20, calls);
}

TEST_F(HipStream, AFunctionThatTheDriverDoesNotTakeIsNotCalled) {
  bool called = false;
  fail_call("hipLaunchHostFunc", 2);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED,
            uhal_stream_host_callback(stream, [](void* data) { *static_cast<bool*>(data) = true; }, &called));
  EXPECT_MESSAGE("does not take a function of the host");
  expect_native(2, "hipErrorOutOfMemory");
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_FALSE(called);
}

TEST_F(HipStream, WaitsForAnother) {
  uhal_stream* other = nullptr;
  EXPECT_OK(uhal_stream_create(device, &other));
  char* const memory = allocate(kMegabyte);
  for (int i = 0; i < 20; ++i) {
    const char letter = static_cast<char>('a' + i);
    uhal_stream* const from = i % 2 == 0 ? stream : other;
    uhal_stream* const to = i % 2 == 0 ? other : stream;
    EXPECT_OK(uhal_memory_fill(from, memory, &letter, 1, kMegabyte));
    uhal_event* const event = record(from);
    EXPECT_OK(uhal_stream_wait_event(to, event));
    EXPECT_OK(uhal_event_destroy(event));  // though it is waited for
  }
  EXPECT_EQ(std::string(10, 't'), download(memory + kMegabyte - 10, 10));
  EXPECT_OK(uhal_stream_destroy(other));
}

class HipEvent : public GpuTest {};

TEST_F(HipEvent, ThatWasNeverRecordedIsComplete) {
  uhal_event* event = nullptr;
  ASSERT_OK(uhal_event_create(device, &event));
  int32_t done = 0;
  EXPECT_OK(uhal_event_query(event, &done));
  EXPECT_EQ(1, done);
  EXPECT_OK(uhal_event_synchronize(event));
  EXPECT_OK(uhal_stream_wait_event(stream, event));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_event_destroy(event));
}

TEST_F(HipEvent, TellsTheTimeOfWork) {
  uhal_event* const start = record(stream);
  EXPECT_OK(uhal_stream_host_callback(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr));
  uhal_event* const end = record(stream);
  EXPECT_OK(uhal_event_synchronize(end));
  int64_t nanoseconds = 0;
  EXPECT_OK(uhal_event_elapsed_nanoseconds(start, end, &nanoseconds));
  EXPECT_GE(nanoseconds, 19'999'000);  // the driver tells it as a float of milliseconds
  EXPECT_OK(uhal_event_elapsed_nanoseconds(end, start, &nanoseconds));
  EXPECT_LT(nanoseconds, 0);
  EXPECT_OK(uhal_event_destroy(start));
  EXPECT_OK(uhal_event_destroy(end));
}

TEST_F(HipEvent, IsAskedWhileAnotherThreadRecords) {
  uhal_event* const event = record(stream);
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    while (!stop) {
      int32_t done = 0;
      EXPECT_OK(uhal_event_query(event, &done));
      EXPECT_OK(uhal_event_synchronize(event));
    }
  });
  for (int i = 0; i < 300; ++i) EXPECT_OK(uhal_event_record(event, stream));
  stop = true;
  asker.join();
  EXPECT_OK(uhal_event_destroy(event));
}

}  // namespace
}  // namespace gpu_test
