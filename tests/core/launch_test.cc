// uhal_launch and uhal_supports: refusals of unsound ops, each with its message, and what reaches the backend.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

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
  for (uhal_op_kind kind : {-1, 0, 15, 200, 256, 1 << 30}) {
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
  for (uhal_dtype dtype : {-1, 0, +UHAL_DTYPE_COUNT, 1000}) {
    y.dtype = dtype;
    expect_refused("map: x1 has the dtype number " + std::to_string(dtype));
  }
  map.function = uhal_map_less;
  y.dtype = UHAL_COMPLEX64;
  y.shape[0] = 2;
  expect_refused("x1 has dtype complex64, but function less is not defined on complex numbers");
  map.function = uhal_map_add;
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

// Views that are not dense: decided exactly, by the bytes that they name.
TEST_F(LaunchTest, InterleavedViewsOverlapWhereTheyShareBytes) {
  // The left half of 4 rows of 8, and the same memory transposed.
  x = y = {sizeof x, memory, UHAL_FLOAT32, 2, {4, 4}, {8, 1}};
  z = {sizeof z, memory, UHAL_FLOAT32, 2, {4, 4}, {1, 8}};
  expect_refused("output y0 (112 bytes at");
  expect_refused("only to exactly the view that it reads");
  z.data = memory + 3;
  expect_refused("overlaps input x0");
  z.data = memory + 4;
  EXPECT_OK(uhal_launch(stream, &op));
  // Every second element, backwards, meets the others in none.
  x = y = {sizeof x, memory, UHAL_FLOAT32, 1, {8}, {2}};
  z = {sizeof z, memory + 15, UHAL_FLOAT32, 1, {8}, {-2}};
  EXPECT_OK(uhal_launch(stream, &op));
  z.data = memory + 16;
  expect_refused("overlaps input x0");
  // An input that repeats its elements covers only them.
  x = y = {sizeof x, memory, UHAL_FLOAT32, 2, {2, 2}, {0, 3}};
  z = {sizeof z, memory + 1, UHAL_FLOAT32, 2, {2, 1}, {1, 7}};
  x.shape[1] = y.shape[1] = 1;
  EXPECT_OK(uhal_launch(stream, &op));
}

// A program that was built before a struct grew.
TEST_F(LaunchTest, ShorterAttributesAreCompletedWithDefaults) {
  struct {
    size_t struct_size;
    double threshold;
  } first = {sizeof first, 0.25};
  x = {sizeof x, memory, UHAL_FLOAT32, 2, {3, 4}, {4, 1}};
  z = {sizeof z, memory + 16, UHAL_BOOL, 1, {3}, {1}};
  op = {sizeof op, UHAL_OP_NON_MAX_SUPPRESSION, 1, 1, 0, inputs, outputs, &first, nullptr};
  ASSERT_OK(uhal_launch(stream, &op));
  uhal_non_max_suppression_attributes seen;
  ASSERT_EQ(sizeof seen, control->saw_attribute_bytes);
  memcpy(&seen, control->seen_attributes, sizeof seen);
  EXPECT_EQ(sizeof seen, seen.struct_size);
  EXPECT_EQ(0.25, seen.threshold);
  EXPECT_EQ(1, seen.decay);
  EXPECT_EQ(0, seen.extent);
  EXPECT_EQ(0, seen.ordered);
  first.struct_size = 8;
  expect_refused("attributes have struct_size 8, expected 40");
}

TEST_F(LaunchTest, OutputsOverlapNoOutputs) {
  uhal_tensor indices = {sizeof indices, memory + 60, UHAL_INT32, 1, {4}, {1}};
  x = {sizeof x, memory, UHAL_FLOAT32, 1, {4}, {1}};
  z = {sizeof z, memory + 8, UHAL_FLOAT32, 1, {4}, {2}};
  op = {sizeof op, UHAL_OP_SORT, 1, 2, 0, inputs, outputs, nullptr, nullptr};
  outputs[1] = &indices;
  EXPECT_OK(uhal_launch(stream, &op));
  indices.data = memory + 9;
  indices.strides[0] = 2;
  EXPECT_OK(uhal_launch(stream, &op));
  indices.data = memory + 10;
  indices.strides[0] = 1;
  expect_refused("output indices (16 bytes at");
  expect_refused("overlaps output values (28 bytes at");
  expect_refused("give each output memory of its own");
  // The same view twice.
  z = {sizeof z, memory + 48, UHAL_FLOAT32, 1, {4}, {1}};
  indices.data = memory + 48;
  expect_refused("overlaps output values");
}

TEST_F(LaunchTest, OutputsDoNotOverlapThemselves) {
  struct {
    int64_t shape[3], strides[3];
    bool distinct;
  } const views[] = {
      {{1, 4, 6}, {0, 6, 1}, true},  {{1, 4, 6}, {0, 1, 4}, true},  {{1, 4, 6}, {0, -1, 4}, true},
      {{1, 4, 6}, {0, 1, 1}, false}, {{1, 4, 6}, {0, 5, 1}, false}, {{1, 4, 6}, {0, -5, 1}, false},
      {{2, 2, 2}, {1, 1, 5}, false},  // as many as from the first to the last
      {{2, 3, 4}, {7, 2, 4}, false}, {{2, 3, 4}, {1, 2, 6}, true},  {{2, 1, 1}, {9, 0, 0}, true},
  };
  for (const auto& view : views) {
    z = {sizeof z, memory + 47, UHAL_FLOAT32, 3, {}, {}};
    std::copy(view.shape, view.shape + 3, z.shape);
    std::copy(view.strides, view.strides + 3, z.strides);
    uhal_op fill = {sizeof fill, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, nullptr};
    op = fill;
    if (view.distinct) {
      EXPECT_OK(uhal_launch(stream, &op));
    } else {
      expect_refused("so that elements coincide; an output's elements must be distinct");
      EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_supports(device, &op));
    }
  }
  // What cannot be told is refused.
  z.rank = UHAL_MAX_RANK;
  std::mt19937_64 random(5);
  for (int i = 0; i < UHAL_MAX_RANK; ++i) {
    z.shape[i] = 3;
    z.strides[i] = static_cast<int64_t>(random() % (uint64_t{1} << 40));
  }
  op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, nullptr};
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_supports(device, &op));
  EXPECT_MESSAGE("65,536 steps");
}

