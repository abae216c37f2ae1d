// Streams: order, callbacks, sticky errors, and handles that are not valid.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/core/core_test.h"

namespace core_test {
namespace {

// A fill of y, or of nothing.
uhal_status launch(uhal_stream* on, const char* label, float* y = nullptr) {
  int64_t count = y != nullptr ? 4 : 0;
  uhal_tensor view = {sizeof view, y, UHAL_FLOAT32, 1, {count}, {1}};
  const uhal_tensor* outputs[] = {&view};
  uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, label};
  return uhal_launch(on, &op);
}

class StreamTest : public CoreTest {
 protected:
  uhal_stream* create() {
    uhal_stream* created = nullptr;
    EXPECT_OK(uhal_stream_create(device, &created));
    return created;
  }
};

class AsynchronousStreamTest : public StreamTest {
 protected:
  void configure() override { control->asynchronous = true; }
};

TEST_F(StreamTest, UseAfterDestroyIsRefused) {
  uhal_stream* gone = create();
  ASSERT_OK(uhal_stream_destroy(gone));
  uhal_stream* next = create();  // takes the slot again; the old handle stays invalid
  EXPECT_NE(gone, next);
  int32_t done;
  uhal_event* event;
  ASSERT_OK(uhal_event_create(device, &event));
  void* pointer = nullptr;
  char byte = 0;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_destroy(gone));
  EXPECT_MESSAGE("does not exist: it was destroyed");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_query(gone, &done));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_synchronize(gone));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_wait_event(gone, event));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_record(event, gone));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_host_callback(gone, [](void*) {}, nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_allocate(device, gone, UHAL_MEMORY_DEVICE, 1, &pointer));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_copy(gone, &byte, &byte, 1, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_fill(gone, &byte, &byte, 1, 1));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, launch(gone, nullptr));
  EXPECT_EQ(nullptr, uhal_stream_device(gone));
  EXPECT_MESSAGE("does not exist");
  EXPECT_EQ(device, uhal_stream_device(next));
  EXPECT_OK(uhal_event_destroy(event));
  EXPECT_OK(uhal_stream_destroy(next));
}

TEST_F(StreamTest, WhatNeverWasAStreamIsRefused) {
  uhal_event* event;
  ASSERT_OK(uhal_event_create(device, &event));
  int on_the_stack = 0;
  void* strangers[] = {
      nullptr, &on_the_stack, event, device, reinterpret_cast<void*>(1), reinterpret_cast<void*>(UINTPTR_MAX)};
  for (void* stranger : strangers) {
    EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_synchronize(static_cast<uhal_stream*>(stranger)));
  }
  EXPECT_OK(uhal_stream_destroy(nullptr));
  EXPECT_OK(uhal_event_destroy(event));
}

TEST_F(StreamTest, TheDefaultStreamIsTheCores) {
  uhal_stream* again;
  ASSERT_OK(uhal_device_default_stream(device, &again));
  EXPECT_EQ(stream, again);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_destroy(stream));
  EXPECT_MESSAGE("default stream");
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(StreamTest, ManyHandlesComeAndGo) {
  std::vector<uhal_stream*> seen;
  for (int i = 0; i < 1000; ++i) {
    uhal_stream* made = create();
    EXPECT_OK(uhal_stream_destroy(made));
    seen.push_back(made);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.end(), std::adjacent_find(seen.begin(), seen.end()));
  EXPECT_EQ(1, control->live_streams.load());
}

TEST_F(StreamTest, SynchronousFailuresNameOpAndDevice) {
  EXPECT_STATUS(UHAL_INTERNAL, launch(stream, fake::kFailNow));
  EXPECT_MESSAGE("the fake's compiler said no");
  EXPECT_STREQ("fail now (fill): -> float32(0,)", uhal_last_error()->op);
  EXPECT_STREQ("rdna:0 (fake)", uhal_last_error()->device);
  EXPECT_EQ(77, uhal_last_error()->native_code);
  control->silent_failures = true;
  EXPECT_STATUS(UHAL_INTERNAL, launch(stream, fake::kFailNow));
  EXPECT_MESSAGE("The backend 'fake' failed in launch with INTERNAL and gave no message");
}

