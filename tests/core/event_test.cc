// Events: record, query, time, and handles that are not valid.
#include "tests/core/core_test.h"

namespace core_test {
namespace {

class EventTest : public CoreTest {
 protected:
  void configure() override { control->asynchronous = true; }

  uhal_event* create() {
    uhal_event* event = nullptr;
    EXPECT_OK(uhal_event_create(device, &event));
    return event;
  }
};

TEST_F(EventTest, AnUnrecordedEventIsComplete) {
  uhal_event* event = create();
  int32_t done = 0;
  EXPECT_OK(uhal_event_query(event, &done));
  EXPECT_EQ(1, done);
  EXPECT_OK(uhal_event_synchronize(event));
  EXPECT_OK(uhal_stream_wait_event(stream, event));
  EXPECT_OK(uhal_event_destroy(event));
}

TEST_F(EventTest, IsReachedAfterTheWorkBefore) {
  uhal_event* event = create();
  control->hold_streams = true;
  ASSERT_OK(uhal_event_record(event, stream));
  int32_t done = 1;
  EXPECT_OK(uhal_event_query(event, &done));
  EXPECT_EQ(0, done);
  control->hold_streams = false;
  EXPECT_OK(uhal_event_synchronize(event));
  EXPECT_OK(uhal_event_query(event, &done));
  EXPECT_EQ(1, done);
  EXPECT_OK(uhal_event_record(event, stream));  // again
  EXPECT_OK(uhal_event_destroy(event));         // pending or not
}

TEST_F(EventTest, MeasuresTime) {
  uhal_event* start = create();
  uhal_event* end = create();
  int64_t nanoseconds = -1;
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_event_elapsed_nanoseconds(start, end, &nanoseconds));
  EXPECT_MESSAGE("The start event was not recorded");
  ASSERT_OK(uhal_event_record(start, stream));
  ASSERT_OK(uhal_event_synchronize(start));
  control->hold_streams = true;
  ASSERT_OK(uhal_event_record(end, stream));
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_event_elapsed_nanoseconds(start, end, &nanoseconds));
  EXPECT_MESSAGE("The end event has not been reached");
  control->hold_streams = false;
  ASSERT_OK(uhal_event_synchronize(end));
  EXPECT_OK(uhal_event_elapsed_nanoseconds(start, end, &nanoseconds));
  EXPECT_GT(nanoseconds, 0);
  EXPECT_OK(uhal_event_elapsed_nanoseconds(start, start, &nanoseconds));
  EXPECT_EQ(0, nanoseconds);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_elapsed_nanoseconds(start, end, nullptr));
  EXPECT_OK(uhal_event_destroy(start));
  EXPECT_OK(uhal_event_destroy(end));
}

TEST_F(EventTest, UseAfterDestroyIsRefused) {
  uhal_event* gone = create();
  ASSERT_OK(uhal_event_destroy(gone));
  uhal_event* next = create();
  int32_t done;
  int64_t nanoseconds;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_destroy(gone));
  EXPECT_MESSAGE("does not exist: it was destroyed");
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_query(gone, &done));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_synchronize(gone));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_record(gone, stream));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_wait_event(stream, gone));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_elapsed_nanoseconds(next, gone, &nanoseconds));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_synchronize(reinterpret_cast<uhal_event*>(stream)));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_synchronize(nullptr));
  EXPECT_OK(uhal_event_destroy(nullptr));
  EXPECT_OK(uhal_event_destroy(next));
  EXPECT_EQ(0, control->live_events.load());
}

TEST_F(EventTest, OfAnotherDevice) {
  uhal_device* other;
  uhal_stream* others_stream;
  ASSERT_OK(uhal_device_get("rdna", 1, &other));
  ASSERT_OK(uhal_device_default_stream(other, &others_stream));
  uhal_event* event = create();
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_record(event, others_stream));
  EXPECT_MESSAGE("An event of device rdna:0 (fake) cannot be recorded on a stream of device rdna:1 (fake)");
  ASSERT_OK(uhal_event_record(event, stream));
  EXPECT_OK(uhal_stream_wait_event(others_stream, event));  // waiting across devices is allowed
  uhal_event* others_event;
  ASSERT_OK(uhal_event_create(other, &others_event));
  ASSERT_OK(uhal_event_record(others_event, others_stream));
  ASSERT_OK(uhal_event_synchronize(others_event));
  int64_t nanoseconds;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_elapsed_nanoseconds(event, others_event, &nanoseconds));
  EXPECT_MESSAGE("rdna:1 (fake)");
  EXPECT_OK(uhal_event_destroy(event));
  EXPECT_OK(uhal_event_destroy(others_event));
}

}  // namespace
}  // namespace core_test
