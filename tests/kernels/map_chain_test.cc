// Chains of maps: several functions, one kernel.

#include "csrc/kernels/map_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/enumerate.h"
#include "csrc/backends/opencl/stream.h"
#include "csrc/tables/elementwise.h"
#include "tests/opencl/parts_host.h"

namespace unihal::kernels {
namespace {

// Passes everything on and counts the kernels, and those that were planned before.
class CountingQueue final : public Queue {
 public:
  explicit CountingQueue(Queue& inner) : Queue(inner.traits()), inner_(inner) {}

  uhal_status run(const KernelSpec& spec, const Arguments& arguments, const Grid& grid) override {
    entries.push_back(spec.entry());
    return inner_.run(spec, arguments, grid);
  }
  KnownKernel* find_known(const KernelSpec& spec) override { return inner_.find_known(spec); }
  uhal_status run_known(KnownKernel& kernel, const Arguments& arguments, const Grid& grid) override {
    ++planned;
    return inner_.run_known(kernel, arguments, grid);
  }
  uhal_status copy(void* destination, const void* source, size_t bytes) override {
    return inner_.copy(destination, source, bytes);
  }
  uhal_status fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) override {
    return inner_.fill(destination, pattern, pattern_bytes, bytes);
  }
  uhal_status workspace(size_t bytes, void** pointer) override { return inner_.workspace(bytes, pointer); }
  uhal_status error_cell(const uhal_op& op, void** cell, int64_t* ticket) override {
    return inner_.error_cell(op, cell, ticket);
  }

  std::vector<std::string> entries;
  int planned = 0;

 private:
  Queue& inner_;
};

class MapChainTest : public testing::Test {
 protected:
  void SetUp() override {
    opencl::keep_reports();
    const opencl::Inventory inventory = opencl::take_inventory();
    std::vector<opencl::FoundDevice> chosen;
    if (opencl::choose_devices(inventory, "", true, &chosen) != UHAL_OK &&
        std::getenv("UNIHAL_TESTS_NEED_OPENCL") == nullptr) {
      GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh. " << opencl::last_report.message;
    }
    ASSERT_FALSE(chosen.empty()) << opencl::last_report.message;
    // As in a backend, a device and its programs stay until the process ends.
    static auto* kept = new std::vector<opencl::Device*>;
    kept->push_back(device = new opencl::Device(0, chosen[0]));
    ASSERT_EQ(UHAL_OK, device->open()) << opencl::last_report.message;
    stream = std::make_unique<opencl::Stream>(*device, nullptr);
    ASSERT_EQ(UHAL_OK, stream->open()) << opencl::last_report.message;
    queue = std::make_unique<CountingQueue>(*stream);
  }

  // A view of device memory; strides count elements, and are row-major if they are left out.
  template <class T>
  uhal_tensor upload(const std::vector<T>& values, uhal_dtype dtype, const std::vector<int64_t>& shape,
                     const std::vector<int64_t>& strides = {}) {
    uhal_tensor view = {};
    view.struct_size = sizeof view;
    view.dtype = dtype;
    view.rank = static_cast<int32_t>(shape.size());
    int64_t dense = 1;
    for (int i = view.rank - 1; i >= 0; --i) {
      view.shape[i] = shape[static_cast<size_t>(i)];
      view.strides[i] = strides.empty() ? dense : strides[static_cast<size_t>(i)];
      dense *= view.shape[i];
    }
    const size_t bytes = values.size() * sizeof(T);
    EXPECT_EQ(UHAL_OK, device->memory.allocate(UHAL_MEMORY_DEVICE, bytes, &view.data)) << opencl::last_report.message;
    EXPECT_EQ(UHAL_OK, stream->copy(view.data, values.data(), bytes)) << opencl::last_report.message;
    EXPECT_EQ(UHAL_OK, stream->synchronize());  // the values may be a temporary
    return view;
  }

  template <class T>
  std::vector<T> download(const uhal_tensor& view, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(UHAL_OK, stream->copy(values.data(), view.data, count * sizeof(T))) << opencl::last_report.message;
    EXPECT_EQ(UHAL_OK, stream->synchronize()) << opencl::last_report.message;
    return values;
  }

  void run(const MapChain& chain) {
    const char* reason = refuse_map_chain(queue->traits(), chain);
    ASSERT_EQ(nullptr, reason) << reason;
    ASSERT_EQ(UHAL_OK, run_map_chain(*queue, chain)) << opencl::last_report.message;
  }

  // y = x * scale + offset as an op of the ABI.
  void launch_scale(const uhal_tensor& x, const uhal_tensor& y, double scale, double offset) {
    uhal_map_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.function = uhal_map_scale;
    attributes.parameters[0] = scale;
    attributes.parameters[1] = offset;
    launch_op(UHAL_OP_MAP, &attributes, x, y);
  }

