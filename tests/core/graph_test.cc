// Graphs at the boundary, on the fake backend: what a capture takes and refuses, whose memory is whose, and the order
// of launches. What graphs compute is in the suite for backends (python/unihal/conformance/graphs.py).
#include "unihal/graph_capture.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/core_test.h"
#include "unihal/check.h"

namespace {

class Graph : public core_test::CoreTest {
 protected:
  void configure() override { control->asynchronous = true; }

  void TearDown() override {
    EXPECT_EQ(0, control->calls_in_capture.load());
    EXPECT_EQ(0, control->live_graphs.load());
    EXPECT_EQ(0, control->stray_fills.load());
    CoreTest::TearDown();
  }

  void begin() { ASSERT_OK(uhal_graph_capture_begin(stream)); }

  uhal_graph* end() {
    uhal_graph* graph = nullptr;
    EXPECT_OK(uhal_graph_capture_end(stream, &graph));
    return graph;
  }

  uhal_status fill(void* memory, uint8_t value, size_t bytes = kBytes, uhal_stream* on = nullptr) {
    return uhal_memory_fill(on != nullptr ? on : stream, memory, &value, 1, bytes);
  }

  // The first byte, once `on` has run.
  int first_byte(void* memory, uhal_stream* on = nullptr) {
    EXPECT_OK(uhal_stream_synchronize(on != nullptr ? on : stream));
    return *static_cast<unsigned char*>(memory);
  }

  uhal_op workspace_op(uhal_tensor* y, const uhal_tensor** outputs, void* memory, int64_t count) {
    *y = {};
    y->struct_size = sizeof *y;
    y->data = memory;
    y->dtype = UHAL_FLOAT32;
    y->rank = 1;
    y->shape[0] = count;
    y->strides[0] = 1;
    outputs[0] = y;
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = UHAL_OP_FILL;
    op.output_count = 1;
    op.outputs = outputs;
    op.attributes = &attributes;
    op.label = fake::kWorkspace;
    return op;
  }

  static constexpr size_t kBytes = 1000;
  uhal_fill_attributes attributes = {sizeof(uhal_fill_attributes), 0, 0};
};

TEST_F(Graph, CapturedWorkRunsAtEachLaunchOnly) {
  void* memory = allocate(kBytes);
  ASSERT_OK(fill(memory, 1));
  begin();
  ASSERT_OK(fill(memory, 2));
  uhal_graph* graph = end();
  EXPECT_EQ(1, first_byte(memory));
  ASSERT_OK(uhal_graph_launch(graph, stream));
  EXPECT_EQ(2, first_byte(memory));
  ASSERT_OK(fill(memory, 3));
  ASSERT_OK(uhal_graph_launch(graph, stream));
  EXPECT_EQ(2, first_byte(memory));
  EXPECT_OK(uhal_graph_destroy(graph));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_graph_launch(graph, stream));
  EXPECT_MESSAGE("does not exist: it was destroyed");
  release(memory);
}

TEST_F(Graph, TellsWhatItHolds) {
  void* memory = allocate(2 * kBytes);
  begin();
  int32_t capturing = 0;
  EXPECT_OK(uhal_graph_capture_query(stream, &capturing));
  EXPECT_EQ(1, capturing);
  ASSERT_OK(fill(memory, 2));
  ASSERT_OK(uhal_copy(stream, static_cast<char*>(memory) + kBytes, memory, kBytes, UHAL_COPY_DEVICE_TO_DEVICE));
  uhal_graph* graph = end();
  EXPECT_OK(uhal_graph_capture_query(stream, &capturing));
  EXPECT_EQ(0, capturing);
  uhal_graph_info info = {};
  info.struct_size = sizeof info;
  ASSERT_OK(uhal_graph_info_get(graph, &info));
  EXPECT_EQ(device, info.device);
  EXPECT_EQ(2u, info.work_count);
  EXPECT_EQ(3 * kBytes, info.bytes);
  EXPECT_OK(uhal_graph_destroy(graph));
  release(memory);
}

