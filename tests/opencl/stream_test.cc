// Streams, events, callbacks, and errors that kernels find.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "tests/opencl/opencl_test.h"

namespace opencl_test {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

class OpenclStream : public OpenclTest {
 protected:
  uhal_event* record(uhal_stream* on) {
    uhal_event* event = nullptr;
    EXPECT_OK(uhal_event_create(device, &event));
    EXPECT_OK(uhal_event_record(event, on));
    return event;
  }

  // y = x[index], for x of 4 rows.
  uhal_status launch_gather(int64_t index) {
    char* const indices = allocate(8);
    upload(indices, std::string(reinterpret_cast<const char*>(&index), sizeof index));
    uhal_tensor x = {};
    x.struct_size = sizeof x;
    x.data = allocate(64);
    x.dtype = UHAL_FLOAT32;
    x.rank = 2;
    x.shape[0] = 4;
    x.shape[1] = 4;
    x.strides[0] = 4;
    x.strides[1] = 1;
    uhal_tensor i = x;
    i.data = indices;
    i.dtype = UHAL_INT64;
    i.rank = 1;
    i.shape[0] = 1;
    i.strides[0] = 1;
    uhal_tensor y = x;
    y.data = allocate(64);
    y.shape[0] = 1;
    const uhal_tensor* inputs[] = {&x, &i};
    const uhal_tensor* outputs[] = {&y};
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = UHAL_OP_GATHER;
    op.inputs = inputs;
    op.input_count = 2;
    op.outputs = outputs;
    op.output_count = 1;
    return uhal_launch(stream, &op);
  }
};

TEST_F(OpenclStream, WithoutWorkIsDone) {
  int32_t done = 0;
  EXPECT_OK(uhal_stream_query(stream, &done));
  EXPECT_EQ(1, done);
}

TEST_F(OpenclStream, IsDoneOnceSynchronized) {
  char* const memory = allocate(kMegabyte);
  for (int i = 0; i < 100; ++i) {
    EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, kMegabyte));
    EXPECT_OK(uhal_stream_synchronize(stream));
    int32_t done = 0;
    EXPECT_OK(uhal_stream_query(stream, &done));
    ASSERT_EQ(1, done);
  }
}

TEST_F(OpenclStream, IsQueriedWhileAnotherThreadSubmits) {
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

TEST_F(OpenclStream, CallsTheHostBetweenWork) {
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

TEST_F(OpenclStream, ACallbackMaySubmitToOtherStreams) {
  struct Call {
    uhal_stream* other;
    char* memory;
  } call = {nullptr, allocate(100)};
  EXPECT_OK(uhal_stream_create(device, &call.other));
  EXPECT_OK(uhal_stream_host_callback(
      stream,
      [](void* data) {
        Call& self = *static_cast<Call*>(data);
        EXPECT_OK(uhal_memory_fill(self.other, self.memory, "c", 1, 100));
      },
      &call));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_stream_synchronize(call.other));
  EXPECT_EQ(std::string(100, 'c'), download(call.memory, 100));
  EXPECT_OK(uhal_stream_destroy(call.other));
}

TEST_F(OpenclStream, IsDestroyedWithCallbacksPending) {
  std::atomic<int> calls{0};
  uhal_stream* other = nullptr;
  EXPECT_OK(uhal_stream_create(device, &other));
  for (int i = 0; i < 20; ++i) {
    EXPECT_OK(uhal_stream_host_callback(other, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls));
  }
  EXPECT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(20, calls);
}

TEST_F(OpenclStream, WaitsForAnotherThatWasNeverFlushed) {
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

class OpenclEvent : public OpenclStream {
 protected:
  void expect_time_of_work() {
    char* const memory = allocate(64 * kMegabyte);
    EXPECT_OK(uhal_stream_synchronize(stream));
    uhal_event* const start = record(stream);
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 4; ++i) EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, 64 * kMegabyte));
    uhal_event* const end = record(stream);
    EXPECT_OK(uhal_event_synchronize(end));
    const std::chrono::nanoseconds whole = std::chrono::steady_clock::now() - began;
    int64_t nanoseconds = 0;
    EXPECT_OK(uhal_event_elapsed_nanoseconds(start, end, &nanoseconds));
    EXPECT_GT(nanoseconds, 10000);  // no memory is filled at more than 25 TB/s
    EXPECT_LT(nanoseconds, 2 * whole.count());
    EXPECT_OK(uhal_event_elapsed_nanoseconds(end, start, &nanoseconds));
    EXPECT_LT(nanoseconds, 0);
    EXPECT_OK(uhal_event_destroy(start));
    EXPECT_OK(uhal_event_destroy(end));
  }
};

TEST_F(OpenclEvent, TellsTheTimeOfWork) { expect_time_of_work(); }

class OpenclEventWithoutTimes : public OpenclEvent {
 protected:
  void SetUp() override {
    use_faulty_opencl();
    if (std::getenv("UNIHAL_TESTS_NEED_OPENCL") != nullptr) fail_call("markers", 1, 0, 1000);
    OpenclEvent::SetUp();
  }
};

TEST_F(OpenclEventWithoutTimes, TellsTheTimeOfWorkBySomethingElse) { expect_time_of_work(); }

TEST_F(OpenclEvent, IsRecordedAgainAndAgain) {
  uhal_event* const event = record(stream);
  char* const memory = allocate(kMegabyte);
  for (int i = 0; i < 50; ++i) {
    EXPECT_OK(uhal_memory_fill(stream, memory, "x", 1, kMegabyte));
    EXPECT_OK(uhal_event_record(event, stream));
    int32_t done = 0;
    EXPECT_OK(uhal_event_query(event, &done));
    if (i % 3 != 0) continue;
    EXPECT_OK(uhal_event_synchronize(event));
    EXPECT_OK(uhal_event_query(event, &done));
    EXPECT_EQ(1, done);
  }
  EXPECT_OK(uhal_event_destroy(event));
}

TEST_F(OpenclEvent, IsAskedWhileAnotherThreadRecords) {
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

TEST_F(OpenclStream, BadDataSticksToTheStreamThatMetIt) {
  EXPECT_OK(launch_gather(3));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(launch_gather(4));
  EXPECT_EQ(UHAL_OUT_OF_RANGE, uhal_stream_synchronize(stream));
  EXPECT_MESSAGE("gather: index 4 is outside an axis of length 4");
  EXPECT_OK(uhal_stream_synchronize(stream));  // once
  EXPECT_OK(launch_gather(2));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(launch_gather(-77));
  int32_t done = 0;
  uhal_status status = UHAL_OK;
  while (status == UHAL_OK && done == 0) status = uhal_stream_query(stream, &done);
  EXPECT_EQ(UHAL_OUT_OF_RANGE, status);
  EXPECT_MESSAGE("gather: index -77 is outside an axis of length 4");
}

}  // namespace
}  // namespace opencl_test
