// What a backend refuses runs on the host: results, order, whose bytes are written, the account, and what goes wrong.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "csrc/tables/elementwise.h"
#include "tests/core/core_test.h"
#include "unihal/check.h"

namespace core_test {
namespace {

constexpr size_t kFloats = 256;

uhal_tensor view(void* data, uhal_dtype dtype, const std::vector<int64_t>& shape, std::vector<int64_t> strides = {}) {
  uhal_tensor made = {};
  made.struct_size = sizeof made;
  made.data = data;
  made.dtype = dtype;
  made.rank = static_cast<int32_t>(shape.size());
  if (strides.empty()) {
    strides.assign(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  }
  std::copy(shape.begin(), shape.end(), made.shape);
  std::copy(strides.begin(), strides.end(), made.strides);
  return made;
}

// Memory of floats 0, 1, 2, ..., and a backend that refuses every op.
class HostRunTest : public CoreTest {
 protected:
  void configure() override {
    control->refuse_launches = true;
    control->unified_memory = false;
  }
  void SetUp() override {
    CoreTest::SetUp();
    memory = static_cast<float*>(allocate(kFloats * sizeof(float)));
    std::iota(memory, memory + kFloats, 0.0f);
  }
  void TearDown() override {
    EXPECT_OK(uhal_stream_synchronize(stream));
    release(memory);
    CoreTest::TearDown();
  }

  uhal_tensor floats(int64_t at, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides = {}) {
    return view(memory + at, UHAL_FLOAT32, shape, strides);
  }

  uhal_status launch(uhal_op_kind kind, const std::vector<uhal_tensor>& inputs, const std::vector<uhal_tensor>& outputs,
                     const void* attributes = nullptr, const char* label = nullptr, uhal_stream* on = nullptr) {
    std::vector<const uhal_tensor*> from, to;
    for (const uhal_tensor& input : inputs) from.push_back(&input);
    for (const uhal_tensor& output : outputs) to.push_back(&output);
    const uhal_op op = {
        sizeof op,  kind, static_cast<int32_t>(from.size()), static_cast<int32_t>(to.size()), 0, from.data(), to.data(),
        attributes, label};
    return uhal_launch(on != nullptr ? on : stream, &op);
  }

  uhal_status add(const uhal_tensor& x, const uhal_tensor& y, const uhal_tensor& z, uhal_stream* on = nullptr) {
    const uhal_map_attributes attributes = {sizeof attributes, uhal_map_add};
    return launch(UHAL_OP_MAP, {x, y}, {z}, &attributes, "Add", on);
  }

  // What the memory holds once the stream has run.
  std::vector<float> contents() {
    EXPECT_OK(uhal_stream_synchronize(stream));
    return {memory, memory + kFloats};
  }

  std::vector<uhal_fallback> fallbacks() {
    std::vector<uhal_fallback> found(uhal_fallback_count());
    for (size_t i = 0; i < found.size(); ++i) {
      found[i].struct_size = sizeof found[i];
      EXPECT_OK(uhal_fallback_get(i, &found[i]));
    }
    return found;
  }

  float* memory = nullptr;
};

TEST_F(HostRunTest, GivesTheResultAndIsCounted) {
  for (int i = 0; i < 3; ++i) EXPECT_OK(add(floats(0, {4, 6}), floats(24, {4, 6}), floats(48, {4, 6})));
  std::vector<float> found = contents();
  for (size_t i = 0; i < kFloats; ++i) {
    const float untouched = static_cast<float>(i);
    EXPECT_EQ(i >= 48 && i < 72 ? 2 * untouched - 72 : untouched, found[i]) << i;
  }
  ASSERT_EQ(1u, fallbacks().size());
  EXPECT_STREQ("rdna:0 (fake)", fallbacks()[0].framework);
  EXPECT_STREQ("Add (map.add)", fallbacks()[0].op);
  EXPECT_STREQ("float32", fallbacks()[0].dtype);
  EXPECT_STREQ("the fake leaves this to others", fallbacks()[0].reason);
  EXPECT_EQ(3u, fallbacks()[0].count);
}

TEST_F(HostRunTest, LeavesTheErrorRecordAlone) {
  EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  EXPECT_EQ(UHAL_OK, uhal_last_error()->status);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_query(stream, nullptr));
  const std::string before = last_message();
  EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_last_error()->status);
  EXPECT_EQ(before, last_message());
}

TEST_F(HostRunTest, ADtypeOfTheOpIsTheOneThatItComputesIn) {
  const uhal_tensor wide = view(memory, UHAL_FLOAT64, {8}), narrow = floats(32, {8});
  EXPECT_OK(launch(UHAL_OP_CAST, {narrow}, {wide}));
  EXPECT_OK(launch(UHAL_OP_COPY, {view(memory, UHAL_INT16, {8})}, {view(memory + 8, UHAL_INT16, {8})}));
  ASSERT_EQ(2u, fallbacks().size());
  EXPECT_STREQ("float64", fallbacks()[0].dtype);
  EXPECT_STREQ("cast", fallbacks()[0].op);
  EXPECT_STREQ("int16", fallbacks()[1].dtype);
}

// -- whose bytes ------------------------------------------------------------------------------------------------------

TEST_F(HostRunTest, WritesTheElementsOfAnOutputAndNothingBetweenThem) {
  // Columns 1 and 2 of a matrix of 8 x 4, reversed by rows.
  EXPECT_OK(add(floats(128, {8, 2}), floats(160, {1}), floats(29, {8, 2}, {-4, 1})));
  std::vector<float> found = contents();
  EXPECT_EQ(16 * sizeof(float), control->bytes_to_device.load());
  for (size_t i = 0; i < 32; ++i) {
    const size_t row = i / 4, column = i % 4;
    const bool own = column == 1 || column == 2;
    const auto sum = static_cast<float>(128 + (7 - row) * 2 + (column - 1) + 160);
    EXPECT_EQ(own ? sum : static_cast<float>(i), found[i]) << i;
  }
}

TEST_F(HostRunTest, LayoutsWithoutGapsAreOneCopy) {
  EXPECT_OK(add(floats(128, {4, 8}), floats(160, {4, 8}, {1, 4}), floats(0, {4, 8}, {1, 4})));
  std::vector<float> found = contents();
  EXPECT_EQ(4, control->copy_calls.load());
  for (size_t i = 0; i < 32; ++i) {
    const size_t row = i % 4, column = i / 4;
    EXPECT_EQ(static_cast<float>(128 + row * 8 + column + 160 + i), found[i]) << i;
  }
}

TEST_F(HostRunTest, WorksInPlace) {
  EXPECT_OK(add(floats(0, {4, 4}, {1, 4}), floats(100, {1}), floats(0, {4, 4}, {1, 4})));
  EXPECT_OK(add(floats(0, {16}), floats(0, {16}), floats(0, {16})));
  std::vector<float> found = contents();
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(static_cast<float>(2 * i + 200), found[i]) << i;
}

TEST_F(HostRunTest, OutputsThatAreReadKeepWhatTheOpLeavesAlone) {
  auto* indices = static_cast<int32_t*>(allocate(8));
  indices[0] = 5, indices[1] = 2;
  const uhal_index_attributes attributes = {sizeof attributes, 0, 0, UHAL_REDUCE_SUM, 0, 0, 0};
  EXPECT_OK(launch(UHAL_OP_SCATTER, {view(indices, UHAL_INT32, {2}), floats(200, {2})}, {floats(0, {8})}, &attributes));
  std::vector<float> found = contents();
  EXPECT_EQ((std::vector<float>{0, 1, 2 + 201, 3, 4, 5 + 200, 6, 7}),
            std::vector<float>(found.begin(), found.begin() + 8));
  release(indices);
}

TEST_F(HostRunTest, OutputsThatTheOpDoesNotWriteStay) {
  uhal_norm_attributes attributes = {sizeof attributes, 1e-5, 0.9, 1};  // inference: only y is written
  const uhal_tensor x = floats(0, {2, 3}), mean = floats(16, {3}), variance = floats(19, {3});
  EXPECT_OK(launch(UHAL_OP_BATCH_NORM, {x, floats(8, {3}), floats(11, {3}), mean, variance},
                   {floats(32, {2, 3}), floats(40, {3}), floats(43, {3}), mean, variance}, &attributes));
  std::vector<float> found = contents();
  EXPECT_NE(32.0f, found[32]);
  for (size_t i = 38; i < 46; ++i) EXPECT_EQ(static_cast<float>(i), found[i]) << i;
  for (size_t i = 16; i < 22; ++i) EXPECT_EQ(static_cast<float>(i), found[i]) << i;
}

TEST_F(HostRunTest, ViewsWithoutElements) {
  const uhal_tensor nothing = view(nullptr, UHAL_FLOAT32, {3, 0, 5}, {-7, 9, 0});
  EXPECT_OK(launch(UHAL_OP_COPY, {nothing}, {nothing}));
  EXPECT_EQ(0, control->copy_calls.load());
  EXPECT_OK(launch(UHAL_OP_REDUCE, {view(nullptr, UHAL_FLOAT32, {3, 0})}, {floats(0, {3, 1})}));
  std::vector<float> found = contents();
  EXPECT_EQ((std::vector<float>{0, 0, 0, 3}), std::vector<float>(found.begin(), found.begin() + 4));
  EXPECT_EQ(2u, fallbacks().size());
}

// -- order ------------------------------------------------------------------------------------------------------------

class HostRunInOrderTest : public HostRunTest {
 protected:
  void configure() override {
    HostRunTest::configure();
    control->asynchronous = true;
  }
};

TEST_F(HostRunInOrderTest, RunsAfterWhatCameBeforeAndBeforeWhatComesAfter) {
  control->hold_streams = true;
  const float one = 1;
  float seen = 0;
  EXPECT_OK(uhal_memory_fill(stream, memory, &one, sizeof one, 4 * sizeof one));
  for (int i = 0; i < 10; ++i) EXPECT_OK(add(floats(0, {4}), floats(0, {4}), floats(0, {4})));
  EXPECT_OK(uhal_copy(stream, &seen, memory, sizeof seen, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_memory_fill(stream, memory, &one, sizeof one, 4 * sizeof one));
  int32_t done = 1;
  EXPECT_OK(uhal_stream_query(stream, &done));
  EXPECT_EQ(0, done);  // the caller waited for nothing
  control->hold_streams = false;
  EXPECT_EQ(1.0f, contents()[0]);
  EXPECT_EQ(1024.0f, seen);
}

// The op and its views are the caller's only until the call returns, and memory may be freed in the stream's order.
TEST_F(HostRunInOrderTest, KeepsNothingOfTheCallers) {
  control->hold_streams = true;
  float results[4] = {};
  {
    auto* own = static_cast<float*>(allocate(16 * sizeof(float), stream));
    const float two = 2;
    EXPECT_OK(uhal_memory_fill(stream, own, &two, sizeof two, 16 * sizeof two));
    auto x = std::make_unique<uhal_tensor>(view(own, UHAL_FLOAT32, {4}));
    auto attributes = std::make_unique<uhal_map_attributes>();
    *attributes = {sizeof *attributes, uhal_map_multiply};
    const uhal_tensor* inputs[] = {x.get(), x.get()};
    const uhal_tensor* outputs[] = {x.get()};
    uhal_op op = {sizeof op, UHAL_OP_MAP, 2, 1, 0, inputs, outputs, attributes.get(), nullptr};
    EXPECT_OK(uhal_launch(stream, &op));
    *x = {};
    *attributes = {};
    inputs[0] = outputs[0] = nullptr;
    op = {};
    EXPECT_OK(uhal_copy(stream, results, own, sizeof results, UHAL_COPY_DEVICE_TO_HOST));
    release(own, stream);
  }
  control->hold_streams = false;
  EXPECT_OK(uhal_stream_synchronize(stream));
  for (float result : results) EXPECT_EQ(4.0f, result);
}

// Several threads that add to the same numbers, in no order: none is lost, on the host or among the device's own ops.
TEST_F(HostRunInOrderTest, UnorderedUpdatesAreNotLost) {
  std::fill(memory, memory + 8, 0.0f);
  std::fill(memory + 8, memory + 16, 1.0f);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 50; ++i) EXPECT_OK(add(floats(0, {8}), floats(8, {8}), floats(0, {8})));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<float> found = contents();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(200.0f, found[i]);
}

// A host function may submit to its own stream: nobody waits for it.
TEST_F(HostRunInOrderTest, MayBeLaunchedByAFunctionOfTheHost) {
  const std::function<void()> submit = [this] { EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(0, {4}))); };
  const auto call = [](void* function) { (*static_cast<const std::function<void()>*>(function))(); };
  EXPECT_OK(uhal_stream_host_callback(stream, call, const_cast<std::function<void()>*>(&submit)));
  for (int i = 0; i < 5; ++i) EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(0, {4})));
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(4.0f * 6, contents()[0]);
}

