// The race check: what orders two accesses, and what does not.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/race_fixture.h"

namespace core_test {
namespace {

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
#if !defined(__SANITIZE_THREAD__)  // a race of two threads indeed, which ThreadSanitizer may report as well
  write(second, x);
  EXPECT_EQ(1u, uhal_race_count());
#endif
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
#if !defined(__SANITIZE_THREAD__)  // a race of two threads indeed, which ThreadSanitizer reports as well
  write(second, y);
  EXPECT_EQ(1u, uhal_race_count());
#endif
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

}  // namespace
}  // namespace core_test
