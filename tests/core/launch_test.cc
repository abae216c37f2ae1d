// uhal_launch and uhal_supports: refusals of unsound ops, each with its message, and what reaches the backend.
#include <cstdlib>
#include <limits>

#include "csrc/tables/elementwise.h"
#include "tests/core/core_test.h"

namespace core_test {
namespace {

// z = x + y of float32 (4, 6), in memory for that each.
class LaunchTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    memory = static_cast<float*>(allocate(3 * 24 * sizeof(float)));
    for (int i = 0; i < 72; ++i) memory[i] = static_cast<float>(i);
    x = {sizeof x, memory, UHAL_FLOAT32, 2, {4, 6}, {6, 1}};
    y = {sizeof y, memory + 24, UHAL_FLOAT32, 2, {4, 6}, {6, 1}};
    z = {sizeof z, memory + 48, UHAL_FLOAT32, 2, {4, 6}, {6, 1}};
    op = {sizeof op, UHAL_OP_MAP, 2, 1, 0, inputs, outputs, &map, "Add"};
  }
  void TearDown() override {
    release(memory);
    CoreTest::TearDown();
  }

  // The launch is refused with a text in its message, and nothing was submitted.
  void expect_refused(const std::string& text) {
    int64_t launches = control->launch_calls;
    EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_launch(stream, &op));
    EXPECT_MESSAGE(text);
    EXPECT_EQ(launches, control->launch_calls.load());
  }

  float* memory = nullptr;
  uhal_tensor x, y, z;
  const uhal_tensor* inputs[9] = {&x, &y};
  const uhal_tensor* outputs[9] = {&z};
  uhal_map_attributes map = {sizeof map, uhal_map_add};
  uhal_op op;
};

TEST_F(LaunchTest, ASoundOpRuns) {
  ASSERT_OK(uhal_launch(stream, &op));
  EXPECT_EQ(23.0f + 47.0f, memory[71]);
  EXPECT_EQ(UHAL_OK, uhal_last_error()->status);
}

TEST_F(LaunchTest, TheOp) {
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_launch(stream, nullptr));
  EXPECT_MESSAGE("The op is NULL");
  op.struct_size = 16;
  expect_refused("too short");
  op.struct_size = sizeof op;
  for (uhal_op_kind kind : {-1, 0, 7, 200, 256, 1 << 30}) {
    op.kind = kind;
    expect_refused("There is no op kind " + std::to_string(kind));
  }
}

TEST_F(LaunchTest, Counts) {
  op.input_count = -1;
  expect_refused("map: -1 inputs");
  op.input_count = 9;
  expect_refused("expected 0 to 8");
  op.input_count = 1;
  expect_refused("function add takes 2 inputs and 1 outputs, but got 1 and 1");
  op.input_count = 2;
  op.output_count = 0;
  expect_refused("output y0 (number 0) is missing");
  op.output_count = 5;
  expect_refused("map: 5 outputs");
  op.output_count = 1;
  op.inputs = nullptr;
  expect_refused("map: 2 inputs at");
  op.inputs = inputs;
  inputs[1] = nullptr;
  expect_refused("function add takes 2 inputs");
  inputs[1] = &y;
  outputs[0] = nullptr;
  expect_refused("output y0");
}

TEST_F(LaunchTest, Attributes) {
  op.attributes = nullptr;
  expect_refused("map: the attributes are NULL, but this op requires them");
  op.attributes = &map;
  map.struct_size = 12;
  expect_refused("attributes have struct_size 12, expected 80");
  map.struct_size = sizeof map;
  map.function = -1;
  expect_refused("the attribute function is -1, expected 0 to");
  map.function = uhal_map_function_limit;
  expect_refused("the attribute function is");
}

TEST_F(LaunchTest, Fields) {
  y.struct_size = 8;
  expect_refused("map: x1 has struct_size 8");
  y.struct_size = sizeof y;
  for (uhal_dtype dtype : {-1, 0, 16, 1000}) {
    y.dtype = dtype;
    expect_refused("map: x1 has the dtype number " + std::to_string(dtype));
  }
  y.dtype = UHAL_COMPLEX64;
  y.shape[0] = 2;
  expect_refused("x1 has dtype complex64, expected a real dtype");
  y.dtype = UHAL_FLOAT32;
  y.shape[0] = 4;
  for (int32_t rank : {-1, 11, INT32_MAX}) {
    y.rank = rank;
    expect_refused("map: x1 has rank " + std::to_string(rank) + ", expected 0 to 10");
  }
}