TEST_F(HostRunInOrderTest, ErrorsFoundInTheDataBelongToTheStream) {
  auto* indices = static_cast<int32_t*>(allocate(8));
  indices[0] = 1, indices[1] = 70;
  EXPECT_OK(launch(UHAL_OP_GATHER, {floats(0, {3}), view(indices, UHAL_INT32, {2})}, {floats(100, {2})}));
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_stream_synchronize(stream));
  EXPECT_MESSAGE("gather");
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_EQ(1.0f, contents()[100]);
  EXPECT_EQ(0.0f, contents()[101]);
  release(indices);
}

// A stream that ends at once still runs it.
TEST_F(HostRunInOrderTest, StreamsEndAfterIt) {
  uhal_stream* other = nullptr;
  EXPECT_OK(uhal_stream_create(device, &other));
  EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(8, {4}), other));
  EXPECT_OK(uhal_stream_destroy(other));
  EXPECT_EQ(4.0f, memory[8]);
}

// -- a backend without host callbacks ---------------------------------------------------------------------------------

TEST(HostRunOnAnOlderBackend, WaitsForTheStream) {
  fake::Control& control = control_of("fake_previous");
  control.asynchronous = true;
  use_fake("fake_previous");
  control.refuse_launches = true;
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 0, &device));
  ASSERT_OK(uhal_device_default_stream(device, &stream));
  ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 64, &pointer));
  const uhal_fill_attributes attributes = {sizeof attributes, 7, 0};
  const uhal_tensor y = view(pointer, UHAL_FLOAT32, {4}, {2});
  const uhal_tensor* outputs[] = {&y};
  const uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, &attributes, nullptr};
  EXPECT_OK(uhal_launch(stream, &op));
  EXPECT_EQ(7.0f, static_cast<float*>(pointer)[6]);  // it has run
  EXPECT_EQ(0, control.callback_calls.load());
  EXPECT_EQ(16u, control.bytes_to_device.load());
  EXPECT_OK(uhal_free(device, stream, pointer));
}

