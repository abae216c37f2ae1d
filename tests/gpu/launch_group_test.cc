// Launch groups: what becomes one launch of the driver, and what does not. What the launches compute is in the suite
// for backends.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "tests/gpu/gpu_test.h"
#include "unihal/graph_capture.h"
#include "unihal/profiler.h"

namespace gpu_test {
namespace {

class LaunchGroupTest : public GpuTest {
 protected:
  explicit LaunchGroupTest(const Vendor& tested = kRocm) : GpuTest(tested) {}

  uhal_status map(const char* function, const std::vector<uhal_tensor>& inputs, const std::vector<uhal_tensor>& outputs,
                  const std::vector<double>& parameters = {}) {
    std::vector<const uhal_tensor*> in, out;
    for (const uhal_tensor& view : inputs) in.push_back(&view);
    for (const uhal_tensor& view : outputs) out.push_back(&view);
    uhal_map_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.function = uhal_map_function_find(function);
    std::copy(parameters.begin(), parameters.end(), attributes.parameters);
    const uhal_op op = {sizeof op,
                        UHAL_OP_MAP,
                        static_cast<int32_t>(in.size()),
                        static_cast<int32_t>(out.size()),
                        0,
                        in.data(),
                        out.data(),
                        &attributes,
                        nullptr};
    return uhal_launch(stream, &op);
  }

  std::vector<uhal_tensor> vectors(int count, int64_t elements = 100) {
    std::vector<uhal_tensor> made;
    for (int i = 0; i < count; ++i) made.push_back(vector(elements + i));
    return made;
  }

  int launches() { return calls(vendor, launch_function) - launched_before; }

  void start() {
    ASSERT_OK(uhal_launch_group_start(stream));
    launched_before = calls(vendor, launch_function);
  }
  void end() { EXPECT_OK(uhal_launch_group_end(stream)); }