TEST_F(AsynchronousStreamTest, ErrorsStickUntilTheyComeOutOnce) {
  uhal_stream* other = create();
  EXPECT_OK(launch(other, fake::kFailLater));
  EXPECT_OK(launch(other, nullptr));
  EXPECT_OK(uhal_stream_synchronize(stream));  // not this one's
  EXPECT_STATUS(UHAL_INTERNAL, uhal_stream_synchronize(other));
  EXPECT_MESSAGE("fail later");
  EXPECT_MESSAGE("the fake's queue hung up");
  EXPECT_STREQ("fail later", uhal_last_error()->op);
  EXPECT_STREQ("rdna:0 (fake)", uhal_last_error()->device);
  EXPECT_OK(uhal_stream_synchronize(other));
  EXPECT_OK(launch(other, fake::kFailLater));
  int32_t done = 0;
  uhal_status status = UHAL_OK;
  while (status == UHAL_OK && done == 0) status = uhal_stream_query(other, &done);
  if (status == UHAL_OK) status = uhal_stream_query(other, &done);
  EXPECT_STATUS(UHAL_INTERNAL, status);
  EXPECT_OK(launch(other, fake::kFailLater));
  EXPECT_STATUS(UHAL_INTERNAL, uhal_device_synchronize(device));
  EXPECT_OK(uhal_device_synchronize(device));
  EXPECT_OK(launch(other, fake::kFailLater));
  EXPECT_STATUS(UHAL_INTERNAL, uhal_stream_destroy(other));  // destroyed all the same
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_synchronize(other));
}

TEST_F(AsynchronousStreamTest, WaitsForEventsOfOtherStreams) {
  uhal_stream* other = create();
  uhal_event* event;
  ASSERT_OK(uhal_event_create(device, &event));
  auto* y = static_cast<float*>(allocate(16));
  std::atomic<int> order{0};
  int first = 0, second = 0;
  struct Step {
    std::atomic<int>* order;
    int* place;
  } steps[2] = {{&order, &first}, {&order, &second}};
  auto note = [](void* data) {
    auto* step = static_cast<Step*>(data);
    *step->place = ++*step->order;
  };
  control->hold_streams = true;
  ASSERT_OK(uhal_stream_host_callback(stream, note, &steps[0]));
  ASSERT_OK(uhal_event_record(event, stream));
  ASSERT_OK(uhal_stream_wait_event(other, event));
  ASSERT_OK(uhal_stream_host_callback(other, note, &steps[1]));
  int32_t done = 1;
  ASSERT_OK(uhal_stream_query(other, &done));
  EXPECT_EQ(0, done);
  control->hold_streams = false;
  ASSERT_OK(uhal_stream_synchronize(other));
  EXPECT_EQ(1, first);
  EXPECT_EQ(2, second);
  EXPECT_OK(uhal_event_destroy(event));
  EXPECT_OK(uhal_stream_destroy(other));
  release(y);
}

TEST_F(AsynchronousStreamTest, ACallbackMaySubmitToItsStream) {
  auto* y = static_cast<float*>(allocate(16, stream));
  struct Context {
    uhal_stream* stream;
    float* y;
    uhal_status status;
  } context = {stream, y, UHAL_UNKNOWN};
  auto submit = [](void* data) {
    auto* c = static_cast<Context*>(data);
    c->status = launch(c->stream, "inside", c->y);
  };
  ASSERT_OK(uhal_stream_host_callback(stream, submit, &context));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(UHAL_OK, context.status);
  EXPECT_EQ(0.0f, y[3]);
  release(y, stream);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_host_callback(stream, nullptr, nullptr));
}

// What each function that waits gives inside a callback of `stream`.
struct Waits {
  uhal_device* device;
  uhal_stream* stream;
  uhal_stream* other;
  uhal_event* event;
  uhal_status statuses[7] = {};
  std::string message;
  bool ran = false;

  static void all(void* data) {
    auto* waits = static_cast<Waits*>(data);
    uhal_status* next = waits->statuses;
    *next++ = uhal_stream_synchronize(waits->stream);
    waits->message = last_message();
    *next++ = uhal_stream_synchronize(waits->other);
    *next++ = uhal_event_synchronize(waits->event);
    *next++ = uhal_device_synchronize(waits->device);
    *next++ = uhal_stream_destroy(waits->stream);
    *next++ = uhal_stream_destroy(waits->other);
    *next++ = uhal_profiler_stop();
    uhal_finalize();
    waits->ran = true;
  }
};

class CallbackTest : public AsynchronousStreamTest, public testing::WithParamInterface<bool> {
 protected:
  void configure() override { control->asynchronous = GetParam(); }
};