// -- a backend that knows a kind, but not what it got later -----------------------------------------------------------

// The fake of one minor, and what it would say to ops without data.
class OlderBackendTest : public testing::Test {
 protected:
  void use(const std::string& name) {
    control = &control_of(name);
    use_fake(name);
    ASSERT_OK(uhal_device_get("rdna", 0, &device));
  }

  uhal_status supports(uhal_op_kind kind, const std::vector<uhal_tensor>& inputs,
                       const std::vector<uhal_tensor>& outputs, const void* attributes) {
    std::vector<const uhal_tensor*> from, to;
    for (const uhal_tensor& input : inputs) from.push_back(input.struct_size == 0 ? nullptr : &input);
    for (const uhal_tensor& output : outputs) to.push_back(&output);
    const uhal_op op = {sizeof op,
                        kind,
                        static_cast<int32_t>(from.size()),
                        static_cast<int32_t>(to.size()),
                        0,
                        from.data(),
                        to.data(),
                        attributes,
                        nullptr};
    return uhal_supports(device, &op);
  }

  static uhal_tensor of(uhal_dtype dtype, const std::vector<int64_t>& shape) { return view(nullptr, dtype, shape); }

  fake::Control* control = nullptr;
  uhal_device* device = nullptr;
};

TEST_F(OlderBackendTest, GetsAttributesThatGrewWithDefaultsOnly) {
  use("fake_minor_9");
  const std::vector<uhal_tensor> boxes = {of(UHAL_FLOAT32, {3, 4})}, keep = {of(UHAL_BOOL, {3})};
  uhal_non_max_suppression_attributes attributes = {sizeof attributes, 0.25, 1, 0, 0, 0};
  const auto supported = [&] { return supports(UHAL_OP_NON_MAX_SUPPRESSION, boxes, keep, &attributes); };
  EXPECT_OK(supports(UHAL_OP_NON_MAX_SUPPRESSION, boxes, keep, nullptr));
  EXPECT_OK(supported());
  attributes.decay = 0.5;
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supported());
  EXPECT_MESSAGE("the backend fake_minor_9 was built for ABI 1.9, and newer attributes came with 1.10; update it");
  attributes.decay = 1;
  attributes.ordered = 1;
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supported());
  attributes.extent = 1;
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supported());
  attributes = {sizeof attributes, 0.25, 1, 0, 0, 0};
  EXPECT_OK(supported());
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_NON_MAX_SUPPRESSION, {of(UHAL_FLOAT32, {2, 3, 4})},
                                             {of(UHAL_BOOL, {2, 3})}, &attributes));
  EXPECT_MESSAGE("lists of boxes came with 1.10");
}