TEST_F(Graph, WithoutTheExtensionNothingIsCaptured) {
  control->captures = false;
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_graph_capture_begin(stream));
  EXPECT_MESSAGE("The backend 'fake' captures no graphs");
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(Graph, WrongOrderIsRefused) {
  uhal_graph* graph = nullptr;
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_capture_end(stream, &graph));
  EXPECT_MESSAGE("is not capturing");
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_capture_cancel(stream));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_graph_capture_end(stream, nullptr));
  begin();
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_capture_begin(stream));
  EXPECT_MESSAGE("Another capture cannot be captured");
  EXPECT_OK(uhal_graph_capture_cancel(stream));
  EXPECT_OK(uhal_stream_synchronize(stream));
}

void never_called(void*) { ADD_FAILURE() << "a callback of a capture ran"; }

TEST_F(Graph, WhatCannotBeCapturedIsRefusedAndTheCaptureGoesOn) {
  void* memory = allocate(kBytes);
  std::vector<char> host(kBytes);
  uhal_stream* other = nullptr;
  uhal_event* event = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  ASSERT_OK(uhal_event_create(device, &event));
  ASSERT_OK(uhal_event_record(event, other));
  begin();
  ASSERT_OK(fill(memory, 2));
  int32_t done = 0;
  const auto refuse = [&](uhal_status status, const char* text) {
    EXPECT_STATUS(UHAL_FAILED_PRECONDITION, status);
    EXPECT_MESSAGE(text);
    EXPECT_STREQ("rdna:0 (fake)", uhal_last_error()->device);
  };
  refuse(uhal_stream_query(stream, &done), "A query of the stream cannot be captured");
  refuse(uhal_stream_synchronize(stream), "A wait for the stream cannot be captured");
  refuse(uhal_device_synchronize(device), "A wait for the stream cannot be captured");
  refuse(uhal_stream_host_callback(stream, never_called, nullptr), "A host callback cannot be captured");
  refuse(uhal_copy(stream, memory, host.data(), kBytes, UHAL_COPY_HOST_TO_DEVICE), "pageable host memory");
  refuse(uhal_copy(stream, host.data(), memory, kBytes, UHAL_COPY_DEVICE_TO_HOST), "pageable host memory");
  refuse(uhal_stream_wait_event(stream, event), "A wait for an event that was not recorded in this capture");
  control->refuse_launches = true;
  uhal_tensor y;
  const uhal_tensor* outputs[1];
  const uhal_op op = workspace_op(&y, outputs, memory, 10);
  refuse(uhal_launch(stream, &op), "An op that the device refuses (the fake leaves this to others)");
  control->refuse_launches = false;
  uhal_graph* graph = end();
  uhal_graph_info info = {};
  info.struct_size = sizeof info;
  ASSERT_OK(uhal_graph_info_get(graph, &info));
  EXPECT_EQ(1u, info.work_count);
  begin();
  refuse(uhal_graph_launch(graph, stream), "A launch of a graph cannot be captured");
  EXPECT_OK(uhal_graph_capture_cancel(stream));
  EXPECT_OK(uhal_graph_destroy(graph));
  EXPECT_OK(uhal_event_destroy(event));
  EXPECT_OK(uhal_stream_destroy(other));
  release(memory);
}

TEST_F(Graph, EventsOfACaptureStayInIt) {
  uhal_stream* other = nullptr;
  uhal_event* event = nullptr;
  uhal_event* unrecorded = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  ASSERT_OK(uhal_event_create(device, &event));
  ASSERT_OK(uhal_event_create(device, &unrecorded));
  begin();
  ASSERT_OK(uhal_event_record(event, stream));
  EXPECT_OK(uhal_stream_wait_event(stream, event));
  EXPECT_OK(uhal_stream_wait_event(stream, unrecorded));
  uhal_graph* graph = end();
  int32_t done = 0;
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_stream_wait_event(other, event));
  EXPECT_MESSAGE("recorded last in a capture");
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_event_query(event, &done));
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_event_synchronize(event));
  begin();  // of another capture it is no place either
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_stream_wait_event(stream, event));
  EXPECT_OK(uhal_graph_capture_cancel(stream));
  EXPECT_OK(uhal_event_record(event, stream));
  EXPECT_OK(uhal_event_synchronize(event));
  EXPECT_OK(uhal_stream_wait_event(other, event));
  EXPECT_OK(uhal_stream_synchronize(other));
  EXPECT_OK(uhal_graph_destroy(graph));
  EXPECT_OK(uhal_event_destroy(event));
  EXPECT_OK(uhal_event_destroy(unrecorded));
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(Graph, PinnedMemoryIsCopied) {
  void* memory = allocate(kBytes);
  void* pinned = nullptr;
  ASSERT_OK(uhal_allocate(device, nullptr, UHAL_MEMORY_PINNED, kBytes, &pinned));
  begin();
  ASSERT_OK(uhal_copy(stream, memory, pinned, kBytes, UHAL_COPY_HOST_TO_DEVICE));
  uhal_graph* graph = end();
  for (int value : {5, 6}) {
    memset(pinned, value, kBytes);
    ASSERT_OK(uhal_graph_launch(graph, stream));
    EXPECT_EQ(value, first_byte(memory));
  }
  EXPECT_OK(uhal_free(device, nullptr, pinned));
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_launch(graph, stream));
  EXPECT_OK(uhal_graph_destroy(graph));
  release(memory);
}