  const char* launch_function = "hipModuleLaunchKernel";
  int launched_before = 0;
};

class CorexLaunchGroup : public LaunchGroupTest {
 protected:
  CorexLaunchGroup() : LaunchGroupTest(kCorex) { launch_function = "cuLaunchKernel"; }
};
using HipLaunchGroup = LaunchGroupTest;

TEST_F(HipLaunchGroup, IsOneLaunchOfMany) {
  const std::vector<uhal_tensor> x = vectors(32);
  start();
  for (const uhal_tensor& view : x) EXPECT_OK(map("relu", {view}, {view}));
  EXPECT_EQ(0, launches());
  end();
  EXPECT_EQ(1, launches());
}

TEST_F(CorexLaunchGroup, IsOneLaunchOfMany) {
  const std::vector<uhal_tensor> x = vectors(32);
  start();
  for (const uhal_tensor& view : x) EXPECT_OK(map("relu", {view}, {view}));
  end();
  EXPECT_EQ(1, launches());
}

TEST_F(HipLaunchGroup, IsSeveralLaunchesOfMore) {
  const std::vector<uhal_tensor> x = vectors(65);
  start();
  for (const uhal_tensor& view : x) EXPECT_OK(map("relu", {view}, {view}));
  end();
  EXPECT_EQ(3, launches());
}

TEST_F(HipLaunchGroup, ASharedRateIsNoDependency) {
  const std::vector<uhal_tensor> parameters = vectors(20), gradients = vectors(20), velocities = vectors(20);
  const uhal_tensor rate = vector(1);
  start();
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_OK(map("momentum", {parameters[i], gradients[i], velocities[i], rate}, {parameters[i], velocities[i]},
                  {0.9, 0, 0, 1}));
  }
  end();
  EXPECT_EQ(1, launches());
}

TEST_F(HipLaunchGroup, OneElementFitsAnyPattern) {
  std::vector<uhal_tensor> x = {vector(1), vector(500), vector(1), vector(3)};
  std::vector<uhal_tensor> y = {vector(1), vector(500), vector(1), vector(3)};
  start();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_OK(map("add", {x[i], y[i]}, {x[i]}));
  end();
  EXPECT_EQ(1, launches());
}

TEST_F(HipLaunchGroup, ChainsAreJoined) {
  const std::vector<uhal_tensor> x = vectors(10);
  uhal_map_chain_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.step_count = 2;
  attributes.functions[0] = uhal_map_function_find("relu");
  attributes.functions[1] = uhal_map_function_find("negative");
  attributes.operands[1][0] = 1;
  attributes.results[0] = 2;
  start();
  for (const uhal_tensor& view : x) EXPECT_OK(launch(UHAL_OP_MAP_CHAIN, view, view, &attributes));
  attributes.functions[1] = uhal_map_function_find("relu");
  EXPECT_OK(launch(UHAL_OP_MAP_CHAIN, x[0], x[0], &attributes));
  end();
  EXPECT_EQ(2, launches());
}

TEST_F(HipLaunchGroup, PartsOfAConcatenationAreJoined) {
  // Three parts of 8, 4 and 12 channels of 5 images, whose rows lie between one another's; then back again.
  uhal_tensor whole = vector(5 * 24 * 16);
  whole.rank = 2;
  whole.shape[0] = 5;
  whole.shape[1] = whole.strides[0] = int64_t{24} * 16;
  whole.strides[1] = 1;
  std::vector<uhal_tensor> parts, places;
  int64_t first = 0;
  for (const int64_t channels : {8, 4, 12}) {
    uhal_tensor part = vector(5 * channels * 16), place = whole;
    part.rank = 2;
    part.shape[0] = 5;
    part.shape[1] = part.strides[0] = place.shape[1] = channels * 16;
    part.strides[1] = 1;
    place.data = static_cast<float*>(whole.data) + first * 16;
    parts.push_back(part);
    places.push_back(place);
    first += channels;
  }
  start();
  for (size_t i = 0; i < 3; ++i) EXPECT_OK(launch(UHAL_OP_COPY, parts[i], places[i], nullptr));
  end();
  EXPECT_EQ(1, launches());
  start();
  for (size_t i = 0; i < 3; ++i) EXPECT_OK(launch(UHAL_OP_COPY, places[i], parts[i], nullptr));
  end();
  EXPECT_EQ(1, launches());
  // A part that was just written is read only afterwards, and rows that overlap are written in order.
  start();
  for (size_t i = 0; i < 3; ++i) EXPECT_OK(launch(UHAL_OP_COPY, parts[i], places[i], nullptr));
  EXPECT_OK(launch(UHAL_OP_COPY, places[0], parts[0], nullptr));
  end();
  EXPECT_EQ(2, launches());
  uhal_tensor beside = places[1];
  beside.data = static_cast<float*>(beside.data) - 16;
  start();
  EXPECT_OK(launch(UHAL_OP_COPY, parts[1], places[1], nullptr));
  EXPECT_OK(launch(UHAL_OP_COPY, parts[1], beside, nullptr));
  end();
  EXPECT_EQ(2, launches());
}

TEST_F(HipLaunchGroup, MapsAndCopiesAreNot) {
  const uhal_tensor x = vector(100), y = vector(100), z = vector(100);
  start();
  EXPECT_OK(map("relu", {x}, {x}));
  EXPECT_OK(launch(UHAL_OP_COPY, y, z, nullptr));
  EXPECT_EQ(1, launches());
  EXPECT_OK(map("relu", {x}, {x}));
  EXPECT_EQ(2, launches());
  end();
  EXPECT_EQ(3, launches());
}

TEST_F(HipLaunchGroup, DependentOpsAreNotJoined) {
  const std::vector<uhal_tensor> x = vectors(4);
  const std::array<std::array<int, 4>, 3> pairs = {{
      {0, 1, 1, 2},  // reads what was written
      {0, 1, 2, 0},  // writes what was read
      {0, 1, 2, 1},  // writes what was written
  }};
  for (const auto& pair : pairs) {
    start();
    uhal_tensor views[4];
    for (size_t i = 0; i < 4; ++i) {
      views[i] = x[static_cast<size_t>(pair[i])];
      views[i].shape[0] = 100;
    }
    EXPECT_OK(map("relu", {views[0]}, {views[1]}));
    EXPECT_OK(map("relu", {views[2]}, {views[3]}));
    end();
    EXPECT_EQ(2, launches());
  }
}

TEST_F(HipLaunchGroup, PartsOfOneBufferAreJoinedIfTheyDoNotOverlap) {
  uhal_tensor a = vector(1000), b = a;
  a.shape[0] = b.shape[0] = 100;
  // Both lie at multiples of four elements: only the overlap keeps the first two apart.
  for (const auto& [first, expected] : {std::pair<int, int>{96, 2}, {100, 1}}) {
    b.data = static_cast<float*>(a.data) + first;
    start();
    EXPECT_OK(map("relu", {a}, {a}));
    EXPECT_OK(map("relu", {b}, {b}));
    end();
    EXPECT_EQ(expected, launches());
  }
}

TEST_F(HipLaunchGroup, WhatIsNotAlikeIsNotJoined) {
  const std::vector<uhal_tensor> x = vectors(12);
  uhal_tensor half = vector(100), shifted = vector(100), strided = vector(100), other = vector(1);
  half.dtype = UHAL_FLOAT16;
  shifted.data = static_cast<float*>(shifted.data) + 1;
  shifted.shape[0] = 50;
  strided.shape[0] = 50;
  strided.strides[0] = 2;
  start();
  EXPECT_OK(map("relu", {x[0]}, {x[0]}));
  EXPECT_OK(map("negative", {x[1]}, {x[1]}));             // another function
  EXPECT_OK(map("scale", {x[2]}, {x[2]}, {2, 0}));        // a third one
  EXPECT_OK(map("scale", {x[3]}, {x[3]}, {3, 0}));        // other parameters
  EXPECT_OK(map("scale", {half}, {half}, {3, 0}));        // another dtype
  EXPECT_OK(map("scale", {shifted}, {shifted}, {3, 0}));  // not aligned
  EXPECT_OK(map("scale", {strided}, {strided}, {3, 0}));  // with gaps
  EXPECT_OK(map("multiply", {x[4], other}, {x[4]}));      // with one number
  EXPECT_OK(map("multiply", {x[5], x[5]}, {x[5]}));       // with as many
  end();
  EXPECT_EQ(9, launches());
}

TEST_F(HipLaunchGroup, WhateverElseIsDoneSubmitsFirst) {
  const uhal_tensor x = vector(100), y = vector(100);
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  uhal_event* const event = record(other);
  int32_t done = 0;
  char host[400] = {};
  const auto bytes = sizeof host;
  const std::vector<std::pair<const char*, std::function<uhal_status()>>> others = {
      {"query", [&] { return uhal_stream_query(stream, &done); }},
      {"synchronize", [&] { return uhal_stream_synchronize(stream); }},
      {"record", [&] { return uhal_event_record(event, stream); }},
      {"wait", [&] { return uhal_stream_wait_event(stream, event); }},
      {"download", [&] { return uhal_copy(stream, host, x.data, bytes, UHAL_COPY_DEVICE_TO_HOST); }},
      {"upload", [&] { return uhal_copy(stream, y.data, host, bytes, UHAL_COPY_HOST_TO_DEVICE); }},
      {"copy", [&] { return uhal_copy(stream, y.data, x.data, bytes, UHAL_COPY_DEVICE_TO_DEVICE); }},
      {"fill", [&] { return uhal_memory_fill(stream, y.data, host, 1, bytes); }},
      {"callback", [&] { return uhal_stream_host_callback(stream, [](void*) {}, nullptr); }},
      {"device", [&] { return uhal_device_synchronize(device); }},
      {"group", [&] { return uhal_launch_group_end(stream); }},
  };
  for (const auto& [name, act] : others) {
    start();
    EXPECT_OK(map("relu", {x}, {x}));
    EXPECT_EQ(0, launches()) << name;
    EXPECT_OK(act());
    EXPECT_EQ(1, launches()) << name;
    if (std::string("group") != name) end();
    EXPECT_EQ(1, launches()) << name;
  }
  EXPECT_OK(uhal_event_destroy(event));
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(HipLaunchGroup, AnotherKindOfOpSubmitsFirst) {
  const uhal_tensor x = vector(100), y = vector(1);
  uhal_reduce_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = UHAL_REDUCE_SUM;
  start();
  EXPECT_OK(map("relu", {x}, {x}));
  EXPECT_OK(launch(UHAL_OP_REDUCE, x, y, &attributes));
  EXPECT_LE(2, launches());
  const int so_far = launches();
  end();
  EXPECT_EQ(so_far, launches());
}

TEST_F(HipLaunchGroup, NothingIsHeldBehindIt) {
  const uhal_tensor x = vector(100);
  start();
  end();
  EXPECT_OK(map("relu", {x}, {x}));
  EXPECT_EQ(1, launches());
  EXPECT_EQ(UHAL_FAILED_PRECONDITION, uhal_launch_group_end(stream));
  EXPECT_MESSAGE("no launch group to end");
}

TEST_F(HipLaunchGroup, OnlyTheOutermostEndCounts) {
  const uhal_tensor x = vector(100);
  start();
  EXPECT_OK(uhal_launch_group_start(stream));
  EXPECT_OK(map("relu", {x}, {x}));
  EXPECT_OK(uhal_launch_group_end(stream));
  EXPECT_EQ(0, launches());
  end();
  EXPECT_EQ(1, launches());
}

TEST_F(HipLaunchGroup, AFaultIsTheErrorOfWhoSubmits) {
  const uhal_tensor x = vector(100);
  for (const bool waits : {false, true}) {
    start();
    EXPECT_OK(map("relu", {x}, {x}));
    fail_call(launch_function, 999);
    EXPECT_NE(UHAL_OK, waits ? uhal_stream_synchronize(stream) : uhal_launch_group_end(stream));
    EXPECT_EQ(999, uhal_last_error()->native_code);
    if (waits) end();
    // It is lost, as an op that failed by itself, and the next ones are not.
    start();
    EXPECT_OK(map("relu", {x}, {x}));
    end();
    EXPECT_EQ(1, launches());
  }
}

TEST_F(HipLaunchGroup, AFaultBeforeAnotherOpKeepsThatFromRunning) {
  const uhal_tensor x = vector(100), y = vector(100);
  start();
  EXPECT_OK(map("relu", {x}, {x}));
  fail_call(launch_function, 999);
  EXPECT_NE(UHAL_OK, map("negative", {y}, {y}));
  end();
  EXPECT_EQ(1, launches());  // the one that failed
}

TEST_F(HipLaunchGroup, ACaptureHasWhatWasHeld) {
  const std::vector<uhal_tensor> x = vectors(3);
  for (const bool kept : {true, false}) {
    uhal_graph* graph = nullptr;
    ASSERT_OK(uhal_graph_capture_begin(stream));
    start();
    for (const uhal_tensor& view : x) EXPECT_OK(map("relu", {view}, {view}));
    EXPECT_OK(kept ? uhal_graph_capture_end(stream, &graph) : uhal_graph_capture_cancel(stream));
    EXPECT_EQ(1, launches());
    end();
    EXPECT_EQ(1, launches());
    if (kept) {
      EXPECT_OK(uhal_graph_launch(graph, stream));
      EXPECT_OK(uhal_graph_destroy(graph));
    }
  }
}

TEST_F(HipLaunchGroup, WhatWasHeldBeforeACaptureIsNoPartOfIt) {
  const uhal_tensor x = vector(100);
  uhal_graph* graph = nullptr;
  start();
  EXPECT_OK(map("relu", {x}, {x}));
  ASSERT_OK(uhal_graph_capture_begin(stream));
  EXPECT_EQ(1, launches());
  EXPECT_OK(uhal_graph_capture_end(stream, &graph));
  end();
  EXPECT_EQ(1, launches());
  EXPECT_OK(uhal_graph_destroy(graph));
}

TEST_F(HipLaunchGroup, TheProfilerSeesEachOp) {
  const std::vector<uhal_tensor> x = vectors(5);
  ASSERT_OK(uhal_profiler_start());
  start();
  for (const uhal_tensor& view : x) EXPECT_OK(map("relu", {view}, {view}));
  end();
  EXPECT_EQ(5, launches());
  ASSERT_OK(uhal_profiler_stop());
  EXPECT_EQ(5u, uhal_profiler_event_count());
}

TEST_F(HipLaunchGroup, IsWaitedForByOtherThreadsMeanwhile) {
  const std::vector<uhal_tensor> x = vectors(40);
  std::atomic<bool> stop{false};
  std::thread waiter([&] {
    int32_t done = 0;
    while (!stop) {
      EXPECT_OK(uhal_stream_query(stream, &done));
      EXPECT_OK(uhal_stream_synchronize(stream));
    }
  });
  for (int i = 0; i < 20; ++i) {
    start();
    for (const uhal_tensor& view : x) EXPECT_OK(map("relu", {view}, {view}));
    EXPECT_OK(map("negative", {x[0]}, {x[0]}));
    end();
    EXPECT_LE(3, launches());
    EXPECT_GE(41, launches());
  }
  stop = true;
  waiter.join();
}

}  // namespace
}  // namespace gpu_test