TEST_F(LaunchTest, ShapesThatAreNegativeOrOverflow) {
  z.shape[1] = -6;
  expect_refused("y0 has shape (4, -6) and strides (6, 1); along axis 1 its length is negative");
  z.shape[1] = int64_t{1} << 62;
  expect_refused("overflows");
  z.shape[0] = z.shape[1] = int64_t{1} << 32;
  expect_refused("overflows");
  z.shape[0] = int64_t{1} << 55;
  z.shape[1] = 1;
  expect_refused("overflows");
  z.shape[0] = 0;  // an empty view must still have a sound shape
  z.shape[1] = -1;
  expect_refused("negative");
  z.shape[0] = 4;
  z.shape[1] = 6;
  x.strides[0] = INT64_MAX / 2;
  expect_refused("overflows");
  x.strides[0] = INT64_MIN;
  expect_refused("overflows");
}

TEST_F(LaunchTest, ViewsMustLieInsideOneAllocation) {
  z.shape[0] = 5;  // one row too many
  x.shape[0] = y.shape[0] = 1;
  expect_refused("the view of y0 covers 120 bytes");
  expect_refused("but its allocation has 288 bytes");
  z.shape[0] = x.shape[0] = y.shape[0] = 4;
  x.strides[0] = -6;  // reaches below the allocation
  expect_refused("lie in no live allocation");
  x.data = reinterpret_cast<float*>(8);  // reaches below all memory
  expect_refused("lie in no live allocation");
  x.data = memory;
  x.strides[0] = 6;
  y.data = nullptr;
  expect_refused("x1 has shape (4, 6) but its data is NULL");
  y.data = reinterpret_cast<char*>(memory + 24) + 2;
  expect_refused("is not aligned to its dtype float32");
  float on_the_stack[24];
  y.data = on_the_stack;
  expect_refused("in no live allocation of rdna:0 (fake)");
  void* freed = allocate(96);
  y.data = freed;
  EXPECT_OK(uhal_launch(stream, &op));
  release(freed);
  expect_refused("in no live allocation");
  EXPECT_STREQ("Add (map.add): float32(4, 6), float32(4, 6) -> float32(4, 6)", uhal_last_error()->op);
  EXPECT_STREQ("rdna:0 (fake)", uhal_last_error()->device);
  void* pinned;
  ASSERT_OK(uhal_allocate(device, nullptr, UHAL_MEMORY_PINNED, 96, &pinned));
  y.data = pinned;
  expect_refused("x1 lies in pinned host memory");
  ASSERT_OK(uhal_free(device, nullptr, pinned));
  uhal_device* other;
  ASSERT_OK(uhal_device_get("rdna", 1, &other));
  ASSERT_OK(uhal_allocate(other, nullptr, UHAL_MEMORY_DEVICE, 96, &y.data));
  expect_refused("in no live allocation of rdna:0 (fake)");
  ASSERT_OK(uhal_free(other, nullptr, y.data));
}

TEST_F(LaunchTest, NegativeStridesInsideAreFine) {
  x.data = memory + 23;
  x.strides[0] = -6;
  x.strides[1] = -1;
  EXPECT_OK(uhal_launch(stream, &op));
}

TEST_F(LaunchTest, OutputsHaveDistinctElements) {
  z.strides[0] = 0;
  expect_refused("along axis 0 the stride is 0");
  z.strides[0] = 6;
  x.strides[0] = 0;  // an input may repeat itself
  EXPECT_OK(uhal_launch(stream, &op));
  z.shape[0] = x.shape[0] = y.shape[0] = 1;
  z.strides[0] = 0;  // along an axis of length 1 a stride means nothing
  EXPECT_OK(uhal_launch(stream, &op));
}

TEST_F(LaunchTest, Broadcasting) {
  y.shape[0] = 1;
  EXPECT_OK(uhal_launch(stream, &op));
  y.rank = 0;
  EXPECT_OK(uhal_launch(stream, &op));
  y.rank = 2;
  y.shape[0] = 2;
  expect_refused("x1 has shape (2, 6), which does not broadcast to (4, 6)");
  y.rank = 3;
  y.shape[0] = 1;
  y.shape[1] = 4;
  y.shape[2] = 6;
  expect_refused("x1 has shape (1, 4, 6), which does not broadcast to (4, 6)");
}

TEST_F(LaunchTest, OutputsMayOverlapInputsOnlyInPlace) {
  z.data = x.data;
  EXPECT_OK(uhal_launch(stream, &op));  // exactly in place
  z.data = memory + 6;
  expect_refused("output y0 (96 bytes at");
  expect_refused("only to exactly the view that it reads");
  // The same memory seen in another order.
  z.data = x.data;
  z.shape[0] = z.shape[1] = x.shape[0] = x.shape[1] = y.shape[0] = y.shape[1] = 4;
  x.strides[0] = y.strides[0] = 4;
  z.strides[0] = 1;
  z.strides[1] = 4;
  expect_refused("overlaps input x0");
  // Interleaved columns are disjoint.
  x = {sizeof x, memory, UHAL_FLOAT32, 2, {4, 3}, {6, 1}};
  z = {sizeof z, memory + 3, UHAL_FLOAT32, 2, {4, 3}, {6, 1}};
  y = x;
  EXPECT_OK(uhal_launch(stream, &op));
  // A kind that cannot work in place.
  uhal_tensor t = {sizeof t, memory, UHAL_FLOAT32, 2, {4, 6}, {6, 1}};
  inputs[0] = outputs[0] = &t;
  op.kind = UHAL_OP_SOFTMAX_BACKWARD;
  op.attributes = nullptr;
  inputs[1] = &t;
  expect_refused("this op cannot work in place");
}

