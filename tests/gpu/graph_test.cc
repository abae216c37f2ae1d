// Graphs of the driver: what is captured, what its failures look like, and drivers without them. What the core makes of
// captures is in tests/core/graph_test.cc, what kernels compute in them in the suite for backends.
#include "unihal/graph_capture.h"

#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

class GraphTest : public GpuTest {
 protected:
  explicit GraphTest(const Vendor& tested = kRocm) : GpuTest(tested) {}

  uhal_status fill(char* memory, char letter, size_t bytes = 100) {
    return uhal_memory_fill(stream, memory, &letter, 1, bytes);
  }

  // A graph that fills memory, runs a kernel that this process compiles for it, and copies.
  uhal_graph* captured(char* from, char* to) {
    uhal_graph* graph = nullptr;
    EXPECT_OK(uhal_graph_capture_begin(stream));
    EXPECT_OK(fill(from, 'x'));
    EXPECT_OK(launch_relu());
    EXPECT_OK(uhal_copy(stream, to, from, 100, UHAL_COPY_DEVICE_TO_DEVICE));
    EXPECT_OK(uhal_graph_capture_end(stream, &graph));
    return graph;
  }

  void expect_a_round() {
    char* const from = allocate(100);
    char* const to = allocate(100);
    ASSERT_OK(fill(to, '.'));
    uhal_graph* const graph = captured(from, to);
    ASSERT_NE(nullptr, graph);
    EXPECT_EQ("..", download(to, 2));
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(fill(to, '.'));
      EXPECT_OK(uhal_graph_launch(graph, stream));
      EXPECT_EQ("xx", download(to, 2));
    }
    uhal_stream* other = nullptr;
    ASSERT_OK(uhal_stream_create(device, &other));
    EXPECT_OK(uhal_graph_launch(graph, other));
    EXPECT_OK(uhal_stream_destroy(other));
    EXPECT_OK(uhal_graph_destroy(graph));
  }
};

class HipGraph : public GraphTest {};
class CorexGraph : public GraphTest {
 protected:
  CorexGraph() : GraphTest(kCorex) {}
};
class HipGraphOfRocm5 : public GraphTest {
 protected:
  HipGraphOfRocm5() : GraphTest(kRocm5) {}
};

TEST_F(HipGraph, RunsAtEachLaunch) {
  expect_a_round();
  EXPECT_EQ(4, calls(vendor, "hipGraphLaunch"));
  EXPECT_EQ(1, calls(vendor, "hipGraphInstantiate"));
  EXPECT_EQ(1, calls(vendor, "hipGraphDestroy"));
  EXPECT_EQ(1, calls(vendor, "hipGraphExecDestroy"));
}

TEST_F(CorexGraph, RunsAtEachLaunch) {
  expect_a_round();
  EXPECT_EQ(4, calls(vendor, "cuGraphLaunch"));
  EXPECT_EQ(1, calls(vendor, "cuGraphInstantiateWithFlags"));
}

TEST_F(HipGraph, WithBadIndicesHasItsOwnCell) {
  const uhal_tensor x = vector(10);
  uhal_tensor indices = vector(10);
  indices.dtype = UHAL_INT32;
  const uhal_tensor y = vector(10);
  uhal_index_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  const uhal_tensor* inputs[] = {&x, &indices};
  const uhal_tensor* outputs[] = {&y};
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_GATHER;
  op.inputs = inputs;
  op.input_count = 2;
  op.outputs = outputs;
  op.output_count = 1;
  op.attributes = &attributes;
  uhal_graph* graph = nullptr;
  ASSERT_OK(uhal_graph_capture_begin(stream));
  ASSERT_OK(uhal_launch(stream, &op));
  ASSERT_OK(uhal_graph_capture_end(stream, &graph));
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  // The stream looks into it after a launch, also once the graph is gone, and only the stream of the last launch.
  const int before = calls(vendor, "hipMemcpyAsync");
  ASSERT_OK(uhal_graph_launch(graph, stream));
  ASSERT_OK(uhal_graph_launch(graph, other));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(before, calls(vendor, "hipMemcpyAsync"));
  EXPECT_OK(uhal_graph_destroy(graph));
  EXPECT_OK(uhal_stream_synchronize(other));
  EXPECT_EQ(before + 1, calls(vendor, "hipMemcpyAsync"));
  EXPECT_OK(uhal_stream_synchronize(other));
  EXPECT_EQ(before + 1, calls(vendor, "hipMemcpyAsync"));
  EXPECT_OK(uhal_stream_destroy(other));
}

TEST_F(HipGraph, ACaptureThatTheDriverDoesNotBegin) {
  fail_call("hipStreamBeginCapture", 900);
  EXPECT_EQ(UHAL_INTERNAL, uhal_graph_capture_begin(stream));
  EXPECT_MESSAGE("does not begin a capture");
  expect_native(900, "hipErrorStreamCaptureUnsupported");
  EXPECT_OK(uhal_stream_synchronize(stream));
  expect_a_round();
}

TEST_F(HipGraph, ACaptureThatTheDriverLoses) {
  char* const memory = allocate(100);
  for (const char* function : {"hipStreamEndCapture", "hipGraphInstantiate"}) {
    uhal_graph* graph = nullptr;
    ASSERT_OK(uhal_graph_capture_begin(stream));
    ASSERT_OK(fill(memory, 'x'));
    fail_call(function, 901);
    EXPECT_EQ(UHAL_INTERNAL, uhal_graph_capture_end(stream, &graph)) << function;
    expect_native(901, "hipErrorStreamCaptureInvalidated");
    EXPECT_EQ(nullptr, graph);
    ASSERT_OK(fill(memory, '.'));
    EXPECT_EQ("..", download(memory, 2));
  }
}

TEST_F(HipGraph, ALaunchThatTheDriverRefuses) {
  char* const from = allocate(100);
  char* const to = allocate(100);
  uhal_graph* const graph = captured(from, to);
  fail_call("hipGraphLaunch", 999);
  EXPECT_EQ(UHAL_INTERNAL, uhal_graph_launch(graph, stream));
  EXPECT_MESSAGE("does not take a graph");
  fail_call("hipEventRecord", 999);
  EXPECT_EQ(UHAL_INTERNAL, uhal_graph_launch(graph, stream));
  EXPECT_EQ("xx", download(to, 2));
  EXPECT_OK(uhal_graph_launch(graph, stream));
  EXPECT_OK(uhal_graph_destroy(graph));
}

TEST_F(HipGraph, ADroppedCaptureLeavesTheStreamAsItWas) {
  char* const memory = allocate(100);
  ASSERT_OK(uhal_graph_capture_begin(stream));
  ASSERT_OK(fill(memory, 'x'));
  ASSERT_OK(uhal_graph_capture_cancel(stream));
  EXPECT_EQ(1, calls(vendor, "hipGraphDestroy"));
  ASSERT_OK(fill(memory, '.'));
  EXPECT_EQ("..", download(memory, 2));
  expect_a_round();
}

TEST_F(HipGraphOfRocm5, ADriverWithoutGraphsCapturesNothing) {
  EXPECT_EQ(UHAL_UNIMPLEMENTED, uhal_graph_capture_begin(stream));
  EXPECT_MESSAGE("The backend 'hip' captures no graphs (it, or its driver, lacks the extension 'uhal.graph_capture'");
}

}  // namespace
}  // namespace gpu_test