TEST_F(Graph, FreedMemoryIsFoundBeforeALaunch) {
  void* memory = allocate(kBytes);
  begin();
  ASSERT_OK(fill(memory, 2));
  uhal_graph* graph = end();
  ASSERT_OK(uhal_graph_launch(graph, stream));
  release(memory, stream);
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_launch(graph, stream));
  EXPECT_MESSAGE("The graph uses an allocation of 1000 bytes at");
  void* again = allocate(kBytes, stream);
  EXPECT_EQ(memory, again);
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_launch(graph, stream));
  release(again, stream);
  EXPECT_OK(uhal_graph_destroy(graph));
}

TEST_F(Graph, MemoryFreedInTheCaptureIsUsedAgainInIt) {
  begin();
  void* first = allocate(kBytes, stream);
  ASSERT_OK(fill(first, 1));
  release(first, stream);
  void* second = allocate(kBytes, stream);
  EXPECT_EQ(first, second);
  ASSERT_OK(fill(second, 2));
  release(second, stream);
  uhal_graph* graph = end();
  // It is the graph's until that is destroyed.
  void* stranger = allocate(kBytes, stream);
  EXPECT_NE(first, stranger);
  ASSERT_OK(uhal_graph_launch(graph, stream));
  EXPECT_OK(uhal_graph_destroy(graph));
  void* later = allocate(kBytes);
  EXPECT_EQ(first, later);
  release(stranger);
  release(later);
}

TEST_F(Graph, MemoryOfTheCaptureThatIsFreedLaterStaysTheGraphs) {
  begin();
  void* memory = allocate(kBytes, stream);
  ASSERT_OK(fill(memory, 7));
  uhal_graph* graph = end();
  ASSERT_OK(uhal_graph_launch(graph, stream));
  EXPECT_EQ(7, first_byte(memory));
  release(memory, stream);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_free(device, stream, memory));
  void* other = allocate(kBytes, stream);
  EXPECT_NE(memory, other);
  ASSERT_OK(fill(other, 1));
  ASSERT_OK(uhal_graph_launch(graph, stream));  // writes to its own memory still
  EXPECT_EQ(1, first_byte(other));
  release(other, stream);
  EXPECT_OK(uhal_graph_destroy(graph));
  EXPECT_EQ(0u, memory_stats().live_allocations);
}