TEST_F(OlderBackendTest, GetsNoOperandsAndModesOfLaterMinors) {
  use("fake_previous");
  const uhal_tensor x = of(UHAL_FLOAT32, {2, 3, 4, 4}), grid = of(UHAL_FLOAT32, {2, 5, 5, 2});
  const uhal_tensor y = of(UHAL_FLOAT32, {2, 3, 5, 5}), images = of(UHAL_INT32, {2});
  uhal_grid_sample_attributes sample = {sizeof sample, UHAL_GRID_SAMPLE_LINEAR, UHAL_GRID_SAMPLE_ZEROS, 0, 0, 0, 0};
  const auto sampled = [&](const std::vector<uhal_tensor>& inputs) {
    return supports(UHAL_OP_GRID_SAMPLE, inputs, {y}, &sample);
  };
  EXPECT_OK(sampled({x, grid}));
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, sampled({x, grid, images}));
  EXPECT_MESSAGE("fake_previous was built for ABI 1.0, and the operand images came with 1.8");
  sample.in_pixels = 1;
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, sampled({x, grid}));
  sample.mode = UHAL_GRID_SAMPLE_CUBIC;
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, sampled({x, grid}));
  EXPECT_MESSAGE("the mode cubic came with 1.9");

  const uhal_tensor row = of(UHAL_FLOAT32, {4}), turn = of(UHAL_INT64, {1}), mask = of(UHAL_BOOL, {4});
  EXPECT_OK(supports(UHAL_OP_RANDOM, {}, {row}, nullptr));
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_RANDOM, {turn}, {row}, nullptr));
  EXPECT_OK(supports(UHAL_OP_DROPOUT, {row}, {row, mask}, nullptr));
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_DROPOUT, {row, turn}, {row, mask}, nullptr));
  uhal_scan_attributes scan = {sizeof scan, 0, UHAL_REDUCE_SUM, 0, 0};
  EXPECT_OK(supports(UHAL_OP_SCAN, {row}, {row}, &scan));
  scan.reduction = UHAL_REDUCE_LOG_SUM_EXP;
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_SCAN, {row}, {row}, &scan));
  scan.reduction = UHAL_REDUCE_MAXIMUM;
  EXPECT_OK(supports(UHAL_OP_SCAN, {row}, {row}, &scan));
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_SCAN, {row}, {row, of(UHAL_INT64, {4})}, &scan));
  EXPECT_MESSAGE("the operand indices came with 1.11");
  const uhal_tensor bytes = of(UHAL_INT8, {1, 1, 4}), filter = of(UHAL_INT8, {1, 1, 1}),
                    sums = of(UHAL_INT32, {1, 1, 4});
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_CONVOLUTION, {bytes, filter}, {sums}, nullptr));
  const uhal_tensor z = of(UHAL_COMPLEX64, {2, 2});
  const uhal_map_attributes add = {sizeof add, uhal_map_add};
  EXPECT_OK(supports(UHAL_OP_COPY, {z}, {z}, nullptr));
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_MAP, {z, z}, {z}, &add));
  EXPECT_MESSAGE("arithmetic on complex numbers came with 1.6");
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, supports(UHAL_OP_MATMUL, {z, z}, {z}, nullptr));
}