  void launch_op(uhal_op_kind kind, const void* attributes, const uhal_tensor& x, const uhal_tensor& y) {
    const uhal_tensor* inputs[] = {&x};
    const uhal_tensor* outputs[] = {&y};
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = kind;
    op.inputs = inputs;
    op.input_count = 1;
    op.outputs = outputs;
    op.output_count = 1;
    op.attributes = attributes;
    ASSERT_EQ(UHAL_OK, launch(*queue, op)) << opencl::last_report.message;
  }

  // The same view, some elements later.
  template <class T>
  static uhal_tensor moved(uhal_tensor view, int64_t elements) {
    view.data = static_cast<T*>(view.data) + elements;
    return view;
  }

  static std::vector<float> ramp(int count, float factor, float offset) {
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i) * factor + offset);
    return values;
  }

  opencl::Device* device = nullptr;
  std::unique_ptr<opencl::Stream> stream;
  std::unique_ptr<CountingQueue> queue;
};

TEST_F(MapChainTest, ThreeFunctionsAreOneKernel) {
  constexpr int kRows = 20, kColumns = 41;
  const std::vector<float> x = ramp(kRows * kColumns, 0.25f, -100), bias = ramp(kColumns, 1, -20);
  const uhal_tensor view_x = upload(x, UHAL_FLOAT32, {kRows, kColumns});
  const uhal_tensor view_bias = upload(bias, UHAL_FLOAT32, {kColumns});
  const uhal_tensor view_sum = upload(x, UHAL_FLOAT32, {kRows, kColumns});
  const uhal_tensor view_y = upload(x, UHAL_FLOAT32, {kRows, kColumns});
  MapChain chain;
  const int value_x = chain.input(view_x), value_bias = chain.input(view_bias);
  const int sum = chain.step(uhal_map_add, {value_x, value_bias});
  const int relu = chain.step(uhal_map_relu, {sum});
  const double scale[UHAL_MAP_MAX_PARAMETERS] = {3, 0.5};
  chain.output(sum, view_sum);
  chain.output(chain.step(uhal_map_scale, {relu}, scale), view_y);
  run(chain);
  EXPECT_EQ(std::vector<std::string>{"flat"}, queue->entries);
  const std::vector<float> found_sum = download<float>(view_sum, x.size());
  const std::vector<float> found_y = download<float>(view_y, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float expected = x[i] + bias[i % kColumns];
    ASSERT_FLOAT_EQ(expected, found_sum[i]) << i;
    ASSERT_FLOAT_EQ(std::max(expected, 0.0f) * 3 + 0.5f, found_y[i]) << i;
  }
}

TEST_F(MapChainTest, StepsMayHaveSeveralResultsAndUseAnyEarlierValue) {
  constexpr int kCount = 300;
  const std::vector<float> parameter = ramp(kCount, 0.01f, -1), gradient = ramp(kCount, -0.02f, 2),
                           velocity = ramp(kCount, 0.5f, 0);
  const uhal_tensor view_parameter = upload(parameter, UHAL_FLOAT32, {kCount});
  const uhal_tensor view_gradient = upload(gradient, UHAL_FLOAT32, {kCount});
  const uhal_tensor view_velocity = upload(velocity, UHAL_FLOAT32, {kCount});
  const uhal_tensor view_rate = upload(std::vector<float>{0.1f}, UHAL_FLOAT32, {});
  MapChain chain;
  const int inputs[] = {chain.input(view_parameter), chain.input(view_gradient), chain.input(view_velocity),
                        chain.input(view_rate)};
  // The gradient is clipped; then a step of momentum, in place; then the square of the new velocity over the gradient.
  const double bounds[UHAL_MAP_MAX_PARAMETERS] = {-1, 1};
  const int clipped = chain.step(uhal_map_clip, {inputs[1]}, bounds);
  const double momentum[UHAL_MAP_MAX_PARAMETERS] = {0.9, 0};
  const int updated = chain.step(uhal_map_momentum_with_rate, {inputs[0], clipped, inputs[2], inputs[3]}, momentum);
  const int square = chain.step(uhal_map_square, {updated + 1});
  chain.output(updated, view_parameter);
  chain.output(updated + 1, view_velocity);
  chain.output(square, view_gradient);
  run(chain);
  EXPECT_EQ(1u, queue->entries.size());
  const std::vector<float> found_parameter = download<float>(view_parameter, kCount);
  const std::vector<float> found_velocity = download<float>(view_velocity, kCount);
  const std::vector<float> found_square = download<float>(view_gradient, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const float g = std::clamp(gradient[i], -1.0f, 1.0f);
    const float v = 0.9f * velocity[i] - 0.1f * g;
    ASSERT_NEAR(v, found_velocity[i], 1e-4) << i;
    ASSERT_NEAR(parameter[i] + v, found_parameter[i], 1e-4) << i;
    ASSERT_NEAR(v * v, found_square[i], 1e-5 * v * v + 1e-5) << i;
  }
}