TEST_F(Graph, MemoryFreedForAnotherStreamComesBackInItsOrder) {
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  begin();
  void* memory = allocate(kBytes, stream);
  ASSERT_OK(fill(memory, 7));
  uhal_graph* graph = end();
  control->hold_streams = true;
  ASSERT_OK(fill(memory, 8, kBytes, other));
  release(memory, other);
  EXPECT_OK(uhal_graph_destroy(graph));  // was never launched
  void* mine = allocate(kBytes, stream);
  EXPECT_NE(memory, mine) << "its last use, on the other stream, has not run";
  void* theirs = allocate(kBytes, other);
  EXPECT_EQ(memory, theirs);
  control->hold_streams = false;
  EXPECT_OK(uhal_stream_synchronize(other));
  release(mine);
  release(theirs);
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(Graph, MemoryThatWasNotFreedOutlivesTheGraph) {
  begin();
  void* memory = allocate(kBytes, stream);
  ASSERT_OK(fill(memory, 7));
  uhal_graph* graph = end();
  ASSERT_OK(uhal_graph_launch(graph, stream));
  EXPECT_OK(uhal_graph_destroy(graph));
  EXPECT_EQ(7, first_byte(memory));
  release(memory, stream);
  void* again = allocate(kBytes, stream);
  EXPECT_EQ(memory, again) << "freed as any other";
  release(again);
}

TEST_F(Graph, ScratchMemoryOfCapturedWorkIsTheGraphs) {
  void* memory = allocate(4000);
  uhal_tensor y;
  const uhal_tensor* outputs[1];
  const uhal_op op = workspace_op(&y, outputs, memory, 1000);
  ASSERT_OK(uhal_launch(stream, &op));
  void* const of_stream = control->last_workspace;
  begin();
  ASSERT_OK(uhal_launch(stream, &op));
  void* const of_graph = control->last_workspace;
  EXPECT_NE(of_stream, of_graph);
  uhal_graph* graph = end();
  ASSERT_OK(uhal_launch(stream, &op));
  EXPECT_EQ(of_stream, control->last_workspace.load());
  void* other = allocate(5000, stream);
  EXPECT_NE(of_graph, other);
  EXPECT_OK(uhal_graph_destroy(graph));
  release(other);
  release(memory);
  // The stream has its own still.
  EXPECT_EQ(1u, memory_stats().live_allocations);
  uhal_finalize();
  process_is_finished = true;
}

// Ends late, and says so.
void run_late(void* ran) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  static_cast<std::atomic<bool>*>(ran)->store(true);
}

TEST_F(Graph, LaunchesRunOneAfterTheOtherOnWhateverStreams) {
  void* memory = allocate(kBytes);
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  begin();
  ASSERT_OK(fill(memory, 2));
  uhal_graph* graph = end();
  std::atomic<bool> ran = false;
  ASSERT_OK(uhal_stream_host_callback(stream, run_late, &ran));
  ASSERT_OK(uhal_graph_launch(graph, stream));
  ASSERT_OK(uhal_graph_launch(graph, other));
  EXPECT_EQ(2, first_byte(memory, other));
  EXPECT_TRUE(ran) << "the second launch came before the first one had run";
  EXPECT_OK(uhal_stream_destroy(other));
  ASSERT_OK(uhal_graph_launch(graph, stream));  // after a stream that is gone
  EXPECT_OK(uhal_graph_destroy(graph));
  release(memory);
}

TEST_F(Graph, IsDestroyedOnceItHasRun) {
  void* memory = allocate(kBytes);
  begin();
  void* scratch = allocate(kBytes, stream);
  ASSERT_OK(fill(scratch, 2));
  ASSERT_OK(uhal_copy(stream, memory, scratch, kBytes, UHAL_COPY_DEVICE_TO_DEVICE));
  release(scratch, stream);
  uhal_graph* graph = end();
  for (int i = 0; i < 20; ++i) ASSERT_OK(uhal_graph_launch(graph, stream));
  EXPECT_OK(uhal_graph_destroy(graph));
  EXPECT_EQ(0, control->live_graphs.load());
  EXPECT_EQ(2, *static_cast<unsigned char*>(memory));
  release(memory);
}

TEST_F(Graph, AFailedEndLeavesNothing) {
  begin();
  void* memory = allocate(kBytes, stream);
  release(memory, stream);
  control->fail_capture_end_in = 1;
  uhal_graph* graph = reinterpret_cast<uhal_graph*>(1);
  EXPECT_STATUS(UHAL_INTERNAL, uhal_graph_capture_end(stream, &graph));
  EXPECT_MESSAGE("the capture was lost");
  EXPECT_EQ(nullptr, graph);
  void* again = allocate(kBytes);
  EXPECT_EQ(memory, again);
  release(again);
  EXPECT_OK(uhal_stream_synchronize(stream));
}