// Such work is the host's, counted.
TEST_F(OlderBackendTest, LeavesTheRestToTheHost) {
  use("fake_minor_9");
  uhal_stream* stream = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(uhal_device_default_stream(device, &stream));
  ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 64, &pointer));
  auto* memory = static_cast<float*>(pointer);
  const float corners[] = {0, 0, 1, 1, 0, 0, 1, 0.9f};
  std::copy(std::begin(corners), std::end(corners), memory);
  const uhal_tensor boxes = view(pointer, UHAL_FLOAT32, {2, 4}), keep = view(memory + 8, UHAL_BOOL, {2});
  const uhal_tensor *inputs[] = {&boxes}, *outputs[] = {&keep};
  uhal_non_max_suppression_attributes attributes = {sizeof attributes, 0.5, 1, 0, 1, 0};
  const uhal_op op = {sizeof op, UHAL_OP_NON_MAX_SUPPRESSION, 1, 1, 0, inputs, outputs, &attributes, "MultiClassNms"};
  int32_t on_host = 0;
  EXPECT_OK(uhal_can_run(device, &op, &on_host));
  EXPECT_EQ(1, on_host);
  ASSERT_OK(uhal_launch(stream, &op));
  EXPECT_OK(uhal_stream_synchronize(stream));
  const auto* kept = reinterpret_cast<const uint8_t*>(memory + 8);
  EXPECT_EQ(1, kept[0]);
  EXPECT_EQ(0, kept[1]);
  EXPECT_EQ(0, control->launch_calls.load());
  uhal_fallback fallback = {};
  fallback.struct_size = sizeof fallback;
  ASSERT_EQ(1u, uhal_fallback_count());
  ASSERT_OK(uhal_fallback_get(0, &fallback));
  EXPECT_STREQ("MultiClassNms (non_max_suppression)", fallback.op);
  attributes.ordered = 0;
  EXPECT_OK(uhal_launch(stream, &op));
  EXPECT_EQ(1, control->launch_calls.load());
  EXPECT_EQ(1u, uhal_fallback_count());
  EXPECT_OK(uhal_free(device, stream, pointer));
}