TEST_F(MapChainTest, StridesMixedDtypesAndIntegers) {
  const std::vector<int32_t> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> y = {10, 20, 0, 40, 50, -60};
  const uhal_tensor view_x = upload(x, UHAL_INT32, {3, 2}, {1, 3});  // transposed
  const uhal_tensor view_y = upload(y, UHAL_INT64, {3, 2});
  const uhal_tensor view_z = upload(y, UHAL_INT64, {3, 2});
  MapChain chain;
  const int value_x = chain.input(view_x), value_y = chain.input(view_y);
  const int quotient = chain.step(uhal_map_floor_divide, {value_y, value_x});
  chain.output(chain.step(uhal_map_subtract, {quotient, value_x}), view_z);
  run(chain);
  EXPECT_EQ(std::vector<std::string>{"strided"}, queue->entries);
  EXPECT_EQ((std::vector<int64_t>{10 - 1, 5 - 4, 0 - 2, 8 - 5, 16 - 3, -10 - 6}), download<int64_t>(view_z, 6));
}

TEST_F(MapChainTest, LaunchesAlikeArePlannedOnce) {
  const std::vector<float> x = ramp(64, 1, 1);
  const uhal_tensor from = upload(x, UHAL_FLOAT32, {16});
  const uhal_tensor to = upload(std::vector<float>(64), UHAL_FLOAT32, {16});
  launch_scale(from, to, 2, 0);
  EXPECT_EQ(0, queue->planned);
  // Other addresses of the same alignment, and other parameters.
  launch_scale(moved<float>(from, 16), moved<float>(to, 16), -3, 0.5);
  EXPECT_EQ(1, queue->planned);
  // An address that no unit of four starts at needs another kernel, and other strides do.
  launch_scale(moved<float>(from, 33), moved<float>(to, 32), 5, 0);
  EXPECT_EQ(1, queue->planned);
  uhal_tensor reversed = moved<float>(from, 63);
  reversed.strides[0] = -1;
  launch_scale(reversed, moved<float>(to, 48), 1, 0);
  EXPECT_EQ(1, queue->planned);
  const std::vector<float> y = download<float>(to, 64);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_FLOAT_EQ(2 * x[i], y[i]) << i;
    EXPECT_FLOAT_EQ(-3 * x[16 + i] + 0.5f, y[16 + i]) << i;
    EXPECT_FLOAT_EQ(5 * x[33 + i], y[32 + i]) << i;
    EXPECT_FLOAT_EQ(x[63 - i], y[48 + i]) << i;
  }
}