TEST_F(LaunchTest, WhatCannotBeToldApartIsRefused) {
  auto* large = static_cast<char*>(allocate(200 << 20));
  auto scattered = [&](int64_t seed, ptrdiff_t offset) {
    uhal_tensor view = {sizeof view, large + offset, UHAL_INT8, UHAL_MAX_RANK, {}, {}};
    for (int64_t i = 0; i < UHAL_MAX_RANK; ++i) {
      view.shape[i] = 2;
      seed = (seed * 48271 + 11) % 0x7fffffff;
      view.strides[i] = seed % (9 << 20) + (9 << 20);
    }
    return view;
  };
  x = scattered(1, 0);
  z = scattered(2, 4321);
  op = {sizeof op, UHAL_OP_COPY, 1, 1, 0, inputs, outputs, nullptr, nullptr};
  expect_refused("may overlap (65,536 steps of a search could not tell) input x");
  release(large);
}

// Only the running statistics may take their inputs' place, not each other's nor those of the batch.
TEST_F(LaunchTest, RunningStatisticsTakeTheirOwnPlaceOnly) {
  x = {sizeof x, memory, UHAL_FLOAT32, 2, {4, 3}, {3, 1}};
  z = {sizeof z, memory + 12, UHAL_FLOAT32, 2, {4, 3}, {3, 1}};
  auto vector = [&](int place) {
    return uhal_tensor{sizeof(uhal_tensor), memory + 24 + 3 * place, UHAL_FLOAT32, 1, {3}, {1}};
  };
  uhal_tensor mean = vector(0), variance = vector(1), running_mean = vector(2), running_variance = vector(3);
  for (const uhal_tensor*& input : inputs) input = nullptr;
  inputs[0] = &x;
  inputs[3] = &running_mean;
  inputs[4] = &running_variance;
  outputs[1] = &mean;
  outputs[2] = &variance;
  outputs[3] = &running_mean;
  outputs[4] = &running_variance;
  uhal_norm_attributes norm = {};
  norm.struct_size = sizeof norm;
  op = {sizeof op, UHAL_OP_BATCH_NORM, 5, 5, 0, inputs, outputs, &norm, nullptr};
  EXPECT_OK(uhal_launch(stream, &op));
  outputs[3] = &running_variance;
  outputs[4] = nullptr;
  expect_refused("overlaps input running_variance");
  outputs[3] = nullptr;
  mean.data = running_mean.data;
  expect_refused("overlaps input running_mean");
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