// -- refusals ---------------------------------------------------------------------------------------------------------

TEST_F(HostRunTest, WhatTheHostRefusesTooSaysBoth) {
  EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  const uhal_tensor mask = view(memory, UHAL_INT32, {1, 1, 2, 2});
  EXPECT_STATUS(
      UHAL_UNIMPLEMENTED,
      launch(UHAL_OP_ATTENTION, {floats(0, {1, 1, 2, 4}), floats(8, {1, 1, 2, 4}), floats(16, {1, 1, 2, 4}), mask},
             {floats(32, {1, 1, 2, 4})}));
  EXPECT_MESSAGE(
      "rdna:0 (fake) does not run attention of float32: the fake leaves this to others. Nor does the host: ");
  EXPECT_MESSAGE("attention takes floating point only");
  EXPECT_EQ(1u, fallbacks().size());
}

TEST_F(HostRunTest, WrongOpsAreWrong) {
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, add(floats(0, {4}), floats(4, {3}), floats(8, {4})));
  EXPECT_EQ(0u, fallbacks().size());
  EXPECT_EQ(0, control->launch_calls.load());
}

TEST_F(HostRunTest, WhetherAnOpCanRunIsKnownBefore) {
  const uhal_tensor x = view(nullptr, UHAL_FLOAT32, {4});
  const uhal_tensor integers = view(nullptr, UHAL_INT32, {2, 2});
  const uhal_tensor* operands[] = {&x, &x};
  const uhal_map_attributes attributes = {sizeof attributes, uhal_map_add};
  uhal_op op = {sizeof op, UHAL_OP_MAP, 2, 1, 0, operands, operands, &attributes, nullptr};
  int32_t on_host = 7;
  EXPECT_OK(uhal_can_run(device, &op, &on_host));
  EXPECT_EQ(1, on_host);
  EXPECT_EQ(UHAL_OK, uhal_last_error()->status);
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_supports(device, &op));
  EXPECT_MESSAGE("the fake leaves this to others");
  control->refuse_launches = false;
  EXPECT_OK(uhal_can_run(device, &op, &on_host));
  EXPECT_EQ(0, on_host);
  EXPECT_OK(uhal_can_run(device, &op, nullptr));
  op.input_count = 1;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_can_run(device, &op, &on_host));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_can_run(nullptr, &op, &on_host));
  control->refuse_launches = true;
  const uhal_tensor* logits[] = {&integers};
  op = {sizeof op, UHAL_OP_SOFTMAX, 1, 1, 0, logits, logits, nullptr, nullptr};
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_can_run(device, &op, &on_host));
  EXPECT_MESSAGE("Nor does the host: ");
  EXPECT_EQ(0u, fallbacks().size());
}