TEST_F(MapChainTest, PlansTellDtypesAndKindsApart) {
  const uhal_tensor from = upload(ramp(16, 0.75f, -3), UHAL_FLOAT32, {16});
  const uhal_tensor integers = upload(std::vector<int32_t>(16), UHAL_INT32, {16});
  const uhal_tensor floats = upload(std::vector<float>(16), UHAL_FLOAT32, {16});
  for (int turn = 0; turn < 2; ++turn) {
    launch_op(UHAL_OP_CAST, nullptr, from, integers);
    launch_op(UHAL_OP_CAST, nullptr, integers, floats);
    launch_scale(from, integers, 2, 0);
    EXPECT_EQ(3 * turn, queue->planned);
  }
  const std::vector<float> y = download<float>(floats, 16);
  const std::vector<int32_t> doubled = download<int32_t>(integers, 16);
  for (int i = 0; i < 16; ++i) {
    const float value = static_cast<float>(i) * 0.75f - 3;
    EXPECT_EQ(std::trunc(value), y[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(static_cast<int32_t>(2 * value), doubled[static_cast<size_t>(i)]) << i;
  }
}

// A plan is looked for first where the launch before it was followed by it the last time.
TEST_F(MapChainTest, PlansAreFoundInAnyOrder) {
  const std::vector<float> x = ramp(64, 1, 1);
  const uhal_tensor from = upload(x, UHAL_FLOAT32, {16});
  const uhal_tensor to = upload(std::vector<float>(64), UHAL_FLOAT32, {16});
  const auto launch = [&](int64_t length, double scale) {
    uhal_tensor shorter = from;
    uhal_tensor result = to;
    shorter.shape[0] = result.shape[0] = length;
    launch_scale(shorter, result, scale, 0);
    const std::vector<float> y = download<float>(result, static_cast<size_t>(length));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_FLOAT_EQ(static_cast<float>(scale) * x[i], y[i]) << length;
  };
  const std::vector<int64_t> lengths = {16, 12, 8, 16, 8, 12, 12, 12, 16, 16, 8, 8, 12, 16};
  for (size_t i = 0; i < lengths.size(); ++i) launch(lengths[i], static_cast<double>(i) - 5);
  EXPECT_EQ(static_cast<int>(lengths.size()) - 3, queue->planned);
}

// More shapes than there is room for: plans become other ops'.
TEST_F(MapChainTest, PlansMakeRoomForOthers) {
  constexpr int64_t kShapes = 400;
  const std::vector<float> x = ramp(kShapes, 1, 1);
  const uhal_tensor from = upload(x, UHAL_FLOAT32, {kShapes});
  const uhal_tensor to = upload(std::vector<float>(kShapes), UHAL_FLOAT32, {kShapes});
  for (int turn = 0; turn < 2; ++turn) {
    for (int64_t length = 1; length <= kShapes; ++length) {
      uhal_tensor shorter = from;
      uhal_tensor result = to;
      shorter.shape[0] = result.shape[0] = length;
      launch_scale(shorter, result, static_cast<double>(turn + 2), static_cast<double>(length));
    }
    const std::vector<float> y = download<float>(to, kShapes);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_FLOAT_EQ(static_cast<float>(turn + 2) * x[i] + static_cast<float>(kShapes), y[i]) << i;
    }
  }
}

// y = x * first + second - x, by a program that nobody reads beyond its two steps.
uhal_map_chain_attributes scale_and_subtract(double first, double second) {
  uhal_map_chain_attributes program = {};
  program.struct_size = sizeof program;
  program.step_count = 2;
  program.functions[0] = uhal_map_scale;
  program.parameters[0][0] = first;
  program.parameters[0][1] = second;
  program.functions[1] = uhal_map_subtract;
  program.operands[1][0] = 1;
  program.operands[1][1] = 0;
  program.results[0] = 2;
  return program;
}

TEST_F(MapChainTest, ChainsAlikeArePlannedOnce) {
  const std::vector<float> x = ramp(64, 1, 1);
  const uhal_tensor from = upload(x, UHAL_FLOAT32, {16});
  const uhal_tensor to = upload(std::vector<float>(64), UHAL_FLOAT32, {16});
  uhal_map_chain_attributes program = scale_and_subtract(3, 1);
  launch_op(UHAL_OP_MAP_CHAIN, &program, from, to);
  EXPECT_EQ(0, queue->planned);
  // Other addresses, parameters, and what is not read.
  program = scale_and_subtract(-3, 0.5);
  program.operands[0][5] = program.operands[1][2] = program.operands[9][0] = program.results[3] = -7;
  launch_op(UHAL_OP_MAP_CHAIN, &program, moved<float>(from, 16), moved<float>(to, 16));
  EXPECT_EQ(1, queue->planned);
  // Other operands, another function, and another result are other plans.
  std::swap(program.operands[1][0], program.operands[1][1]);
  launch_op(UHAL_OP_MAP_CHAIN, &program, moved<float>(from, 32), moved<float>(to, 32));
  program.functions[1] = uhal_map_multiply;
  program.results[0] = 1;
  launch_op(UHAL_OP_MAP_CHAIN, &program, moved<float>(from, 48), moved<float>(to, 48));
  EXPECT_EQ(1, queue->planned);
  const std::vector<float> y = download<float>(to, 64);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_FLOAT_EQ(3 * x[i] + 1 - x[i], y[i]) << i;
    EXPECT_FLOAT_EQ(-3 * x[16 + i] + 0.5f - x[16 + i], y[16 + i]) << i;
    EXPECT_FLOAT_EQ(x[32 + i] - (-3 * x[32 + i] + 0.5f), y[32 + i]) << i;
    EXPECT_FLOAT_EQ(-3 * x[48 + i] + 0.5f, y[48 + i]) << i;
  }
}

TEST_F(MapChainTest, WhatCannotBeComputedIsRefused) {
  const uhal_tensor view = upload(std::vector<float>{1, 2}, UHAL_FLOAT32, {2});
  MapChain chain;
  const int x = chain.input(view);
  chain.output(chain.step(uhal_map_bitwise_not, {chain.step(uhal_map_add, {x, x})}), view);
  EXPECT_STREQ("map bitwise_not needs integer or bool operands, got float32; cast it first",
               refuse_map_chain(queue->traits(), chain));
}

TEST_F(MapChainTest, NoElementsNoKernel) {
  uhal_tensor view = upload(std::vector<float>{1}, UHAL_FLOAT32, {1});
  view.shape[0] = 0;
  MapChain chain;
  chain.output(chain.step(uhal_map_relu, {chain.input(view)}), view);
  run(chain);
  EXPECT_TRUE(queue->entries.empty());
}

}  // namespace
}  // namespace unihal::kernels
