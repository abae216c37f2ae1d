// Streams of the strict mode: work runs later than its call, in order within a stream, and between streams by events.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/forked_child.h"
#include "tests/stub/strict_test.h"
#include "unihal/event.h"

namespace strict_test {
namespace {

bool is_done(uhal_stream* stream) {
  int32_t done = -1;
  require(uhal_stream_query(stream, &done));
  return done == 1;
}

bool is_reached(uhal_event* event) {
  int32_t done = -1;
  require(uhal_event_query(event, &done));
  return done == 1;
}

uhal_event* new_event() {
  uhal_event* event = nullptr;
  require(uhal_event_create(device(), &event));
  return event;
}

TEST(StrictStream, WorkRunsAfterItsCall) {
  uhal_stream* stream = new_stream();
  void* data = allocate(4);
  int32_t seen = -1;
  Gate gate(stream);
  submit_fill(stream, data, 1, 7);
  require(uhal_copy(stream, &seen, data, 4, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_FALSE(is_done(stream));
  EXPECT_EQ(-1, seen);
  gate.open();
  require(uhal_stream_synchronize(stream));
  EXPECT_TRUE(is_done(stream));
  EXPECT_EQ(7, seen);
  require(uhal_free(device(), stream, data));
  require(uhal_stream_destroy(stream));
}

TEST(StrictStream, CopiesReadHostMemoryWhenTheyRun) {
  uhal_stream* stream = new_stream();
  void* data = allocate(4);
  int32_t sent = 1;
  {
    Gate gate(stream);
    require(uhal_copy(stream, data, &sent, 4, UHAL_COPY_HOST_TO_DEVICE));
    sent = 2;  // too early
  }
  EXPECT_EQ(std::vector<int32_t>({2}), read(stream, data, 1));
  require(uhal_free(device(), stream, data));
}

TEST(StrictStream, OpsAndPatternsAreReadBeforeTheCallReturns) {
  uhal_stream* stream = new_stream();
  void* data = allocate(8);
  {
    Gate gate(stream);
    {
      int32_t pattern = 3;
      require(uhal_memory_fill(stream, data, &pattern, 4, 8));
      pattern = 4;
    }
    submit_add(stream, data, data, 2);  // the views and attributes are gone when it runs
  }
  EXPECT_EQ(std::vector<int32_t>({6, 6}), read(stream, data, 2));
  require(uhal_free(device(), stream, data));
}

TEST(StrictStream, KeepsOrder) {
  uhal_stream* stream = new_stream();
  constexpr int64_t kElements = 1000;
  void* sum = allocate(kElements * 4);
  void* term = allocate(kElements * 4);
  submit_fill(stream, sum, kElements, 0);
  int32_t expected = 0;
  for (int i = 1; i <= 300; ++i) {
    submit_fill(stream, term, kElements, i);
    submit_add(stream, sum, term, kElements);
    expected += i;
  }
  EXPECT_EQ(std::vector<int32_t>(kElements, expected), read(stream, sum, kElements));
  for (void* pointer : {sum, term}) require(uhal_free(device(), stream, pointer));
}

TEST(StrictStream, EventsOrderStreams) {
  uhal_stream* writer = new_stream();
  uhal_stream* reader = new_stream();
  uhal_event* written = new_event();
  EXPECT_TRUE(is_reached(written)) << "never recorded";
  void* data = allocate(4);
  int32_t seen = -1;
  Gate gate(writer);
  submit_fill(writer, data, 1, 5);
  require(uhal_event_record(written, writer));
  require(uhal_stream_wait_event(reader, written));
  require(uhal_copy(reader, &seen, data, 4, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_FALSE(is_reached(written));
  EXPECT_FALSE(is_done(reader));
  gate.open();
  require(uhal_stream_synchronize(reader));
  EXPECT_EQ(5, seen);
  EXPECT_TRUE(is_reached(written));
  require(uhal_event_synchronize(written));
  require(uhal_event_destroy(written));
  require(uhal_free(device(), reader, data));
}

TEST(StrictStream, WaitsKeepToTheRecordOfTheirTime) {
  uhal_stream* held = new_stream();
  uhal_stream* idle = new_stream();
  uhal_stream* waiting = new_stream();
  uhal_event* event = new_event();
  Gate gate(held);

  // Recorded again, on a stream that is held, after the wait.
  require(uhal_event_record(event, idle));
  require(uhal_stream_wait_event(waiting, event));
  require(uhal_event_record(event, held));
  require(uhal_stream_synchronize(waiting));
  EXPECT_FALSE(is_reached(event)) << "the last record is meant";

  // Recorded again, on a stream that is not, after the wait.
  require(uhal_stream_wait_event(waiting, event));
  require(uhal_event_record(event, idle));
  require(uhal_event_synchronize(event));
  EXPECT_FALSE(is_done(waiting));
  gate.open();
  require(uhal_stream_synchronize(waiting));
}

TEST(StrictStream, EventsMayBeDestroyedWhilePending) {
  uhal_stream* held = new_stream();
  uhal_stream* waiting = new_stream();
  uhal_event* event = new_event();
  Gate gate(held);
  require(uhal_event_record(event, held));
  require(uhal_stream_wait_event(waiting, event));
  require(uhal_event_destroy(event));
  EXPECT_FALSE(is_done(waiting));
  gate.open();
  require(uhal_stream_synchronize(waiting));
}

TEST(StrictStream, EventsMeasureTheStreamsTime) {
  uhal_stream* stream = new_stream();
  uhal_event* begin = new_event();
  uhal_event* end = new_event();
  require(uhal_event_record(begin, stream));
  require(uhal_stream_host_callback(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
  require(uhal_event_record(end, stream));
  require(uhal_event_synchronize(end));
  int64_t nanoseconds = 0;
  require(uhal_event_elapsed_nanoseconds(begin, end, &nanoseconds));
  EXPECT_GE(nanoseconds, 5000000);
}

// What a program without the event that EventsOrderStreams has would see sooner or later.
TEST(StrictStream, AMissingEventShows) {
  uhal_stream* writer = new_stream();
  uhal_stream* reader = new_stream();
  bool shown = false;
  for (int attempt = 0; attempt < 1000 && !shown; ++attempt) {
    void* data = allocate(4);
    int32_t seen = -1;
    submit_fill(writer, data, 1, 5);
    require(uhal_copy(reader, &seen, data, 4, UHAL_COPY_DEVICE_TO_HOST));
    for (uhal_stream* stream : {writer, reader}) require(uhal_stream_synchronize(stream));
    EXPECT_TRUE(seen == 5 || seen == 0x7FF57FF5) << seen;
    shown = seen != 5;
    require(uhal_free(device(), nullptr, data));
  }
  EXPECT_TRUE(shown);
}

TEST(StrictStream, ErrorsComeOutAtSynchronizeAndWorkGoesOn) {
  uhal_stream* stream = new_stream();
  void* data = allocate(3 * 4);
  void* index = allocate(8);
  void* result = allocate(4);
  submit_fill(stream, data, 3, 1);
  const int64_t wrong = 3;
  require(uhal_copy(stream, index, &wrong, 8, UHAL_COPY_HOST_TO_DEVICE));
  uhal_tensor views[3] = {};
  const uhal_dtype dtypes[3] = {UHAL_INT32, UHAL_INT64, UHAL_INT32};
  void* const memory[3] = {data, index, result};
  for (int i = 0; i < 3; ++i) {
    views[i].struct_size = sizeof views[i];
    views[i].data = memory[i];
    views[i].dtype = dtypes[i];
    views[i].rank = 1;
    views[i].shape[0] = i == 0 ? 3 : 1;
    views[i].strides[0] = 1;
  }
  const uhal_tensor* inputs[] = {&views[0], &views[1]};
  const uhal_tensor* outputs[] = {&views[2]};
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_GATHER;
  op.input_count = 2;
  op.output_count = 1;
  op.inputs = inputs;
  op.outputs = outputs;
  EXPECT_EQ(UHAL_OK, uhal_launch(stream, &op)) << message();
  submit_fill(stream, data, 3, 2);
  EXPECT_EQ(UHAL_OUT_OF_RANGE, uhal_stream_synchronize(stream));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "gather", message());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "index 3 is out of range for an axis of length 3", message());
  EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream)) << "an error comes out once";
  EXPECT_EQ(std::vector<int32_t>({2, 2, 2}), read(stream, data, 3));
}

TEST(StrictStream, ManyStreamsAndThreads) {
  constexpr int kThreads = 6;
  constexpr int64_t kElements = 257;
  device();
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([number] {
      uhal_stream* streams[2] = {new_stream(), new_stream()};
      uhal_event* turn = new_event();
      void* sum = allocate(kElements * 4);
      void* term = allocate(kElements * 4);
      submit_fill(streams[0], sum, kElements, number);
      submit_fill(streams[0], term, kElements, 1);
      for (int i = 0; i < 50; ++i) {
        require(uhal_event_record(turn, streams[i % 2]));
        require(uhal_stream_wait_event(streams[(i + 1) % 2], turn));
        submit_add(streams[(i + 1) % 2], sum, term, kElements);
      }
      EXPECT_EQ(std::vector<int32_t>(kElements, number + 50), read(streams[0], sum, kElements));
      for (void* pointer : {sum, term}) require(uhal_free(device(), streams[0], pointer));
      require(uhal_event_destroy(turn));
      for (uhal_stream* stream : streams) require(uhal_stream_destroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(StrictStream, DestructionRunsWhatIsLeft) {
  uhal_stream* stream = new_stream();
  void* data = allocate(4);
  int32_t seen = -1;
  submit_fill(stream, data, 1, 9);
  require(uhal_copy(stream, &seen, data, 4, UHAL_COPY_DEVICE_TO_HOST));
  require(uhal_stream_destroy(stream));
  EXPECT_EQ(9, seen);
  require(uhal_free(device(), nullptr, data));
}

TEST(StrictStream, TwoDevices) {
  setenv("UNIHAL_STUB_DEVICES", "2", 1);
  uhal_stream* streams[2] = {new_stream(0), new_stream(1)};
  void* data[2] = {allocate(4, UHAL_MEMORY_DEVICE, 0), allocate(4, UHAL_MEMORY_DEVICE, 1)};
  submit_fill(streams[0], data[0], 1, 11);
  require(uhal_copy_peer(streams[0], device(1), data[1], device(0), data[0], 4));
  EXPECT_EQ(std::vector<int32_t>({11}), read(streams[1], data[1], 1));
  EXPECT_EQ(UHAL_OUT_OF_RANGE, uhal_memory_fill(streams[0], data[1], "", 1, 1)) << "memory of the other device";
  for (int i = 0; i < 2; ++i) require(uhal_free(device(i), streams[i], data[i]));
}

// -- the end of a process
// ----------------------------------------------------------------------------------------------

class StrictExit : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void leave_work_behind() {
  for (int i = 0; i < 3; ++i) {
    uhal_stream* stream = new_stream();
    void* data = allocate(size_t{4} << 20);
    for (int j = 0; j < 50; ++j) submit_fill(stream, data, 1 << 20, j);
  }
}

TEST_F(StrictExit, WithoutFinalize) {
  EXPECT_EXIT(
      {
        leave_work_behind();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(StrictExit, AfterFinalize) {
  EXPECT_EXIT(
      {
        leave_work_behind();
        uhal_finalize();
        uhal_finalize();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

// Work that never ends must not keep the process: it ends all the same.
TEST_F(StrictExit, WithWorkThatIsStuck) {
  EXPECT_EXIT(
      {
        uhal_stream* stream = new_stream();
        const Gate gate(stream);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(StrictExit, ForkedChildrenAreRefusedAndEnd) {
  leave_work_behind();
  uhal_stream* stream = new_stream();
  const pid_t child = fork();
  if (child == 0) {
    is_forked_child = true;
    std::exit(uhal_stream_synchronize(stream) == UHAL_FAILED_PRECONDITION ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(0, WEXITSTATUS(status));
  require(uhal_stream_synchronize(stream));
}

}  // namespace
}  // namespace strict_test