TEST_F(LaunchTest, ViewsWithoutElementsAreLegal) {
  x.shape[0] = y.shape[0] = z.shape[0] = 0;
  x.data = y.data = z.data = nullptr;
  EXPECT_OK(uhal_launch(stream, &op));
  z.strides[1] = 0;  // no elements, so none coincide
  EXPECT_OK(uhal_launch(stream, &op));
}

TEST_F(LaunchTest, BackendsAlwaysGetTheAttributes) {
  uhal_op fill = {sizeof fill, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, nullptr};
  EXPECT_OK(uhal_launch(stream, &fill));
  EXPECT_TRUE(control->saw_attributes);
  EXPECT_EQ(0.0f, memory[60]);
}

TEST_F(LaunchTest, SupportsLooksAtEverythingButTheData) {
  x.data = y.data = z.data = nullptr;
  EXPECT_OK(uhal_supports(device, &op));
  x.shape[0] = 3;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_supports(device, &op));
  EXPECT_MESSAGE("does not broadcast");
  EXPECT_STREQ("Add (map.add): float32(3, 6), float32(4, 6) -> float32(4, 6)", uhal_last_error()->op);
  x.shape[0] = 4;
  op = {sizeof op, UHAL_OP_SORT, 1, 1, 0, inputs, outputs, nullptr, nullptr};
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_supports(device, &op));
  EXPECT_MESSAGE("the fake cannot sort");
  EXPECT_STREQ("sort: float32(4, 6) -> float32(4, 6)", uhal_last_error()->op);
}

TEST(OpKind, Names) {
  EXPECT_STREQ("matmul", uhal_op_kind_name(UHAL_OP_MATMUL));
  EXPECT_STREQ("map", uhal_op_kind_name(UHAL_OP_MAP));
  EXPECT_STREQ("resize_backward", uhal_op_kind_name(UHAL_OP_RESIZE_BACKWARD));
  for (uhal_op_kind kind : {-5, 0, 10, 256, 1 << 20}) EXPECT_STREQ("invalid", uhal_op_kind_name(kind));
}

// -- UNIHAL_CHECK_NAN -----------------------------------------------------------------------------------

class FiniteCheckTest : public LaunchTest, public testing::WithParamInterface<bool> {
 protected:
  void configure() override {
    setenv("UNIHAL_CHECK_NAN", "1", 1);
    control->unified_memory = GetParam();
    control->asynchronous = true;
  }
};

TEST_P(FiniteCheckTest, StopsAtTheFirstOutputThatIsNotFinite) {
  EXPECT_OK(uhal_launch(stream, &op));
  memory[24 + 13] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_STATUS(UHAL_DATA_LOSS, uhal_launch(stream, &op));
  EXPECT_MESSAGE("map.add: output y0 is not finite at (2, 1), the first such element");
  EXPECT_STREQ("Add (map.add): float32(4, 6), float32(4, 6) -> float32(4, 6)", uhal_last_error()->op);
  memory[24 + 13] = 0;
  memory[0] = -std::numeric_limits<float>::infinity();
  EXPECT_STATUS(UHAL_DATA_LOSS, uhal_launch(stream, &op));
  EXPECT_MESSAGE("at (0, 0)");
  memory[0] = std::numeric_limits<float>::max();
  EXPECT_OK(uhal_launch(stream, &op));
}

// The fake does not compute copies, so the output is what the test puts there.
TEST_P(FiniteCheckTest, LooksAtTheElementsOfTheView) {
  for (int i = 48; i < 72; ++i) memory[i] = i % 2 == 0 ? 1 : std::numeric_limits<float>::infinity();
  x = {sizeof x, memory, UHAL_FLOAT32, 2, {4, 3}, {6, 2}};
  z = {sizeof z, memory + 70, UHAL_FLOAT32, 2, {4, 3}, {-6, -2}};  // the even ones, backward
  op = {sizeof op, UHAL_OP_COPY, 1, 1, 0, inputs, outputs, nullptr, nullptr};
  EXPECT_OK(uhal_launch(stream, &op));
  memory[48 + 14] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_STATUS(UHAL_DATA_LOSS, uhal_launch(stream, &op));
  EXPECT_MESSAGE("copy: output y is not finite at (1, 1)");
}

INSTANTIATE_TEST_SUITE_P(UnifiedMemory, FiniteCheckTest, testing::Bool());

}  // namespace
}  // namespace core_test