TEST_P(CallbackTest, ACallbackCannotWait) {
  Waits waits = {device, create(), create(), nullptr};
  ASSERT_OK(uhal_event_create(device, &waits.event));
  control->hold_streams = true;
  ASSERT_OK(uhal_stream_host_callback(waits.stream, Waits::all, &waits));
  // Reached after the callback only: waiting for it there, or for a stream that does, would never end.
  ASSERT_OK(uhal_event_record(waits.event, waits.stream));
  ASSERT_OK(uhal_stream_wait_event(waits.other, waits.event));
  control->hold_streams = false;
  ASSERT_OK(uhal_device_synchronize(device));
  ASSERT_TRUE(waits.ran);
  for (uhal_status status : waits.statuses) EXPECT_EQ(UHAL_FAILED_PRECONDITION, status);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "uhal_stream_synchronize was called inside a host callback", waits.message);
  EXPECT_OK(uhal_event_synchronize(waits.event));
  EXPECT_OK(uhal_event_destroy(waits.event));
  EXPECT_OK(uhal_stream_destroy(waits.stream));
  EXPECT_OK(uhal_stream_destroy(waits.other));
}

// Also where the backend calls it before its slot returns.
TEST_P(CallbackTest, ACallbackSubmitsToItsStreamAndMoreCallbacks) {
  struct Chain {
    uhal_stream* stream;
    float* y;
    int left;
    static void next(void* data) {
      auto* chain = static_cast<Chain*>(data);
      EXPECT_OK(launch(chain->stream, "inside", chain->y));
      --chain->left;
      if (chain->left > 0) {
        EXPECT_OK(uhal_stream_host_callback(chain->stream, next, chain));
      }
    }
  } chain = {stream, static_cast<float*>(allocate(16, stream)), 20};
  ASSERT_OK(uhal_stream_host_callback(stream, Chain::next, &chain));
  while (control->callback_calls < 20) EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(0, chain.left);
  release(chain.y, stream);
}

INSTANTIATE_TEST_SUITE_P(Modes, CallbackTest, testing::Bool());

// A wait of a thread with a wait function ends when that says so; the work goes on.
TEST_F(AsynchronousStreamTest, WaitsGiveWay) {
  auto* y = static_cast<float*>(allocate(16));
  uhal_stream* other = create();
  uhal_event* event;
  ASSERT_OK(uhal_event_create(device, &event));
  control->hold_streams = true;
  ASSERT_OK(launch(other, nullptr, y));
  ASSERT_OK(uhal_event_record(event, other));
  int asked = 0;
  uhal_set_wait_function([](void* count) -> int32_t { return ++*static_cast<int*>(count) >= 2; }, &asked);
  EXPECT_STATUS(UHAL_CANCELLED, uhal_stream_synchronize(other));
  EXPECT_EQ(2, asked);
  EXPECT_STATUS(UHAL_CANCELLED, uhal_event_synchronize(event));
  EXPECT_STATUS(UHAL_CANCELLED, uhal_device_synchronize(device));
  EXPECT_STATUS(UHAL_CANCELLED, uhal_stream_destroy(other));
  EXPECT_MESSAGE("the work goes on");
  std::thread([&] {
    int32_t done = 1;  // another thread's waits do not ask
    EXPECT_OK(uhal_event_query(event, &done));
    EXPECT_EQ(0, done);
    control->hold_streams = false;
    EXPECT_OK(uhal_event_synchronize(event));
  }).join();
  asked = -1000000;
  EXPECT_OK(uhal_stream_synchronize(other));
  uhal_set_wait_function(nullptr, nullptr);
  EXPECT_EQ(0.0f, y[3]);
  EXPECT_OK(uhal_stream_destroy(other));
  EXPECT_OK(uhal_event_destroy(event));
  release(y);
}

// The fake counts the threads inside one stream's slots; TearDown expects at most one.
TEST_F(AsynchronousStreamTest, SubmissionsOfManyThreadsAreSerialized) {
  auto* y = static_cast<float*>(allocate(16));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 300; ++k) EXPECT_OK(launch(stream, nullptr, y));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(uhal_device_synchronize(device));
  EXPECT_EQ(1200, control->launch_calls.load());
  release(y);
}

// One thread destroys streams that others are using: each call either works or is refused.
TEST_F(AsynchronousStreamTest, DestroyWhileOthersUseIt) {
  for (int round = 0; round < 20; ++round) {
    uhal_stream* shared = create();
    std::vector<std::thread> users;
    for (int i = 0; i < 3; ++i) {
      users.emplace_back([&] {
        for (int k = 0; k < 50; ++k) {
          uhal_status status = k % 2 == 0 ? launch(shared, nullptr) : uhal_stream_synchronize(shared);
          EXPECT_TRUE(status == UHAL_OK || status == UHAL_INVALID_ARGUMENT) << last_message();
        }
      });
    }
    EXPECT_OK(uhal_stream_destroy(shared));
    for (std::thread& user : users) user.join();
  }
  EXPECT_EQ(1, control->live_streams.load());
}

}  // namespace
}  // namespace core_test