TEST_F(Graph, AStreamThatIsDestroyedDropsItsCapture) {
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  ASSERT_OK(uhal_graph_capture_begin(other));
  void* memory = allocate(kBytes, other);
  ASSERT_OK(fill(memory, 1, kBytes, other));
  EXPECT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(0, control->live_graphs.load());
  release(memory);
}

TEST_F(Graph, AnotherDevicesStreamIsRefused) {
  uhal_device* second = nullptr;
  uhal_stream* stranger = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 1, &second));
  ASSERT_OK(uhal_device_default_stream(second, &stranger));
  begin();
  uhal_graph* graph = end();
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_graph_launch(graph, stranger));
  EXPECT_MESSAGE("the graph was captured on rdna:0 (fake)");
  EXPECT_OK(uhal_graph_launch(graph, stream));
  EXPECT_OK(uhal_graph_destroy(graph));
}

void destroy_in_callback(void* graph) {
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_destroy(static_cast<uhal_graph*>(graph)));
}

TEST_F(Graph, IsNotDestroyedInAHostCallback) {
  begin();
  uhal_graph* graph = end();
  ASSERT_OK(uhal_stream_host_callback(stream, destroy_in_callback, graph));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_graph_destroy(graph));
}

TEST_F(Graph, TheProfilerHasOneRecordOfALaunch) {
  void* memory = allocate(kBytes);
  begin();
  ASSERT_OK(uhal_profiler_start());
  ASSERT_OK(fill(memory, 2));
  ASSERT_OK(fill(memory, 3));
  uhal_graph* graph = end();
  ASSERT_OK(uhal_graph_launch(graph, stream));
  ASSERT_OK(uhal_profiler_stop());
  ASSERT_EQ(1u, uhal_profiler_event_count());
  uhal_profiler_event event = {};
  event.struct_size = sizeof event;
  ASSERT_OK(uhal_profiler_event_get(0, &event));
  EXPECT_STREQ("graph", event.op);
  EXPECT_STREQ("2 pieces of work", event.shape);
  EXPECT_EQ(2 * kBytes, event.bytes);
  EXPECT_OK(uhal_graph_destroy(graph));
  uhal_profiler_clear();
  release(memory);
}

class GraphWithNanCheck : public core_test::CoreTest {
 protected:
  void configure() override { setenv("UNIHAL_CHECK_NAN", "1", 1); }
};

TEST_F(GraphWithNanCheck, DoesNotBegin) {
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_graph_capture_begin(stream));
  EXPECT_MESSAGE("No capture begins with UNIHAL_CHECK_NAN");
}

class GraphWithRaceCheck : public Graph {
 protected:
  void configure() override {
    setenv("UNIHAL_CHECK_RACES", "1", 1);
    Graph::configure();
  }

  void TearDown() override {
    uhal_race_clear();
    Graph::TearDown();
  }
};

TEST_F(GraphWithRaceCheck, ALaunchIsWorkThatTouchesWhatItsPartsTouch) {
  void* memory = allocate(kBytes);
  void* more = allocate(kBytes);
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  begin();
  ASSERT_OK(fill(memory, 1));
  void* own = allocate(kBytes, stream);
  ASSERT_OK(uhal_copy(stream, own, memory, kBytes, UHAL_COPY_DEVICE_TO_DEVICE));
  uhal_graph* graph = end();
  ASSERT_OK(fill(memory, 2, kBytes, other));
  EXPECT_OK(uhal_stream_synchronize(other));
  ASSERT_OK(fill(more, 2, kBytes, other));
  ASSERT_OK(uhal_graph_launch(graph, stream));
  ASSERT_OK(uhal_graph_launch(graph, other));
  release(own, other);  // the graph's, which a launch may still be writing
  EXPECT_EQ(0u, uhal_race_count());
  ASSERT_OK(fill(memory, 3));
  EXPECT_EQ(2u, uhal_race_count()) << "with what the launch on the other stream writes, and with what it reads";
  ASSERT_OK(uhal_graph_destroy(graph));
  uhal_race_clear();
  ASSERT_OK(fill(memory, 4, kBytes, other));
  EXPECT_OK(uhal_device_synchronize(device));
  uhal_race_clear();
  EXPECT_OK(uhal_stream_destroy(other));
  release(memory);
  release(more);
}

}  // namespace
