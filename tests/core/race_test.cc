// The race check: what is reported, and what orders two accesses.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/core_test.h"
#include "unihal/check.h"

namespace core_test {
namespace {

constexpr int64_t kCount = 64;  // elements of the views below

// A float32 view of one or two axes.
uhal_tensor vector_of(float* data, int64_t count = kCount) {
  return {sizeof(uhal_tensor), data, UHAL_FLOAT32, 1, {count}, {1}};
}
uhal_tensor matrix_of(float* data, int64_t rows, int64_t columns, int64_t row_stride) {
  return {sizeof(uhal_tensor), data, UHAL_FLOAT32, 2, {rows, columns}, {row_stride, 1}};
}

class RaceTest : public CoreTest {
 protected:
  void configure() override { setenv("UNIHAL_CHECK_RACES", "1", 1); }

  void SetUp() override {
    CoreTest::SetUp();
    for (uhal_stream** made : {&first, &second, &third}) ASSERT_OK(uhal_stream_create(device, made));
    ASSERT_OK(uhal_event_create(device, &event));
    x = static_cast<float*>(allocate(4096));
    y = static_cast<float*>(allocate(4096));
    z = static_cast<float*>(allocate(4096));
  }

  void TearDown() override {
    ASSERT_OK(uhal_device_synchronize(device));
    for (float* memory : {x, y, z}) release(memory);
    ASSERT_OK(uhal_event_destroy(event));
    for (uhal_stream* made : {first, second, third}) ASSERT_OK(uhal_stream_destroy(made));
    CoreTest::TearDown();
  }

  static void write(uhal_stream* on, const uhal_tensor& to, const char* label = nullptr) {
    const uhal_tensor* outputs[] = {&to};
    uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, label};
    EXPECT_OK(uhal_launch(on, &op));
  }
  static void write(uhal_stream* on, float* to) { write(on, vector_of(to)); }

  static void copy(uhal_stream* on, const uhal_tensor& from, const uhal_tensor& to) {
    const uhal_tensor* inputs[] = {&from};
    const uhal_tensor* outputs[] = {&to};
    uhal_op op = {sizeof op, UHAL_OP_COPY, 1, 1, 0, inputs, outputs, nullptr, nullptr};
    EXPECT_OK(uhal_launch(on, &op));
  }
  // Reads `from`; writes the first bytes of z that this stream has for itself.
  void read(uhal_stream* on, const uhal_tensor& from) {
    float* own = z + (on == first ? 0 : on == second ? 256 : 512);
    copy(on, from,
         {sizeof(uhal_tensor), own, from.dtype, from.rank, {from.shape[0], from.shape[1]}, {from.shape[1], 1}});
  }
  void read(uhal_stream* on, float* from) { read(on, matrix_of(from, 1, kCount, kCount)); }

  void order(uhal_stream* before, uhal_stream* after) {
    ASSERT_OK(uhal_event_record(event, before));
    ASSERT_OK(uhal_stream_wait_event(after, event));
  }

  struct Race {
    uhal_device* device = nullptr;
    uhal_race_access earlier = {};
    uhal_race_access later = {};
  };
  static Race race(size_t index) {
    Race found;
    found.earlier.struct_size = sizeof found.earlier;
    found.later.struct_size = sizeof found.later;
    EXPECT_OK(uhal_race_get(index, &found.device, &found.earlier, &found.later));
    return found;
  }

  uhal_stream *first = nullptr, *second = nullptr, *third = nullptr;
  uhal_event* event = nullptr;
  float *x = nullptr, *y = nullptr, *z = nullptr;
};

// -- what is found ---------------------------------------------------------------------------------

TEST_F(RaceTest, TwoWritesAreReportedWithBothSides) {
  testing::internal::CaptureStderr();
  write(first, vector_of(x), "first layer");
  write(second, vector_of(x + 16));
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_EQ(1u, uhal_race_count());
  const Race found = race(0);
  EXPECT_EQ(device, found.device);
  EXPECT_STREQ("first layer (fill): -> float32(64,)", found.earlier.work);
  EXPECT_STREQ("fill: -> float32(64,)", found.later.work);
  EXPECT_STREQ("y", found.earlier.role);
  EXPECT_EQ(1, found.earlier.is_write);
  EXPECT_EQ(1, found.later.is_write);
  EXPECT_EQ(found.earlier.stream + 1, found.later.stream);
  EXPECT_EQ(reinterpret_cast<uint64_t>(x), found.earlier.address);
  EXPECT_EQ(reinterpret_cast<uint64_t>(x + 16), found.later.address);
  EXPECT_EQ(256u, found.later.bytes);
  EXPECT_STRNE("", found.earlier.site);
  EXPECT_STRNE("", found.later.site);
  const std::string number = std::to_string(found.earlier.stream);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "race on rdna:0 (fake)", printed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "earlier: first layer (fill): -> float32(64,)", printed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "stream " + number + " writes y, 256 bytes at 0x", printed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "record an event on stream " + number, printed);
}