class StrictHostRunTest : public HostRunTest {
 protected:
  void configure() override {
    HostRunTest::configure();
    setenv("UNIHAL_STRICT", "1", 1);
  }
};

TEST_F(StrictHostRunTest, IsAnErrorThatNamesOpDtypeAndReason) {
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  EXPECT_MESSAGE(
      "rdna:0 (fake) does not run Add (map.add) of float32: the fake leaves this to others. It would run on the host; "
      "UNIHAL_STRICT=1 forbids that");
  EXPECT_STREQ("Add (map.add): float32(4,), float32(4,) -> float32(4,)", uhal_last_error()->op);
  EXPECT_STREQ("rdna:0 (fake)", uhal_last_error()->device);
  EXPECT_EQ(0, control->copy_calls.load());
  EXPECT_EQ(8.0f, contents()[8]);
  ASSERT_EQ(1u, fallbacks().size());
  EXPECT_STREQ("Add (map.add)", fallbacks()[0].op);
  const uhal_tensor x = floats(0, {4});
  const uhal_tensor* outputs[] = {&x};
  const uhal_op fill = {sizeof fill, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, nullptr};
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_can_run(device, &fill, nullptr));
  EXPECT_MESSAGE("UNIHAL_STRICT=1");
}

class WithoutHostKernelsTest : public HostRunTest {
 protected:
  void configure() override {
    HostRunTest::configure();
    setenv("UNIHAL_BACKEND_PATH", (std::string(FAKE_FOLDER) + "/without_host_kernels").c_str(), 1);
  }
};

TEST_F(WithoutHostKernelsTest, TheRefusalSaysWhyTheHostDoesNotHelp) {
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  EXPECT_MESSAGE("the fake leaves this to others. Nor can it run on the host: ");
  EXPECT_MESSAGE("libunihal_stub.so has no host kernels; install libraries of one release");
  EXPECT_EQ(0u, fallbacks().size());
}

// The host's kernels are what the stub has refused with.
TEST(HostRunOnTheStub, ItsRefusalsAreErrors) {
  ASSERT_OK(uhal_select_backend("stub"));
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 0, &device));
  ASSERT_OK(uhal_device_default_stream(device, &stream));
  void* pointer = nullptr;
  ASSERT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 64, &pointer));
  const uhal_tensor x = view(pointer, UHAL_INT32, {2, 2}),
                    y = view(static_cast<int32_t*>(pointer) + 4, UHAL_INT32, {2, 2});
  const uhal_tensor* inputs[] = {&x};
  const uhal_tensor* outputs[] = {&y};
  const uhal_op op = {sizeof op, UHAL_OP_SOFTMAX, 1, 1, 0, inputs, outputs, nullptr, nullptr};
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_launch(stream, &op));
  EXPECT_EQ(std::string::npos, last_message().find("host")) << last_message();
  EXPECT_STATUS(UHAL_UNIMPLEMENTED, uhal_can_run(device, &op, nullptr));
  EXPECT_EQ(0u, uhal_fallback_count());
  EXPECT_OK(uhal_free(device, stream, pointer));
}