TEST_F(RaceTest, AReadAfterAWriteAndAWriteAfterARead) {
  write(first, x);
  read(second, x);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("x", race(0).later.role);
  EXPECT_EQ(0, race(0).later.is_write);
  read(first, y);
  write(second, y);
  ASSERT_EQ(2u, uhal_race_count());
  EXPECT_EQ(0, race(1).earlier.is_write);
  EXPECT_EQ(1, race(1).later.is_write);
}

TEST_F(RaceTest, ReadsDoNotRace) {
  write(first, x);
  order(first, second);
  order(first, third);
  for (uhal_stream* on : {first, second, third}) read(on, x);
  EXPECT_EQ(0u, uhal_race_count());
  // A write must come after each of them.
  order(second, first);
  write(first, x);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_EQ(0, race(0).earlier.is_write);
}

TEST_F(RaceTest, CopiesAndFillsAreAccesses) {
  float host[kCount] = {};
  const uint32_t pattern = 7;
  EXPECT_OK(uhal_copy(first, x, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  read(second, x);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("copy.host_to_device of 256 bytes", race(0).earlier.work);
  EXPECT_STREQ("destination", race(0).earlier.role);
  EXPECT_OK(uhal_memory_fill(third, x, &pattern, sizeof pattern, sizeof host));
  ASSERT_EQ(3u, uhal_race_count());  // with the copy, and with the reading op
  EXPECT_STREQ("fill of 256 bytes", race(2).later.work);
  EXPECT_OK(uhal_copy(first, y, x, sizeof host, UHAL_COPY_DEVICE_TO_DEVICE));
  ASSERT_EQ(4u, uhal_race_count());
  EXPECT_STREQ("source", race(3).later.role);
}

TEST_F(RaceTest, AHostBufferIsMemoryToo) {
  float host[kCount] = {};
  EXPECT_OK(uhal_copy(first, host, x, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_copy(second, y, host + 32, sizeof host / 2, UHAL_COPY_HOST_TO_DEVICE));
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("copy.device_to_host of 256 bytes", race(0).earlier.work);
  EXPECT_EQ(reinterpret_cast<uint64_t>(host + 32), race(0).later.address);
  // The same source may be copied twice at once.
  EXPECT_OK(uhal_stream_synchronize(first));
  EXPECT_OK(uhal_copy(second, y, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_OK(uhal_copy(third, z, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_EQ(1u, uhal_race_count());
}

TEST_F(RaceTest, AFreeMustComeAfterEachUse) {
  auto* memory = static_cast<float*>(allocate(1024, first));
  write(first, memory);
  order(first, second);
  read(second, memory);
  release(memory, first);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("free of 1024 bytes", race(0).later.work);
  EXPECT_STREQ("memory", race(0).later.role);
  EXPECT_EQ(1, race(0).later.is_write);
  EXPECT_EQ(1024u, race(0).later.bytes);

  memory = static_cast<float*>(allocate(1024));
  testing::internal::CaptureStderr();
  write(first, memory);
  release(memory);  // promises that no work uses it
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_EQ(2u, uhal_race_count());
  EXPECT_EQ(UINT64_MAX, race(1).later.stream);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "synchronize stream", printed);

  memory = static_cast<float*>(allocate(1024));
  write(first, memory);
  order(first, second);
  release(memory, second);
  memory = static_cast<float*>(allocate(1024));
  write(third, memory);
  EXPECT_OK(uhal_stream_synchronize(third));
  release(memory);
  EXPECT_EQ(2u, uhal_race_count());
}

TEST_F(RaceTest, TwoDevicesShareNoOrder) {
  uhal_device* other = nullptr;
  uhal_stream* on_other = nullptr;
  uhal_event* of_other = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 1, &other));
  ASSERT_OK(uhal_stream_create(other, &on_other));
  ASSERT_OK(uhal_event_create(other, &of_other));
  void* there = nullptr;
  ASSERT_OK(uhal_allocate(other, on_other, UHAL_MEMORY_DEVICE, 256, &there));
  float host[kCount] = {};
  // By way of the host's memory: the second copy must wait for the first.
  EXPECT_OK(uhal_copy(first, host, x, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_copy(on_other, there, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_EQ(other, race(0).device);
  // An event orders devices as well.
  EXPECT_OK(uhal_event_record(of_other, on_other));
  EXPECT_OK(uhal_stream_wait_event(first, of_other));
  EXPECT_OK(uhal_copy(first, host, x, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_EQ(1u, uhal_race_count());
  // The copy between devices is done when it returns.
  EXPECT_OK(uhal_copy_peer(first, other, there, device, x, 256));
  EXPECT_OK(uhal_copy(on_other, host, there, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_EQ(1u, uhal_race_count());
  // But it waits for the work of its own stream only.
  write(second, y);
  EXPECT_OK(uhal_copy_peer(first, other, there, device, y, 256));
  EXPECT_EQ(3u, uhal_race_count());  // reads y, and writes what on_other still reads
  EXPECT_OK(uhal_stream_synchronize(on_other));
  EXPECT_OK(uhal_free(other, nullptr, there));
  EXPECT_OK(uhal_event_destroy(of_other));
  EXPECT_OK(uhal_stream_destroy(on_other));
}

TEST_F(RaceTest, AnOpThatReadsAndWritesItsOutput) {
  int32_t* indices = reinterpret_cast<int32_t*>(y);
  uhal_tensor index_view = {sizeof index_view, indices, UHAL_INT32, 1, {4}, {1}};
  uhal_tensor updates = vector_of(z, 4);
  uhal_tensor to = vector_of(x);
  const uhal_tensor* inputs[] = {&index_view, &updates};
  const uhal_tensor* outputs[] = {&to};
  uhal_op op = {sizeof op, UHAL_OP_SCATTER, 2, 1, 0, inputs, outputs, nullptr, nullptr};
  write(second, x);
  EXPECT_OK(uhal_launch(first, &op));
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("y", race(0).later.role);
  EXPECT_EQ(1, race(0).later.is_write);
}

// -- what orders -----------------------------------------------------------------------------------

TEST_F(RaceTest, AStreamIsInOrder) {
  for (int i = 0; i < 3; ++i) {
    write(first, x);
    read(first, x);
  }
  EXPECT_EQ(0u, uhal_race_count());
}

TEST_F(RaceTest, EventsOrderStreamsAlsoByWayOfAThird) {
  write(first, x);
  order(first, second);
  read(second, x);
  order(second, third);
  write(third, x);
  order(third, first);
  write(first, x);
  EXPECT_EQ(0u, uhal_race_count());
}

TEST_F(RaceTest, AnEventOrdersOnlyWhatWasSubmittedBeforeItsRecord) {
  ASSERT_OK(uhal_event_record(event, first));
  write(first, x);
  ASSERT_OK(uhal_stream_wait_event(second, event));
  read(second, x);
  EXPECT_EQ(1u, uhal_race_count());
}

TEST_F(RaceTest, AWaitRefersToTheRecordThatWasLast) {
  ASSERT_OK(uhal_stream_wait_event(second, event));  // never recorded: complete
  write(first, x);
  read(second, x);
  ASSERT_EQ(1u, uhal_race_count());
  ASSERT_OK(uhal_event_record(event, first));
  ASSERT_OK(uhal_event_record(event, third));  // the earlier record is forgotten
  ASSERT_OK(uhal_stream_wait_event(second, event));
  read(second, x);
  EXPECT_EQ(2u, uhal_race_count());
  ASSERT_OK(uhal_event_record(event, first));
  ASSERT_OK(uhal_stream_wait_event(second, event));
  ASSERT_OK(uhal_event_record(event, third));  // too late to matter
  read(second, x);
  EXPECT_EQ(2u, uhal_race_count());
}

TEST_F(RaceTest, WhatTheHostHasWaitedForIsBeforeAllWorkToCome) {
  int32_t done = 0;
  const std::vector<std::function<uhal_status()>> waits = {
      [&] { return uhal_stream_synchronize(first); },
      [&] { return uhal_device_synchronize(device); },
      [&] { return uhal_stream_query(first, &done); },
      [&] {
        EXPECT_OK(uhal_event_record(event, first));
        return uhal_event_synchronize(event);
      },
      [&] {
        EXPECT_OK(uhal_event_record(event, first));
        return uhal_event_query(event, &done);
      },
      [&] { return uhal_stream_host_callback(first, [](void* seen) { *static_cast<int32_t*>(seen) = 1; }, &done); },
  };
  for (size_t i = 0; i < waits.size(); ++i) {
    write(first, x);
    done = -1;
    EXPECT_OK(waits[i]());
    EXPECT_NE(0, done) << i;
    write(second, x);
    EXPECT_EQ(0u, uhal_race_count()) << i;
    ASSERT_OK(uhal_stream_synchronize(second));
  }
  write(first, x);
  ASSERT_OK(uhal_stream_synchronize(second));  // another stream
  write(second, x);
  EXPECT_EQ(1u, uhal_race_count());
}

class AsynchronousRaceTest : public RaceTest {
 protected:
  void configure() override {
    RaceTest::configure();
    control->asynchronous = true;
  }
};

TEST_F(AsynchronousRaceTest, AQueryThatAnswersNotYetOrdersNothing) {
  control->hold_streams = true;
  write(first, x);
  ASSERT_OK(uhal_event_record(event, first));
  int32_t done = 1;
  ASSERT_OK(uhal_stream_query(first, &done));
  ASSERT_EQ(0, done);
  done = 1;
  ASSERT_OK(uhal_event_query(event, &done));
  ASSERT_EQ(0, done);
  write(second, x);
  EXPECT_EQ(1u, uhal_race_count());
  control->hold_streams = false;
}

TEST_F(AsynchronousRaceTest, ACallbackOrdersTheWorkBeforeItOnly) {
  std::atomic<bool> ran{false};
  write(first, x);
  auto set = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); };
  ASSERT_OK(uhal_stream_host_callback(first, set, &ran));
  write(first, y);
  while (!ran) std::this_thread::yield();
  write(second, x);
  EXPECT_EQ(0u, uhal_race_count());
  write(second, y);
  EXPECT_EQ(1u, uhal_race_count());
}

TEST_F(RaceTest, ADestroyedStreamIsWaitedFor) {
  uhal_stream* gone = nullptr;
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(uhal_stream_create(device, &gone));  // takes the slot of the one before
    write(gone, x);
    ASSERT_OK(uhal_stream_destroy(gone));
    write(first, x);
    ASSERT_OK(uhal_stream_synchronize(first));
  }
  EXPECT_EQ(0u, uhal_race_count());
}

TEST_F(RaceTest, FailedWorkIsNoAccess) {
  uhal_tensor to = vector_of(x);
  const uhal_tensor* outputs[] = {&to};
  uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, fake::kFailNow};
  EXPECT_STATUS(UHAL_INTERNAL, uhal_launch(first, &op));
  write(second, x);
  EXPECT_EQ(0u, uhal_race_count());
}

// -- which bytes -----------------------------------------------------------------------------------

TEST_F(RaceTest, PartsOfOneAllocationAreApart) {
  write(first, x);
  write(second, x + kCount);
  EXPECT_EQ(0u, uhal_race_count());
  write(third, vector_of(x + kCount - 1, 2));
  EXPECT_EQ(2u, uhal_race_count());
}

TEST_F(RaceTest, ColumnsOfOneMatrixAreApart) {
  // 8 rows of 12 elements: columns 0-3, 4-7 and 8-11.
  write(first, matrix_of(x, 8, 4, 12));
  write(second, matrix_of(x + 4, 8, 4, 12));
  read(third, matrix_of(x + 8, 8, 4, 12));
  EXPECT_EQ(0u, uhal_race_count());
  // Columns 3-4 touch two of the slices; a single row that ends before column 8, too.
  write(third, matrix_of(x + 3, 8, 2, 12));
  EXPECT_EQ(2u, uhal_race_count());
  read(third, matrix_of(x + 12, 1, 8, 12));
  EXPECT_EQ(4u, uhal_race_count());
}

TEST_F(RaceTest, AWholeMatrixRacesWithItsColumns) {
  write(first, matrix_of(x, 8, 4, 12));
  read(second, matrix_of(x, 1, 96, 96));
  EXPECT_EQ(1u, uhal_race_count());
  write(second, vector_of(x, 96));
  EXPECT_EQ(2u, uhal_race_count());
  order(second, first);
  write(first, matrix_of(x + 4, 8, 4, 12));
  EXPECT_EQ(2u, uhal_race_count());
  write(third, matrix_of(x + 8, 8, 4, 12));  // with the whole matrix
  EXPECT_EQ(3u, uhal_race_count());
}

TEST_F(RaceTest, ReusedMemoryHasNoHistory) {
  void* memory = allocate(512, first);
  write(first, vector_of(static_cast<float*>(memory)));
  release(memory, first);
  ASSERT_OK(uhal_stream_synchronize(first));
  void* again = allocate(512, second);
  write(second, vector_of(static_cast<float*>(again)));
  release(again, second);
  void* at_once = allocate(512, second);
  write(second, vector_of(static_cast<float*>(at_once)));
  EXPECT_EQ(0u, uhal_race_count());
  release(at_once, second);
}

TEST_F(RaceTest, ViewsWithoutElementsTouchNothing) {
  write(first, x);
  write(second, vector_of(x, 0));
  write(second, matrix_of(x, 4, 0, 1));
  EXPECT_EQ(0u, uhal_race_count());
}

// -- reports ---------------------------------------------------------------------------------------

TEST_F(RaceTest, TheSamePairIsCountedEachTimeAndPrintedOnce) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 700; ++i) {
    for (uhal_stream* on : {first, second}) write(on, x);
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(1399u, uhal_race_count());
  EXPECT_EQ(printed.find("unihal: race"), printed.rfind("unihal: race"));
  race(999);
  uhal_race_access side = {};
  side.struct_size = sizeof side;
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_race_get(1000, nullptr, &side, &side));
  EXPECT_MESSAGE("1000 are kept of 1399 found");
  uhal_race_clear();
  EXPECT_EQ(0u, uhal_race_count());
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_race_get(0, nullptr, &side, &side));
}

TEST_F(RaceTest, TheAnswerNeedsAPlace) {
  write(first, x);
  write(second, x);
  uhal_race_access side = {};
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_race_get(0, nullptr, &side, &side));
  EXPECT_MESSAGE("struct_size is 0");
  side.struct_size = sizeof side;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_race_get(0, nullptr, &side, nullptr));
  EXPECT_OK(uhal_race_get(0, nullptr, &side, &side));
}

TEST_F(AsynchronousRaceTest, ManyThreadsOnStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      uhal_stream* own = nullptr;
      uhal_event* mark = nullptr;
      void* memory = nullptr;
      ASSERT_OK(uhal_stream_create(device, &own));
      ASSERT_OK(uhal_event_create(device, &mark));
      for (int i = 0; i < 200; ++i) {
        ASSERT_OK(uhal_allocate(device, own, UHAL_MEMORY_DEVICE, 256u << (i % 4), &memory));
        write(own, vector_of(static_cast<float*>(memory)));
        write(own, vector_of(x + 256 * t));
        ASSERT_OK(uhal_event_record(mark, own));
        if (i % 7 == 0) {
          ASSERT_OK(uhal_event_synchronize(mark));
        }
        ASSERT_OK(uhal_free(device, own, memory));
      }
      ASSERT_OK(uhal_event_destroy(mark));
      ASSERT_OK(uhal_stream_destroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(0u, uhal_race_count());
}

TEST_F(CoreTest, WithoutTheCheckNothingIsFound) {
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  void* memory = allocate(256);
  const char zero = 0;
  EXPECT_OK(uhal_memory_fill(stream, memory, &zero, 1, 256));
  EXPECT_OK(uhal_memory_fill(other, memory, &zero, 1, 256));
  EXPECT_EQ(0u, uhal_race_count());
  ASSERT_OK(uhal_stream_destroy(other));
  release(memory);
}

}  // namespace
}  // namespace core_test