// -- what fails on the way --------------------------------------------------------------------------------------------

TEST_F(HostRunInOrderTest, AFailingBackendIsAnErrorAndLosesNoMemory) {
  // Three copies in, a call, a copy out, a call.
  struct Row {
    std::atomic<int64_t>* fault;
    int64_t in;
  };
  for (const Row& row : {Row{&control->fail_copy_in, 1}, Row{&control->fail_copy_in, 3}, Row{&control->fail_copy_in, 4},
                         Row{&control->fail_callback_in, 1}, Row{&control->fail_callback_in, 2}}) {
    uhal_stream* other = nullptr;
    ASSERT_OK(uhal_stream_create(device, &other));
    *row.fault = row.in;
    EXPECT_STATUS(UHAL_INTERNAL, add(floats(0, {4}), floats(4, {4}), floats(8, {4}), other));
    EXPECT_MESSAGE("injected: ");
    EXPECT_MESSAGE("(The op was to run on the host, since the device refuses it: the fake leaves this to others)");
    EXPECT_STREQ("Add (map.add): float32(4,), float32(4,) -> float32(4,)", uhal_last_error()->op);
    EXPECT_OK(uhal_stream_destroy(other));
  }
  EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  EXPECT_EQ(4.0f, contents()[8]);
}

TEST_F(HostRunTest, OtherFailuresOfALaunchStay) {
  control->refuse_launches = false;
  control->fail_launch_in = 1;
  EXPECT_STATUS(UHAL_INTERNAL, add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  EXPECT_EQ(0u, fallbacks().size());
}

// -- what watches the work --------------------------------------------------------------------------------------------

TEST_F(HostRunTest, TheProfilerHasTheRunAndNotTheRefusal) {
  ASSERT_OK(uhal_profiler_start());
  EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  control->refuse_launches = false;
  control->fail_launch_in = 1;
  EXPECT_STATUS(UHAL_INTERNAL, add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  ASSERT_OK(uhal_profiler_stop());
  ASSERT_EQ(1u, uhal_profiler_event_count());
  uhal_profiler_event event = {};
  event.struct_size = sizeof event;
  ASSERT_OK(uhal_profiler_event_get(0, &event));
  EXPECT_STREQ("Add", event.name);
  EXPECT_STREQ("map.add on the host", event.op);
  EXPECT_EQ(48u, event.bytes);
}

class CheckedHostRunTest : public HostRunInOrderTest {
 protected:
  void configure() override {
    HostRunInOrderTest::configure();
    setenv("UNIHAL_CHECK_RACES", "1", 1);
    setenv("UNIHAL_CHECK_MEMORY", "1", 1);
  }
};

TEST_F(CheckedHostRunTest, RacesAreThoseOfTheOp) {
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  // Another stream writes between the output's elements, which is no race, also not with the copies of the run.
  EXPECT_OK(add(floats(128, {8}), floats(160, {8}), floats(0, {8}, {2})));
  EXPECT_OK(add(floats(128, {8}), floats(160, {8}), floats(1, {8}, {2}), other));
  EXPECT_EQ(0u, uhal_race_count());
  EXPECT_OK(add(floats(128, {8}), floats(160, {8}), floats(0, {8}), other));
  EXPECT_EQ(1u, uhal_race_count());
  EXPECT_OK(uhal_stream_synchronize(stream));
  EXPECT_OK(uhal_stream_synchronize(other));
  EXPECT_OK(uhal_stream_destroy(other));
}

class FiniteHostRunTest : public HostRunInOrderTest {
 protected:
  void configure() override {
    HostRunInOrderTest::configure();
    setenv("UNIHAL_CHECK_NAN", "1", 1);
  }
};

TEST_F(FiniteHostRunTest, OutputsAreLookedAt) {
  EXPECT_OK(add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  memory[2] = std::nanf("");
  EXPECT_STATUS(UHAL_DATA_LOSS, add(floats(0, {4}), floats(4, {4}), floats(8, {4})));
  EXPECT_MESSAGE("map.add: output y0 is not finite at (2,)");
}

}  // namespace
}  // namespace core_test
